/**
 * The server's published JSON Schema, tested with a validator of editors: it accepts and refuses the same
 * configurations as the server.
 */

import { assert, assertEquals } from "@std/assert";
import { Ajv2020 } from "ajv/2020";
import { MODELS } from "../drivers/mod.ts";
import { APIS } from "../lib/api/mod.ts";
import { additionalNetworkField, SECTIONS } from "../lib/agent/settings/settings_fields.ts";
import { isSecretName } from "../lib/base/schema/json_secrets.ts";
import { escapedBlanks } from "../lib/base/escape.ts";
import { DecodeContext, type Json, type JsonObject, type Problem } from "../lib/base/schema/schema.ts";
import { decodeConfig, machineSchema } from "../lib/machine/config/config.ts";
import { parseConfig } from "../lib/machine/config/file.ts";
import { Registry } from "../lib/resource/registry.ts";

const ROOT = new URL("../", import.meta.url);

const registry = new Registry(APIS, MODELS);

const validator = () =>
  new Ajv2020({ strict: true, allowUnionTypes: true, strictTypes: false, allErrors: true });

/** The verdicts of the schema and the decoder on a configuration. */
async function verdicts(json: Json): Promise<{ schema: boolean; decoder: boolean; why: string }> {
  const validate = validator().compile(await machineSchema(registry));
  const schema = validate(json);
  const { problems } = await decodeConfig(json, registry, { env: () => undefined });
  const errors = problems.filter((problem) => problem.severity === "error");
  const why = JSON.stringify([validate.errors, errors], null, 2);
  return { schema, decoder: errors.length === 0, why };
}

Deno.test("the configuration's JSON Schema compiles in the strict mode of Ajv", async () => {
  validator().compile(await machineSchema(registry));
});

Deno.test("every writeOnly setting has a secret name, which logs and histories hide", async () => {
  const found: string[] = [];
  const visit = (value: Json, name: string) => {
    if (typeof value !== "object" || value === null) return;
    if (!Array.isArray(value) && value.writeOnly === true) found.push(name);
    for (const [key, one] of Object.entries(value)) visit(one, Array.isArray(value) ? name : key);
  };
  visit(await machineSchema(registry), "");
  for (const { field } of Object.values(SECTIONS)) visit(field.jsonSchema(), "");
  visit(additionalNetworkField.jsonSchema(), "");
  assert(found.length > 5, found.join());
  assertEquals(found.filter((name) => !isSecretName(name)), []);
});

Deno.test("the schema accepts the examples and a machine with every model", async () => {
  const files = [new URL("tests/contract/machine.json", ROOT)];
  for await (const { name } of Deno.readDir(new URL("examples", ROOT))) {
    if (name.endsWith(".json")) files.push(new URL(`examples/${name}`, ROOT));
  }
  for (const file of files) {
    const json = parseConfig(await Deno.readFile(file), { file: file.pathname, env: () => undefined });
    const { schema, decoder, why } = await verdicts(json);
    assert(schema && decoder, `${file.pathname}: ${why}`);
  }
});

Deno.test("the schema accepts every section and every form of a resource entry", async () => {
  const { schema, decoder, why } = await verdicts({
    $schema: "./svc.schema.json",
    cloud: { id: "part", api_key: { id: "key", key: "k" }, refresh_interval: "5s" },
    network: { bind_address: ":8080", sessions: { heartbeat_window: "1s" } },
    auth: { handlers: [{ type: "api-key", config: { keys: ["a"], a: "secret" } }] },
    maintenance: { sensor_name: "rdk:component:sensor/door", maintenance_allowed_key: "open" },
    modules: [{ name: "m", executable_path: "/m", log_level: "WARN" }],
    remotes: [{ name: "r", address: "r:8080" }],
    packages: [{ name: "p", package: "o/p", type: "ml_model" }],
    jobs: [{ name: "j", schedule: "5m", resource: "a", method: "DoCommand" }],
    log: [{ pattern: "rdk.*", level: "Debug" }],
    agent: { anything: true },
    components: [
      { name: "a", api: "rdk:component:generic", model: "fake" },
      { name: "b", type: "generic", model: "rdk:builtin:fake", frame: { parent: "world" } },
      { name: "c", api: "acme:component:gizmo", model: { namespace: "acme", model_family: "x", name: "y" } },
    ],
    services: [{ name: "s", namespace: "rdk", type: "generic", model: "fake" }],
  });
  assert(schema && decoder, why);
});

const BROKEN: readonly [what: string, json: JsonObject][] = [
  ["section of the wrong type", { components: {} }],
  ["flag of the wrong type", { debug: "yes" }],
  ["bad duration", { cloud: { id: "x", secret: "s", refresh_interval: "soon" } }],
  ["missing name of a module", { modules: [{ executable_path: "/m" }] }],
  ["name with a space", { components: [{ name: "a b", api: "rdk:component:generic", model: "fake" }] }],
  ["package of an unknown type", { packages: [{ name: "p", package: "o/p", type: "map" }] }],
  ["attribute of the wrong type", {
    components: [{ name: "a", api: "rdk:component:arm", model: "fake", attributes: { "arm-model": 5 } }],
  }],
  ["the same with the full name of the model", {
    components: [{
      name: "a",
      api: "rdk:component:arm",
      model: "rdk:builtin:fake",
      attributes: { "arm-model": 5 },
    }],
  }],
];

Deno.test("the schema refuses what the decoder refuses", async () => {
  for (const [what, json] of BROKEN) {
    const { schema, decoder, why } = await verdicts(json);
    assertEquals({ schema, decoder }, { schema: false, decoder: false }, `${what}: ${why}`);
  }
});

Deno.test("the schema of every built-in model applies to its short and its full name", async () => {
  const schema = await machineSchema(registry);
  const { components, services } = schema.properties as Record<string, { items: { allOf: JsonObject[] } }>;
  const conditions = [...components.items.allOf, ...services.items.allOf]
    .map((rule) =>
      (rule.if as { properties: { api: { const: string }; model?: { enum: string[] } } }).properties
    );
  for (const { api, name } of MODELS) {
    const found = conditions.find((one) => one.api.const === api.name && one.model?.enum.includes(name));
    assert(found, `${api.name} ${name}`);
    // Those of the runtime itself have a short name.
    if (!name.startsWith("rdk:builtin:")) continue;
    assert(found.model?.enum.includes(name.split(":").at(-1)!), `${api.name} ${name}`);
  }
});

/** A setting of a schema: the keys that lead to it, 0 for the first entry of a list, and its schema. */
interface Place {
  readonly keys: readonly (string | 0)[];
  readonly schema: JsonObject;
}

function* placesIn(schema: JsonObject, keys: Place["keys"] = []): Generator<Place> {
  if (keys.length > 0) yield { keys, schema };
  const { properties = {}, additionalProperties, items } = schema as { [key: string]: JsonObject };
  for (const [key, one] of Object.entries(properties)) yield* placesIn(one as JsonObject, [...keys, key]);
  if (typeof additionalProperties === "object") yield* placesIn(additionalProperties, [...keys, "any_key"]);
  if (typeof items === "object") yield* placesIn(items, [...keys, 0]);
}

/** A document that has only this setting. */
function documentWith(keys: Place["keys"], value: Json): Json {
  return keys.reduceRight<Json>((inner, key) => key === 0 ? [inner] : { [key]: inner }, value);
}

const WRONG_VALUES: readonly Json[] = [
  ...["no such word!", "-1s", "1ns", "9999h", "x\u00a0y", "a/b.tar.xz", true, false, -1e12, 1e12, -0.5, 1e-9],
  ...[[], [[]], [-1, -1], {}, { any_key: { any_key: true } }],
];

/** What an error lacks: the found value, or what is wanted. */
function lacksOf({ message }: Problem, value: Json, isSecret: boolean): string[] {
  const isPlain = ["string", "number", "boolean"].includes(typeof value);
  const shown = escapedBlanks(String(value));
  const lacks: string[] = [];
  // Some errors keep the words of the published runtime.
  const isNamed = /found |missing|required|^"/.test(message) || (isPlain && message.includes(shown));
  if (!isNamed) lacks.push("the found value");
  if (!/wanted|must|should|cannot|required|need|does not|is not|is too /.test(message)) {
    lacks.push("what is wanted");
  }
  if (isSecret && typeof value === "string" && message.includes(shown)) lacks.push("secrecy");
  return lacks;
}

/** The errors of a decoder that lack something, over every setting of its schema with every wrong value. */
async function incompleteErrors(
  schema: JsonObject,
  decode: (json: Json) => readonly Problem[] | Promise<readonly Problem[]>,
): Promise<string[]> {
  const found = new Set<string>();
  for (const { keys, schema: { writeOnly } } of placesIn(schema)) {
    const path = keys.join(".");
    for (const value of WRONG_VALUES) {
      for (const problem of await decode(documentWith(keys, value))) {
        if (problem.severity !== "error" || problem.path !== path) continue;
        const lacks = lacksOf(problem, value, writeOnly === true);
        if (lacks.length > 0) found.add(`${path}: "${problem.message}" lacks ${lacks.join(" and ")}`);
      }
    }
  }
  return [...found];
}

Deno.test("every error of a machine's settings names the key, the found value and what is wanted", async () => {
  const decode = async (json: Json) =>
    (await decodeConfig(json as JsonObject, registry, { env: () => undefined })).problems.map((problem) => ({
      ...problem,
      message: problem.message.replace(" (this entry is ignored)", ""),
    }));
  assertEquals(await incompleteErrors(await machineSchema(registry), decode), []);
});

Deno.test("every error of a model's attributes names the key, the found value and what is wanted", async () => {
  const found: string[] = [];
  for (const { name, api, attributes } of await registry.all()) {
    const errors = await incompleteErrors(attributes.jsonSchema(), (json) => {
      const at = new DecodeContext().ofAttributes;
      attributes.decode(json, at);
      return at.problems;
    });
    found.push(...errors.map((one) => `${api.name} ${name}: ${one}`));
  }
  assertEquals(found, []);
});

Deno.test("every error of the agent's settings names the key, the found value and what is wanted", async () => {
  const fields = [...Object.values(SECTIONS).map(({ field }) => field), additionalNetworkField];
  const found = await Promise.all(fields.map((field) =>
    incompleteErrors(field.jsonSchema(), (json) => {
      const at = new DecodeContext();
      field.decode(json, at);
      return at.problems;
    })
  ));
  assertEquals(found.flat(), []);
});
