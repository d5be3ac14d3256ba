/** The code of a model is loaded when a configuration names the model, and not before. */

import { assertEquals } from "@std/assert";
import { MODELS } from "../drivers/mod.ts";
import { APIS } from "../lib/api/mod.ts";
import { silentLogs } from "../lib/base/log/log.ts";
import { checkConfig } from "../lib/machine/config/check.ts";
import { decodeConfig } from "../lib/machine/config/config.ts";
import { Machine } from "../lib/machine/graph/machine.ts";
import { Registry } from "../lib/resource/registry.ts";
import { FakeClock } from "./support/fake_clock.ts";
import { FakeHost } from "./support/fake_host.ts";

const BOARD = { name: "b", api: "rdk:component:board", model: "fake" };
const MOTOR = {
  name: "m",
  api: "rdk:component:motor",
  model: "gpio",
  attributes: { board: "b", pins: { dir: "1", pwm: "2" }, max_rpm: 100 },
};
const MOTION = "rdk:service:motion rdk:builtin:builtin";

const env = () => undefined;

/** A machine of the built-in models; `took` says which have been loaded since. Files with `broken` names fail. */
function world(broken = new Set<string>()) {
  const loads: string[] = [];
  const models = MODELS.map((one) => ({
    ...one,
    load: () => {
      const name = `${one.api.name} ${one.name}`;
      loads.push(name);
      return broken.has(name) ? Promise.reject(new TypeError("Module not found")) : one.load();
    },
  }));
  const registry = new Registry(APIS, models);
  const clock = new FakeClock();
  const machine = new Machine({ registry, logs: silentLogs(clock), clock, host: new FakeHost() });
  const apply = async (json: unknown) => {
    const { config, problems } = await decodeConfig(json, registry, { env });
    await machine.apply(config);
    return problems.map(({ path, message }) => `${path}: ${message}`);
  };
  const states = () => [...machine.nodes].map(({ name, state }) => `${name.short} ${state}`).sort();
  return { registry, machine, apply, states, took: () => loads.splice(0).sort() };
}

Deno.test("a model is loaded when its first resource appears, and stays", async () => {
  const { machine, apply, states, took } = world();
  assertEquals(await apply({}), []);
  assertEquals(took(), [MOTION], "of the default service alone");
  assertEquals(await apply({ components: [BOARD, MOTOR, { ...MOTOR, name: "n" }] }), []);
  assertEquals(took(), ["rdk:component:board rdk:builtin:fake", "rdk:component:motor rdk:builtin:gpio"]);
  assertEquals(states(), ["b ready", "builtin ready", "m ready", "n ready"]);

  await apply({});
  await apply({ components: [BOARD, MOTOR] });
  assertEquals(took(), []);
  assertEquals(states(), ["b ready", "builtin ready", "m ready"]);
  await machine.close();
});

Deno.test("a model whose code cannot be loaded makes its resources unhealthy, and nothing else", async () => {
  const broken = new Set(["rdk:component:motor rdk:builtin:gpio"]);
  const { registry, machine, apply, states } = world(broken);
  const reason =
    "the code of model rdk:builtin:gpio of API rdk:component:motor cannot be loaded: Module not found";
  assertEquals(await apply({ components: [BOARD, MOTOR] }), [`components.1.model: ${reason}`]);
  assertEquals(states(), ["b ready", "builtin ready", "m unhealthy"]);
  const node = [...machine.nodes].find(({ name }) => name.short === "m");
  assertEquals(node?.error, `resource build error: ${reason}`);

  const bytes = new TextEncoder().encode(JSON.stringify({ components: [BOARD, MOTOR] }));
  const { problems } = await checkConfig(bytes, "m.json", registry, env);
  assertEquals(problems.map(({ path, message }) => `${path}: ${message}`), [`components.1.model: ${reason}`]);

  broken.clear();
  assertEquals(await apply({ components: [BOARD, MOTOR] }), []);
  assertEquals(states(), ["b ready", "builtin ready", "m ready"], "the next configuration tries again");
  await machine.close();
});

Deno.test("the file of each model has the model that its line names", async () => {
  const { registry, took } = world();
  assertEquals((await registry.all()).length, MODELS.length);
  assertEquals(took().length, MODELS.length);
});
