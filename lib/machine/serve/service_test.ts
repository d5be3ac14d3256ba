import { assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import {
  GetMachineStatusResponse_State as MachineState,
  PeerConnectionType,
  ResourceStatus_State as ResourceState,
  RobotService,
} from "../../../proto/gen/robot_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { fakeCall } from "../../../tests/support/fake_call.ts";
import type { Peer } from "../../wire/rpc/service.ts";
import { bench, component } from "../../../tests/support/machine_bench.ts";
import { SHUTDOWN_ANSWER_MS } from "./service.ts";

Deno.test("ResourceNames and ResourceRPCSubtypes: list only ready resources and their APIs", async () => {
  const { robot, apply, close } = bench();
  assertEquals((await robot.resourceNames({})).resources, []);
  await apply({
    components: [
      component("motor", "m"),
      component("arm", "a", { attributes: { broken: true } }),
      component("generic", "g"),
    ],
  });
  const { resources } = await robot.resourceNames({});
  assertEquals(
    resources.map(({ namespace, type, subtype, name }) => [namespace, type, subtype, name].join()).sort(),
    ["rdk,component,generic,g", "rdk,component,motor,m"],
  );
  const { resourceRpcSubtypes } = await robot.resourceRPCSubtypes({});
  assertEquals(
    resourceRpcSubtypes.map(({ subtype, protoService }) => [subtype!.subtype, subtype!.name, protoService]),
    [
      ["generic", "", "viam.component.generic.v1.GenericService"],
      ["motor", "", "viam.component.motor.v1.MotorService"],
    ],
  );
  await close();
});

Deno.test("ResourceNames: uses a random order, which the published Python library needs to reconnect", async () => {
  const { robot, apply, close } = bench();
  const names = ["a", "b", "c", "d", "e"];
  await apply({ components: names.map((name) => component("generic", name)) });
  const orders = new Set<string>();
  for (let call = 0; call < 50; call++) {
    const { resources } = await robot.resourceNames({});
    const order = resources.map(({ name }) => name);
    assertEquals(order.toSorted(), names);
    orders.add(order.join());
  }
  assertNotEquals(orders.size, 1);
  await close();
});

Deno.test("GetMachineStatus: contains the state of every resource and of the configuration", async () => {
  const { robot, apply, close, clock } = bench();
  assertEquals((await robot.getMachineStatus({})).state, MachineState.INITIALIZING);
  await clock.advance(1500);
  await apply({
    revision: "r7",
    cloud: { id: "part", secret: "s", machine_id: "machine", location_id: "place", primary_org_id: "org" },
    components: [component("motor", "m"), component("arm", "a", { attributes: { broken: true } })],
  });
  const { state, config, resources, jobStatuses, modules, packages } = await robot.getMachineStatus({});
  assertEquals([state, jobStatuses, modules, packages], [MachineState.RUNNING, [], [], []]);
  assertEquals([config?.revision, Number(config?.lastUpdated?.seconds) * 1000], [
    "r7",
    Math.floor(clock.nowMs() / 1000) * 1000,
  ]);
  assertEquals(resources.map(({ name, state, revision, error }) => [name?.name, state, revision, error]), [
    ["m", ResourceState.READY, "r7", ""],
    ["a", ResourceState.UNHEALTHY, "r7", "resource build error: a is broken"],
  ]);
  assertEquals(resources[0].cloudMetadata?.machinePartId, "part");
  const metadata = await robot.getCloudMetadata({});
  assertEquals(
    [metadata.machinePartId, metadata.machineId, metadata.locationId, metadata.primaryOrgId],
    ["part", "machine", "place", "org"],
  );
  await close();
});

Deno.test("GetVersion: returns platform rdk, the version and an API version", async () => {
  const { robot, close } = bench();
  const { platform, version, apiVersion } = await robot.getVersion({});
  assertEquals([platform, version], ["rdk", "v1.2.3"]);
  assertMatch(apiVersion, /^v\d+\.\d+\.\d+$/);
  await close();
});

Deno.test("RobotService: metadata and uploads need a cloud section, and RestartModule a known module", async () => {
  const { robot, apply, close } = bench();
  await apply({});
  const error = await assertRejects(() => robot.getCloudMetadata({}), SvcError);
  assertEquals([error.code, error.message], ["unknown", "cloud metadata not available"]);
  const nowhere = await assertRejects(
    () => robot.uploadDataFromPath({ path: "/tmp" }),
    SvcError,
    "cloud section",
  );
  assertEquals(nowhere.code, "failed_precondition");
  assertEquals((await robot.getModelsFromModules({})).models, []);
  const missing = await assertRejects(
    () => robot.restartModule({ idOrName: { case: "moduleName", value: "mine" } }),
    SvcError,
    "module not found with id=, name=mine. make sure it is configured and running on your machine",
  );
  assertEquals(missing.code, "not_found");
  await close();
});

Deno.test("RobotService: what the configuration permits or knows is unavailable before the first one", async () => {
  const { robot, apply, close } = bench({
    upload: () => Promise.reject(new SvcError("permission_denied", "no")),
  });
  async function* tunnelled() {
    yield { destinationPort: 22 };
  }
  const early = [
    () => robot.getCloudMetadata({}),
    () => robot.uploadDataFromPath({ path: "/tmp" }),
    () => robot.restartModule({ idOrName: { case: "moduleName", value: "mine" } }),
    () => Array.fromAsync(robot.tunnel(tunnelled())),
  ];
  const outcomes = async () => {
    const settled = await Promise.allSettled(early.map((call) => call()));
    return settled.map((one) => one.status === "rejected" ? SvcError.from(one.reason).code : "answered");
  };
  assertEquals(await outcomes(), Array(4).fill("unavailable"));
  await apply({});
  assertEquals(await outcomes(), ["unknown", "permission_denied", "not_found", "permission_denied"]);
  await close();
});

Deno.test("RobotService: ListTunnels, SendTraces and Shutdown work, and GetStatus is unimplemented", async () => {
  const { robot, apply, close, clock, shutdowns, spans } = bench();
  await apply({
    network: { traffic_tunnel_endpoints: [{ port: 22 }, { port: 80, connection_timeout: "1.5s" }] },
  });
  const { tunnels } = await robot.listTunnels({});
  assertEquals(tunnels.map(({ port, connectionTimeout: t }) => [port, t?.seconds, t?.nanos]), [
    [22, 10n, 0],
    [80, 1n, 500_000_000],
  ]);
  assertEquals((await assertRejects(() => robot.getStatus({}), SvcError)).code, "unimplemented");
  await robot.sendTraces({ resourceSpans: [{}] });
  assertEquals(spans, [1]);
  await robot.shutdown({});
  assertEquals(shutdowns, [], "the answer goes first");
  await clock.advance(SHUTDOWN_ANSWER_MS);
  assertEquals(shutdowns, ["shutdown_request"]);
  await close();
});

Deno.test("GetSessions: contains the connection type of each client", async () => {
  const { robot, close } = bench();
  await robot.startSession({});
  const { sessions: [{ peerConnectionInfo }] } = await robot.getSessions({});
  assertEquals(peerConnectionInfo?.type, PeerConnectionType.UNSPECIFIED);
  await close();
});

Deno.test("GetSessions: the address of a gRPC client has its port", async () => {
  const { robot, sessions, close } = bench();
  const addressOf = async (peer: Peer) => {
    const id = sessions.start(fakeCall({ method: RobotService.method.startSession, peer }), "");
    const listed = (await robot.getSessions({})).sessions.find((one) => one.id === id);
    return listed!.peerConnectionInfo!.remoteAddress;
  };
  const local = { kind: "grpc", localAddress: "192.0.2.1" } as const;
  assertEquals(
    await addressOf({ ...local, remoteAddress: "192.0.2.7", remotePort: 50123 }),
    "192.0.2.7:50123",
  );
  assertEquals(await addressOf({ ...local, remoteAddress: "2001:db8::7", remotePort: 9 }), "[2001:db8::7]:9");
  assertEquals(await addressOf({ kind: "webrtc", remoteAddress: "192.0.2.7" }), "192.0.2.7");
  await close();
});

Deno.test("Log: writes a module's entry regardless of the machine's log levels", async () => {
  const { robot, close, records, clock } = bench();
  const time = { seconds: BigInt(Math.floor(clock.nowMs() / 1000) - 5), nanos: 250_000_000 };
  const fields: JsonObject[] = [
    { Key: "text", Type: 15, Integer: 0, String: "abc", Interface: null },
    { Key: "yes", Type: 4, Integer: 1, String: "" },
    { Key: "pi", Type: 9, Integer: 0, String: "3.5" },
    { Key: "half", Type: 10, Integer: 0x3f000000, String: "" },
    { Key: "count", Type: 11, Integer: 42, String: "" },
    { Key: "any", Type: 23, Integer: 0, String: "", Interface: { a: [1] } },
    { Key: "skipped", Type: 27 },
  ];
  await robot.log({ logs: [{ level: "Debug", loggerName: "rdk.m", message: "hello", time, fields }] });
  const { timeMs, level, logger, message, fields: read } = records.at(-1)!;
  assertEquals([timeMs, level, logger, message], [clock.nowMs(), "debug", "rdk.m", "hello"]);
  assertEquals(read, {
    text: "abc",
    yes: true,
    pi: 3.5,
    half: 0.5,
    count: 42,
    any: { a: [1] },
    log_ts: new Date(clock.nowMs() - 4750).toISOString(),
  });
  const now = { seconds: BigInt(Math.floor(clock.nowMs() / 1000)), nanos: 0 };
  await robot.log({ logs: [{ level: "warning", loggerName: "rdk.m", message: "in time", time: now }] });
  assertEquals([records.at(-1)?.level, records.at(-1)?.fields], ["warn", {}]);
  await close();
});

Deno.test("Log: refuses requests that do not have exactly 1 entry of a known level", async () => {
  const { robot, close } = bench();
  const entry = { level: "info", message: "hello" };
  await assertRejects(() => robot.log({}), SvcError, "LogRequest received with no logs");
  await assertRejects(
    () => robot.log({ logs: [entry, entry] }),
    SvcError,
    "LogRequest received with multiple logs",
  );
  await assertRejects(() => robot.log({ logs: [{ level: "loud" }] }), SvcError, 'invalid level "loud"');
  await close();
});
