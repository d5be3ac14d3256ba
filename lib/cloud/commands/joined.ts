/**
 * Merges several streams into one, in the order in which values arrive. Each source waits until its last value has
 * been taken, so that a slow reader slows the sources down.
 */

interface Offer<T> {
  readonly value: T;
  readonly taken: () => void;
}

export class Joined<T> {
  readonly #offers: Offer<T>[] = [];
  #wake: () => void = () => {};
  #open = 0;
  /** Whether the reader has stopped, so that further values are dropped. */
  #left = false;

  add<S>(source: AsyncIterable<S>, valueOf: (value: S) => T): void {
    this.#open++;
    void this.#read(source, valueOf);
  }

  /** Ends when every source has ended; read it once. An error of a source ends that source. */
  async *values(): AsyncGenerator<T> {
    try {
      for (;;) {
        const offer = this.#offers.shift();
        if (offer) {
          try {
            yield offer.value;
          } finally {
            offer.taken();
          }
        } else if (this.#open === 0) return;
        else await new Promise<void>((resolve) => this.#wake = resolve);
      }
    } finally {
      this.#left = true;
      for (const { taken } of this.#offers.splice(0)) taken();
    }
  }

  async #read<S>(source: AsyncIterable<S>, valueOf: (value: S) => T): Promise<void> {
    try {
      for await (const value of source) {
        if (this.#left) continue;
        await new Promise<void>((taken) => {
          this.#offers.push({ value: valueOf(value), taken });
          this.#wake();
        });
      }
    } catch {
      // A pipe of a process that was killed.
    } finally {
      this.#open--;
      this.#wake();
    }
  }
}
