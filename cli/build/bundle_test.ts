/**
 * Bundles: the changes to the bundler's results, and a bundle that runs.
 */

import { assertEquals } from "@std/assert";
import { settleAddresses } from "./bundle.ts";

Deno.test("an address worked out in a bundle leads where it leads in the source", () => {
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

Deno.test("the entry of a bundle still knows that it is the main module", () => {
  const entry = "// cli/agent/main.ts\nconst PROGRAM = import.meta.url;\nif (import.meta.main) start();";
  assertEquals(
    settleAddresses(entry, "cli/agent/main.js"),
    '// cli/agent/main.ts\nconst PROGRAM = new URL("../../cli/agent/main.ts", import.meta.url).href;\n' +
      "if (import.meta.main) start();",
  );
});
