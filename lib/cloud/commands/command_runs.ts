/** How many commands run from afar: of one administrator, and altogether. */

import { type Limits, overLimit } from "../access/limits.ts";

type RunLimits = Pick<Limits, "commandsPerAdministrator" | "commandsAtOnce">;

export class CommandRuns {
  readonly #runs = new Map<string, number>();

  constructor(private readonly limits: RunLimits) {}

  /** Throws `resource_exhausted` if there is no place for another one. */
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
