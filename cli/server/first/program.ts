/**
 * `svc-server init`, `check` and `doctor`: the first steps with a machine.
 *
 * Owns the table of these commands. Results go to standard output, for people or with --json as one value; questions and
 * remarks go to standard error. A failing command gives the reason on standard error and exits with 1.
 *
 * The room owns the commands of svc-server that work before a machine runs.
 */

import { MODELS } from "../../../drivers/mod.ts";
import { APIS } from "../../../lib/api/mod.ts";
import type { Host } from "../../../lib/base/host.ts";
import { Registry } from "../../../lib/resource/registry.ts";
import type { CommandProgram } from "../../command.ts";
import { runCommand } from "../../dispatch.ts";
import { CHECK } from "./check.ts";
import { DOCTOR } from "./doctor.ts";
import { WRITE_FIRST } from "./init.ts";
import { terminalQuestions } from "./questions.ts";
import type { FirstContext } from "./first_context.ts";

const PROGRAM: CommandProgram<FirstContext> = {
  name: "svc-server",
  summary: "Prepares the machine of a configuration file.",
  flags: [{ name: "json", type: "bool", default: false, help: "Print one JSON value instead of text." }],
  commands: [WRITE_FIRST, CHECK, DOCTOR],
  exits: [
    ["0", "done; check and doctor found no error"],
    ["1", "failed, or an error was found"],
    ["2", "the command line is wrong"],
  ],
};

/** Runs the command in `args`, whose first word names it; returns the exit code. */
export async function runFirstStep(
  args: readonly string[],
  host: Host,
  ask: FirstContext["ask"] = terminalQuestions(host),
): Promise<number> {
  return await runCommand(PROGRAM, args, { host, registry: new Registry(APIS, MODELS), ask });
}
