/**
 * `svc-server module`: creates modules.
 *
 * Owns the table of its commands. Results go to standard output, for people or with --json as one value. A failing
 * command gives the reason on standard error and exits with 1.
 *
 * The room owns the commands of svc-server for authors of modules.
 */

import type { Host } from "../../../lib/base/host.ts";
import type { CommandContext as AnyContext, CommandProgram } from "../../command.ts";
import { runCommand } from "../../dispatch.ts";
import type { Flag } from "../../flags.ts";
import { terminalQuestions } from "../first/questions.ts";
import { NEW } from "./new.ts";

/** The outside of the program. */
export interface ModuleContext extends AnyContext {
  readonly host: Host;
  /** Asks a question and returns the answer; `undefined` at the end of the input. */
  readonly ask: (question: string) => string | undefined;
}

const COMMON: readonly Flag[] = [
  { name: "json", type: "bool", default: false, help: "Print one JSON value instead of text." },
];

const PROGRAM: CommandProgram<ModuleContext> = {
  name: "svc-server module",
  summary: "Makes modules.",
  flags: COMMON,
  commands: [NEW],
  exits: [
    ["0", "done"],
    ["1", "failed; standard error has the reason"],
    ["2", "the command line is wrong"],
  ],
};

/** Runs the command in `args`, the words after `module`; returns the exit code. */
export async function runModule(
  args: readonly string[],
  host: Host,
  ask: ModuleContext["ask"] = terminalQuestions(host),
): Promise<number> {
  return await runCommand(PROGRAM, args, { host, ask });
}
