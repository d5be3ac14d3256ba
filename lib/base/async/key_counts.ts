/** How many things are under way for each key. A key without any takes no memory. */

export class KeyCounts {
  readonly #counts = new Map<string, number>();

  /** The number of keys with something under way. */
  get keys(): number {
    return this.#counts.size;
  }

  /** What is under way for all keys together. */
  get sum(): number {
    return this.#counts.values().reduce((sum, one) => sum + one, 0);
  }

  of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  /** Counts `more` things, or fewer with a number below 0. */
  add(key: string, more: number): void {
    const left = this.of(key) + more;
    if (left > 0) this.#counts.set(key, left);
    else this.#counts.delete(key);
  }
}
