/**
 * `svc-server module`: creates modules. Its help names the commands about modules of a running machine, too, which
 * `../running/program.ts` runs.
 *
 * Owns the table of its commands. Results go to standard output, for people or with --json as one value. A failing
 * command gives the reason on standard error and exits with 1.
 *
 * The room owns the commands of svc-server for authors of modules.
 */

import { SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import type { Command, CommandProgram } from "../../command.ts";
import { runCommand } from "../../dispatch.ts";
import type { Flag } from "../../flags.ts";
import { terminalQuestions } from "../first/questions.ts";
import { MODULE_RELOAD, MODULE_RESTART } from "../running/modules.ts";
import { NEW } from "./new.ts";
import type { ModuleContext } from "./module_context.ts";

const COMMON: readonly Flag[] = [
  { name: "json", type: "bool", default: false, help: "Print one JSON value instead of text." },
];

const PROGRAM: CommandProgram<ModuleContext> = {
  name: "svc-server module",
  summary: "Makes modules, and restarts those of a running machine.",
  flags: COMMON,
  commands: [NEW, elsewhere(MODULE_RESTART), elsewhere(MODULE_RELOAD)],
  exits: [
    ["0", "done"],
    ["1", "failed; standard error has the reason"],
    ["2", "the command line is wrong"],
  ],
};

/** A command that another table runs; this one names it. */
function elsewhere(
  { words, takes, summary }: typeof MODULE_RESTART | typeof MODULE_RELOAD,
): Command<ModuleContext> {
  const run = () => Promise.reject(new SvcError("internal", `${words} belongs to another table`));
  return { words: words.slice("module ".length), takes, summary, flags: [], run };
}

/** Runs the command in `args`, the words after `module`; returns the exit code. */
export async function runModule(
  args: readonly string[],
  host: Host,
  ask: ModuleContext["ask"] = terminalQuestions(host),
): Promise<number> {
  return await runCommand(PROGRAM, args, { host, ask });
}
