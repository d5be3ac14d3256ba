/** Programs of others that a test may need, from Debian's packages. */

import type { Needed } from "./needing.ts";

/** Whether `program` is on this computer. */
export function programHere(program: string): Needed<string> {
  try {
    new Deno.Command(program, { args: ["--version"], stdout: "null", stderr: "null" }).outputSync();
    return { found: program };
  } catch {
    return { missing: `there is no ${program} here; it comes with Debian's packages` };
  }
}
