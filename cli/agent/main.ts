/**
 * `svc-agent`: the service manager that installs, runs, watches and updates `svc-server` on a machine.
 *
 * `--version` loads nothing of the agent, which is in `program.ts`.
 *
 * The room owns the command line of svc-agent: running, asking and stopping the agent, and making a service of it.
 */

import { DenoHost } from "../../lib/base/host_deno.ts";
import { answersVersion, ended, EXIT } from "../program.ts";
import type { AgentPace } from "./run.ts";

const PROGRAM = new URL("./program.ts", import.meta.url).href;

/** Runs the program; returns its exit code. */
export async function main(args: readonly string[], host: DenoHost, pace?: AgentPace): Promise<number> {
  if (answersVersion("svc-agent", args, host)) return EXIT.ok;
  const { run }: typeof import("./program.ts") = await import(PROGRAM);
  return await run(args, host, pace);
}

if (import.meta.main) {
  const host = new DenoHost(true);
  Deno.exit(await ended("svc-agent", host, () => main(Deno.args, host)));
}
