/**
 * Texts that people and programs read, held against their files in this folder. `deno task golden` rewrites the
 * files; look at the difference before committing it.
 */

import { assertEquals } from "@std/assert";
import { type JsonObject, NOT_SERVED } from "../../lib/base/schema/schema.ts";
import { MODELS } from "../../drivers/mod.ts";
import { APIS } from "../../lib/api/mod.ts";
import { machineSchema } from "../../lib/machine/config/config.ts";
import { type AnyModel, Registry } from "../../lib/resource/registry.ts";
import { main as svcAgent } from "../../cli/agent/main.ts";
import { main as svcCloud } from "../../cli/cloud/main.ts";
import { main as svcMicroServer } from "../../cli/micro/main.ts";
import { main as svcMl } from "../../cli/ml/main.ts";
import { main as svcServer } from "../../cli/server/main.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";

const UPDATE = Deno.args.includes("--update");
const registry = new Registry(APIS, MODELS);
const models = await registry.all();

for (const [name, main] of Object.entries({ svcServer, svcMicroServer, svcAgent, svcMl, svcCloud })) {
  const program = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  Deno.test(`${program} --help equals ${program}.help.txt`, async () => {
    let written = "";
    const host = new DenoHost();
    host.write = (text) => void (written += text);
    assertEquals(await main(["--help"], host), 0);
    await compare(`${program}.help.txt`, written);

    // Those who expect a command get the same text.
    const asked = written;
    written = "";
    assertEquals([await main(["help"], host), written], [0, asked]);
  });
}

Deno.test("-dump-resources equals resources.json", async () => {
  await compare("resources.json", `${JSON.stringify(await registry.dump(), null, "\t")}\n`);
});

Deno.test("-config-schema equals config.schema.json", async () => {
  await compare("config.schema.json", `${JSON.stringify(await machineSchema(registry), null, 2)}\n`);
});

Deno.test("the table in docs/models.md equals the registry's models", async () => {
  const [begin, end] = ["<!-- models -->\n", "<!-- /models -->"];
  const page = await Deno.readTextFile(new URL("../../docs/models.md", import.meta.url));
  const [head, rest] = page.split(begin);
  const tail = rest.slice(rest.indexOf(end));
  await compare("../../docs/models.md", `${head}${begin}${modelTable()}${tail}`);
});

Deno.test("the table in docs/models.md names the published attributes that are not served", async () => {
  const [begin, end] = ["<!-- unserved -->\n", "<!-- /unserved -->"];
  const page = await Deno.readTextFile(new URL("../../docs/models.md", import.meta.url));
  const [head, rest] = page.split(begin);
  const tail = rest.slice(rest.indexOf(end));
  await compare("../../docs/models.md", `${head}${begin}${unservedTable()}${tail}`);
});

Deno.test("every attribute of the published built-in models is served, or named as not served", async () => {
  const url = new URL("published_attributes.json", import.meta.url);
  const published: Record<string, string[]> = JSON.parse(await Deno.readTextFile(url));
  const unknown = Object.entries(published).flatMap(([model, keys]) => {
    const [api, name] = model.split("/");
    const { properties = {} } = registry.model(api, `rdk:builtin:${name}`).attributes.jsonSchema();
    return keys.filter((key) => !Object.hasOwn(properties as JsonObject, key)).map((key) =>
      `${model}: ${key}`
    );
  });
  assertEquals(unknown, []);
});

Deno.test("each model's description is a single sentence", () => {
  assertEquals(
    models.filter(({ doc }) => !/^[A-Z].*[^.]\.$/.test(doc) || /\. /.test(doc)).map((
      { name, doc },
    ) => `${name}: ${doc}`),
    [],
  );
});

/** A row per model: API, model, description, required attributes. */
function modelTable(): string {
  const row = (model: AnyModel) => {
    const { required = [] } = model.attributes.jsonSchema() as { required?: string[] };
    const needs = required.map((key) => `\`${key}\``).join(", ") || "–";
    const bare = model.name.replace("rdk:builtin:", "");
    return `| \`${model.api.name}\` | \`${bare}\` | ${model.doc} | ${needs} |\n`;
  };
  const header = "| API | model | what it is | required attributes |\n| --- | --- | --- | --- |\n";
  // The formatter would pad each cell to the longest one: every new model would change every line.
  const [start, end] = ["<!-- deno-fmt-ignore-start -->", "<!-- deno-fmt-ignore-end -->"];
  return `\n${start}\n\n${header}${models.map(row).join("")}\n${end}\n\n`;
}

/** A row per published attribute without effect: model, attribute, reason. */
function unservedTable(): string {
  const rows = models.flatMap(({ api, name, attributes }) => {
    const { properties = {} } = attributes.jsonSchema() as { properties?: Record<string, JsonObject> };
    return Object.entries(properties).flatMap(([key, { description }]) => {
      if (typeof description !== "string" || !description.startsWith(NOT_SERVED)) return [];
      const [type, bare] = [api.name.split(":")[2], name.replace("rdk:builtin:", "")];
      return `| \`${type}\` | \`${bare}\` | \`${key}\` | ${description.slice(NOT_SERVED.length)} |\n`;
    });
  });
  const header = "| API | model | attribute | why |\n| --- | --- | --- | --- |\n";
  const [start, end] = ["<!-- deno-fmt-ignore-start -->", "<!-- deno-fmt-ignore-end -->"];
  return `\n${start}\n\n${header}${rows.join("")}\n${end}\n\n`;
}

async function compare(file: string, text: string): Promise<void> {
  const url = new URL(file, import.meta.url);
  if (UPDATE) await Deno.writeTextFile(url, text);
  assertEquals(
    text,
    await Deno.readTextFile(url),
    `${file} differs; if that is right, run: deno task golden`,
  );
}
