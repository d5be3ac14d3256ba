/** How many things are under way for each key. A key without any takes no memory. */

import { BriefMap } from "../collections/brief_map.ts";

export class KeyCounts {
  readonly #counts = new BriefMap<string, { count: number }>();

  /** The number of keys with something under way. */
  get keys(): number {
    return this.#counts.size;
  }

  /** What is under way for all keys together. */
  get sum(): number {
    return this.#counts.values().reduce((sum, { count }) => sum + count, 0);
  }

  of(key: string): number {
    return this.#counts.get(key)?.count ?? 0;
  }

  /** Counts `more` things, or fewer with a number below 0. */
  add(key: string, more: number): void {
    const counted = this.#counts.get(key);
    const left = (counted?.count ?? 0) + more;
    if (left <= 0) this.#counts.delete(key);
    else if (counted) counted.count = left;
    else this.#counts.set(key, { count: left });
  }
}
