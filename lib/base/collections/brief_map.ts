/**
 * A map whose entries come and go thousands of times a second.
 *
 * When many entries of a `Map` or `Set` are deleted, V8 copies the rest to a new table, and the old table points to
 * the new one. An old table that has reached the old generation keeps every later table alive until the next full
 * collection, together with the values in it: after 33,000 calls this held 90 MB. This map keeps each value in a box,
 * empties the box when the entry is deleted, and takes another `Map` after its last entry, instead of a copy of the
 * table. Its keys are numbers or texts; items without one are in a `LinkedList`.
 *
 * The room owns collections whose items come and go.
 */

interface Holder<V> {
  value: V | undefined;
}

export class BriefMap<K, V extends object> {
  #places = new Map<K, Holder<V>>();

  get size(): number {
    return this.#places.size;
  }

  get(key: K): V | undefined {
    return this.#places.get(key)?.value;
  }

  /** The values, in the order of their insertion. */
  values(): V[] {
    return [...this.#places.values()].map(({ value }) => value!);
  }

  set(key: K, value: V): void {
    const place = this.#places.get(key);
    if (place) place.value = value;
    else this.#places.set(key, { value });
  }

  /** The value of a key, which is made if there is none. */
  getOrInsertComputed(key: K, made: () => V): V {
    const known = this.get(key);
    if (known) return known;
    const value = made();
    this.set(key, value);
    return value;
  }

  /** Whether there was such an entry. */
  delete(key: K): boolean {
    const place = this.#places.get(key);
    if (!place) return false;
    place.value = undefined;
    if (this.#places.size === 1) this.#places = new Map();
    else this.#places.delete(key);
    return true;
  }

  clear(): void {
    for (const place of this.#places.values()) place.value = undefined;
    this.#places = new Map();
  }
}
