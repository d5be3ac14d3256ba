/**
 * The commands of `svc-agent`, the service manager that installs, runs, watches and updates `svc-server` on a machine.
 *
 * Owns its command line. Exit codes: 0 done, 1 failed, 2 the command line is wrong.
 */

import type { Right } from "../../lib/base/native/permissions.ts";
import { resolve } from "node:path";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { didYouMean } from "../../lib/base/schema/suggest.ts";
import { askRollback, askStatus, socketOf } from "../../lib/agent/control/control.ts";
import type { BinaryName } from "../../lib/agent/update/release.ts";
import { preinstall, PREINSTALL_FLAGS, type PreinstallFlags } from "./preinstall.ts";
import { install, runService, uninstall } from "./install.ts";
import { type AgentPace, runAgent } from "./run.ts";
import { statusJson, statusLines } from "./status.ts";
import { type Command, type CommandProgram, USUAL_RIGHTS } from "../command.ts";
import { runCommand } from "../dispatch.ts";
import { EXIT } from "../program.ts";
import { printLines, printResult } from "../table.ts";
import { versionLine } from "../version.ts";
import { type AgentFlags, DEFAULT_PATHS, FLAGS } from "./agent_flags.ts";

/** The context of a command. */
interface AgentProgramContext {
  readonly host: DenoHost;
  readonly pace: AgentPace;
}

const COMMANDS: readonly Command<AgentProgramContext>[] = [
  command("", [], "Runs the agent until somebody stops it.", (options, { host, pace }) => {
    return options.install ? install(options, host) : runAgent(options, host, pace);
  }),
  command(
    "status",
    [],
    "Shows the agent's status and its versions.",
    status,
  ),
  command(
    "rollback",
    ["[PROGRAM]"],
    "Returns to the previous version of svc-server, or of svc-agent.",
    rollback,
  ),
  command(
    "service",
    [],
    "Runs as the Windows service of --install; only Windows starts it.",
    (options, { host }) => runService(options, host),
  ),
  command(
    "uninstall",
    [],
    "Stops and removes the service, svc-server, and their files.",
    (options, { host }) => uninstall(options, host),
  ),
  {
    words: "preinstall",
    takes: ["ROOT|IMAGE.tar"],
    summary: "Puts the agent into the root file system of an image: a mounted one, or a tar file.",
    flags: PREINSTALL_FLAGS,
    run: ({ host }, [target]: readonly [root: string], values: PreinstallFlags) =>
      preinstall(values, host, resolve(host.cwd(), target)),
  },
  command("version", [], "Prints the version.", (_, { host }) => {
    host.write(`${versionLine(PROGRAM.name)}\n`);
    return Promise.resolve(EXIT.ok);
  }),
];

/** Those of the commands that only ask the running agent; on Windows they ask the system, too. */
function rightsOf({ words }: Command<AgentProgramContext>): readonly Right[] | undefined {
  const asks = ["status", "rollback", "version"].includes(words) && Deno.build.os !== "windows";
  return asks ? USUAL_RIGHTS : undefined;
}

const PROGRAM: CommandProgram<AgentProgramContext> = {
  name: "svc-agent",
  summary: "Installs, runs, watches and updates svc-server on this machine.",
  flags: FLAGS,
  commands: COMMANDS,
  rightsOf,
  exits: [
    ["0", "success; the agent was told to stop"],
    ["1", "failed; standard error has the reason"],
    ["2", "the command line is wrong"],
  ],
  manual: {
    purpose: "keeps svc-server and the device that it runs on in order",
    description: [
      "Without a command it runs the agent until it is stopped; svc-server then stops, too.",
      "\\fBstatus\\fR and \\fBrollback\\fR ask the agent that runs from the same \\fB\\-\\-dir\\fR.",
    ],
    files: [
      ["/etc/svc.json", "the credentials of the machine"],
      ["/etc/svc-defaults.json", "the manufacturer's settings"],
      ["/opt/svc/bin", "svc-agent-loader, which systemd starts, and links to the versions in use"],
      ["/opt/svc/cache", "the versions that the agent keeps, and unfinished downloads"],
      ["/opt/svc/state", "records of the versions, the last good settings, and logs that wait for the cloud"],
      ["/opt/svc/etc/release_keys.json", "the public keys of releases"],
    ],
    examples: [
      ["svc-agent --install", "Install the agent as a service of the system."],
      ["svc-agent status", "Show the device's status and its versions."],
      ["svc-agent rollback svc-server", "Return to the previous version."],
      ["svc-agent --dev-mode --config rover.json", "Try it without installation, as any user."],
    ],
  },
  candidates: (_, __, { placeholder }) =>
    Promise.resolve(placeholder === "PROGRAM" ? [{ word: "svc-server" }, { word: "svc-agent" }] : []),
};

/** Runs the program; returns its exit code. */
export async function run(args: readonly string[], host: DenoHost, pace: AgentPace = {}): Promise<number> {
  return await runCommand(PROGRAM, args, { host, pace });
}

/** A command; all commands have the same flags. */
function command(
  words: string,
  takes: readonly string[],
  summary: string,
  run: (options: AgentFlags, context: AgentProgramContext, words: readonly string[]) => Promise<number>,
): Command<AgentProgramContext> {
  return {
    words,
    takes,
    summary,
    flags: [],
    run: (context, given, values: AgentFlags) => run(located(values, context.host), context, given),
  };
}

/** Absolute paths, because the runtime starts in another folder. */
function located(values: AgentFlags, host: DenoHost): AgentFlags {
  const places = host.platform().os === "windows" ? windowsPaths(host) : DEFAULT_PATHS;
  const home = values.devMode ? `${host.cwd()}/svc-agent` : places.dir;
  const at = (name: "config" | "defaults") =>
    values[name] === DEFAULT_PATHS[name] ? places[name] : values[name];
  const absolute = (path: string) => resolve(host.cwd(), path);
  return {
    ...values,
    config: absolute(at("config")),
    defaults: absolute(at("defaults")),
    dir: absolute(values.dir || home),
  };
}

/** The default places on Windows, in its folder for programs' data. */
function windowsPaths(host: DenoHost): typeof DEFAULT_PATHS {
  const folder = `${host.env("ProgramData") ?? "C:\\ProgramData"}\\svc`;
  return {
    dir: `${folder}\\agent`,
    config: `${folder}\\svc.json`,
    defaults: `${folder}\\svc-defaults.json`,
  };
}

async function status({ dir, json }: AgentFlags, { host }: AgentProgramContext): Promise<number> {
  const clock = new SystemClock();
  const found = await askStatus(host, socketOf(dir, host.platform().os), clock);
  if (json) printResult(host, true, statusJson(found, clock.nowMs()), []);
  else printLines(host, statusLines(found, { columns: host.columns(), coloured: host.coloured() }));
  return EXIT.ok;
}

async function rollback(
  { dir, json }: AgentFlags,
  { host }: AgentProgramContext,
  [name = "svc-server"]: readonly string[],
): Promise<number> {
  if (name !== "svc-server" && name !== "svc-agent") {
    const hint = didYouMean(name, ["svc-server", "svc-agent"]);
    host.writeError(`svc-agent rollback: found "${name}", wanted svc-server or svc-agent${hint}\n`);
    return EXIT.usage;
  }
  try {
    await askRollback(host, socketOf(dir, host.platform().os), name satisfies BinaryName, new SystemClock());
  } catch (error) {
    if (SvcError.from(error).code !== "not_found") throw error;
    throw new SvcError("not_found", "only a running agent can do that, and none runs here; start it first", {
      cause: error,
    });
  }
  printResult(host, json, { program: name }, [
    `${name} returns to its previous version; see svc-agent status`,
  ]);
  return EXIT.ok;
}
