/** Work that runs one piece after another, in the order in which it was given. */

export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();

  /**
   * Runs `work` when all that was given before has ended, whatever came of it. Resolves or rejects as `work` does: its
   * failure belongs to the caller, and later work runs all the same.
   */
  run<T>(work: () => T | Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {});
    return result;
  }

  /** Resolves when all that has been given so far has ended. Never rejects. */
  async idle(): Promise<void> {
    await this.#last;
  }
}

/** A serial queue for each key. Those without work take no memory. */
export class SerialQueues {
  readonly #last = new Map<string, Promise<unknown>>();

  /** How many keys have work. */
  get size(): number {
    return this.#last.size;
  }

  /** Runs `work` when all that was given before for the same key has ended. Resolves or rejects as `work` does. */
  run<T>(key: string, work: () => T | Promise<T>): Promise<T> {
    const result = (this.#last.get(key) ?? Promise.resolve()).then(work);
    const ended = result.catch(() => {}).then(() => {
      if (this.#last.get(key) === ended) this.#last.delete(key);
    });
    this.#last.set(key, ended);
    return result;
  }
}
