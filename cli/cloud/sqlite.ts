/**
 * Runs SQLite beside svc-cloud: `svc-cloud` starts itself as `svc-cloud sqlite-worker`.
 *
 * From source this file is the program: it loads in a fraction of the time that all of svc-cloud takes.
 */

import { fileURLToPath } from "node:url";
import { keepOnly } from "../../lib/base/native/permissions.ts";
import type { PipedProcess, PipeHost, ProcessTable } from "../../lib/base/process.ts";
import { serveSqlite } from "../../lib/cloud/store/sqlite/worker.ts";

const FROM_SOURCE = ["run", "-A", "--no-config", "--no-lock", "--no-check", "--no-remote", "--no-npm"];

/** The database in this file. */
export function sqliteIn(file: string, host: PipeHost & ProcessTable) {
  const cpuMs = (pid: number) => {
    const figures = host.figuresOf(pid);
    return figures && figures.cpuUs / 1000;
  };
  return { file, start: () => startSqlite(host), cpuMs };
}

/** Starts this program as such a worker. */
function startSqlite(host: PipeHost): PipedProcess {
  const args = Deno.build.standalone ? ["sqlite-worker"] : [...FROM_SOURCE, fileURLToPath(import.meta.url)];
  const env = { NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" };
  return host.pipe({ command: Deno.execPath(), args, env, ownGroup: true });
}

/** Works until standard input ends or svc-cloud closes the database. */
export function workOnSqlite(): number {
  keepOnly(["read", "write", "env", "sys"]);
  serveSqlite({
    read: (into) => Deno.stdin.readSync(into),
    write: (bytes) => {
      for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
    },
  });
  return 0;
}

if (import.meta.main) Deno.exit(workOnSqlite());
