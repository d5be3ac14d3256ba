/**
 * `svc-agent`: the service manager that installs, runs, watches and updates `svc-server` on a machine.
 *
 * Owns its command line. Exit codes: 0 done, 1 failed, 2 the command line is wrong.
 */

import { resolve } from "node:path";
import { SystemClock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { askRollback, askStatus, socketOf } from "../../lib/agent/supervise/control.ts";
import type { BinaryName } from "../../lib/agent/update/release.ts";
import { install, runService, uninstall } from "./install.ts";
import { type AgentPace, runAgent } from "./run.ts";
import { statusLines } from "./status.ts";
import type { Flag, Values } from "../flags.ts";
import { columns } from "../flags.ts";
import { begin } from "../program.ts";
import { versionLine } from "../version.ts";

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
  {
    name: "fast-start",
    type: "bool",
    default: false,
    env: "SVC_AGENT_FAST_START",
    help: "Start without waiting for network or updates, whatever else says to wait.",
  },
  { name: "install", type: "bool", default: false, help: "Install the system service." },
  {
    name: "dev-mode",
    type: "bool",
    default: false,
    env: "SVC_AGENT_DEVMODE",
    help: "Allow running as another user than root and not as a service.",
  },
  {
    name: "dir",
    type: "string",
    default: "",
    value: "FOLDER",
    env: "SVC_AGENT_DIR",
    help: "Where everything is kept: /opt/svc, or svc-agent in the working folder in dev mode.",
  },
  { name: "json", type: "bool", default: false, help: "Print the status as JSON." },
  { name: "yes", short: "y", type: "bool", default: false, help: "Uninstall without asking." },
  { name: "purge", type: "bool", default: false, help: "Uninstall the credentials and defaults, too." },
] as const satisfies readonly Flag[];

export type AgentFlags = Values<typeof FLAGS>;

const COMMANDS = [
  { left: "(none)", right: "Runs the agent until it is told to stop." },
  { left: "status", right: "Tells how the agent in the folder does, and the versions that it keeps." },
  { left: "rollback [PROGRAM]", right: "Goes back to the version before: of svc-server, or of svc-agent." },
  { left: "service", right: "What Windows runs as the service that --install makes." },
  { left: "uninstall", right: "Stops and removes the service, svc-server, and what they have kept." },
  { left: "version", right: "Prints the version." },
];

const PROGRAM = {
  name: "svc-agent",
  summary: "Installs, runs, watches and updates svc-server on this machine.",
  style: "gnu",
  usage: "[COMMAND] [flags]",
  flags: FLAGS,
  more: `\nCommands:\n${columns(COMMANDS)}`,
} as const;

const BASES: Readonly<Record<string, string>> = { windows: "C:\\opt\\svc" };

/** Runs the program; gives its exit code. */
export async function main(args: readonly string[], host: DenoHost, pace: AgentPace = {}): Promise<number> {
  const begun = begin(PROGRAM, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const { values, rest: [command = "", ...rest] } = begun;
  const wanted = command === "rollback" ? 1 : 0;
  if (rest.length > wanted) {
    host.writeError(`svc-agent: found "${rest[wanted]}" after ${command}, wanted nothing more; see --help\n`);
    return 2;
  }
  const { os } = host.platform();
  const home = values.devMode ? `${host.cwd()}/svc-agent` : BASES[os] ?? "/opt/svc";
  // The runtime is started in another folder.
  const absolute = (path: string) => resolve(host.cwd(), path);
  const options = {
    ...values,
    config: absolute(values.config),
    defaults: absolute(values.defaults),
    dir: absolute(values.dir || home),
  };
  try {
    switch (command) {
      case "":
        return values.install ? await install(options, host) : await runAgent(options, host, pace);
      case "status":
        return await status(options, host);
      case "rollback":
        return await rollback(options, rest[0] ?? "svc-server", host);
      case "service":
        return await runService(options, host);
      case "uninstall":
        return await uninstall(options, host);
      case "version":
        host.write(`${versionLine(PROGRAM.name)}\n`);
        return 0;
    }
    host.writeError(`svc-agent: unknown command "${command}"; see --help\n`);
    return 2;
  } catch (error) {
    host.writeError(`svc-agent: ${chainOf(error)}\n`);
    return 1;
  }
}

async function status({ dir, json }: AgentFlags, host: DenoHost): Promise<number> {
  const found = await askStatus(socketOf(dir, host.platform().os), new SystemClock());
  host.write(json ? `${JSON.stringify(found)}\n` : `${statusLines(found).join("\n")}\n`);
  return 0;
}

async function rollback({ dir }: AgentFlags, name: string, host: DenoHost): Promise<number> {
  if (name !== "svc-server" && name !== "svc-agent") {
    host.writeError(`svc-agent: rollback: found "${name}", wanted svc-server or svc-agent\n`);
    return 2;
  }
  try {
    await askRollback(socketOf(dir, host.platform().os), name satisfies BinaryName, new SystemClock());
  } catch (error) {
    if (SvcError.from(error).code !== "not_found") throw error;
    throw new SvcError("not_found", "an agent that runs goes back, and none does here; start it first", {
      cause: error,
    });
  }
  host.write(`${name} goes back to the version before; see svc-agent status\n`);
  return 0;
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
