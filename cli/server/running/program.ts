/**
 * `svc-server status`, `call`, `watch`, `logs`, `module restart` and `module reload`: the commands about a machine that
 * runs already.
 *
 * Owns the table of these commands. Results go to standard output, for people or with --json as JSON; remarks go to
 * standard error. A failing command gives the reason on standard error and exits with 1.
 *
 * The room owns svc-server as a client of machines.
 */

import type { Clock } from "../../../lib/base/clock.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import type { Host } from "../../../lib/base/host.ts";
import { SvcError } from "../../../lib/base/error.ts";
import type { Command, CommandContext as AnyContext, CommandProgram, GivenWords } from "../../command.ts";
import { runCommand } from "../../dispatch.ts";
import type { Flag, Values } from "../../flags.ts";
import { CALL } from "./call.ts";
import { type MachineClient, reachMachine, WHERE_FLAGS, type WhereValues } from "./reach.ts";
import { LOGS } from "./logs.ts";
import { MODULE_RELOAD, MODULE_RESTART } from "./modules.ts";
import { STATUS } from "./status.ts";
import { WATCH } from "./watch.ts";
import type { MachineCommand } from "./machine_command.ts";

/** The outside of the program. */
export interface RunningContext extends AnyContext {
  readonly host: Host;
  readonly clock: Clock;
}

function connected<const T extends readonly string[], const F extends readonly Flag[]>(
  command: MachineCommand<T, F>,
): Command<RunningContext> {
  const run = async (
    { host, clock }: RunningContext,
    words: GivenWords<T>,
    values: Values<F> & WhereValues,
  ) => {
    const stop = new AbortController();
    const ignore = host.onTermination(() => stop.abort(new SvcError("canceled", "interrupted")));
    let reached: Promise<MachineClient> | undefined;
    const { signal } = stop;
    const machine = () => reached ??= reachMachine(values, { host, clock, signal });
    try {
      return await command.run({ host, clock, json: values.json, signal, machine }, words, values);
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    } finally {
      ignore();
      await reached?.then(({ close }) => close(), () => {});
    }
  };
  return { ...command, run };
}

const PROGRAM: CommandProgram<RunningContext> = {
  name: "svc-server",
  summary: "Looks at a machine that runs, calls its resources and follows its log.",
  flags: WHERE_FLAGS,
  commands: [
    connected(STATUS),
    connected(CALL),
    connected(WATCH),
    connected(LOGS),
    connected(MODULE_RESTART),
    connected(MODULE_RELOAD),
  ],
  variables: [
    ["SVC_API_KEY_ID", "the id of the API key, before the one of the profile"],
    ["SVC_API_KEY", "the API key"],
  ],
  exits: [
    ["0", "done; for status: every resource is ready"],
    ["1", "failed, or a resource is unhealthy"],
    ["2", "the command line is wrong"],
  ],
};

/** Runs the command in `args`, whose first words name it; returns the exit code. */
export async function runOnMachine(args: readonly string[], host: Host): Promise<number> {
  return await runCommand(PROGRAM, args, { host, clock: new SystemClock() });
}
