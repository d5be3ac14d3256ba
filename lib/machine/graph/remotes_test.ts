// Over real ports remotes are tested in tests/remotes_test.ts; here is what takes time, or is not polite.
import { assertEquals, assertStringIncludes } from "@std/assert";
import { AuthService } from "../../../proto/gen/auth_pb.ts";
import { RobotService } from "../../../proto/gen/robot_pb.ts";
import { APIS } from "../../api/mod.ts";
import type { Motor } from "../../api/actuators/motor.ts";
import { settle } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { Secret } from "../../base/secret.ts";
import { Registry } from "../../resource/registry.ts";
import { memoryChannel } from "../../wire/rpc/memory.ts";
import { service, ServiceTable } from "../../wire/rpc/service.ts";
import type { RemoteConfig } from "../config/config.ts";
import { Remotes } from "./remotes.ts";

interface Name {
  namespace: string;
  type: string;
  subtype: string;
  name: string;
}

/** Remotes whose other end is this test. */
function bench(allowInsecureCredentials = true) {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logs = new Logs(clock, [memorySink(records)]);
  logs.configure([], true);
  const far = {
    names: [motor("m")] as Name[],
    mute: false,
    expired: false,
    dialled: [] as string[],
    /** Its requests, with their headers. */
    asked: [] as string[],
  };
  const connect = (address: string) => {
    far.dialled.push(address);
    const table = new ServiceTable(clock);
    table.add(service(AuthService, {
      authenticate: ({ entity, credentials }) => {
        far.asked.push(`authenticate ${entity} ${credentials!.type} ${credentials!.payload}`);
        return { accessToken: "token" };
      },
    }));
    table.add(service(RobotService, {
      resourceNames: (_, { requestHeader }) => {
        far.asked.push(`names ${requestHeader.get("authorization") ?? ""}`.trim());
        return far.mute ? new Promise(() => {}) : { resources: far.names };
      },
      resourceRPCSubtypes: () => ({
        resourceRpcSubtypes: [{
          subtype: { namespace: "acme", type: "component", subtype: "trap" },
          protoService: "proto.rpc.v1.AuthService",
        }],
      }),
      startSession: () => ({ id: "session", heartbeatWindow: { seconds: 2n, nanos: 0 } }),
      sendSessionHeartbeat: () => {
        far.asked.push("heartbeat");
        if (!far.expired) return {};
        far.expired = false;
        throw new SvcError("invalid_argument", "SESSION_EXPIRED");
      },
    }));
    return memoryChannel(table);
  };
  let changes = 0;
  const logger = logs.logger("remotes");
  const remotes = new Remotes({
    registry: new Registry(APIS, []),
    clock,
    logger,
    allowInsecureCredentials,
    connect,
    random: () => 1,
  });
  remotes.follow(() => changes++);
  const asked = () => far.asked.splice(0).filter((one) => one !== "heartbeat");
  const output = (level: string) =>
    records.filter((one) => one.level === level).map(({ message }) => message);
  return { clock, far, remotes, asked, output, changes: () => changes };
}

function motor(name: string): Name {
  return { namespace: "rdk", type: "component", subtype: "motor", name };
}

function configOf(more: Partial<RemoteConfig> = {}): RemoteConfig {
  const intervals = { connectionCheckInterval: 10_000, reconnectInterval: 1_000 };
  return {
    name: "far",
    address: "far:8080",
    insecure: true,
    prefix: "",
    ...intervals,
    ...more,
  } as RemoteConfig;
}

const shorts = (remotes: Remotes) => remotes.resources.map(({ name }) => name.short);

Deno.test("Remotes: poll a remote after each interval and report only changes", async () => {
  const { clock, far, remotes, asked, changes } = bench();
  remotes.configure([configOf()]);
  await settle();
  assertEquals([shorts(remotes), changes(), asked().length], [["far:m"], 1, 1]);
  const [{ fingerprint }] = remotes.resources;
  await clock.advance(20_000);
  assertEquals([changes(), asked().length, remotes.resources[0].fingerprint], [1, 2, fingerprint]);
  far.names = [motor("n"), motor("m")];
  await clock.advance(10_000);
  assertEquals([shorts(remotes), changes()], [["far:m", "far:n"], 2]);
  await remotes.close();
  assertEquals(clock.pending, 0);
});

Deno.test("Remotes: an unresponsive remote is disconnected, logged once, and retried", async () => {
  const { clock, far, remotes, output, changes } = bench();
  remotes.configure([configOf()]);
  await settle();
  const [{ fingerprint }] = remotes.resources;
  far.mute = true;
  await clock.advance(20_000);
  const [{ problem }] = remotes.resources;
  assertStringIncludes(problem!, 'remote "far" (far:8080) is not connected: ');
  assertEquals([remotes.statuses[0].state, changes(), output("warn").length], ["unhealthy", 2, 1]);
  const since = remotes.statuses[0].updatedMs;
  await clock.advance(33_000);
  assertEquals([far.dialled.length, output("warn").length, remotes.statuses[0].updatedMs], [4, 1, since]);
  far.mute = false;
  await clock.advance(11_000);
  assertEquals([remotes.statuses[0].state, remotes.resources[0].problem], ["ready", undefined]);
  assertEquals(
    remotes.resources[0].fingerprint === fingerprint,
    false,
    "another connection, other resources",
  );
  await remotes.close();
});

Deno.test("Remotes: names get the prefix, and invalid names and unknown APIs are left out", async () => {
  const { far, remotes, output } = bench();
  far.names = [motor("m"), motor("a b"), motor(""), motor("x".repeat(500)), motor("third:n"), {
    ...motor("o"),
    namespace: "acme",
  }];
  remotes.configure([configOf({ prefix: "left-" })]);
  await settle();
  const names = remotes.resources.map(({ name }) => [name.full, name.simple, name.far]);
  assertEquals(names, [
    ["rdk:component:motor/far:left-m", "left-m", "m"],
    ["rdk:component:motor/far:left-third:n", "left-third:n", "third:n"],
  ]);
  assertEquals(output("debug").length, 3);
  assertEquals(output("warn").length, 1);
  assertStringIncludes(
    output("warn")[0],
    'resources of API acme:component:motor of remote "far" are left out:',
  );
  await remotes.close();
});

Deno.test("Remotes: a remote cannot offer the machine's own services as its API", async () => {
  const { far, remotes, output } = bench();
  far.names = [{ ...motor("t"), namespace: "acme", subtype: "trap" }];
  remotes.configure([configOf()]);
  await settle();
  assertEquals([shorts(remotes), remotes.foreignApis], [[], []]);
  assertStringIncludes(output("warn").join(), "proto.rpc.v1.AuthService is reserved for the machine itself");
  await remotes.close();
});

Deno.test("Remotes: exchange credentials once per connection, and use the address as entity for a secret", async () => {
  const { remotes, asked } = bench();
  const key = { type: "api-key", payload: new Secret("the key") };
  remotes.configure([configOf({ auth: { entity: "id", credentials: key } })]);
  await settle();
  assertEquals(asked(), ["authenticate id api-key the key", "names Bearer token"]);
  remotes.configure([configOf({ auth: undefined, secret: new Secret("old") })]);
  await settle();
  assertEquals(asked(), ["authenticate far robot-location-secret old", "names Bearer token"]);
  remotes.configure([configOf({ auth: undefined, secret: new Secret("new") })]);
  await settle();
  assertEquals(asked(), ["authenticate far robot-location-secret new", "names Bearer token"]);
  remotes.configure([configOf({ auth: undefined, secret: new Secret("new") })]);
  await settle();
  assertEquals(asked(), [], "the same settings keep the connection");
  await remotes.close();
});

Deno.test("Remotes: do not send credentials over a connection without TLS", async () => {
  const { remotes, asked, output } = bench(false);
  remotes.configure([configOf({ secret: new Secret("hidden") })]);
  await settle();
  assertEquals(asked(), []);
  assertStringIncludes(remotes.statuses[0].error!, "credentials do not travel without TLS");
  assertEquals(output("warn").join().includes("hidden"), false);
  await remotes.close();
});

Deno.test("Remotes: empty credentials are none", async () => {
  const { remotes, asked } = bench(false);
  remotes.configure([configOf({ auth: { entity: "", credentials: { type: "", payload: new Secret("") } } })]);
  await settle();
  assertEquals([asked(), remotes.statuses[0].error], [["names"], undefined]);
  await remotes.close();
});

Deno.test("Remotes: start a new session when the old session expires, on the same connection", async () => {
  const { clock, far, remotes, changes } = bench();
  remotes.configure([configOf()]);
  await clock.advance(1_000);
  assertEquals(far.asked.filter((one) => one === "heartbeat").length, 2);
  far.expired = true;
  await clock.advance(2_000);
  assertEquals([far.expired, changes(), far.dialled.length], [false, 1, 1]);
  await remotes.close();
});

Deno.test("Remotes: drop a remote at once when the configuration removes it", async () => {
  const { clock, remotes } = bench();
  remotes.configure([configOf(), configOf({ name: "other" })]);
  await settle();
  assertEquals(shorts(remotes), ["far:m", "other:m"]);
  remotes.configure([configOf({ name: "other" })]);
  assertEquals(shorts(remotes), ["other:m"]);
  remotes.configure([]);
  remotes.dismiss();
  await settle();
  assertEquals([remotes.statuses, clock.pending], [[], 0]);
});

Deno.test("Remotes: a dropped remote can still be called until it is dismissed", async () => {
  const { clock, remotes } = bench();
  remotes.configure([configOf()]);
  await settle();
  const motor = remotes.resources[0].client() as Motor;
  const outcome = () => motor.stop().then(() => "stopped", (error) => SvcError.from(error).message);
  remotes.configure([]);
  assertStringIncludes(await outcome(), "MotorService", "the other end of this test has no motors");
  remotes.dismiss();
  await settle();
  assertEquals(await outcome(), "the channel was closed");
  assertEquals(clock.pending, 0);
});
