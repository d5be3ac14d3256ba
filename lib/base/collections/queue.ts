/**
 * A queue between a producer that does not wait and one reader that may be slow.
 *
 * It holds a limited number of values and reports when it is full; the producer decides what happens then. The reader
 * iterates over it; the iteration ends when the producer or the reader ends it or the signal aborts, also while the
 * reader waits.
 */

const END: IteratorResult<never, undefined> = { done: true, value: undefined };

export class Queue<T> implements AsyncIterableIterator<T, undefined> {
  #values: T[] = [];
  #waiting: PromiseWithResolvers<IteratorResult<T, undefined>>[] = [];
  #ended = false;
  #closing: { readonly failure: unknown } | undefined;
  #failure?: unknown;
  readonly #unfollow: () => void;

  /** `left` is called once, when the queue ends for any reason. */
  constructor(
    private readonly limit: number,
    private readonly left: () => void = () => {},
    signal?: AbortSignal,
  ) {
    const aborted = () => this.end();
    signal?.addEventListener("abort", aborted, { once: true });
    // Not assigned as it is made: see "Garbage" in docs/development.md.
    const unfollow = () => signal?.removeEventListener("abort", aborted);
    this.#unfollow = unfollow;
    if (signal?.aborted) this.end();
  }

  /** Whether the value was accepted: false if the queue is full or has ended. */
  push(value: T): boolean {
    if (this.#ended || this.#closing || this.#values.length >= this.limit) return false;
    const reader = this.#waiting.shift();
    if (reader) reader.resolve({ done: false, value });
    else this.#values.push(value);
    return true;
  }

  /** Accepts nothing more; the iteration ends, with the error if one is given, after its values have been read. */
  close(failure?: unknown): void {
    if (this.#values.length === 0) return this.end(failure);
    this.#closing ??= { failure };
  }

  /** Ends the iteration, with the error if one is given. Drops values not yet read. */
  end(failure?: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#unfollow();
    this.#values = [];
    const [first, ...others] = this.#waiting.splice(0);
    if (failure === undefined) first?.resolve(END);
    else if (first) first.reject(failure);
    else this.#failure = failure;
    for (const reader of others) reader.resolve(END);
    this.left();
  }

  next(): Promise<IteratorResult<T, undefined>> {
    if (this.#values.length > 0) {
      const value = this.#values.shift()!;
      if (this.#closing && this.#values.length === 0) this.end(this.#closing.failure);
      return Promise.resolve({ done: false, value });
    }
    if (this.#failure !== undefined) {
      const failure = this.#failure;
      this.#failure = undefined;
      return Promise.reject(failure);
    }
    if (this.#ended) return Promise.resolve(END);
    const reader = Promise.withResolvers<IteratorResult<T, undefined>>();
    this.#waiting.push(reader);
    return reader.promise;
  }

  return(): Promise<IteratorResult<T, undefined>> {
    this.end();
    return Promise.resolve(END);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
