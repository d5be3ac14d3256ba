/**
 * The commands of `svc-ml`, the client for machine-learning training jobs.
 *
 * Owns its command line. Data goes to standard output and all else to standard error. The exit code gives the result
 * (`manual.ts` lists them). Ctrl-C ends this program and never a job.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { askHidden, firstLine } from "../terminal/asking.ts";
import { type CommandProgram, opensNamedFiles, USUAL_RIGHTS } from "../command.ts";
import { runCommand } from "../dispatch.ts";
import { openWayOutAtTerminal } from "../way_out.ts";
import { ACCOUNT_COMMANDS } from "./account.ts";
import { STOP_EMBEDDED } from "./embedded.ts";
import { mlCandidates } from "./candidates.ts";
import { exitCodeOf } from "./command.ts";
import { DATASET_COMMANDS } from "./data/datasets.ts";
import { JOB_COMMANDS } from "./jobs.ts";
import { EXITS, MANUAL, VARIABLES } from "./manual.ts";
import { MODEL_COMMANDS } from "./models.ts";
import { SCRIPT_COMMANDS } from "./scripts/scripts.ts";
import { ML_FLAGS, type MlProgramContext } from "./command_context.ts";
import { SUBMIT_COMMANDS } from "./submit.ts";

const PROGRAM: CommandProgram<MlProgramContext> = {
  name: "svc-ml",
  summary:
    "Trains models: submits, follows, lists, cancels and deletes training jobs, and manages their datasets, scripts and models.",
  flags: ML_FLAGS,
  commands: [
    ...SUBMIT_COMMANDS,
    ...JOB_COMMANDS,
    ...DATASET_COMMANDS,
    ...SCRIPT_COMMANDS,
    ...MODEL_COMMANDS,
    ...ACCOUNT_COMMANDS,
    STOP_EMBEDDED,
  ],
  variables: VARIABLES,
  exits: EXITS,
  manual: MANUAL,
  exitCodeOf,
  // Only a training in this program starts another one, and the one that it started is ended.
  rightsOf: (command, { caFile }) =>
    ["submit", "embedded stop"].includes(command.words) || opensNamedFiles(command, [caFile])
      ? undefined
      : USUAL_RIGHTS,
  candidates: mlCandidates,
};

/** Width of a terminal that does not report one. */
const USUAL_COLUMNS = 80;

/** Runs the program; returns its exit code. This computer supplies the missing parts of the world. */
export async function run(
  args: readonly string[],
  host: DenoHost,
  given: Partial<MlProgramContext> = {},
): Promise<number> {
  await openWayOutAtTerminal(host, "svc-ml");
  return await runCommand(PROGRAM, args, { ...worldOf(host), ...given });
}

function worldOf(host: DenoHost): MlProgramContext {
  const clock = new SystemClock();
  return {
    host,
    clock,
    terminal: {
      input: Deno.stdin.isTerminal(),
      output: Deno.stdout.isTerminal(),
      errors: Deno.stderr.isTerminal(),
    },
    columns: () => (Deno.stderr.isTerminal() ? Deno.consoleSize().columns : 0) || USUAL_COLUMNS,
    ask: (question, { hidden = false } = {}) =>
      hidden ? askHidden(host, question) : prompt(question) ?? undefined,
    firstLine: () => firstLine(clock),
  };
}
