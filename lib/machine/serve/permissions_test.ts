import { assertEquals, assertRejects } from "@std/assert";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { APIS } from "../../api/mod.ts";
import { Registry } from "../../resource/registry.ts";
import { client } from "../../wire/rpc/channel.ts";
import { memoryChannel } from "../../wire/rpc/memory.ts";
import { type CallContext, type Peer, service, ServiceTable } from "../../wire/rpc/service.ts";
import { CameraService } from "../../../proto/gen/camera_pb.ts";
import { SensorService } from "../../../proto/gen/sensor_pb.ts";
import { RobotService } from "../../../proto/gen/robot_pb.ts";
import { ShellService } from "../../../proto/gen/shell_pb.ts";
import { StreamService } from "../../../proto/gen/stream_pb.ts";
import type { UserPermission } from "../config/settings.ts";
import { Permissions } from "./permissions.ts";

const IMAGES = "/viam.component.camera.v1.CameraService/GetImages";
const READINGS = "/viam.component.sensor.v1.SensorService/GetReadings";
const NAMES = "/viam.robot.v1.RobotService/ResourceNames";
const STATUSES = "/viam.robot.v1.RobotService/StreamStatus";
const ADD_STREAM = "/proto.stream.v1.StreamService/AddStream";
const SHELL = "/viam.service.shell.v1.ShellService/Shell";

const clock = new SystemClock();
const grant = (resources: string[], ...allowedMethods: string[]) => ({ resources, allowedMethods });
const entry = (
  type: UserPermission["user"]["type"],
  id: string,
  ...permissions: UserPermission["permissions"]
): UserPermission => ({ user: { type, id }, permissions });

/** Services that answer everything, behind permissions; `asks` makes calls as somebody. */
function bench(entries: readonly UserPermission[]) {
  const permissions = new Permissions(entries);
  const caller: { entity?: string; peer?: Peer } = {};
  const authenticate = (ctx: CallContext) => {
    ctx.entity = caller.entity;
    caller.peer = ctx.peer;
  };
  const gate = { authenticate };
  const table = new ServiceTable(clock, [gate, permissions.interceptor(new Registry(APIS, []))]);
  const endless = async function* (signal: AbortSignal) {
    yield {};
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  };
  const shells: string[] = [];
  table.add(service(CameraService, { getImages: () => ({}) }));
  table.add(service(SensorService, { getReadings: () => ({}) }));
  table.add(service(RobotService, {
    resourceNames: () => ({}),
    streamStatus: (_, { signal }) => endless(signal),
  }));
  table.add(service(StreamService, { addStream: () => ({}), listStreams: () => ({}) }));
  table.add(service(ShellService, {
    shell: async function* (requests, { signal }) {
      for await (const { name } of requests) {
        signal.throwIfAborted();
        shells.push(name);
        yield {};
      }
    },
  }));

  const channel = memoryChannel(table);
  const clients = {
    camera: client(CameraService, channel),
    sensor: client(SensorService, channel),
    robot: client(RobotService, channel),
    streams: client(StreamService, channel),
    shell: client(ShellService, channel),
  };
  const asks = async (entity: string | undefined, ask: (all: typeof clients) => Promise<unknown>) => {
    caller.entity = entity;
    return await ask(clients).then(() => "ok", (error) => SvcError.from(error).code);
  };
  return { permissions, asks, clients, caller, shells };
}

const image = (name: string) => ({ camera }: ReturnType<typeof bench>["clients"]) =>
  camera.getImages({ name });
const reading = (name: string) => ({ sensor }: ReturnType<typeof bench>["clients"]) =>
  sensor.getReadings({ name });
const names = ({ robot }: ReturnType<typeof bench>["clients"]) => robot.resourceNames({});

Deno.test("Permissions: without entries everybody may call everything", async () => {
  const { asks } = bench([]);
  assertEquals(await asks("me", image("cam1")), "ok");
  assertEquals(await asks(undefined, names), "ok");
});

Deno.test("Permissions: a caller may call what its entry lists, and nothing else", async () => {
  const { asks } = bench([
    entry(
      "api-key-id",
      "me",
      grant(["cam1", "cam2"], IMAGES, ADD_STREAM),
      grant(["_machine"], NAMES, IMAGES),
    ),
    entry("app-user-id", "ann", grant(["cam1"], READINGS)),
  ]);
  assertEquals(await asks("me", image("cam1")), "ok");
  assertEquals(await asks("me", image("cam2")), "ok");
  assertEquals(await asks("me", names), "ok");
  assertEquals(await asks("me", ({ streams }) => streams.addStream({ name: "cam2" })), "ok");
  assertEquals(await asks("ann", reading("cam1")), "ok");

  assertEquals(await asks("me", image("cam3")), "permission_denied");
  assertEquals(await asks("me", reading("cam1")), "permission_denied");
  assertEquals(await asks("me", ({ streams }) => streams.addStream({ name: "cam3" })), "permission_denied");
  assertEquals(await asks("me", ({ streams }) => streams.listStreams({})), "permission_denied");
  assertEquals(await asks("ann", image("cam1")), "permission_denied");
  assertEquals(await asks("ann", names), "permission_denied");
  assertEquals(await asks("somebody", image("cam1")), "permission_denied");
  assertEquals(await asks(undefined, image("cam1")), "permission_denied");
});

Deno.test("Permissions: the entry for the others is for callers without one of their own", async () => {
  const { asks } = bench([
    entry("api-key-id", "me", grant(["cam1"], IMAGES)),
    entry("default", "", grant(["thermometer"], READINGS), grant(["_machine"], NAMES)),
  ]);
  assertEquals(await asks("somebody", reading("thermometer")), "ok");
  assertEquals(await asks("somebody", names), "ok");
  assertEquals(await asks("somebody", image("cam1")), "permission_denied");
  assertEquals(await asks("me", reading("thermometer")), "permission_denied");
  assertEquals(await asks(undefined, names), "permission_denied");
});

Deno.test("Permissions: a refusal says who may not call what, and where that is set", async () => {
  const { clients, caller } = bench([entry("api-key-id", "me")]);
  caller.entity = "me";
  const text = 'auth.user_permissions of this machine does not let "me" call ';
  await assertRejects(
    () => clients.camera.getImages({ name: "cam1" }),
    SvcError,
    `${text}${IMAGES} on "cam1"`,
  );
  await assertRejects(
    () => clients.robot.resourceNames({}),
    SvcError,
    `${text}${NAMES} on the machine ("_machine")`,
  );
});

Deno.test("Permissions: where both sides stream, the first message decides", async () => {
  const { asks, shells } = bench([entry("api-key-id", "me", grant(["shell"], SHELL))]);
  const open = (name: string) => async ({ shell }: ReturnType<typeof bench>["clients"]) => {
    const requests = (async function* () {
      yield await Promise.resolve({ name });
    })();
    for await (const _ of shell.shell(requests));
  };
  assertEquals(await asks("me", open("shell")), "ok");
  assertEquals(await asks("me", open("another")), "permission_denied");
  assertEquals(await asks("somebody", open("shell")), "permission_denied");
  assertEquals(shells, ["shell"]);
});

Deno.test("Permissions.change: ends the calls and the videos that are no longer allowed, and no others", async () => {
  const all = grant(["_machine"], STATUSES);
  const mine = entry("api-key-id", "me", all, grant(["cam1", "cam2"], ADD_STREAM));
  const { permissions, asks, clients, caller } = bench([mine]);
  caller.entity = "me";
  const statuses = clients.robot.streamStatus({})[Symbol.asyncIterator]();
  await statuses.next();
  assertEquals(await asks("me", ({ streams }) => streams.addStream({ name: "cam2" })), "ok");
  const left: string[] = [];
  permissions.stay(caller.peer!, ({ code }) => left.push(code));

  permissions.change([entry("api-key-id", "me", all, grant(["cam2"], ADD_STREAM))]);
  assertEquals(left, []);
  permissions.change([entry("api-key-id", "me", all, grant(["cam1"], ADD_STREAM))]);
  assertEquals(left, ["permission_denied"]);

  const next = statuses.next();
  permissions.change([entry("api-key-id", "me", grant(["cam1"], ADD_STREAM))]);
  assertEquals(SvcError.from(await next.then(() => undefined, (error) => error)).code, "permission_denied");
  permissions.change([]);
  assertEquals(await asks("somebody", image("cam3")), "ok");
});
