/** Removes files that no version uses any more, once a day; not soon after the start. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log/log.ts";

const CLEAN_MS = 24 * 3600_000;
const CLEAN_FIRST_MS = 15 * 60_000;
const KEPT_MS = 30 * 24 * 3600_000;

/** Removes files that have been unused for this long; returns their names. */
type Cleaning = (keepMs: number) => Promise<readonly string[]>;

export class UnusedFiles {
  #nextMs: number;

  constructor(
    private readonly cleanings: readonly Cleaning[],
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {
    this.#nextMs = clock.monotonicMs() + CLEAN_FIRST_MS;
  }

  async cleanIfDue(): Promise<void> {
    if (this.clock.monotonicMs() < this.#nextMs) return;
    this.#nextMs = this.clock.monotonicMs() + CLEAN_MS;
    for (const clean of this.cleanings) {
      const removed = await clean(KEPT_MS);
      if (removed.length > 0) this.logger.info("removed unused files", { files: removed });
    }
  }
}
