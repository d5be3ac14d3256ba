/**
 * The files of a new module. Their comments are for people who have never seen a module.
 */

import { pythonFiles } from "./template_python.ts";
import { isExample, kindOfPlan, modelName, type ModulePlan } from "./plan.ts";
import { type MethodStub, typeScriptClass } from "./stubs.ts";

/** The extension of each language's files. */
export const LANGUAGES: { readonly [language: string]: string | undefined } = {
  typescript: "ts",
  javascript: "js",
  python: "py",
};

/** The files by name, except those of the library. `types`: the library's `mod.d.ts`. */
export function moduleFiles(plan: ModulePlan, types: string): Record<string, string> {
  const files = plan.extension === "py" ? pythonFiles(plan) : scriptFiles(plan, types);
  return { ...files, ...commonFiles(plan, Object.keys(files)) };
}

function commonFiles(plan: ModulePlan, own: readonly string[]): Record<string, string> {
  const { name, namespace, api, extension } = plan;
  const model = modelName(plan);
  const isPython = extension === "py";
  const meta = {
    module_id: `${namespace}:${name}`,
    visibility: "private",
    description: `A module with one ${kindOfPlan(plan)}.`,
    models: [{ api, model }],
    entrypoint: "run.sh",
    ...(isPython ? { first_run: "setup.sh" } : {}),
  };
  const attributes = isExample(plan) ? { attributes: { reading: 21.5 } } : {};
  const section = api.split(":")[1] === "service" ? "services" : "components";
  const machine = {
    modules: [{ name, executable_path: "run.sh" }],
    [section]: [{ name: `${kindOfPlan(plan)}1`, api, model, ...attributes }],
  };
  const packed = [
    ...own.filter((file) => !/test/.test(file)),
    "meta.json",
    ...(isPython ? [] : ["svc-module"]),
  ];
  return {
    "build.sh": buildText(packed),
    "meta.json": `${JSON.stringify(meta, null, 2)}\n`,
    "machine.json": `${JSON.stringify(machine, null, 2)}\n`,
    "README.md": readmeText(plan),
  };
}

function scriptFiles(plan: ModulePlan, types: string): Record<string, string> {
  const { name, extension } = plan;
  return {
    [`main.${extension}`]: `// svc-server starts this file; the model is beside it.
import { serveModule } from "./svc-module/mod.js";
import { resource } from "./model.${extension}";

await serveModule([resource]);
`,
    [`model.${extension}`]: isExample(plan) ? exampleText(plan) : stubText(plan, types),
    [`model_test.${extension}`]: testText(plan),
    "run.sh": runText(extension),
    "package.json": `${JSON.stringify({ name, private: true, type: "module" }, null, 2)}\n`,
  };
}

/** Valid in both languages. */
function exampleText(plan: ModulePlan): string {
  return `import { model, number, object, SensorApi } from "./svc-module/mod.js";

export const resource = model({
  api: SensorApi,
  name: "${modelName(plan)}",
  attributes: object({ reading: number("what the sensor reads").default(20) }),
  construct: ({ attributes }) => ({
    getReadings: async () => ({ reading: attributes.reading }),
  }),
});
`;
}

function stubText(plan: ModulePlan, types: string): string {
  const { api, methods } = typeScriptClass(types, plan.api);
  const typed = plan.extension === "ts" ? ": string" : "";
  const helper = methods.length === 0 ? "" : `
/** The error of a method that is still to be written. */
function unwritten(method${typed}) {
  return new SvcError("unimplemented", \`\${method} of ${modelName(plan)} is not written yet\`);
}
`;
  const names = ["model", "object", api, ...(methods.length === 0 ? [] : ["SvcError"])];
  const sorted = names.sort((a, b) => a.toLowerCase() < b.toLowerCase() ? -1 : 1).join(", ");
  return `import { ${sorted} } from "./svc-module/mod.js";
${helper}
export const resource = model({
  api: ${api},
  name: "${modelName(plan)}",
  // The settings of the resource, such as { pin: text("the pin of the lamp").required() }.
  attributes: object({}),
  construct: () => ({${methods.length === 0 ? "" : `\n${methods.map(stubOf).join("\n")}\n  `}}),
});
`;
}

function stubOf({ about, name, parameters, isPromise }: MethodStub): string {
  const comments = about.map((line) => `    // ${line}\n`).join("");
  const names = parameters.map((one) => `_${one}`).join(", ");
  const begin = isPromise ? "async " : "";
  return `${comments}    ${name}: ${begin}(${names}) => {\n      throw unwritten("${name}");\n    },`;
}

/** Runs in Deno and in Node. */
function testText({ extension }: ModulePlan): string {
  return `// Run it with: deno test, or node --test
import assert from "node:assert/strict";
import { test } from "node:test";
import meta from "./meta.json" with { type: "json" };
import { resource } from "./model.${extension}";

test("the model is the one that meta.json names", () => {
  assert.equal(resource.name, meta.models[0].model);
  assert.equal(resource.api.name, meta.models[0].api);
});
`;
}

function runText(extension: string): string {
  const older = `if ! node -e 'process.exit(process.features.typescript ? 0 : 1)' 2>/dev/null; then
  echo "this module needs Deno, or Node 22.18 or newer; found $(node --version 2>/dev/null || echo none)" >&2
  exit 1
fi
`;
  return `#!/bin/sh
# svc-server runs this file. It prefers Deno, and takes Node where there is none.
here=$(dirname "$0")
if command -v deno >/dev/null 2>&1; then
  exec deno run --allow-all --no-config --no-lock "$here/main.${extension}" "$@"
fi
${extension === "ts" ? older : ""}exec node "$here/main.${extension}" "$@"
`;
}

function buildText(files: readonly string[]): string {
  return `#!/bin/sh
# Packs what a machine needs into module.tar.gz, for svc-cloud package upload.
set -e
cd "$(dirname "$0")"
tar -czf module.tar.gz ${files.join(" ")}
`;
}

function readmeText({ name, extension }: ModulePlan): string {
  const isPython = extension === "py";
  const library = isPython
    ? "`setup.sh` installs the published library for Python into `venv/`, unless it is there already."
    : "`svc-module/` is the library that it uses.\n`run.sh` starts the module with Deno, or with Node where there is no Deno.";
  const tests = isPython ? "`python3 -m unittest`" : "`deno test`, or `node --test`";
  return `# ${name}

A module for \`svc-server\`. \`model.${extension}\` is the model, \`main.${extension}\` serves it.
${library}

- Try it: \`svc-server -config machine.json -hot .\` in this folder. The module starts again when you save a file.
- Test it: ${tests}.
- Share it: \`./build.sh\`, then \`svc-cloud package upload 0.1.0 module.tar.gz\`. \`meta.json\` has its name.
`;
}
