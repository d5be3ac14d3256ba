/** Runs the TypeScript programs of README and docs as a reader would: with the published SDK, or with this tree. */

import { assertEquals } from "@std/assert";
import { run } from "../interop/programs.ts";
import { ROOT } from "./pages.ts";

const PACKAGES = `${ROOT}tests/interop/packages.json`;

/** Runs a program for the published SDK; returns its output. */
export async function runScript(program: string): Promise<string> {
  // Imports are evaluated in their order: the SDK must not see Deno's Worker.
  const { code, stdout, stderr } = await runDeno(`import "./no_worker.mjs";\n${program}`, PACKAGES);
  assertEquals(code, 0, stderr);
  return stdout;
}

/** Runs a program with the imports of a Deno configuration. */
export async function runDeno(program: string, config: string) {
  const folder = await Deno.makeTempDir({ prefix: "svc-docs-" });
  try {
    await Deno.writeTextFile(`${folder}/no_worker.mjs`, "delete globalThis.Worker;\n");
    await Deno.writeTextFile(`${folder}/program.ts`, program);
    return await run([Deno.execPath(), "run", "-A", "--no-lock", "--config", config, `${folder}/program.ts`]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
