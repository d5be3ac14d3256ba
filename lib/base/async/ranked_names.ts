/**
 * Names by rank: a binary heap that knows the place of each name, so that every one can be moved or removed. A change
 * costs the logarithm of their number.
 */

import { BriefMap } from "../collections/brief_map.ts";

/** Compared number by number. */
export type NameRank = readonly [number, number, number];

interface Entry {
  readonly name: string;
  rank: NameRank;
  /** Its place in the heap. */
  at: number;
}

export class RankedNames {
  readonly #heap: Entry[] = [];
  readonly #entries = new BriefMap<string, Entry>();

  /** The name with the least rank. */
  get first(): string | undefined {
    return this.#heap[0]?.name;
  }

  /** Adds a name, or moves it to another rank. */
  set(name: string, rank: NameRank): void {
    const known = this.#entries.get(name);
    if (known) {
      known.rank = rank;
      this.#sink(this.#rise(known.at));
      return;
    }

    const entry: Entry = { name, rank, at: this.#heap.length };
    this.#entries.set(name, entry);
    this.#heap.push(entry);
    this.#rise(entry.at);
  }

  delete(name: string): void {
    const entry = this.#entries.get(name);
    if (!entry) return;
    this.#entries.delete(name);
    const last = this.#heap.pop()!;
    if (last === entry) return;
    this.#put(last, entry.at);
    this.#sink(this.#rise(entry.at));
  }

  clear(): void {
    this.#heap.length = 0;
    this.#entries.clear();
  }

  #put(entry: Entry, at: number): void {
    this.#heap[at] = entry;
    entry.at = at;
  }

  /** Moves an entry before those that it precedes; returns its place. */
  #rise(start: number): number {
    let at = start;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!this.#precedes(at, above)) break;
      this.#swap(at, above);
      at = above;
    }
    return at;
  }

  /** Moves an entry behind those that precede it. */
  #sink(start: number): void {
    for (let at = start;;) {
      const left = 2 * at + 1;
      const least = this.#precedes(left + 1, left) ? left + 1 : left;
      if (!this.#precedes(least, at)) return;
      this.#swap(at, least);
      at = least;
    }
  }

  #precedes(one: number, other: number): boolean {
    const [a, b] = [this.#heap[one], this.#heap[other]];
    if (!a || !b) return a !== undefined;
    const [a0, a1, a2] = a.rank, [b0, b1, b2] = b.rank;
    if (a0 !== b0) return a0 < b0;
    return a1 === b1 ? a2 < b2 : a1 < b1;
  }

  #swap(one: number, other: number): void {
    const [a, b] = [this.#heap[one]!, this.#heap[other]!];
    this.#put(b, one);
    this.#put(a, other);
  }
}
