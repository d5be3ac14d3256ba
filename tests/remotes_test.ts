/**
 * Machines that use each other's resources: real runtimes in this process, over real ports, that are killed and come
 * back.
 */

import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { RobotService } from "../proto/gen/robot_pb.ts";
import { MODELS } from "../drivers/mod.ts";
import { type Arm, ArmApi } from "../lib/api/actuators/arm.ts";
import type { Base } from "../lib/api/actuators/base.ts";
import { MotionApi } from "../lib/api/services/motion.ts";
import { VisionApi } from "../lib/api/services/vision.ts";
import { WorldStateStoreApi } from "../lib/api/services/world_state_store.ts";
import { APIS } from "../lib/api/mod.ts";
import type { Motor } from "../lib/api/actuators/motor.ts";
import { type Clock, SystemClock } from "../lib/base/clock.ts";
import { SvcError } from "../lib/base/error.ts";
import { DenoHost } from "../lib/base/host_deno.ts";
import { type LogRecord, Logs, memorySink } from "../lib/base/log/log.ts";
import type { JsonObject } from "../lib/base/schema/schema.ts";
import { decodeConfig } from "../lib/machine/config/config.ts";
import type { Node } from "../lib/machine/graph/pass/node.ts";
import { type Runtime, startRuntime } from "../lib/machine/runtime.ts";
import type { PoseInFrame } from "../lib/geometry/frame_system.ts";
import { armModel } from "../lib/geometry/arm_models.ts";
import { forwardKinematics } from "../lib/geometry/kinematics.ts";
import { poseAt } from "../lib/geometry/pose.ts";
import { readPcd, writePcd } from "../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../lib/geometry/cloud/point_cloud.ts";
import { ResourceName } from "../lib/resource/name.ts";
import { Registry } from "../lib/resource/registry.ts";
import { client } from "../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../lib/wire/grpc/grpc_channel.ts";
import { describeService } from "../lib/wire/grpc/reflection_client.ts";
import { FakeClock } from "./support/fake_clock.ts";
import { gizmo } from "./support/gizmo.ts";
import { moving, until } from "./support/until.ts";

const systemClock = new SystemClock();
const ARM = "rdk:component:arm";
const MOTOR = "rdk:component:motor";

/** A runtime on a new port, or on the given one. */
async function start(
  config: JsonObject,
  port = 0,
  registry = new Registry(APIS, MODELS),
  clock: Clock = systemClock,
) {
  const records: LogRecord[] = [];
  const path = await Deno.makeTempFile({ prefix: "svc-", suffix: ".json" });
  await Deno.writeTextFile(
    path,
    JSON.stringify({ network: { bind_address: `localhost:${port}` }, ...config }),
  );
  const logs = new Logs(clock, [memorySink(records)]);
  const parts = { registry, host: new DenoHost(), clock, logs, version: "1.0.0" };
  const diagnostics = { ftdc: false, webProfile: false, telemetry: false };
  const options = { configPath: path, debug: false, noTls: true, showConfigDiffs: false, diagnostics };
  const runtime = await startRuntime({
    ...options,
    allowInsecureCredentials: config.allowed as boolean | undefined,
    stop: () => {},
  }, parts);
  await runtime.ready;
  const stop = async () => {
    await runtime.close();
    await Deno.remove(path);
  };
  return { runtime, records, stop, port: Number(new URL(runtime.url).port) };
}

/** A remote that is noticed and tried again in no time. */
function remote(name: string, port: number, more: JsonObject = {}): JsonObject {
  return { name, address: `localhost:${port}`, insecure: true, reconnect_interval: "20ms", ...more };
}

function motor(name: string, more: JsonObject = {}): JsonObject {
  return { name, api: MOTOR, model: "fake", ...more };
}

/** Resolves when the machine fulfils the condition; shows its state if that takes too long. */
async function becomes(
  runtime: Runtime,
  wanted: (nodes: Map<string, Node>) => boolean,
  meanwhile?: () => Promise<void>,
): Promise<void> {
  const nodes = () => new Map([...runtime.machine.nodes].map((node) => [node.name.short, node]));
  const found = () =>
    [...nodes()].map(([short, { state, error }]) => `${short}: ${state} ${error ?? ""}`).join("\n");
  await until(() => wanted(nodes()), { found, meanwhile });
}

const ready = (nodes: Map<string, Node>, ...shorts: string[]) =>
  shorts.every((short) => nodes.get(short)?.state === "ready");

Deno.test("a remote's resources are usable by name and as dependencies, and return after a reconnect", async () => {
  const far = { components: [motor("m"), motor("n")] };
  let other = await start(far);
  const { runtime, stop, records } = await start({
    remotes: [remote("far", other.port, { prefix: "far-" })],
    components: [
      motor("m"),
      motor("user", { depends_on: ["far-m"] }),
      motor("more", { depends_on: ["user"] }),
    ],
  });
  const { machine } = runtime;
  await becomes(runtime, (nodes) => ready(nodes, "far:far-m", "far:far-n", "user", "more"));
  const errors = () => records.filter(({ level }) => level === "error").map(({ message }) => message);
  assertEquals(errors(), [], "what waits for a remote that has not been tried yet is no error");
  const theirs = machine.find(MOTOR, "far-m") as Motor;
  await theirs.setPower(0.5);
  const there = other.runtime.machine.find(MOTOR, "m") as Motor;
  assertEquals(await there.isPowered(), { isOn: true, powerPct: 0.5 });
  assertEquals(await (machine.find(MOTOR, "m") as Motor).isPowered(), { isOn: false, powerPct: 0 });
  assertEquals(machine.find(MOTOR, "far:far-m"), theirs);
  assertEquals(theirs.name.full, `${MOTOR}/far:far-m`);

  const user = machine.find(MOTOR, "user");
  await other.stop();
  await becomes(runtime, (nodes) => nodes.get("more")?.state === "unhealthy");
  const nodes = new Map([...machine.nodes].map((node) => [node.name.short, node]));
  const chain = nodes.get("more")!.error!;
  assertStringIncludes(
    chain,
    `dependency ${MOTOR}/user is not ready: resource build error: dependency ${MOTOR}/far:far-m`,
  );
  assertStringIncludes(chain, `remote "far" (localhost:${other.port}) is not connected:`);
  await assertRejects(() => theirs.setPower(0));
  assertEquals(machine.names.map(({ full }) => full), [`${MOTOR}/m`, "rdk:service:motion/builtin"]);

  other = await start(far, other.port);
  await becomes(runtime, (nodes) => ready(nodes, "far:far-m", "user", "more"));
  assert(machine.find(MOTOR, "user") !== user, "what holds a resource of a new connection is new");
  await (machine.find(MOTOR, "far-m") as Motor).setPower(1);
  assertEquals(records.filter(({ message }) => message === 'remote "far" is connected').length, 2);
  await stop();
  await other.stop();
});

Deno.test("a configuration names a remote's resource shortly or in full, with the remote or without", async () => {
  const BOARD = "rdk:component:board";
  const other = await start({ components: [{ name: "b", api: BOARD, model: "fake" }] });
  const names = ["far-b", "far:far-b", `${BOARD}/far-b`, `${BOARD}/far:far-b`];
  const { runtime, stop } = await start({
    remotes: [remote("far", other.port, { prefix: "far-" })],
    components: names.map((board, index) => {
      return motor(`m${index}`, { model: "gpio", attributes: { board, pins: { a: "1", b: "2" } } });
    }),
  });
  await becomes(runtime, (nodes) => ready(nodes, "m0", "m1", "m2", "m3"));
  await stop();
  await other.stop();
});

Deno.test("an unreachable remote delays no local resource, and GetMachineStatus reports it", async () => {
  const away = await start({});
  await away.stop();
  const { runtime, stop, records } = await start({
    remotes: [remote("far", away.port)],
    components: [motor("m"), motor("user", { depends_on: ["far:x"] })],
  });
  await becomes(runtime, (nodes) => ready(nodes, "m") && nodes.get("user")?.state === "unhealthy");
  const channel = connectGrpc(new URL(runtime.url).host, { clock: systemClock });
  const error = await until(async () => {
    const { resources } = await client(RobotService, channel).getMachineStatus({});
    const far = resources.find(({ name }) => name?.type === "remote");
    assertEquals([far?.name?.namespace, far?.name?.name], ["rdk", "far"]);
    return far!.error !== "" && far!.error;
  });
  assertStringIncludes(error, `remote "far" (localhost:${away.port}) is not connected: cannot connect to`);
  const errors = () => records.filter(({ level }) => level === "error");
  await until(() => errors().length > 0);
  assertEquals(errors().length, 1, "once the remote has failed, what waits for it is an error, once");
  assertStringIncludes(
    errors()[0].message,
    `${MOTOR}/user is unhealthy: resource has unresolved dependencies`,
  );
  channel.close();
  await stop();
});

/** The first answers of servers without TLS to a TLS hello. */
const ANSWERS_TO_TLS = {
  "the published runtime": "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400 Bad Request",
  "a gRPC server in Go": "\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64\0\x04\0\x10\0\0\0\x06\0\x01\0\0",
  "another program": "SSH-2.0-OpenSSH_9.2\r\n",
  "a server that hangs up": "",
};

/** A machine as the published runtime would serve it without TLS: answers a TLS hello in its way, and takes calls. */
function standIn(port: number, answer: string) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let plain = "";
  const pass = async (here: Deno.Conn) => {
    const first = new Uint8Array(1);
    if (await here.read(first) === null) return here.close();
    if (first[0] === 0x16) {
      await here.write(Uint8Array.from(answer, (letter) => letter.charCodeAt(0)));
      await here.closeWrite();
      // Reads to the end, so that nothing is reset.
      for await (const _ of here.readable) { /* no TLS here */ }
      return;
    }
    const there = await Deno.connect({ hostname: "127.0.0.1", port });
    await there.write(first);
    const seen = new TransformStream<Uint8Array, Uint8Array>({
      transform: (bytes, out) => {
        plain += new TextDecoder("latin1").decode(bytes);
        out.enqueue(bytes);
      },
    });
    await Promise.allSettled([
      here.readable.pipeThrough(seen).pipeTo(there.writable),
      there.readable.pipeTo(here.writable),
    ]);
  };
  const serving = (async () => {
    const all = [];
    for await (const connection of listener) all.push(pass(connection).catch(() => {}));
    await Promise.all(all);
  })();
  const stop = async () => {
    listener.close();
    await serving;
  };
  return { port: (listener.addr as Deno.NetAddr).port, plain: () => plain, stop };
}

Deno.test("a remote without TLS needs no setting, unless it hangs up on TLS without a word", async () => {
  const other = await start({ components: [motor("m")] });
  const stands = [];
  for (const answer of Object.values(ANSWERS_TO_TLS)) stands.push(standIn(other.port, answer));
  const remotes = stands.map(({ port }, index) => remote(`far${index}`, port, { insecure: false }));
  const own = remote("own", other.port, { insecure: false });
  const { runtime, stop, records } = await start({ remotes: [...remotes, own] });
  await becomes(runtime, (nodes) => ready(nodes, "far0:m", "far1:m", "far2:m", "own:m"));
  await (runtime.machine.find(MOTOR, "far0:m") as Motor).setPower(1);
  const failed = await until(() => runtime.machine.remotes[3].error);
  assertStringIncludes(failed, 'does it serve without TLS?); if so, set "insecure": true for this remote');
  const warnings = records.filter(({ message }) =>
    message.includes("serves without TLS: everything travels")
  );
  assertEquals(warnings.length, 4);
  await stop();
  for (const one of [...stands, other]) await one.stop();
});

Deno.test("credentials of a remote do not travel without TLS because it has none, only if allowed", async () => {
  const auth = { handlers: [{ type: "api-key", config: { id: "the key", keys: ["id"] } }] };
  const other = await start({ auth, components: [motor("m")] });
  const stand = standIn(other.port, ANSWERS_TO_TLS["the published runtime"]);
  const credentials = { entity: "id", credentials: { type: "api-key", payload: "the key" } };
  const kinds: JsonObject[] = [{ auth: credentials }, { secret: "the key" }];
  for (const kind of kinds) {
    const far = remote("far", stand.port, { insecure: false, ...kind });
    const { runtime, stop } = await start({ remotes: [far] });
    const error = await until(() => runtime.machine.remotes[0].error);
    assertStringIncludes(error, "its credentials do not travel unless you start with -allow-insecure-creds");
    await stop();
  }
  assertEquals(stand.plain(), "");
  const far = remote("far", stand.port, { insecure: false, auth: credentials });
  const free = await start({ remotes: [far], allowed: true });
  await becomes(free.runtime, (nodes) => ready(nodes, "far:m"));
  for (const one of [free, stand, other]) await one.stop();
});

Deno.test("a local resource hides a remote's, and a name of two remotes is ambiguous", async () => {
  const [one, two] = [
    await start({ components: [motor("m"), motor("x")] }),
    await start({ components: [motor("x")] }),
  ];
  const { runtime, stop } = await start({
    remotes: [remote("one", one.port), remote("two", two.port)],
    components: [motor("m"), motor("user", { depends_on: ["m"] }), motor("lost", { depends_on: ["x"] })],
  });
  const { machine } = runtime;
  await becomes(
    runtime,
    (nodes) =>
      ready(nodes, "one:m", "one:x", "two:x") && nodes.get("lost")?.error?.includes("ambiguous") === true,
  );
  assertEquals(machine.find(MOTOR, "m").name.short, "m");
  assertEquals(machine.find(MOTOR, "two:x").name.short, "two:x");
  assertThrows(
    () => machine.find(MOTOR, "x"),
    SvcError,
    `found multiple nodes matching api ${MOTOR} and name x: one:x, two:x`,
  );
  assertEquals(machine.names.map(({ short }) => short), ["m", "user", "builtin"]);
  const channel = connectGrpc(new URL(runtime.url).host, { clock: systemClock });
  const { resources } = await client(RobotService, channel).getMachineStatus({});
  const places = resources.filter(({ name }) => name?.type === "component")
    .map(({ name, remote = "", reachability }) => `${remote} ${name!.name} ${reachability}`).sort();
  assertEquals(places, [" lost 1", " m 1", " user 1", "one m 3", "one x 4", "two x 4"]);
  channel.close();
  await stop();
  await one.stop();
  await two.stop();
});

Deno.test("a vision service of a remote takes and tells cameras by their names here, with a prefix and without", async () => {
  const attributes = {
    detect_color: "#ff0000",
    hue_tolerance_pct: 0.5,
    segment_size_px: 1,
    camera_name: "cam",
  };
  const detector = { name: "v", api: VisionApi.name, model: "color_detector", attributes };
  const other = await start({
    components: [{ name: "cam", api: "rdk:component:camera", model: "fake" }],
    services: [detector],
  });
  const { runtime, stop } = await start({
    remotes: [remote("far", other.port, { prefix: "r_" }), remote("bare", other.port)],
  });
  await becomes(runtime, (nodes) => ready(nodes, "far:r_v", "far:r_cam", "bare:v", "bare:cam"));
  const channel = connectGrpc(new URL(runtime.url).host, { clock: systemClock });
  const vision = (name: string) => VisionApi.client(ResourceName.of(VisionApi.name, name), channel);
  const wanted = await vision("v").getDetectionsFromCamera("cam");
  for (const camera of ["r_cam", "far:r_cam", "cam"]) {
    assertEquals(await vision("r_v").getDetectionsFromCamera(camera), wanted, camera);
  }
  assertEquals(await vision("v").getDetectionsFromCamera("bare:cam"), wanted);
  assertEquals((await vision("r_v").getProperties()).defaultCamera, "r_cam");
  assertEquals((await vision("v").getProperties()).defaultCamera, "cam");
  await assertRejects(() => vision("r_v").getDetectionsFromCamera("r_nothing"), SvcError, "nothing");
  channel.close();
  await stop();
  await other.stop();
});

Deno.test("frames in calls to a remote's services have their names here", async () => {
  const depth = {
    api: VisionApi.name,
    model: "obstacles_depth",
    attributes: { min_points_in_segment: 1, min_points_in_plane: 1 },
  };
  const at = (parent: string, x: number) => ({ frame: { parent, translation: { x, y: 0, z: 0 } } });
  const other = await start({
    components: [
      { name: "a", api: ARM, model: "fake", attributes: { "arm-model": "ur5e" }, ...at("world", 10) },
      { name: "cam", api: "rdk:component:camera", model: "fake", ...at("world", 30) },
      motor("tool", at("a", 5)),
    ],
    services: [
      { ...depth, name: "v", attributes: { ...depth.attributes, camera_name: "cam" } },
      { name: "w", api: WorldStateStoreApi.name, model: "fake" },
    ],
  });
  const { runtime, stop } = await start({
    remotes: [
      remote("far", other.port, { prefix: "r_", connection_check_interval: "20ms", ...at("world", 1000) }),
    ],
    // A camera of the same name, at another place.
    components: [{ name: "cam", api: "rdk:component:camera", model: "fake", ...at("world", 7) }],
    services: [{ ...depth, name: "own", attributes: { ...depth.attributes, camera_name: "far:r_cam" } }],
  });
  await becomes(runtime, (nodes) => ready(nodes, "far:r_v", "far:r_w", "far:r_a", "far:r_builtin"));
  const channel = connectGrpc(new URL(runtime.url).host, { clock: systemClock });
  const robot = client(RobotService, channel);
  const placed = async (pose: PoseInFrame) => {
    return (await robot.transformPose({ source: pose, destination: "world" })).pose!.pose!.x;
  };

  const seen = async (service: string, camera: string) => {
    const vision = VisionApi.client(ResourceName.of(VisionApi.name, service), channel);
    return (await vision.getObjectPointClouds(camera))[0].referenceFrame;
  };
  const referenceFrame = await seen("r_v", "r_cam");
  assertEquals([referenceFrame, await seen("own", "")], ["r_cam", "r_cam"]);
  const origin = poseAt(0, 0, 0);
  await until(async () => await placed({ referenceFrame, pose: origin }) === 1030);

  const motion = MotionApi.client(ResourceName.of(MotionApi.name, "r_builtin"), channel);
  const tool = await motion.getPose("r_tool", "", []);
  assertAlmostEquals(await placed(tool), await placed({ referenceFrame: "r_tool", pose: origin }), 1e-6);
  const onTool = { referenceFrame: "r_tool", pose: poseAt(0, 0, -20) };
  const toBe = await placed(onTool);
  const none = { linear: [], pseudolinear: [], orientation: [], allowedCollisions: [] };
  await motion.move({
    componentName: "r_tool",
    destination: onTool,
    worldState: { obstacles: [], transforms: [] },
    constraints: none,
  });
  assertAlmostEquals(await placed({ referenceFrame: "r_tool", pose: origin }), toBe, 0.1);

  const store = WorldStateStoreApi.client(ResourceName.of(WorldStateStoreApi.name, "r_w"), channel);
  const [uuid] = await store.listUuids();
  const { poseInObserverFrame } = await store.getTransform(uuid);
  assertEquals(poseInObserverFrame?.referenceFrame, "far_world");
  channel.close();
  await stop();
  await other.stop();
});

Deno.test("an arm of this machine is planned and moved although a remote has a frame of its name", async () => {
  const arm = { name: "a", api: ARM, model: "fake", attributes: { "arm-model": "ur5e" } };
  const placed = { ...arm, frame: { parent: "world" } };
  const other = await start({ components: [placed] });
  const quick = { connection_check_interval: "20ms", frame: { parent: "world" } };
  const { runtime, stop, records } = await start({
    remotes: [remote("far", other.port, quick)],
    components: [placed],
  });
  await becomes(runtime, (nodes) => ready(nodes, "a", "far:a"));
  await until(() => records.some(({ message }) => message.includes('remote "far" is connected')));
  const channel = connectGrpc(new URL(runtime.url).host, { clock: systemClock });
  const robot = client(RobotService, channel);
  const placeOf = async (name: string) => (await robot.getPose({ componentName: name })).pose!.pose!;
  await until(async () => {
    return (await robot.frameSystemConfig({})).frameSystemConfigs.some(({ frame }) =>
      frame?.referenceFrame === "far_world"
    );
  });

  const here = runtime.machine.find(ARM, "a") as Arm;
  const { frames } = runtime.machine;
  const frameOf = (name: string) => frames.frameOf(runtime.machine.find(ARM, name).name);
  assertEquals(["a", "far:a"].map(frameOf), ["a", undefined]);
  const there = other.runtime.machine.find(ARM, "a") as Arm;
  const bent = [10, -20, 30, 40, 50, 60];
  await there.moveToJointPositions(bent);
  const end = await here.getEndPosition();
  assertAlmostEquals((await placeOf("a")).x, end.x, 1e-6);

  const motion = MotionApi.client(ResourceName.of(MotionApi.name, "builtin"), channel);
  const goal = forwardKinematics(armModel("ur5e", "a"), [0, -45, 45, 0, 30, 0]);
  await motion.move({
    componentName: "a",
    destination: { referenceFrame: "world", pose: goal },
    worldState: { obstacles: [], transforms: [] },
    constraints: { linear: [], pseudolinear: [], orientation: [], allowedCollisions: [] },
  });
  assertAlmostEquals((await here.getEndPosition()).x, goal.x, 0.1);
  assertEquals((await there.getJointPositions()).map(Math.round), bent);
  channel.close();
  await stop();
  await other.stop();
});

Deno.test("a machine reaches resources of its remote's remote", async () => {
  const third = await start({ components: [motor("m")] });
  const second = await start({ remotes: [remote("third", third.port, { prefix: "third_" })] });
  await becomes(second.runtime, (nodes) => ready(nodes, "third:third_m"));
  const { runtime, stop } = await start({ remotes: [remote("second", second.port)] });
  await becomes(runtime, (nodes) => ready(nodes, "second:third_m"));
  await (runtime.machine.find(MOTOR, "third_m") as Motor).setPower(0.25);
  assertEquals(await (third.runtime.machine.find(MOTOR, "m") as Motor).isPowered(), {
    isOn: true,
    powerPct: 0.25,
  });
  await stop();
  await second.stop();
  await third.stop();
});

Deno.test("a connected remote's new and removed resources appear and disappear", async () => {
  const other = await start({ components: [motor("m")] });
  const { runtime, stop } = await start({
    remotes: [remote("far", other.port, { connection_check_interval: "20ms" })],
    components: [motor("user", { depends_on: ["n"] })],
  });
  await becomes(runtime, (nodes) => ready(nodes, "far:m"));
  const config = other.runtime.machine.config!;
  const [{ ...m }] = config.resources;
  const n = { ...m, name: ResourceName.of(MOTOR, "n") };
  const before = runtime.machine.find(MOTOR, "m");
  await other.runtime.machine.apply({ ...config, resources: [m, n] });
  await becomes(runtime, (nodes) => ready(nodes, "far:n", "user"));
  assertEquals(runtime.machine.find(MOTOR, "m"), before, "what was there stays");
  await other.runtime.machine.apply({ ...config, resources: [n] });
  await becomes(runtime, (nodes) => !nodes.has("far:m") && ready(nodes, "far:n", "user"));
  await stop();
  await other.stop();
});

Deno.test("a remote stops the motor of a machine whose session has ended", async () => {
  const network = { bind_address: "localhost:0", sessions: { heartbeat_window: "3s" } };
  const registry = new Registry(APIS, MODELS);
  const [ours, theirs] = [new FakeClock(), new FakeClock()];
  const other = await start({ network, components: [motor("m")] }, 0, registry, theirs);
  const { runtime, stop } = await start({ remotes: [remote("far", other.port)] }, 0, registry, ours);
  await becomes(runtime, (nodes) => ready(nodes, "far:m"), moving(ours, 20));
  const here = runtime.machine.find(MOTOR, "m") as Motor;
  await here.setPower(1);
  const there = other.runtime.machine.find(MOTOR, "m") as Motor;

  // Longer than the window: without a heartbeat it would have stopped.
  for (let passedMs = 0; passedMs < 6_000; passedMs += 600) {
    await ours.advance(600);
    // An answer to a later request on the same connection: the heartbeat has arrived.
    assertEquals((await here.isPowered()).isOn, true, "as long as the machine is there, it moves");
    await theirs.advance(600);
  }
  await stop();
  await theirs.advance(3_000);
  await until(async () => !(await there.isPowered()).isOn);
  await other.stop();
});

Deno.test("a base stops its motors on a remote before the remote is removed or changed", async () => {
  // Their sessions end after a minute only: the base itself has to stop them.
  const network = { bind_address: "localhost:0", sessions: { heartbeat_window: "1m" } };
  const other = await start({ network, components: [motor("l"), motor("r")] });
  const attributes = { left: ["l"], right: ["r"], width_mm: 100, wheel_circumference_mm: 100 };
  const base = { name: "wb", api: "rdk:component:base", model: "wheeled", attributes };
  const full = { components: [base], remotes: [remote("far", other.port)] };
  const changes = [{}, { components: [base] }, {
    ...full,
    remotes: [remote("far", other.port, { prefix: "p-" })],
  }];

  for (const after of changes) {
    const { runtime, records, stop } = await start(full);
    await becomes(runtime, (nodes) => ready(nodes, "wb"));
    const here = runtime.machine.find("rdk:component:base", "wb") as Base;
    await here.setPower({ x: 0, y: 0.5, z: 0 }, { x: 0, y: 0, z: 0 });
    const there = ["l", "r"].map((name) => other.runtime.machine.find(MOTOR, name) as Motor);
    const moves = async () =>
      (await Promise.all(there.map((one) => one.isPowered()))).map(({ isOn }) => isOn);
    assertEquals(await moves(), [true, true]);

    const { config } = await decodeConfig(after, new Registry(APIS, MODELS), { env: () => undefined });
    await runtime.machine.apply(config!);
    assertEquals(await moves(), [false, false]);
    assertEquals(records.filter(({ message }) => message.includes("cannot close")), []);
    await stop();
  }
  await other.stop();
});

Deno.test("a remote accepts credentials, which are sent without TLS only if allowed", async () => {
  const auth = { handlers: [{ type: "api-key", config: { id: "the key", keys: ["id"] } }] };
  const other = await start({ auth, components: [motor("m")] });
  const credentials = { entity: "id", credentials: { type: "api-key", payload: "the key" } };
  const far = remote("far", other.port, { auth: credentials });
  const careful = await start({ remotes: [far] });
  const free = await start({ remotes: [far], allowed: true });
  const stranger = await start({ remotes: [remote("far", other.port)] });
  await becomes(free.runtime, (nodes) => ready(nodes, "far:m"));
  await (free.runtime.machine.find(MOTOR, "m") as Motor).setPower(1);
  const reason = ({ runtime }: { runtime: Runtime }) => until(() => runtime.machine.remotes[0].error);
  assertStringIncludes(await reason(careful), "credentials do not travel without TLS");
  assertStringIncludes(await reason(stranger), `authentication required; set "auth" for this remote`);
  for (const one of [careful, free, stranger, other]) await one.stop();
});

Deno.test("a job calls a remote's resource by its name for clients", async () => {
  const other = await start({ components: [motor("m")] });
  const { runtime, stop } = await start({
    remotes: [remote("far", other.port, { prefix: "far-" })],
    jobs: [{ name: "stopper", schedule: "20ms", resource: "far-m", method: "Stop" }],
  });
  const channel = connectGrpc(new URL(runtime.url).host, { clock: systemClock });
  const robot = client(RobotService, channel);
  await until(async () => (await robot.getMachineStatus({})).jobStatuses[0].recentSuccessfulRuns.length > 0);
  channel.close();
  await stop();
  await other.stop();
});

Deno.test("clients reach a remote's resources through the machine under their listed names", async () => {
  const other = await start({
    components: [{ name: "a", api: ARM, model: "fake", attributes: { "arm-model": "ur5e" } }],
  });
  const { runtime, stop } = await start({ remotes: [remote("far", other.port, { prefix: "their-" })] });
  await becomes(runtime, (nodes) => ready(nodes, "far:their-a"));
  const channel = connectGrpc(new URL(runtime.url).host, { clock: systemClock });
  const { resources } = await client(RobotService, channel).resourceNames({});
  const listed = resources.map(({ subtype, name }) => `${subtype}/${name}`).sort();
  assertEquals(listed, ["arm/their-a", "motion/builtin", "motion/their-builtin"]);
  const arm = ArmApi.client(ResourceName.of(ARM, "their-a"), channel);
  const degrees = [10, 20, 30, 40, 50, 60];
  await arm.moveToJointPositions(degrees);
  const there = await (other.runtime.machine.find(ARM, "a") as Arm).getJointPositions();
  assertEquals(there.map(Math.round), degrees);
  channel.close();
  await stop();
  await other.stop();
});

Deno.test("a remote's frames hang on its frame setting under its prefix, and move with its arms", async () => {
  const at = (parent: string, x: number) => ({ frame: { parent, translation: { x, y: 0, z: 0 } } });
  const far = {
    components: [
      { name: "a", api: ARM, model: "fake", attributes: { "arm-model": "ur5e" }, ...at("world", 10) },
      motor("tool", at("a", 5)),
      motor("plate", at("world", 1)),
    ],
  };
  const other = await start(far);
  const quick = { connection_check_interval: "20ms", prefix: "their-" };
  const { runtime, stop } = await start({
    remotes: [remote("far", other.port, { ...quick, ...at("table", 1000) }), remote("nowhere", other.port)],
    components: [motor("table", at("world", 100)), motor("guest", at("their-plate", 7))],
  });
  await becomes(runtime, (nodes) => ready(nodes, "far:their-a", "nowhere:a"));
  const channel = connectGrpc(new URL(runtime.url).host, { clock: systemClock });
  const robot = client(RobotService, channel);
  const parts = async () => {
    const { frameSystemConfigs } = await robot.frameSystemConfig({});
    return frameSystemConfigs.map(({ frame }) =>
      `${frame!.referenceFrame} in ${frame!.poseInObserverFrame!.referenceFrame}`
    );
  };
  await until(async () => (await parts()).length >= 6);
  assertEquals(await parts(), [
    "table in world",
    "far_world in table",
    "their-a in far_world",
    "their-plate in far_world",
    "their-tool in their-a",
    "guest in their-plate",
  ]);
  const xOf = async (name: string) => {
    const { pose } = await robot.getPose({ componentName: name, destinationFrame: "world" });
    return pose!.pose!.x;
  };
  assertEquals([await xOf("far_world"), await xOf("guest")], [1100, 1108]);
  const theirX = async () => {
    const theirs = connectGrpc(new URL(other.runtime.url).host, { clock: systemClock });
    const { pose } = await client(RobotService, theirs).getPose({ componentName: "tool" });
    theirs.close();
    return pose!.pose!.x;
  };
  for (const degrees of [[0, 0, 0, 0, 0, 0], [10, 20, 30, 40, 50, 60]]) {
    await (runtime.machine.find(ARM, "their-a") as Arm).moveToJointPositions(degrees);
    assertAlmostEquals(await xOf("their-tool"), await theirX() + 1100, 1e-6);
  }
  const one = (value: number) => Float32Array.of(value);
  const cloud = readPcd(
    (await robot.transformPCD({
      pointCloudPcd: writePcd(createCloud({ x: one(1), y: one(2), z: one(3) })),
      source: "their-plate",
      destination: "table",
    })).pointCloudPcd,
  );
  assertEquals([cloud.x[0], cloud.y[0], cloud.z[0]].map((m) => Math.round(m * 1000)), [2001, 2000, 3000]);
  await other.stop();
  await becomes(runtime, (nodes) => nodes.get("far:their-a")?.state === "unhealthy");
  assertEquals(await parts(), ["table in world"]);
  channel.close();
  await stop();
});

Deno.test("a remote's custom API is reached through the machine and through further remotes", async () => {
  const { api, fake, desc } = gizmo();
  const registry = new Registry([...APIS, api], [...MODELS, fake]);
  const far = { components: [{ name: "g", api: api.name, model: fake.name }] };
  let third = await start(far, 0, registry);
  const second = await start({ remotes: [remote("third", third.port, { prefix: "t-" })] });
  const { runtime, stop } = await start({
    remotes: [remote("second", second.port, { prefix: "s-", connection_check_interval: "20ms" })],
    components: [motor("user", { depends_on: ["s-t-g"] })],
  });
  await becomes(runtime, (nodes) => ready(nodes, "second:s-t-g", "user"));
  const channel = connectGrpc(new URL(runtime.url).host, { clock: systemClock });
  const robot = client(RobotService, channel);
  const { resources } = await robot.resourceNames({});
  const configured = resources.filter(({ subtype }) => subtype !== "motion");
  const listed = configured.map(({ namespace, subtype, name }) => `${namespace} ${subtype} ${name}`);
  assertEquals(listed.sort(), ["acme gizmo s-t-g", "rdk motor user"]);
  // As a client would that has never heard of the API either.
  const logged = await describeService(channel, desc.typeName, {});
  // deno-lint-ignore no-explicit-any
  const methods = client(logged, channel) as any;
  const each = async function* (...turns: bigint[]) {
    for (const one of turns) yield await Promise.resolve({ name: "s-t-g", turns: one });
  };
  const request = { name: "s-t-g", turns: 1n };
  assertEquals((await methods.one(request)).turns, 2n);
  assertEquals((await Array.fromAsync(methods.out(request))).length, 2);
  assertEquals((await methods.in(each(1n, 2n, 3n))).turns, 4n);
  const answers = await Array.fromAsync(methods.both(each(5n, 6n)) as AsyncIterable<{ turns: bigint }>);
  assertEquals(answers.map(({ turns }) => turns), [6n, 7n]);
  const lost = await assertRejects(() => methods.one({ name: "g" }), SvcError);
  assertStringIncludes(lost.message, "no node found with api acme:component:gizmo and name g");

  await third.stop();
  await becomes(runtime, (nodes) => nodes.get("user")?.state === "unhealthy");
  third = await start(far, third.port, registry);
  await becomes(runtime, (nodes) => ready(nodes, "second:s-t-g", "user"));
  assertEquals((await methods.one(request)).turns, 2n);
  channel.close();
  await stop();
  await second.stop();
  await third.stop();
});
