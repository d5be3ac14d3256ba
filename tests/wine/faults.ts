/** Faults of Wine itself: each has a program of ten lines in faults/ that shows it without ours. */

import { assertEquals } from "@std/assert";
import { checkCompiler } from "../../cli/build/check_compiler.ts";
import { choose, compile, TARGETS } from "../../cli/build/compiler.ts";
import type { Check } from "./world.ts";

const PROGRAMS = "dist/wine/programs/faults";

function fault(name: string, program: string, wanted: string): Check {
  return {
    name: `Wine's own: ${name}`,
    group: "faults",
    run: async ({ computer }) => {
      const [target] = choose("target", TARGETS, ["windows-x64"]);
      const executable = { name: program, entry: `tests/wine/faults/${program}.ts` };
      const { path } = await compile(await checkCompiler(target), executable, target, PROGRAMS);
      // If a newer Wine does better, remove the fault from docs/agent.md.
      assertEquals((await computer.succeed(path, [])).trim(), wanted);
    },
  };
}

export const faultChecks: readonly Check[] = [
  fault(
    "no service has an identity of its own, or is started again after an error that it reports",
    "service_settings",
    "true 0 0",
  ),
];
