import { assertEquals } from "@std/assert";
import { partsRegistry } from "../../../tests/support/parts.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { decodeConfig } from "./config.ts";
import { configChanges, configDiff } from "./diff.ts";

const registry = partsRegistry();

async function diff(before: JsonObject, after: JsonObject): Promise<string[]> {
  const { config: a } = await decodeConfig(before, registry, { env: () => undefined });
  const { config: b } = await decodeConfig(after, registry, { env: () => undefined });
  const text = configDiff(a, b);
  return text === "" ? [] : text.split("\n");
}

function parts(attributes: JsonObject): JsonObject {
  const components = Object.entries(attributes).map(([name, attributes]) => {
    return { name, api: "rdk:component:generic", model: "part", attributes };
  });
  return { components };
}

Deno.test("configDiff: names settings by path and list entries by name, in any order", async () => {
  const before = { ...parts({ a: { speed: 1, list: [1, 2] }, b: {} }), debug: false };
  const after = { ...parts({ b: { fresh: "x" }, a: { speed: 2, list: [1, 3] } }), debug: true };
  assertEquals(await diff(before, after), [
    "~ debug: false -> true",
    "~ resources.rdk:component:generic/a.attributes.speed: 1 -> 2",
    "~ resources.rdk:component:generic/a.attributes.list: [1,2] -> [1,3]",
    '+ resources.rdk:component:generic/b.attributes.fresh: "x"',
  ]);
  assertEquals(await diff(before, before), []);
});

Deno.test("configDiff: an added resource is a single line", async () => {
  const none = parts({});
  const one = parts({ secret_keeper: { speed: 1 } });
  const body = '{"name":"rdk:component:generic/secret_keeper","model":"rdk:builtin:part",' +
    '"attributes":{"speed":1},"dependsOn":[],"serviceConfigs":[]}';
  assertEquals(
    await diff(parts({ a: {} }), {
      components: [...parts({ a: {} }).components as [], ...one.components as []],
    }),
    [
      `+ resources.rdk:component:generic/secret_keeper: ${body}`,
    ],
  );
  assertEquals(await diff(none, none), []);
});

Deno.test("a difference shows no secrets", async () => {
  const cloud = (key: string) => ({ cloud: { id: "part", api_key: { id: "id", key }, secret: key } });
  assertEquals(await diff(cloud("old-secret"), cloud("new-secret")), []);
  assertEquals(
    await diff(
      parts({ a: { password: "hunter2", nested: { api_key: { deep: "x" } }, tokens: ["t1"] } }),
      parts({ a: { password: "hunter3", nested: { api_key: { deep: "y" } }, tokens: ["t2"] } }),
    ),
    [
      "~ resources.rdk:component:generic/a.attributes.password: ****** -> ******",
      "~ resources.rdk:component:generic/a.attributes.nested.api_key.deep: ****** -> ******",
      "~ resources.rdk:component:generic/a.attributes.tokens: ****** -> ******",
    ],
  );
  const [line] = await diff(parts({ b: {} }), parts({ b: {}, a: { wifi_psk: "hunter2", ssid: "home" } }));
  assertEquals([line.includes("hunter2"), line.includes('"wifi_psk":"******","ssid":"home"')], [false, true]);
});

Deno.test("configDiff: limits the number of lines and the length of each line", async () => {
  const many = Object.fromEntries(Array.from({ length: 600 }, (_, n) => [`s${n}`, n]));
  const lines = await diff(parts({ a: {} }), parts({ a: many }));
  assertEquals([lines.length, lines.at(-1)], [501, "and 100 more"]);
  const [long] = await diff(parts({ a: {} }), parts({ a: { text: "x".repeat(10_000) } }));
  assertEquals(long.length < 600, true);
});

Deno.test("configChanges: names what was added, changed and removed", async () => {
  const all: JsonObject[] = [{}, { a: {} }, { a: {}, b: {} }, { a: { speed: 2 } }];
  const [none, one, two, other] = await Promise.all(all.map(async (entries) => {
    const { config } = await decodeConfig(parts(entries), registry, { env: () => undefined });
    return { ...config, revision: JSON.stringify(entries) };
  }));
  assertEquals(configChanges(none, two), "added a, b");
  assertEquals(configChanges(two, other), "changed a; removed b");
  assertEquals(configChanges(one, { ...one, revision: "another" }), "");
  const { config } = await decodeConfig({ ...parts({ a: {} }), debug: true }, registry, {
    env: () => undefined,
  });
  assertEquals(configChanges(one, config), "changed debug");
  const modules = [{ name: "soil", executable_path: "/bin/soil" }];
  const log = [{ pattern: "rdk.modmanager.*", level: "debug" }];
  const withModule = await decodeConfig({ ...parts({ a: {} }), modules, log }, registry, {
    env: () => undefined,
  });
  assertEquals(configChanges(one, { ...withModule.config, revision: "m" }), "added module soil, log");
  const [ordered, reordered] = await Promise.all(
    [{ max_rpm: 1, pins: { a: "1", b: "2" } }, { pins: { b: "2", a: "1" }, max_rpm: 1 }].map(async (one) => ({
      ...(await decodeConfig(parts({ a: one }), registry, { env: () => undefined })).config,
      revision: JSON.stringify(one),
    })),
  );
  assertEquals(configChanges(ordered, reordered), "");
  const many = Object.fromEntries(Array.from({ length: 15 }, (_, at) => [`m${at}`, {}]));
  const crowd = (await decodeConfig(parts(many), registry, { env: () => undefined })).config;
  assertEquals(configChanges(none, crowd).endsWith(" and 3 more"), true);
});
