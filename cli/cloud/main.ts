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
/** The internal command of a process that opens content, as `content.ts` starts it. */
const CONTENT_WORKER = "content-worker";
/** The internal command of a process that runs a command from afar, as `serve/commands.ts` starts it. */
const COMMAND_WORKER = "command-worker";
/** Workers are beside the program: they start faster without the rest. */
const SQLITE = new URL("./sqlite.ts", import.meta.url).href;
const CONTENT = new URL("./serve/content.ts", import.meta.url).href;
const COMMAND = new URL("./remote/worker.ts", import.meta.url).href;

/** Runs the program; returns its exit code. */
export async function main(args: readonly string[], host: DenoHost): Promise<number> {
  if (answersVersion("svc-cloud", args, host)) return EXIT.ok;
  if (args[0] === SQLITE_WORKER) {
    const { workOnSqlite }: typeof import("./sqlite.ts") = await import(SQLITE);
    return workOnSqlite();
  }
  if (args[0] === CONTENT_WORKER) {
    const { workOnContent }: typeof import("./serve/content.ts") = await import(CONTENT);
    return await workOnContent(host);
  }
  if (args[0] === COMMAND_WORKER) {
    const { workOnCommand }: typeof import("./remote/worker.ts") = await import(COMMAND);
    return await workOnCommand(host);
  }
  const { run }: typeof import("./program.ts") = await import(PROGRAM);
  return await run(args, host);
}

if (import.meta.main) {
  const host = new DenoHost(true);
  Deno.exit(await ended("svc-cloud", host, () => main(Deno.args, host)));
}
