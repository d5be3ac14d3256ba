/**
 * `svc-cloud`: a control plane of your own for machines, agents and training jobs.
 *
 * `--version` loads nothing of the control plane, which is in `program.ts`.
 *
 * The room owns the command line of svc-cloud: its commands, a file for each subject, and the composition of the
 * server.
 */

import { DenoHost } from "../../lib/base/host_deno.ts";
import { answersVersion, ended, EXIT } from "../program.ts";

const PROGRAM = new URL("./program.ts", import.meta.url).href;
/** The internal command of a process that runs SQLite, as `sqlite.ts` starts it. */
const SQLITE_WORKER = "sqlite-worker";
/** Beside the program: it starts faster without the rest. */
const WORKER = new URL("./sqlite.ts", import.meta.url).href;

/** Runs the program; returns its exit code. */
export async function main(args: readonly string[], host: DenoHost): Promise<number> {
  if (answersVersion("svc-cloud", args, host)) return EXIT.ok;
  if (args[0] === SQLITE_WORKER) {
    const { workOnSqlite }: typeof import("./sqlite.ts") = await import(WORKER);
    return workOnSqlite();
  }
  const { run }: typeof import("./program.ts") = await import(PROGRAM);
  return await run(args, host);
}

if (import.meta.main) {
  const host = new DenoHost(true);
  Deno.exit(await ended("svc-cloud", host, () => main(Deno.args, host)));
}
