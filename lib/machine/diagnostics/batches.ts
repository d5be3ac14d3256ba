/**
 * Collects items and periodically sends them in batches to a receiver that may be slow or away.
 *
 * The number of waiting items is bounded (the oldest is dropped first), one batch travels at a time, and trouble is
 * reported once, as is its end.
 */

import { SerialQueue } from "../../base/async/serial_queue.ts";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";

const FLUSH_MS = 5_000;
const SEND_MS = 10_000;
const WAITING_MAX = 2_048;

export interface BatchesParts<T> {
  /** Items and receiver, for people: `spans to "http://…"`. */
  readonly what: string;
  readonly send: (batch: readonly T[], signal: AbortSignal) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class Batches<T> {
  readonly #parts: BatchesParts<T>;
  #waiting: T[] = [];
  #dropped = 0;
  #failing = false;
  readonly #work = new SerialQueue();
  #callOff: (() => void) | undefined;

  constructor(parts: BatchesParts<T>) {
    this.#parts = parts;
  }

  /** Never throws, never waits. */
  add(one: T): void {
    this.#waiting.push(one);
    if (this.#waiting.length > WAITING_MAX) {
      this.#waiting.shift();
      this.#dropped++;
    }
    this.#callOff ??= this.#parts.clock.after(FLUSH_MS, () => {
      this.#callOff = undefined;
      void this.#work.run(() => this.#flush());
    });
  }

  /** Sends the waiting items once, and ends. */
  async close(): Promise<void> {
    this.#callOff?.();
    await this.#work.run(() => this.#flush());
  }

  async #flush(): Promise<void> {
    const { send, clock, logger, what } = this.#parts;
    const batch = this.#waiting;
    if (batch.length === 0) return;

    this.#waiting = [];
    const late = () => new SvcError("deadline_exceeded", `it was not done within ${SEND_MS / 1000} s`);
    const { signal, done } = deadline(clock, SEND_MS, late);
    try {
      await race(send(batch, signal), signal);
      if (this.#failing) logger.info(`${what} are sent again, ${this.#dropped} were dropped`);
      this.#failing = false;
      this.#dropped = 0;
    } catch (error) {
      if (!this.#failing) logger.warn(`${what} cannot be sent: ${chainOf(error)}`);
      this.#failing = true;
      // The next batch includes them again.
      const kept = [...batch, ...this.#waiting];
      this.#waiting = kept.slice(-WAITING_MAX);
      this.#dropped += kept.length - this.#waiting.length;
    } finally {
      done();
    }
  }
}
