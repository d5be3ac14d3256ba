/** Prefixes of fragments, fragments that stay out, and changes that reach the right copy. */

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/schema/schema.ts";
import { resolve } from "./resolution.ts";

const limits = {
  fragmentsPerConfiguration: 200,
  valuesPerConfiguration: 200_000,
  lettersPerConfiguration: 4 * 1024 ** 2,
};

async function resolved(config: JsonObject, table: { readonly [id: string]: JsonObject }) {
  const { config: made, problems } = await resolve(
    config,
    (wanted) =>
      Promise.resolve(
        wanted.filter(({ id }) => Object.hasOwn(table, id)).map(({ id, version }) => {
          const text = JSON.stringify(table[id]);
          return { id, version, revision: 1, own: true, letters: text.length, text };
        }),
      ),
    { limits },
  );
  return {
    made,
    problems: problems.map(({ severity, path, message }) => `${severity} ${path}: ${message}`),
  };
}

const ROVER: JsonObject = {
  components: [
    { name: "b", api: "rdk:component:board", model: "fake" },
    {
      name: "m",
      api: "rdk:component:motor",
      model: "gpio",
      attributes: {
        board: "b",
        pins: { dir: "11" },
        max_rpm: 60,
        label: "the motor m",
        parts: ["m", { name: "b" }],
      },
      depends_on: ["b"],
      frame: { parent: "arm_origin" },
    },
    { name: "arm", api: "rdk:component:arm", model: "fake", frame: { parent: "world" } },
  ],
  services: [{
    name: "keeper",
    api: "rdk:service:data_manager",
    attributes: { capture_control_sensor: { name: "rdk:component:motor/m", key: "on" } },
  }],
  jobs: [{ name: "tick", schedule: "5m", resource: "m", method: "DoCommand", command: { motor: "m" } }],
  triggers: [{
    name: "warm",
    event: { type: "conditional_data_ingested", conditional: { data_capture_method: "motor:m:Position" } },
  }],
  modules: [{ name: "tools", type: "registry", module_id: "acme:tools", version: "1" }],
};

Deno.test("a fragment's prefix is before the names of its resources, and its references follow", async () => {
  const { made, problems } = await resolved({ fragments: [{ id: "rover", prefix: "front" }] }, {
    rover: ROVER,
  });
  assertEquals(problems, []);
  assertEquals(made, {
    components: [
      { name: "front-b", api: "rdk:component:board", model: "fake" },
      {
        name: "front-m",
        api: "rdk:component:motor",
        model: "gpio",
        attributes: {
          board: "front-b",
          pins: { dir: "11" },
          max_rpm: 60,
          label: "the motor m",
          parts: ["front-m", { name: "front-b" }],
        },
        depends_on: ["front-b"],
        frame: { parent: "front-arm_origin" },
      },
      { name: "front-arm", api: "rdk:component:arm", model: "fake", frame: { parent: "world" } },
    ],
    services: [{
      name: "front-keeper",
      api: "rdk:service:data_manager",
      attributes: { capture_control_sensor: { name: "rdk:component:motor/front-m", key: "on" } },
    }],
    jobs: [{
      name: "front-tick",
      schedule: "5m",
      resource: "front-m",
      method: "DoCommand",
      command: { motor: "m" },
    }],
    triggers: [{
      name: "front-warm",
      event: {
        type: "conditional_data_ingested",
        conditional: { data_capture_method: "motor:front-m:Position" },
      },
    }],
    modules: ROVER.modules,
  });
});

const namesIn = (config: JsonObject, list: string) =>
  (config[list] as JsonObject[] | undefined ?? []).map(({ name }) => name);

Deno.test("a machine has a fragment twice by prefixes, its modules once, and changes reach one copy or both", async () => {
  const { made, problems } = await resolved({
    fragments: [{ id: "rover", prefix: "front" }, { id: "rover", prefix: "rear" }, "rover"],
    fragment_mods: [{
      fragment_id: "rover",
      mods: [
        { $set: { "components.m.attributes.max_rpm": 100 } },
        { $set: { "components.rear-m.attributes.max_rpm": 200 } },
        { $unset: { "components.front-arm": "" } },
      ],
    }],
  }, { rover: { components: ROVER.components, modules: ROVER.modules } });
  assertEquals(problems, []);
  assertEquals(namesIn(made, "components"), [
    ...["front-b", "front-m"],
    ...["rear-b", "rear-m", "rear-arm"],
    ...["b", "m", "arm"],
  ]);
  const speeds = (made.components as JsonObject[]).flatMap(({ attributes }) =>
    attributes ? [(attributes as JsonObject).max_rpm] : []
  );
  assertEquals(speeds, [100, 200, 100]);
  assertEquals(namesIn(made, "modules"), ["tools"]);
});

Deno.test("prefixes of nested fragments add up, and changes reach a fragment in a fragment", async () => {
  const { made, problems } = await resolved({
    fragments: [{ id: "outer", prefix: "a" }],
    fragment_mods: [{ fragment_id: "rover", mods: [{ $set: { "components.x-m.attributes.max_rpm": 7 } }] }],
  }, {
    outer: { components: [{ name: "own", depends_on: ["x-m"] }], fragments: [{ id: "rover", prefix: "x" }] },
    rover: { components: [{ name: "m", attributes: {} }] },
  });
  assertEquals(problems, []);
  assertEquals(made.components, [
    { name: "a-own", depends_on: ["a-x-m"] },
    { name: "a-x-m", attributes: { max_rpm: 7 } },
  ]);
});

Deno.test("a disabled fragment stays out of the configuration, whether or not it could be used", async () => {
  const off = { id: "rover", disabled: true };
  const { made, problems } = await resolved(
    { debug: true, fragments: [off, { id: "none", disabled: true }] },
    {
      rover: { ...ROVER, name: { $variable: { name: "without a value" } } },
    },
  );
  assertEquals([made, problems], [{ debug: true }, []]);
  const on = await resolved({ fragments: [{ ...off, disabled: false }] }, {
    rover: { components: [{ name: "m" }] },
  });
  assertEquals(on.made, { components: [{ name: "m" }] });
});

Deno.test("imports and changes that say nothing usable are reported", async () => {
  const { problems } = await resolved({
    fragments: [{ id: "rover", prefix: "two words" }, { id: "other", disabled: "yes" }],
    fragment_mods: [
      { fragment_id: "rover", mods: [{ $inc: { "components.m.attributes.max_rpm": 1 } }, "$set"] },
      { mods: [] },
      { fragment_id: "gone", mods: [{ $set: { "components.m.attributes.max_rpm": 1 } }] },
    ],
  }, { rover: ROVER, other: {} });
  assertEquals(problems, [
    'error fragments.0.prefix: found "two words", ' +
    "wanted up to 60 letters, digits, _ and -, a letter or digit first",
    'error fragments.1.disabled: found "yes", wanted true or false',
    'error fragment_mods.0: found "$inc", wanted $set or $unset',
    'error fragment_mods.0: found "$set", wanted {"$set": …} or {"$unset": …}',
    'error fragment_mods.1: found an object, wanted {"fragment_id": …, "mods": […]}',
    "warning fragment_mods.2: gone is none of the fragments here: nothing is changed",
  ]);
});

Deno.test("changes to thousands of fragments, few of which are there, reach these without a search for each", async () => {
  const inner = Array.from({ length: 150 }, (_, at) => `g${at}`);
  const change = (id: string, max: number) => ({ fragment_id: id, mods: [{ $set: { max } }] });
  const absent = Array.from({ length: 15_000 }, (_, at) => change(`absent${at}`, 0));
  const { made, problems } = await resolved(
    { fragments: ["f", "h"], fragment_mods: [...absent, change("g149", 1), change("h", 2)] },
    {
      f: { fragments: inner },
      h: { fragments: ["g149"] },
      ...Object.fromEntries(inner.map((id) => [id, {}])),
    },
  );
  assertEquals(made, { max: 1 }, "the first import that holds it has the change");
  assertEquals(
    problems[0],
    "warning fragment_mods.0: absent0 is none of the fragments here: nothing is changed",
  );
});

Deno.test("a module of many fragments is there once, beside modules of the configuration itself", async () => {
  const tools = (name: string) => ({ name, type: "registry", module_id: `acme:${name}`, version: "1" });
  const ids = Array.from({ length: 150 }, (_, at) => `f${at}`);
  const { made } = await resolved(
    { fragments: ids, modules: [tools("own")] },
    Object.fromEntries(ids.map((id, at) => [id, { modules: [tools("own"), tools(`t${at % 2}`)] }])),
  );
  assertEquals(made, { modules: ["own", "t0", "t1"].map(tools) });
});
