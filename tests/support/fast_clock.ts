/**
 * A clock on which time passes faster: minutes of an agent take seconds.
 */

import type { Clock } from "../../lib/base/clock.ts";

export class FastClock implements Clock {
  /** `haste`: the factor on `clock`. */
  constructor(private readonly clock: Clock, private readonly haste: number) {}

  /** The time of day is the real one. */
  nowMs(): number {
    return this.clock.nowMs();
  }

  monotonicMs(): number {
    return this.clock.monotonicMs() * this.haste;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return this.clock.sleep(ms / this.haste, signal);
  }

  after(ms: number, run: () => void): () => void {
    return this.clock.after(ms / this.haste, run);
  }
}
