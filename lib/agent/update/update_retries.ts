/** When an updater may try again what has failed, and what its last problem was. */

import { type BackoffLimits, requestPauseMs } from "../../base/async/backoff.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";

/** Pauses of 5 s on average, doubling up to an hour. */
const RETRY: BackoffLimits = { firstMs: 6_000, mostMs: 72 * 60_000, jitter: 1 / 3 };

export class UpdateRetries {
  #failures = 0;
  #nextTryMs = 0;
  #problem?: string;

  constructor(private readonly clock: Clock, private readonly random: (() => number) | undefined) {}

  /** The last failure, until a success. */
  get problem(): string | undefined {
    return this.#problem;
  }

  get mayTry(): boolean {
    return this.clock.monotonicMs() >= this.#nextTryMs;
  }

  /** An attempt has failed: the next one waits. Returns the pause. */
  fail(what: string, error: unknown): number {
    const delayMs = requestPauseMs(RETRY, ++this.#failures, error, this.random);
    this.#nextTryMs = this.clock.monotonicMs() + delayMs;
    this.#problem = `${what}: ${chainOf(error)}`;
    return delayMs;
  }

  /** A problem that no pause helps against. Whether it is another one than the last. */
  note(problem: string): boolean {
    const isNew = problem !== this.#problem;
    this.#problem = problem;
    return isNew;
  }

  /** The attempt that is failing has made progress: the pauses start again at the shortest. */
  progress(): void {
    this.#failures = 0;
  }

  /** An attempt has succeeded; as long as the rest may fail, the pauses continue to grow. */
  succeed(): void {
    this.#nextTryMs = 0;
    this.#problem = undefined;
  }

  /** Starts anew: the next attempt is worthwhile at once. */
  reset(): void {
    this.succeed();
    this.#failures = 0;
  }
}
