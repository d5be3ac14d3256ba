/**
 * Bundles: the changes to the bundler's results, and a bundle that runs.
 */

import { assertEquals } from "@std/assert";
import { asciiOnly, bundle, lightRequire, settleAddresses } from "./bundle.ts";
import { execute, importMap, ROOT } from "./compiler.ts";

Deno.test("settleAddresses() keeps import.meta.url of bundled files pointing to their source", () => {
  const chunk = [
    "// lib/base/native/device.ts",
    'new Worker(new URL("./reader_worker.ts", import.meta.url));',
    "// ../home/packages/one/index.mjs",
    "createRequire(import.meta.url);",
    "// cli/build/empty.ts",
    "if (import.meta.main) start();",
  ].join("\n");
  assertEquals(settleAddresses(chunk, "chunk-1.js").split("\n"), [
    "// lib/base/native/device.ts",
    'new Worker(new URL("./reader_worker.ts", new URL("./lib/base/native/device.ts", import.meta.url).href));',
    "// ../home/packages/one/index.mjs",
    "createRequire(import.meta.url);",
    "// cli/build/empty.ts",
    "if (false) start();",
  ]);
});

Deno.test("settleAddresses() keeps import.meta.main of a bundle's entry", () => {
  const entry = "// cli/agent/main.ts\nconst PROGRAM = import.meta.url;\nif (import.meta.main) start();";
  assertEquals(
    settleAddresses(entry, "cli/agent/main.js"),
    '// cli/agent/main.ts\nconst PROGRAM = new URL("../../cli/agent/main.ts", import.meta.url).href;\n' +
      "if (import.meta.main) start();",
  );
});

Deno.test("lightRequire() loads Node's own modules directly and node:module only for other modules", () => {
  const bundled = [
    'import { createRequire as __deno_internal_createRequire } from "node:module";',
    'var __require = __deno_internal_createRequire(new URL("./chunk-1.js", import.meta.url).href);',
    'const result = [__require("node:path").sep, typeof __require("./version.cjs")];',
  ].join("\n");
  const light = lightRequire(bundled);
  assertEquals(/^import|^var __require = \w+\(/m.test(light), false);
  const asked: string[] = [];
  const getBuiltinModule = (name: string) => {
    asked.push(name);
    if (name === "node:module") {
      return { createRequire: (base: string) => (path: string) => new URL(path, base) };
    }
    return name.startsWith("node:") ? { sep: "/" } : undefined;
  };
  const body = light.replace("import.meta.url", '"file:///bundle/main.js"') + "\nreturn result;";
  assertEquals(new Function("process", body)({ getBuiltinModule }), ["/", "object"]);
  assertEquals(asked, ["node:path", "./version.cjs", "node:module"]);
});

Deno.test("asciiOnly() escapes all characters beyond ASCII without changing the script's results", () => {
  const script = [
    "// grüße",
    'const text = "naïve \\é \\\\é 🤖";',
    "const template = `${text} → ü`;",
    "return [text, template, /^[à-ü]$/.test('é'), /^[🤖-🤗]$/u.test('🤗'), /\\→/.test('→')];",
  ].join("\n");
  const escaped = asciiOnly(script);
  assertEquals([...escaped].filter((character) => character > "\x7f"), []);
  assertEquals(new Function(escaped)(), new Function(script)());
  assertEquals(new Function(escaped)().slice(2), [true, true, true]);
});

Deno.test("packages in a bundle give the same output as outside of it", async () => {
  const program = "tests/support/inlined_packages.ts";
  const [bundled] = await bundle({
    run: (args) => execute(Deno.execPath(), args),
    ...{ root: ROOT, entries: [program], modules: [], files: [], without: [], config: "deno.json" },
    packages: Object.keys(await importMap()),
    folder: "dist/.build/inlined",
  });
  const run = async (path: string) =>
    (await execute(Deno.execPath(), ["run", "-A", "--no-check", path])).output;
  const outside = await run(program);
  assertEquals(JSON.parse(outside)[0], "CN=bundle true");
  assertEquals(JSON.parse(outside).at(-1), true);
  assertEquals(await run(bundled), outside);
});
