/**
 * Runs SQLite beside svc-cloud: `svc-cloud` starts itself as `svc-cloud sqlite-worker`.
 *
 * From source this file is the program: it loads in a fraction of the time that all of svc-cloud takes.
 */

import { fileURLToPath } from "node:url";
import { keepOnly } from "../../lib/base/native/permissions.ts";
import type { PipedProcess, PipeHost, ProcessTable } from "../../lib/base/process.ts";
import { serveSqlite } from "../../lib/cloud/store/sqlite/worker.ts";

const REWRITES = "rewrites";
const FROM_SOURCE = ["run", "-A", "--no-config", "--no-lock", "--no-check", "--no-remote", "--no-npm"];

/** The database in this file. */
export function sqliteIn(file: string, host: PipeHost & ProcessTable) {
  const cpuMs = (pid: number) => {
    const figures = host.figuresOf(pid);
    return figures && figures.cpuUs / 1000;
  };
  return { file, start: (rewrites = false) => startSqlite(host, rewrites), cpuMs };
}

/** Starts this program as such a worker. */
function startSqlite(host: PipeHost, rewrites: boolean): PipedProcess {
  const program = Deno.build.standalone
    ? ["sqlite-worker"]
    : [...FROM_SOURCE, fileURLToPath(import.meta.url)];
  const args = rewrites ? [...program, REWRITES] : program;
  const env = { NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" };
  return host.pipe({ command: Deno.execPath(), args, env, ownGroup: true });
}

/**
 * Works until standard input ends or svc-cloud closes the database. A worker that rewrites the file keeps its rights,
 * because SQLite attaches a second file for that, which the runtime allows only a process with all of them.
 */
export function workOnSqlite(): number {
  if (!Deno.args.includes(REWRITES)) keepOnly(["read", "write", "env", "sys"]);
  serveSqlite({
    read: (into) => Deno.stdin.readSync(into),
    write: (bytes) => {
      for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
    },
  });
  return 0;
}

if (import.meta.main) Deno.exit(workOnSqlite());
