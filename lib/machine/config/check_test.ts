import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { MODELS } from "../../../drivers/mod.ts";
import { APIS } from "../../api/mod.ts";
import { TextLines } from "../../base/schema/text_places.ts";
import { Registry } from "../../resource/registry.ts";
import { checkConfig, problemLine } from "./check.ts";

const registry = new Registry(APIS, MODELS);

async function checkedLines(text: string, env: Record<string, string> = {}): Promise<string[]> {
  const bytes = new TextEncoder().encode(text);
  return (await checkConfig(bytes, "m.json", registry, (name) => env[name])).problems.map((one) =>
    problemLine(one, "m.json")
  );
}

Deno.test("checkConfig: a good file has no problems, with variables and comments too", async () => {
  const text = `{ // a comment
    "components": [{ "name": "b", "api": "rdk:component:board", "model": "fake" }],
    "network": { "bind_address": "localhost:\${PORT}" }
  }`;
  assertEquals(await checkedLines(text, { PORT: "8085" }), []);
});

Deno.test("checkConfig: every problem has its line and column, in the order of the file", async () => {
  const text = `{
  "network": { "bind_address": "x" },
  "components": [
    { "name": "b", "api": "rdk:component:board", "model": "fakee" },
    {
      "name": "m", "api": "rdk:component:motor", "model": "gpio",
      "attributes": { "board": "bb", "pins": { "dir": "11", "pwm": "11" }, "max_rpmm": 3 },
      "depends_on": ["nobody"]
    }
  ]
}`;
  const lines = await checkedLines(text);
  assertEquals(lines.map((line) => /^m\.json:(\d+:\d+): (\S+): (\w+):/.exec(line)?.slice(1).join(" ")), [
    "2:32 network.bind_address error",
    "4:59 components.0.model error",
    "7:32 components.1.attributes.board error",
    "7:68 components.1.attributes.pins.pwm warning",
    "7:88 components.1.attributes.max_rpmm warning",
    "8:22 components.1.depends_on.0 error",
  ]);
  assertStringIncludes(lines[2], 'no resource of this file is called "bb"');
});

Deno.test("checkConfig: errors of the grammar have their place; a file without one is told all the same", async () => {
  assertEquals(await checkedLines('{\n  "a": [1,\n}'), ['m.json:3:1: error: found "}", wanted a value']);
  assertEquals(await checkedLines(""), ["m.json: error: the file is empty, wanted JSON"]);
  assertEquals(await checkedLines("[]"), [
    'm.json: error: found an empty array, wanted an object such as {"components": []}',
  ]);
});

Deno.test("checkConfig: cycles are told; what a remote or a module may bring is a warning", async () => {
  const generic = (name: string, needs: string[]) => ({
    name,
    api: "rdk:component:generic",
    model: "fake",
    depends_on: needs,
  });
  const cycle = await checkedLines(
    JSON.stringify({ components: [generic("a", ["b"]), generic("b", ["a"])] }),
  );
  assertEquals(cycle.length, 1);
  assertStringIncludes(cycle[0], "closes a cycle");
  const far = { remotes: [{ name: "far", address: "far:8080" }], components: [generic("a", ["arm7"])] };
  assert((await checkedLines(JSON.stringify(far))).every((line) => line.includes(": warning: ")));
  const modules = [{ name: "m", executable_path: "/bin/m" }];
  const own = { name: "x", api: "rdk:component:sensor", model: "acme:a:b" };
  assertStringIncludes(
    (await checkedLines(JSON.stringify({ modules, components: [own] })))[0],
    "warning: acme:a:b is left to",
  );
  const builtIn = { ...own, model: "fakee" };
  assertStringIncludes(
    (await checkedLines(JSON.stringify({ modules, components: [builtIn] })))[0],
    "error: no model",
  );
});

Deno.test("checkConfig: the column counts from the line's beginning, whatever ends the lines", () => {
  const lines = new TextLines("a\r\nbc\n\n😀d");
  assertEquals([0, 1, 3, 4, 6, 7, 9].map((at) => lines.at(at)), [
    { line: 1, column: 1 },
    { line: 1, column: 2 },
    { line: 2, column: 1 },
    { line: 2, column: 2 },
    { line: 3, column: 1 },
    { line: 4, column: 1 },
    { line: 4, column: 3 },
  ]);
});
