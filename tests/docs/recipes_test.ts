/** The recipes of docs/recipes.md for models and types hold: no other file knows of one model or one type. */

import { assertEquals } from "@std/assert";
import { MODELS } from "../../drivers/mod.ts";
import { sourceFiles } from "../support/sources.ts";
import { ROOT } from "./pages.ts";

/** Who uses one type by name, and what for. */
const USES: Readonly<Record<string, string>> = {
  "lib/machine/graph/maintenance.ts lib/api/sensors/sensor.ts":
    "the maintenance window is a reading of a sensor",
  "lib/machine/streams/camera_video.ts lib/api/sensors/camera.ts": "a stream is a camera's pictures as video",
  "lib/machine/streams/streams.ts lib/api/sensors/camera.ts": "a stream is a camera's pictures as video",
  "lib/machine/runtime.ts lib/api/services/data_manager.ts":
    "the data manager's settings say which folders may be uploaded",
  "cli/server/first/devices.ts lib/api/services/discovery.ts":
    "init proposes what discovery finds on this computer",
  "lib/cloud/content/worker.ts lib/api/services/ml_model.ts": "runs models of the registry for GetInference",
  "lib/cloud/services/data/inference_service.ts lib/api/services/ml_model.ts":
    "answers GetInference with their tensors",
};

/** The lists of models and types: of the machine, of the library for modules, of the program that has fewer. */
const LISTS = [
  "drivers/mod.ts",
  "lib/api/mod.ts",
  "lib/api/published.ts",
  "lib/module/mod.ts",
  "cli/micro/serve.ts",
];

const files = (await sourceFiles(["lib/", "drivers/", "cli/"])).filter(({ path }) =>
  !path.endsWith("_test.ts")
);

Deno.test("a driver is imported only by the lists of models and by its own folder", () => {
  const wrong = importsOf(
    /^drivers\/(\w+)\/\w+\.ts$/,
    (importer, [, type]) => LISTS.includes(importer) || importer.startsWith(`drivers/${type}/`),
  );
  assertEquals(wrong, []);
});

Deno.test("an API of lib/api is imported only by the lists, the drivers and the named users", () => {
  const wrong = importsOf(
    /^lib\/api\/(?:(?:sensors|actuators|services)\/)?\w+\.ts$/,
    (importer, [api]) =>
      LISTS.includes(api) || LISTS.includes(importer) || /^(lib\/api|drivers)\//.test(importer),
  );
  assertEquals(wrong.filter((one) => !(one in USES)), []);
  assertEquals(Object.keys(USES).filter((one) => !wrong.includes(one)), [], "are no longer so");
});

Deno.test("each model has an entry in the contract's machine, and each API a contract", async () => {
  const machine = JSON.parse(await Deno.readTextFile(`${ROOT}tests/contract/machine.json`));
  const entries: { api: string; model: string }[] = [...machine.components, ...machine.services];
  const there = new Set(entries.map(({ api, model }) => `${api} ${model.replace("rdk:builtin:", "")}`));
  const models = MODELS.map(({ api, name }) => `${api.name} ${name.replace("rdk:builtin:", "")}`);
  assertEquals(models.filter((model) => !there.has(model)), []);
  const { CONTRACTS } = await import("../contract/mod.ts");
  const held = new Set(CONTRACTS.map(({ api }) => api.name));
  assertEquals(MODELS.filter(({ api }) => !held.has(api.name)).map(({ api }) => api.name), []);
});

/** `importer imported` of each import that `pattern` fits and `allowed` does not allow. */
function importsOf(
  pattern: RegExp,
  allowed: (importer: string, imported: RegExpExecArray) => boolean,
): string[] {
  const found: string[] = [];
  for (const { path, text } of files) {
    for (const [, target] of text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)) {
      const imported = new URL(target, `file:///${path}`).pathname.slice(1);
      const match = pattern.exec(imported);
      if (match && !allowed(path, match)) found.push(`${path} ${imported}`);
    }
  }
  return found;
}
