/**
 * Fake programs of the system, for tests: it records the commands, and gives scripted answers.
 */

import { SvcError } from "../../lib/base/error.ts";
import {
  type CommandOptions,
  type Commands,
  failureOf,
  type Outcome,
} from "../../lib/agent/system/commands.ts";

export class FakeCommands implements Commands {
  /** All commands, as a shell would take them. */
  readonly ran: string[] = [];

  /**
   * `answers`: keyed by the beginning of the command; the longest match counts, and commands without one succeed
   * silently.
   */
  constructor(readonly answers: { [command: string]: Partial<Outcome> | Error } = {}) {}

  try(command: string, args: readonly string[], _options?: CommandOptions): Promise<Outcome> {
    const line = [command, ...args].join(" ");
    this.ran.push(line);
    const known = Object.keys(this.answers).filter((one) => line.startsWith(one));
    const found = this.answers[known.sort((a, b) => b.length - a.length)[0]] ?? {};
    if (found instanceof Error) return Promise.reject(found);
    return Promise.resolve({ code: 0, output: "", ...found });
  }

  async run(command: string, args: readonly string[], options?: CommandOptions): Promise<string> {
    const outcome = await this.try(command, args, options);
    if (outcome.code === 0) return outcome.output;
    throw new SvcError("unknown", failureOf(command, args, outcome));
  }
}
