/**
 * Limits the remote commands that run at the same time: of one administrator, and in total.
 *
 * The room owns the run of a remote command: its limits, its files, and its output.
 */

import { type Limits, overLimit } from "../access/limits.ts";

type RunLimits = Pick<Limits, "commandsPerAdministrator" | "commandsAtOnce">;

export class CommandRuns {
  readonly #runs = new Map<string, number>();

  constructor(private readonly limits: RunLimits) {}

  /** Counts another command. Throws `resource_exhausted` at the limit. */
  enter(who: string): Disposable {
    const own = this.#runs.get(who) ?? 0;
    const all = this.#runs.values().reduce((sum, one) => sum + one, 0);
    if (own >= this.limits.commandsPerAdministrator) {
      throw overLimit(this.limits, "commandsPerAdministrator", `found ${own} that still run`);
    }
    if (all >= this.limits.commandsAtOnce) {
      throw overLimit(this.limits, "commandsAtOnce", `found ${all} that still run`);
    }
    this.#runs.set(who, own + 1);
    return { [Symbol.dispose]: () => this.#leave(who) };
  }

  #leave(who: string): void {
    const left = (this.#runs.get(who) ?? 1) - 1;
    if (left > 0) this.#runs.set(who, left);
    else this.#runs.delete(who);
  }
}
