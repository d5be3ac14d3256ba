/**
 * `svc-agent`: the service manager that installs, runs and updates `svc-server` on a machine.
 *
 * Owns its command line. Promises: it reads every published option, and tells its version and its options; it
 * says so and fails when it is asked to do more than that.
 */

import { DenoHost } from "../lib/base/host_deno.ts";
import type { Flag } from "./flags.ts";
import { begin, type Terminal } from "./program.ts";

const FLAGS = [
  {
    name: "config",
    short: "c",
    type: "string",
    default: "/etc/svc.json",
    value: "FILE",
    help: "Machine credentials.",
  },
  {
    name: "defaults",
    type: "string",
    default: "/etc/svc-defaults.json",
    value: "FILE",
    help: "Manufacturer defaults.",
  },
  {
    name: "debug",
    short: "d",
    type: "bool",
    default: false,
    env: "SVC_AGENT_DEBUG",
    help: "Debug logs of the agent itself, not of svc-server.",
  },
  {
    name: "wait",
    short: "w",
    type: "bool",
    default: false,
    env: "SVC_AGENT_WAIT_FOR_UPDATE",
    help: "Update versions before starting.",
  },
  { name: "install", type: "bool", default: false, help: "Install the system service." },
  {
    name: "dev-mode",
    type: "bool",
    default: false,
    env: "SVC_AGENT_DEVMODE",
    help: "Allow running as another user than root and not as a service.",
  },
] as const satisfies readonly Flag[];

const PROGRAM = {
  name: "svc-agent",
  summary: "Installs, runs, watches and updates svc-server on this machine.",
  style: "gnu",
  usage: "[flags]",
  flags: FLAGS,
} as const;

/** Runs the program; gives its exit code. */
export function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const begun = begin(PROGRAM, args, terminal);
  if (begun.exitCode !== undefined) return Promise.resolve(begun.exitCode);
  terminal.writeError("svc-agent: this version only tells its version and its flags; see --help\n");
  return Promise.resolve(1);
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
