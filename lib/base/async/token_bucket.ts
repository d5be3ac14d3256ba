/** A token bucket: what is taken from it comes back with time, up to a burst. */

import type { Clock } from "../clock.ts";

export interface BucketLimits {
  readonly burst: number;
  readonly perSecond: number;
}

export class TokenBucket {
  #amount: number;
  #atMs: number;

  /** Begins full. The limits are read anew each time, so they may change. */
  constructor(private readonly clock: Pick<Clock, "monotonicMs">, private readonly limits: BucketLimits) {
    this.#amount = limits.burst;
    this.#atMs = clock.monotonicMs();
  }

  /** What is there now; below zero if more was taken. */
  get left(): number {
    this.#refill();
    return this.#amount;
  }

  /** The share of the whole that was taken and has not come back. */
  get usedShare(): number {
    return 1 - this.left / this.limits.burst;
  }

  /** Takes an amount, even beyond zero: then it returns false. */
  take(amount: number): boolean {
    // Reads the clock only where it matters.
    if (this.#amount < amount) this.#refill();
    this.#amount -= amount;
    return this.#amount >= 0;
  }

  put(amount: number): void {
    this.#amount = Math.min(this.limits.burst, this.#amount + amount);
  }

  #refill(): void {
    const nowMs = this.clock.monotonicMs();
    this.put((nowMs - this.#atMs) / 1000 * this.limits.perSecond);
    this.#atMs = nowMs;
  }
}
