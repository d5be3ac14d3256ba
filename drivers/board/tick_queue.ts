/**
 * The ticks of one listener, between a board that does not wait and a reader that may be slow. The queue
 * holds a limited number of ticks. A reader for whom there is a further one gets those, and then an error: a lost tick
 * would leave an encoder's count wrong, and a button pressed, without a word.
 */

import type { Tick } from "../../lib/api/actuators/board.ts";
import { SvcError } from "../../lib/base/error.ts";

/** Queue limit of one listener: a second of edges at 10 kHz, in which a client may be busy. */
const QUEUE_LIMIT = 10_000;

const END: IteratorResult<Tick, undefined> = { done: true, value: undefined };

export class TickQueue implements AsyncIterableIterator<Tick, undefined> {
  readonly interrupts: ReadonlySet<string>;
  #ticks: Tick[] = [];
  /** Index in `#ticks` of the next tick to read. */
  #read = 0;
  #waiting?: (result: IteratorResult<Tick, undefined>) => void;
  #ended = false;
  /** It was full: nothing comes any more. */
  #overflowed = false;

  /** `left` is called once, when the iteration ends for any reason. */
  constructor(
    interrupts: Iterable<string>,
    private readonly left: (queue: TickQueue) => void,
    private readonly signal?: AbortSignal,
  ) {
    this.interrupts = new Set(interrupts);
    signal?.addEventListener("abort", this.end, { once: true });
    if (signal?.aborted) this.end();
  }

  get ended(): boolean {
    return this.#ended;
  }

  push(tick: Tick): void {
    if (this.#ended || this.#overflowed) return;
    if (this.#ticks.length - this.#read >= QUEUE_LIMIT) {
      this.#overflowed = true;
      return this.left(this);
    }
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting) waiting({ done: false, value: tick });
    else this.#ticks.push(tick);
  }

  readonly end = (): void => {
    if (this.#ended) return;
    this.#ended = true;
    this.signal?.removeEventListener("abort", this.end);
    this.#ticks = [];
    this.#waiting?.(END);
    if (!this.#overflowed) this.left(this);
  };

  next(): Promise<IteratorResult<Tick, undefined>> {
    if (this.#ended) return Promise.resolve(END);
    const value = this.#ticks[this.#read];
    if (value) {
      this.#read++;
      // A reader that keeps pace may never find the queue empty.
      if (this.#read === this.#ticks.length || this.#read >= QUEUE_LIMIT) {
        this.#ticks = this.#ticks.slice(this.#read);
        this.#read = 0;
      }
      return Promise.resolve({ done: false, value });
    }
    if (this.#overflowed) {
      this.end();
      const found = `more than ${QUEUE_LIMIT} ticks of ${[...this.interrupts].join(", ")} waited to be read`;
      return Promise.reject(
        new SvcError("resource_exhausted", `${found}, later ones are lost: listen again`),
      );
    }
    return new Promise((resolve) => this.#waiting = resolve);
  }

  return(): Promise<IteratorResult<Tick, undefined>> {
    this.end();
    return Promise.resolve(END);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
