/**
 * The built-in models of the published runtime (as of its version 0.125) beside ours: `published_models.json` is the list,
 * and docs/models.md has the table. `deno task golden` rewrites the page.
 */

import { assertEquals, assertThrows } from "@std/assert";
import { MODELS } from "../../drivers/mod.ts";
import { APIS } from "../../lib/api/mod.ts";
import { SvcError } from "../../lib/base/error.ts";
import { elsewhereReason, MICROCONTROLLER_MODELS } from "../../lib/resource/elsewhere.ts";
import { Registry } from "../../lib/resource/registry.ts";
import published from "./published_models.json" with { type: "json" };

const PAGE = new URL("../../docs/models.md", import.meta.url);
const registry = new Registry(APIS, MODELS);
const models = Object.entries(published).flatMap(([api, names]) =>
  names.map((name) => ({ api, name, full: `rdk:builtin:${name}` }))
);

Deno.test("every published model is built in, or has a reason why not, and never both", () => {
  const wrong = models.filter(({ api, full }) => {
    return registry.has(api, full) === (elsewhereReason(api, full) !== undefined);
  });
  assertEquals(wrong, []);
});

Deno.test("a published model that is not built in is refused with its reason", () => {
  const error = assertThrows(() => registry.model("rdk:component:board", "rdk:builtin:esp32"), SvcError);
  assertEquals(error.code, "not_found");
  assertEquals(
    error.message.endsWith("microcontrollers has it, which runs on the chip itself"),
    true,
    error.message,
  );
  assertEquals(MICROCONTROLLER_MODELS, ["esp32", "esp32-camera", "free-heap", "wifi-rssi"]);
});

Deno.test("the table of published models in docs/models.md equals the list beside the registry", async () => {
  const [begin, end] = ["<!-- published -->\n", "<!-- /published -->"];
  const page = await Deno.readTextFile(PAGE);
  const [head, rest] = page.split(begin);
  const wanted = `${head}${begin}${table()}${rest.slice(rest.indexOf(end))}`;
  if (Deno.args.includes("--update")) await Deno.writeTextFile(PAGE, wanted);
  assertEquals(wanted, await Deno.readTextFile(PAGE), "run: deno task golden");
});

function table(): string {
  const rows = Object.entries(published).map(([api, names]) => {
    const there = names.filter((name) => registry.has(api, `rdk:builtin:${name}`));
    const missing = names.filter((name) => !there.includes(name))
      .map((name) => `\`${name}\`: ${elsewhereReason(api, `rdk:builtin:${name}`)}`);
    const others = registry.names.filter((one) => one.api === api)
      .map(({ model }) => model.replace("rdk:builtin:", "")).filter((name) => !names.includes(name));
    const cells = [there, others].map((one) => one.map((name) => `\`${name}\``).join(", ") || "–");
    return `| \`${api}\` | ${cells[0]} | ${missing.join("; ") || "–"} | ${cells[1]} |\n`;
  });
  const header = "| API | built in here, too | not here | here only |\n| --- | --- | --- | --- |\n";
  return `\n<!-- deno-fmt-ignore-start -->\n\n${header}${rows.join("")}\n<!-- deno-fmt-ignore-end -->\n\n`;
}
