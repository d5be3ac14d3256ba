/**
 * The files of a new module. Their comments are for people who have never seen a module.
 */

/** The extension of each language's files. */
export const LANGUAGES: { readonly [language: string]: string | undefined } = {
  typescript: "ts",
  javascript: "js",
};

/** The files by name, except those of the library. */
export function moduleFiles(name: string, extension: string): Record<string, string> {
  const model = `example:${name}:sensor`;
  const meta = {
    module_id: `example:${name}`,
    visibility: "private",
    description: "A module with one sensor.",
    models: [{ api: "rdk:component:sensor", model }],
    entrypoint: "run.sh",
  };
  const machine = {
    modules: [{ name, executable_path: "run.sh" }],
    components: [{ name: "sensor1", api: "rdk:component:sensor", model, attributes: { reading: 21.5 } }],
  };
  return {
    [`main.${extension}`]: mainText(model),
    "run.sh": runText(extension),
    "meta.json": `${JSON.stringify(meta, null, 2)}\n`,
    "machine.json": `${JSON.stringify(machine, null, 2)}\n`,
    "package.json": `${JSON.stringify({ name, private: true, type: "module" }, null, 2)}\n`,
    "README.md": readmeText(name, extension),
  };
}

/** Valid in both languages. */
function mainText(model: string): string {
  return `import { model, number, object, SensorApi, serveModule } from "./svc-module/mod.js";

const sensor = model({
  api: SensorApi,
  name: "${model}",
  attributes: object({ reading: number("what the sensor reads").default(20) }),
  construct: ({ attributes }) => ({
    getReadings: async () => ({ reading: attributes.reading }),
  }),
});

await serveModule([sensor]);
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

function readmeText(name: string, extension: string): string {
  return `# ${name}

A module for \`svc-server\`. \`main.${extension}\` is all of it; \`svc-module/\` is the library that it uses.

Try it: \`svc-server -config machine.json\` in this folder. \`run.sh\` starts the module with Deno, or with Node
where there is no Deno.

Change \`attributes\` and \`construct\` to make the sensor your own. \`mod.d.ts\` of the library lists the other
types of components and services (\`MotorApi\`, \`CameraApi\`, \`VisionApi\`, …) with their methods.
`;
}
