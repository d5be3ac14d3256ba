/**
 * `svc-ml`: the client for machine-learning training jobs.
 *
 * `--version` loads nothing of the commands, which are in `program.ts`.
 *
 * The room owns the command line of svc-ml: the context of a command, and the commands on accounts, jobs and models.
 */

import { DenoHost } from "../../lib/base/host_deno.ts";
import { answersVersion, ended, EXIT } from "../program.ts";
import type { MlProgramContext } from "./command_context.ts";

const PROGRAM = new URL("./program.ts", import.meta.url).href;

/** Runs the program; returns its exit code. */
export async function main(
  args: readonly string[],
  host: DenoHost,
  given?: Partial<MlProgramContext>,
): Promise<number> {
  if (answersVersion("svc-ml", args, host)) return EXIT.ok;
  const { run }: typeof import("./program.ts") = await import(PROGRAM);
  return await run(args, host, given);
}

if (import.meta.main) {
  const host = new DenoHost(true);
  Deno.exit(await ended("svc-ml", host, () => main(Deno.args, host)));
}
