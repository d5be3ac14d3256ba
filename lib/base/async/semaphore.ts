/**
 * A semaphore: at most so many holders at once; the others wait in the order of their arrival.
 */

export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  /** Resolves when the caller holds it; call `release` afterwards, once. */
  async acquire(): Promise<void> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  release(): void {
    // It passes to the caller that waits longest, so that a newcomer cannot overtake.
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free++;
  }
}
