/**
 * The modules of examples/modules, in one machine: in TypeScript with our library, run by Deno and by Node, and in
 * Python with the published one. Resources of one module depend on those of the other.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { MODULE_BUNDLING } from "../../cli/build/module_package.ts";
import { CameraApi } from "../../lib/api/sensors/camera.ts";
import { GenericServiceApi } from "../../lib/api/services/generic_service.ts";
import { MotorApi } from "../../lib/api/actuators/motor.ts";
import { SensorApi } from "../../lib/api/sensors/sensor.ts";
import { parseJsonc } from "../../lib/base/schema/jsonc.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import type { AnyApi } from "../../lib/resource/registry.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { describeService } from "../../lib/wire/grpc/reflection_client.ts";
import { keepContract } from "../contract/contract.ts";
import { CONTRACTS } from "../contract/mod.ts";
import { pythonProgram, run } from "../interop/programs.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { fromSource, type ModuleMachine, ROOT, withModules } from "./sdk_bench.ts";

const TYPESCRIPT = "examples/modules/typescript/main.ts";
const PYTHON = `${ROOT}examples/modules/python/main.py`;

const { components, services } = await exampleConfig();

needingTest(
  "the example modules work together: TypeScript in Deno, and Python",
  await pythonProgram(),
  (python, t) => {
    return tryBoth(fromSource(TYPESCRIPT), [python, PYTHON], t);
  },
);

needingTest(
  "the example modules work together: TypeScript in Node, and Python",
  await pythonProgram(),
  async (python, t) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-example-" });
    try {
      const options = [...MODULE_BUNDLING, "-o", `${folder}/main.mjs`, `${ROOT}${TYPESCRIPT}`];
      const { code, stderr } = await run([Deno.execPath(), ...options]);
      assertEquals(code, 0, stderr);
      await tryBoth(["node", `${folder}/main.mjs`], [python, PYTHON], t);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

async function tryBoth(greenhouse: string[], cellar: string[], t: Deno.TestContext): Promise<void> {
  await withModules({ greenhouse, cellar }, { components, services }, async (machine) => {
    await machine.ready();

    for (const [api, name] of [[SensorApi, "air"], [MotorApi, "air-fan"], [CameraApi, "sky"]] as const) {
      const contract = CONTRACTS.find((one) => one.api === api as AnyApi)!;
      const resource = clientOf(machine, api, name);
      await keepContract(contract, resource, t, `${name} of the greenhouse: `);
    }

    await t.step("a module's service uses another module's sensor and a built-in motor", async () => {
      const climate = clientOf(machine, GenericServiceApi, "climate");
      assertEquals(await climate.doCommand({}), { celsius: 12, fan: true });
      assertEquals((await clientOf(machine, MotorApi, "built-in-fan").isPowered()).powerPct, 0.5);
      await machine.server.wrote("looked after the climate");
    });

    await t.step("the other module's service uses the first module's resources", async () => {
      const climate = clientOf(machine, GenericServiceApi, "cellar-climate");
      assertEquals(await climate.doCommand({}), { celsius: 28, fan: true });
      assertEquals((await clientOf(machine, MotorApi, "air-fan").isPowered()).powerPct, 0.5);
    });

    await t.step("its own API works in all four kinds of calls", () => countWith(machine));

    await t.step(
      "a change reaches the resource and its dependents; a removed resource is gone",
      async () => {
        const changed = components.filter(({ name }) => name !== "sky").map((one) =>
          one.name === "air" ? { ...one, attributes: { celsius: 3 } } : one
        );
        await machine.write({ components: changed, services });
        await until(async () => {
          const answer = await clientOf(machine, GenericServiceApi, "cellar-climate").doCommand({}).catch(
            () => ({}),
          );
          return (answer as JsonObject).celsius === 3;
        });
        await machine.ready();
        const { resources } = await machine.robot.resourceNames({});
        assertEquals(resources.some(({ name }) => name === "sky"), false);
      },
    );

    await t.step("errors in its attributes have their path", async () => {
      const wrong = [{ ...services[0], attributes: { thermometer: "wine" } }];
      await machine.write({ components, services: wrong });
      const words = "attributes.fan: missing required field";
      await until(async () => (await machine.sick()).climate?.includes(words));
      assertStringIncludes((await machine.sick()).climate, words);
    });
  });
}

async function countWith({ channel }: ModuleMachine): Promise<void> {
  const desc = await describeService(channel, "example.counter.v1.CounterService", {});
  type Count = { name: string; count: number };
  const { add, watch, addAll, echo } = client(desc, channel) as {
    readonly [method: string]: (
      request: Count | AsyncIterable<Count>,
    ) => Promise<Count> & AsyncIterable<Count>;
  };
  const counts = async function* (...counts: number[]) {
    for (const count of counts) yield await Promise.resolve({ name: "counter", count });
  };
  const all = async (answers: AsyncIterable<Count>) =>
    (await Array.fromAsync(answers)).map(({ count }) => count);
  assertEquals((await add({ name: "counter", count: 5 })).count, 15);
  assertEquals(await all(watch({ name: "counter", count: 2 })), [15, 16]);
  assertEquals((await addAll(counts(1, 2))).count, 18);
  assertEquals(await all(echo(counts(7, 8))), [7, 8]);
}

function clientOf<A extends AnyApi>(machine: ModuleMachine, api: A, name: string): ReturnType<A["client"]> {
  return api.client(ResourceName.of(api.name, name), machine.channel);
}

/** The example's configuration; its modules are run in the test's own ways. */
async function exampleConfig() {
  const file = "examples/modules/machine.json";
  const config = parseJsonc(await Deno.readFile(`${ROOT}${file}`), { file }) as JsonObject;
  return config as { components: JsonObject[]; services: JsonObject[] };
}
