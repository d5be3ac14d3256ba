/**
 * Work that a server looks for at intervals until it is closed: one look at a time, and at once when somebody wakes it.
 * A failed step is logged; it keeps back neither the next one nor the next look.
 */

import { type Clock, Waker } from "../clock.ts";
import { chainOf } from "../error.ts";
import type { Logger } from "../log/log.ts";

export interface PeriodicWorkParts {
  readonly clock: Clock;
  readonly logger: Logger;
  /** The pause after each look. */
  readonly everyMs: number;
  /** What the log says of a failure, such as "cannot look after exports". */
  readonly problem: string;
}

/** A part of a look, which ends soon after the signal aborts. */
export type WorkStep = (signal: AbortSignal) => Promise<unknown>;

export class PeriodicWork {
  readonly #closing = new AbortController();
  readonly #waker: Waker;
  readonly #ended: Promise<void>;

  /** The first look begins when the caller's constructor has ended. */
  constructor(private readonly parts: PeriodicWorkParts, private readonly steps: readonly WorkStep[]) {
    this.#waker = new Waker(parts.clock);
    this.#ended = Promise.resolve().then(() => this.#run());
  }

  /** Aborts when the work is closed. */
  get signal(): AbortSignal {
    return this.#closing.signal;
  }

  /** Looks at once, or once more after the look under way. */
  wake(): void {
    this.#waker.wake();
  }

  /** Ends with the look under way. Idempotent. */
  async close(reason?: unknown): Promise<void> {
    this.#closing.abort(reason);
    this.wake();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { logger, everyMs, problem } = this.parts;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      for (const step of this.steps) {
        if (signal.aborted) return;
        try {
          await step(signal);
        } catch (error) {
          if (!signal.aborted) logger.warn(`${problem}: ${chainOf(error)}`);
        }
      }
      await this.#waker.sleep(everyMs);
    }
  }
}
