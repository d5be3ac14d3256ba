import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { ModuleService } from "../../proto/gen/module_pb.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { SensorService } from "../../proto/gen/sensor_pb.ts";
import { assertRefused } from "../../tests/support/refusals.ts";
import { until } from "../../tests/support/until.ts";
import { type Sensor, SensorApi } from "../api/sensors/sensor.ts";
import { SystemClock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import { object, text } from "../base/schema/schema.ts";
import type { ServiceClient } from "../wire/rpc/channel.ts";
import { client } from "../wire/rpc/channel.ts";
import { connectGrpc } from "../wire/grpc/grpc_channel.ts";
import { openPort } from "../wire/port/port.ts";
import { ServiceTable } from "../wire/rpc/service.ts";
import { type AnyModuleModel, model } from "./model.ts";
import { startModule } from "./program.ts";

const NAME = "acme:test:thermometer";
const FULL = "rdk:component:sensor/roof";
const clock = new SystemClock();

interface Bench {
  readonly module: ServiceClient<typeof ModuleService>;
  readonly sensor: ServiceClient<typeof SensorService>;
  /** What models did, in order. */
  readonly diary: string[];
  /** The messages that the machine got. */
  readonly logged: string[];
  /** The machine's address. */
  readonly address: string;
}

/** A model of sensors, which needs a board, may use another sensor, and tells what becomes of each. */
function thermometer(diary: string[]): AnyModuleModel {
  return model<Sensor, unknown>({
    api: SensorApi,
    name: NAME,
    attributes: object({
      at: text().required(),
      board: text().names("board"),
      other: text().names("sensor", { optional: true }),
      any: text().names(),
    }),
    construct: ({ attributes, dependencies, logger, name }) => {
      const { at, other } = attributes as { at: string; other?: string };
      diary.push(`build ${at}`);
      logger.info(`${name.short} is at ${at}`);
      if (at === "nowhere") throw new SvcError("unavailable", "there is no such place");
      const found = other === undefined ? undefined : dependencies.find(SensorApi, other)?.name.full;
      return {
        getReadings: () => Promise.resolve({ at, ...found && { found } }),
        close: async () => {
          await clock.sleep(5);
          diary.push(`close ${at}`);
        },
      };
    },
  }) as AnyModuleModel;
}

/** Runs the work with a module of this process, and a machine that takes its log. */
async function withModule(work: (bench: Bench) => Promise<void>): Promise<void> {
  const [diary, logged]: string[][] = [[], []];
  const machine = new ServiceTable(clock);
  machine.add({
    desc: RobotService,
    handlers: {
      log: ({ logs }: { readonly logs: readonly { readonly message: string }[] }) => {
        logged.push(...logs.map(({ message }) => message));
        return {};
      },
    },
  });
  const port = await openPort({ table: machine, bind: { host: "127.0.0.1", port: 0 }, clock });
  const folder = await Deno.makeTempDir();
  const running = await startModule([thermometer(diary)], { address: `${folder}/m.sock` });
  const channel = connectGrpc(`unix:${folder}/m.sock`, { clock });
  try {
    const [module, sensor] = [client(ModuleService, channel), client(SensorService, channel)];
    await work({ module, sensor, diary, logged, address: `127.0.0.1:${port.port}` });
  } finally {
    channel.close();
    await running.close();
    await port.close(0);
    await Deno.remove(folder, { recursive: true });
  }
}

const linux = { ignore: Deno.build.os === "windows" };
const configOf = (attributes: Record<string, string>) => ({
  name: "roof",
  api: SensorApi.name,
  model: NAME,
  attributes,
});

Deno.test(
  "a module tells its models, and writes to the log of the machine once it knows it",
  linux,
  async () => {
    await withModule(async ({ module, address, logged }) => {
      const { ready, handlermap } = await module.ready({ parentAddress: address });
      const [{ subtype, models }, ...more] = handlermap!.handlers;
      assertEquals([ready, models, subtype?.protoService, more], [
        true,
        [NAME],
        "viam.component.sensor.v1.SensorService",
        [],
      ]);
      // The same address again leaves the link as it is.
      await module.ready({ parentAddress: address });
      await module.addResource({ config: configOf({ at: "roof" }) });
      await until(() => logged.length > 0);
      assertEquals(logged, ["roof is at roof"]);
    });
  },
);

Deno.test(
  "a module's settings that name resources become dependencies, by their full names if their type is clear",
  linux,
  async () => {
    await withModule(async ({ module, address, sensor }) => {
      const needs = async (attributes: Record<string, string>) => {
        const { dependencies, optionalDependencies } = await module.validateConfig({
          config: configOf({ at: "a", ...attributes }),
        });
        return [dependencies, optionalDependencies];
      };
      assertEquals(await needs({}), [[], []]);
      assertEquals(await needs({ board: "pi", other: "cellar", any: "x" }), [
        ["rdk:component:board/pi", "x"],
        ["rdk:component:sensor/cellar"],
      ]);
      assertEquals(await needs({ board: "rdk:component:board/pi" }), [["rdk:component:board/pi"], []]);

      const adding = {
        config: configOf({ at: "a", other: "cellar" }),
        dependencies: ["rdk:component:sensor/cellar", "acme:component:unknown/x"],
      };
      await assertRefused(
        "failed_precondition",
        "has not said where it is",
        () => module.addResource(adding),
      );
      await module.ready({ parentAddress: address });
      await module.addResource(adding);
      const { readings } = await sensor.getReadings({ name: "roof" });
      assertEquals(readings.found.kind, { case: "stringValue", value: "rdk:component:sensor/cellar" });
    });
  },
);

Deno.test(
  "a module closes a resource before it builds the next one of its name, and all at its end",
  linux,
  async () => {
    let steps: string[] = [];
    await withModule(async ({ module, sensor, diary }) => {
      steps = diary;
      await module.addResource({ config: configOf({ at: "a" }) });
      assertEquals((await sensor.getReadings({ name: "roof" })).readings.at.kind.value, "a");
      await module.reconfigureResource({ config: configOf({ at: "b" }) });
      await assertRefused(
        "unavailable",
        "no such place",
        () => module.addResource({ config: configOf({ at: "nowhere" }) }),
      );
      await assertRefused("not_found", "has no resource", () => sensor.getReadings({ name: "roof" }));
      await assertRefused("not_found", "has no resource", () => module.removeResource({ name: FULL }));
      await module.addResource({ config: configOf({ at: "c" }) });
      await module.removeResource({ name: FULL });
      await module.addResource({ config: configOf({ at: "d" }) });
    });
    assertEquals(steps, [
      ...["build a", "close a", "build b", "close b", "build nowhere"],
      ...["build c", "close c", "build d", "close d"],
    ]);
  },
);

Deno.test(
  "a module changes a resource once at a time, in the order of the machine's wishes",
  linux,
  async () => {
    await withModule(async ({ module, diary }) => {
      const changes: Promise<unknown>[] = [module.addResource({ config: configOf({ at: "a" }) })];
      changes.push(module.reconfigureResource({ config: configOf({ at: "b" }) }));
      await changes[0];
      // The one before has begun by now, and takes its time to close.
      changes.push(module.reconfigureResource({ config: configOf({ at: "c" }) }));
      await Promise.all(changes);
      assertEquals(diary, ["build a", "close a", "build b", "close b", "build c"]);
    });
  },
);

Deno.test("a module's log tells at its end what it has held back", linux, async () => {
  let lines: string[] = [];
  await withModule(async ({ module, address, logged }) => {
    lines = logged;
    await module.ready({ parentAddress: address });
    for (let time = 0; time < 7; time++) {
      await module.addResource({ config: configOf({ at: "roof" }) });
      await module.removeResource({ name: FULL });
    }
  });
  assertMatch(lines.at(-1) ?? "", /^Message logged 7 times in past .*: roof is at roof$/);
});

Deno.test("a module refuses configurations that it cannot use", linux, async () => {
  await withModule(async ({ module }) => {
    await assertRefused("invalid_argument", "no configuration", () => module.addResource({}));
    await assertRefused("invalid_argument", "no configuration", () => module.validateConfig({}));
    const other = { ...configOf({ at: "a" }), model: "acme:test:other" };
    const known = `has no model acme:test:other of ${SensorApi.name}, it has: ${SensorApi.name} ${NAME}`;
    await assertRefused("not_found", known, () => module.validateConfig({ config: other }));
    await assertRefused(
      "invalid_argument",
      "at: missing required field",
      () => module.validateConfig({ config: configOf({}) }),
    );
  });
});

Deno.test("startModule refuses models that a machine could not tell apart", async () => {
  const one = thermometer([]);
  const refusal = (words: string, ...models: AnyModuleModel[]) =>
    assertRefused("invalid_argument", words, () => startModule(models, { address: "/none/m.sock" }));
  await refusal("a module has at least one model");
  await refusal(`model ${SensorApi.name} ${NAME} is listed twice`, one, one);
  await refusal('"thermometer" is not the name of a model', { ...one, name: "thermometer" });
});

/** A module as a program, whose resources never close. */
const STUCK = `
  import { model, serveModule } from "${new URL("mod.ts", import.meta.url)}";
  import { SensorApi } from "${new URL("../api/sensors/sensor.ts", import.meta.url)}";
  import { object } from "${new URL("../base/schema/schema.ts", import.meta.url)}";
  const construct = () => ({ getReadings: () => Promise.resolve({}), close: () => new Promise(() => {}) });
  await serveModule([model({ api: SensorApi, name: "${NAME}", attributes: object({}), construct })]);
`;

function program(...args: string[]): Deno.ChildProcess {
  const options = { stdin: "null", stdout: "null", stderr: "piped" } as const;
  return new Deno.Command(Deno.execPath(), { args: ["eval", "--quiet", STUCK, ...args], ...options }).spawn();
}

Deno.test("serveModule: a module that cannot start says why, and ends with 1", linux, async () => {
  const { code, stderr } = await program().output();
  assertEquals(code, 1);
  assertStringIncludes(new TextDecoder().decode(stderr), "a module gets the address to serve at");
});

Deno.test("serveModule: a module whose resources do not close ends all the same", linux, async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/m.sock`, running = program(path);
  try {
    // The socket is there a moment before it takes connections.
    await until(() =>
      Deno.connect({ transport: "unix", path }).then((one) => (one.close(), true), () => false)
    );
    const channel = connectGrpc(`unix:${path}`, { clock });
    await client(ModuleService, channel).addResource({ config: configOf({}) });
    channel.close();
    running.kill("SIGTERM");
    const { code, stderr } = await running.output();
    assertEquals(code, 1);
    assertStringIncludes(
      new TextDecoder().decode(stderr),
      "the module got SIGTERM and did not end within 8 s",
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
