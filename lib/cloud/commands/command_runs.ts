/**
 * Limits the remote commands that run at the same time: of one administrator, and in total.
 *
 * The room owns the run of a remote command: its limits, its files, and its output.
 */

import { KeyCounts } from "../../base/async/key_counts.ts";
import { type Limits, overLimit } from "../access/limits.ts";

type RunLimits = Pick<Limits, "commandsPerAdministrator" | "commandsAtOnce">;

export class CommandRuns {
  readonly #runs = new KeyCounts();

  constructor(private readonly limits: RunLimits) {}

  /** Counts another command. Throws `resource_exhausted` at the limit. */
  enter(who: string): Disposable {
    const [own, all] = [this.#runs.of(who), this.#runs.sum];
    if (own >= this.limits.commandsPerAdministrator) {
      throw overLimit(this.limits, "commandsPerAdministrator", `found ${own} that still run`);
    }
    if (all >= this.limits.commandsAtOnce) {
      throw overLimit(this.limits, "commandsAtOnce", `found ${all} that still run`);
    }
    this.#runs.add(who, 1);
    return { [Symbol.dispose]: () => this.#runs.add(who, -1) };
  }
}
