/**
 * `docs/spec.md` against the rows in `tests/spec`, and the rows against the tests and programs that they speak of.
 */

import { assertEquals } from "@std/assert";
import { MODELS } from "../../drivers/mod.ts";
import { additionalNetworkField, SECTIONS as AGENT } from "../../lib/agent/settings/settings_fields.ts";
import { APIS } from "../../lib/api/mod.ts";
import { isObject, type JsonObject } from "../../lib/base/schema/schema.ts";
import { machineSchema } from "../../lib/machine/config/config.ts";
import { Registry } from "../../lib/resource/registry.ts";
import { pageOf } from "../spec/page.ts";
import type { Row, Shape, Subject } from "../spec/row.ts";
import { SECTIONS } from "../spec/rows.ts";

const ROOT = new URL("../../", import.meta.url);
const PAGE = new URL("docs/spec.md", ROOT);

const registry = new Registry(APIS, MODELS);
await registry.load(registry.names);
const machine = await machineSchema(registry);

Deno.test("docs/spec.md has the text of the rows", async () => {
  const page = pageOf(SECTIONS);
  if (Deno.args.includes("--update")) await Deno.writeTextFile(PAGE, page);
  assertEquals(page, await Deno.readTextFile(PAGE), "run: deno task golden");
});

Deno.test("each row names a test, and each test that a row names exists", async () => {
  const wrong: string[] = [];
  for (const { title, rows } of SECTIONS) {
    for (const { says, tests } of rows) {
      if (tests.length === 0) wrong.push(`${title}: ${says}: no test`);
      for (const test of tests) {
        if (!await isThere(test)) wrong.push(`${title}: ${says}: there is no ${test}`);
      }
    }
  }
  assertEquals(wrong, []);
});

Deno.test("a name that no test has is not there", async () => {
  const file = "tests/golden/spec_test.ts: ";
  const there = [
    "docs/spec.md has the text of the rows",
    "another",
    "run: deno task golden",
    "--update",
    "model",
  ];
  const found = await Promise.all(there.map((name) => isThere(file + name)));
  assertEquals(found, [true, false, false, false, false]);
  assertEquals(await isThere("docs/spec.md: x"), false);
  assertEquals(await isThere("tests/golden/none_test.ts: x"), false);
});

Deno.test("every row's setting or option equals that of its program", async () => {
  const wrong: string[] = [];
  for (const { title, subject, rows } of SECTIONS) {
    const named = rows.filter(({ name }) => name !== undefined);
    if (!subject) wrong.push(...named.map(({ name }) => `${title}: ${name} is compared with nothing`));
    else if (subject.kind === "options") {
      const help = await Deno.readTextFile(new URL(`tests/golden/${subject.program}.help.txt`, ROOT));
      wrong.push(
        ...named.filter((field) => !isOption(field, help)).map(({ name }) => `${title}: no ${name}`),
      );
    } else {
      const schema = schemaOf(subject);
      for (const field of named) {
        for (const difference of differences(field, schema)) {
          wrong.push(`${title}: ${field.name}: ${difference}`);
        }
      }
    }
  }
  assertEquals(wrong, []);
});

Deno.test("differences() finds each kind of difference", () => {
  const schema = {
    type: "object",
    properties: {
      power: { type: "number", minimum: 0, maximum: 1, default: 1 },
      list: { type: "array", items: { type: "object", properties: { level: { enum: ["low"] } } } },
    },
    required: ["power"],
  };
  const found = (name: string, shape: Shape, differsIn: Row["differsIn"] = []) =>
    differences({ name, shape, differsIn, says: "", tests: [] }, schema);
  assertEquals(found("power", { type: "number", minimum: 0, maximum: 1, default: 1, required: true }), []);
  assertEquals(found("power", { type: "integer", default: 2, maximum: 2 }), [
    'type is "number", specified is "integer"',
    "default is 1, specified is 2",
    "maximum is 1, specified is 2",
    "required is true, specified is undefined",
  ]);
  assertEquals(found("power", { type: "integer" }, ["type", "required", "default"]), []);
  assertEquals(found("power", { type: "number", required: true }, ["type"]), [
    "differs in type no more",
  ]);
  assertEquals(found("speed", { type: "number" }), ["there is no such setting"]);
  assertEquals(found("list[].level", { type: "string", words: ["low", "high"] }), [
    'words is ["low"], specified is ["low","high"]',
  ]);
});

/** Whether the file has a test of that name, as a literal text. */
async function isThere(test: string): Promise<boolean> {
  const cut = test.indexOf(": ");
  const [file, name] = [test.slice(0, cut), test.slice(cut + 2)];
  if (!file.endsWith("_test.ts")) return false;
  const source = await Deno.readTextFile(new URL(file, ROOT)).catch(() => "");
  return [`"${name}"`, `\`${name}\``].some((text) => {
    const at = source.indexOf(text);
    return at >= 0 &&
      /(\w*[tT]est\(\s*(\{\s*name: )?|^\s*name: )$/m.test(source.slice(Math.max(0, at - 200), at));
  });
}

function isOption({ name }: Row, help: string): boolean {
  const lines = help.split(/\n(?=  +(?:-\w, +)?-)/);
  const own = lines.find((line) => new RegExp(`^ +(-\\w, +)?${name}(\\s|$)`).test(line));
  return own !== undefined && !own.replace(/\s+/g, " ").includes("In this version it does nothing");
}

function schemaOf(subject: Exclude<Subject, { kind: "options" }>): JsonObject {
  switch (subject.kind) {
    case "machine":
      return machine;
    case "agent":
      if (subject.section === "additional_networks") return additionalNetworkField.jsonSchema();
      return AGENT[subject.section as keyof typeof AGENT].field.jsonSchema();
    case "model":
      return registry.model(subject.api, subject.model).attributes.jsonSchema();
  }
}

/** The differences of a setting from its specification, except those that the row admits. */
function differences({ name, shape, differsIn = [] }: Row, root: JsonObject): string[] {
  const found = settingAt(name!, root);
  if (!found) return ["there is no such setting"];
  const different: string[] = [];
  const keys = ["type", "default", "minimum", "maximum", "words", "required"] as const;
  for (const key of keys) {
    const [own, specified] = [JSON.stringify(found[key]), JSON.stringify(shape![key])];
    // Unspecified properties are our choice, except whether a value is required.
    const isSame = own === specified || (shape![key] === undefined && key !== "required");
    if (!isSame && !differsIn.includes(key)) different.push(`${key} is ${own}, specified is ${specified}`);
    if (isSame && differsIn.includes(key) && shape![key] !== undefined) {
      different.push(`differs in ${key} no more`);
    }
  }
  return different;
}

function settingAt(path: string, root: JsonObject): { [key in keyof Shape]: unknown } | undefined {
  let schema: unknown = root;
  let required = false;
  for (const step of path.split(/\.|(?=\[\])/)) {
    if (!isObject(schema)) return undefined;
    if (step === "[]") schema = schema.items;
    else {
      required = Array.isArray(schema.required) && schema.required.includes(step);
      schema = isObject(schema.properties) ? schema.properties[step] : undefined;
    }
  }
  if (!isObject(schema)) return undefined;
  const forms = [schema, ...Array.isArray(schema.anyOf) ? schema.anyOf.filter(isObject) : []];
  const type = forms.map((form) => form.type).find((one) => one !== undefined) ??
    (schema.enum ? "string" : undefined);
  return {
    type,
    default: schema.default ?? (type === "boolean" ? false : undefined),
    minimum: schema.minimum,
    maximum: schema.maximum,
    words: schema.enum,
    required: required || undefined,
  };
}
