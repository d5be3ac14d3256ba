/**
 * Readings of one kind of a trajectory, for the map file. Beyond the limit, every second reading is dropped, and from
 * then on half as many are kept.
 */

import type { ImuState, OdometryState } from "./map_state.ts";

/** Three hours of twenty readings per second. */
export const READINGS_MAX = 200_000;

export class ReadingHistory<R extends OdometryState | ImuState> {
  #kept: R[] = [];
  #every = 1;
  #count = 0;

  constructor(private readonly most = READINGS_MAX) {}

  get kept(): readonly R[] {
    return this.#kept;
  }

  /** Adds a reading unless it is not later than the last one. */
  add(reading: R): void {
    const last = this.#kept.at(-1);
    if (last && reading.ticks <= last.ticks) return;
    if (this.#count++ % this.#every !== 0) return;
    if (this.#kept.length === this.most) {
      this.#kept = this.#kept.filter((_, k) => k % 2 === 0);
      this.#every *= 2;
    }
    this.#kept.push(reading);
  }
}
