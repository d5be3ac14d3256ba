// What modules may do to a machine that trusts them to mean well: a table of cases. In each of them a resource that is
// built in and one of another module are called all the time.
import { assert, assertEquals, assertLess, assertMatch } from "@std/assert";
import { connect, createServer, type Socket } from "node:net";
import { dirname } from "node:path";
import { RobotService } from "../../../proto/gen/robot_pb.ts";
import {
  type Behaviour,
  ModuleWorld,
  readyWith,
  type WorldLimits,
} from "../../../tests/support/fake_module.ts";
import { until, within } from "../../../tests/support/until.ts";
import { frameBytes } from "../../../tests/support/http2_wire.ts";
import { client } from "../../wire/rpc/channel.ts";
import { FLAG, PREFACE, TYPE } from "../../wire/http2/frame.ts";
import { HpackEncoder } from "../../wire/http2/hpack.ts";

const SENSOR = "rdk:component:sensor";
const QUICK = { startPauseMaxMs: 20, stopMs: 100 };
/** Times in place of the usual ones, for a module that lets the machine wait. */
const IMPATIENT = {
  ...QUICK,
  startTimeoutMs: 1000,
  validateTimeoutMs: 500,
  buildTimeoutMs: 1000,
  closeTimeoutMs: 500,
};

interface Case {
  readonly does: string;
  readonly behaviour: Behaviour;
  readonly limits?: WorldLimits;
  /** What becomes of the module's resource. */
  readonly error?: RegExp;
  /** Further checks. */
  readonly then?: (world: ModuleWorld) => Promise<void>;
}

/** The header of a call without a token, which the socket does not want. */
const GET_VERSION = new HpackEncoder().encode([
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/viam.robot.v1.RobotService/GetVersion"],
  [":authority", "localhost"],
  ["content-type", "application/grpc"],
  ["te", "trailers"],
]);

/** A connection that has begun as HTTP/2 does. */
function rawConnection(address: string): Socket {
  const socket = connect(address).on("error", () => {});
  socket.write(PREFACE);
  socket.write(frameBytes(TYPE.settings, 0, 0, new Uint8Array()));
  return socket;
}

const never = () => new Promise<never>(() => {});

const CASES: readonly Case[] = [
  { does: "never serves", limits: IMPATIENT, behaviour: { serves: false }, error: /was not ready within 1s/ },
  {
    does: "never answers Ready",
    limits: IMPATIENT,
    behaviour: { ready: never },
    error: /was not ready within 1s/,
  },
  {
    does: "is never ready",
    limits: IMPATIENT,
    behaviour: { ready: () => ({ ready: false }) },
    error: /was not ready within 1s/,
  },
  {
    does: "refuses Ready",
    behaviour: {
      ready: () => {
        throw new Error("not today");
      },
    },
    error: /not today/,
  },
  {
    does: "exits at its start",
    behaviour: { started: ({ process }) => process.exit(1) },
    error: /module "bad" ended, exit code 1/,
  },
  {
    does: "is a program for another processor",
    behaviour: { started: ({ process }) => process.exit(126) },
    error:
      /module "bad" ended, exit code 126 \(is it a program for another processor or system, or is its disk mounted with noexec\?\)/,
  },
  {
    does: "exits during Ready",
    behaviour: {
      ready: (_, module) => {
        module.kill();
        return {};
      },
    },
    error: /module "bad" ended, by SIGKILL/,
  },
  {
    does: "exits during ValidateConfig",
    behaviour: {
      validate: (_, module) => {
        module.kill();
        return never();
      },
    },
    error: /module "bad" ended, by SIGKILL/,
  },
  {
    does: "exits during AddResource",
    behaviour: {
      add: (_config, _dependencies, module) => {
        module.kill();
        return never();
      },
    },
    error: /module "bad" ended, by SIGKILL/,
  },
  {
    does: "exits during a call",
    behaviour: {
      readings: (_, module) => {
        module.kill();
        return never();
      },
    },
    then: async (world) => {
      const ended = await within(
        "the end of the call",
        world.readings("victim").then(() => "an answer", String),
      );
      assertMatch(ended, /SvcError/);
    },
  },
  {
    does: "never answers ValidateConfig",
    limits: IMPATIENT,
    behaviour: { validate: never },
    error: /validation error/,
  },
  {
    does: "never answers AddResource",
    limits: IMPATIENT,
    behaviour: { add: never },
    error: /was not built within|did not end within/,
  },
  {
    does: "never answers RemoveResource and ignores SIGTERM",
    limits: IMPATIENT,
    behaviour: {
      remove: never,
      started: ({ process }) => {
        process.onSignal = () => {};
      },
    },
    then: async (world) => {
      await world.apply(["good"], { bystander: { model: "acme:good:probe" }, "built-in": { model: "fake" } });
      await until(() => world.module("bad").process.over);
      assert(world.module("bad").process.signals.includes("SIGKILL group"));
    },
  },
  {
    does: "answers with random bytes",
    limits: IMPATIENT,
    behaviour: {
      serves: false,
      started: ({ address, process }) => {
        const server = createServer((socket) => {
          socket.on("error", () => {});
          socket.end(crypto.getRandomValues(new Uint8Array(60_000)));
        }).listen(address);
        void process.exited.then(() => server.close());
      },
    },
    error: /was not ready within 1s|cannot connect|HTTP/,
  },
  {
    does: "offers a million models",
    limits: IMPATIENT,
    behaviour: {
      ready: () => {
        const models = Array.from({ length: 20_000 }, (_, index) => `acme:test:model-${index}`);
        return readyWith(
          Array.from({ length: 50 }, (_, index) => ({ api: `acme:component:c${index}`, models })),
        );
      },
    },
    error: /no model acme:test:probe|was not ready/,
  },
  {
    does: "answers with an oversized message",
    behaviour: { readings: () => ({ text: "x".repeat(80_000_000) }) },
    then: async (world) => {
      const ended = await within(
        "the end of the call",
        world.readings("victim").then(() => "an answer", String),
      );
      assertMatch(ended, /SvcError/);
    },
  },
  {
    does: "offers a malformed model, and a reserved service",
    behaviour: {
      ready: () =>
        readyWith([
          { api: "no api", models: ["acme:test:probe"] },
          {
            api: "acme:component:x",
            models: ["../../etc:b:c", "", "acme:test:x"],
            service: "viam.robot.v1.RobotService",
          },
          { api: SENSOR, models: ["rdk:builtin:fake", "acme:test:probe"] },
        ]),
    },
    then: async (world) => {
      assertEquals((await world.readings("built-in")).a, 1);
      assertEquals(world.output("offers a malformed model").length, 2);
      assertEquals(world.output("is reserved for the machine itself").length, 1);
      assertEquals(world.states.victim, "ready");
    },
  },
  {
    does: "depends on itself and on missing or malformed names",
    behaviour: { validate: ({ name }) => ({ dependencies: [name, "missing", "a b c", ""] }) },
    error: /unresolved dependencies/,
  },
  {
    does: "names a million dependencies",
    behaviour: { validate: () => ({ dependencies: new Array(1_000_000).fill("d") }) },
    error: /has too many values|wanted at most 1000/,
  },
  {
    does: "exits while the disk is full",
    behaviour: {},
    then: async (world) => {
      world.host.isFull = true;
      world.module("bad").kill();
      // The module is back within milliseconds: only the log tells for sure that it was away.
      await until(() => world.output("victim is unhealthy").length > 0);
      await until(() => world.output("the disk is full").length > 0);
      await world.readings("bystander");
      world.host.isFull = false;
      await until(() => world.states.victim === "ready");
    },
  },
  {
    does: "prints 20000 lines",
    behaviour: {},
    then: async (world) => {
      const { process } = world.module("bad");
      for (let line = 0; line < 20_000; line++) process.stdout.write(`line ${line}`);
      await until(() => world.output("line 199").length > 0);
      assertLess(world.output("line ").length, 3_000);
    },
  },
  {
    does: "opens 300 connections to the machine",
    behaviour: {},
    then: async (world) => {
      const channels = Array.from({ length: 300 }, () => world.module("bad").parent());
      await Promise.all(channels.map((one) => client(RobotService, one).getVersion({}).catch(() => {})));
      await world.readings("bystander");
      for (const one of channels) one.close();
    },
  },
  {
    does: "sends an oversized message and half a frame",
    behaviour: {},
    then: async (world) => {
      const channel = world.module("bad").parent();
      const message = "x".repeat(80_000_000);
      const ended = await within(
        "the end of the call",
        client(RobotService, channel).log({ logs: [{ level: "info", message }] }).then(
          () => "logged",
          String,
        ),
      );
      assertMatch(ended, /SvcError/);
      channel.close();
      const half = connect(world.module("bad").parentAddress);
      half.on("error", () => {});
      half.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x99\x00");
      await world.readings("bystander");
      half.destroy();
    },
  },
  {
    does: "never reads the machine's answers",
    behaviour: {},
    then: async (world) => {
      const socket = rawConnection(world.module("bad").parentAddress);
      socket.pause();
      for (let stream = 1; stream < 400; stream += 2) {
        socket.write(frameBytes(TYPE.headers, FLAG.endHeaders, stream, GET_VERSION));
        socket.write(frameBytes(TYPE.data, FLAG.endStream, stream, new Uint8Array(5)));
      }
      for (let ping = 0; ping < 1_000; ping++) socket.write(frameBytes(TYPE.ping, 0, 0, new Uint8Array(8)));
      for (let call = 0; call < 50; call++) await world.readings("bystander");
      socket.destroy();
    },
  },
  {
    does: "sends endless header fields",
    behaviour: {},
    then: async (world) => {
      const socket = rawConnection(world.module("bad").parentAddress).resume();
      const closed = new Promise<void>((resolve) => void socket.once("close", () => resolve()));
      socket.write(frameBytes(TYPE.headers, 0, 1, GET_VERSION));
      const more = frameBytes(TYPE.continuation, 0, 1, new Uint8Array(16_000));
      for (let frame = 0; frame < 100 && !socket.destroyed; frame++) socket.write(more);
      await within("the end of the connection", closed);
    },
  },
  {
    does: "sends 200000 spans",
    behaviour: {},
    then: async (world) => {
      const channel = world.module("bad").parent();
      const spans = Array.from({ length: 20_000 }, () => ({ name: "x".repeat(100) }));
      const request = { resourceSpans: [{ scopeSpans: [{ spans }] }] };
      for (let time = 0; time < 10; time++) await client(RobotService, channel).sendTraces(request);
      channel.close();
    },
  },
  {
    does: "writes 2000 log entries",
    behaviour: {},
    then: async (world) => {
      const channel = world.module("bad").parent();
      const robot = client(RobotService, channel);
      const log = (line: number) =>
        robot.log({ logs: [{ level: "info", loggerName: "bad", message: `entry ${line}` }] });
      for (let batch = 0; batch < 20; batch++) {
        await Promise.all(Array.from({ length: 100 }, (_, index) => log(100 * batch + index)));
      }
      channel.close();
    },
  },
];

for (const { does, limits = QUICK, behaviour, error, then } of CASES) {
  Deno.test(`a module that ${does} does not disturb other resources`, async () => {
    const good: Behaviour = { ready: () => readyWith([{ api: SENSOR, models: ["acme:good:probe"] }]) };
    await using world = await ModuleWorld.open({ bad: behaviour, good }, limits);
    const applied = world.apply(["bad", "good"], {
      victim: {},
      bystander: { model: "acme:good:probe" },
      "built-in": { model: "fake" },
    });
    await until(() => world.states.bystander === "ready" && world.states["built-in"] === "ready");
    if (error) assertMatch(await until(() => world.error("victim")), error);
    await within("the configuration", applied);
    await then?.(world);
    assertEquals([world.states.bystander, world.states["built-in"]], ["ready", "ready"]);
    await within("a call of another", Promise.all([world.readings("bystander"), world.readings("built-in")]));
  });
}

Deno.test("module sockets: their folder has mode 0700", async () => {
  await using world = await ModuleWorld.open({ good: {} });
  await world.apply(["good"], {});
  const folder = dirname(world.module("good").parentAddress);
  assertEquals((await Deno.stat(folder)).mode! & 0o777, 0o700);
});
