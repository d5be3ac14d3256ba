/**
 * A map whose entries come and go thousands of times a second.
 *
 * When many entries of a `Map` or `Set` have gone, V8 moves the others to a new table, and the old table points to the
 * new one. Once one table has become old, it keeps all later ones alive until the next full collection, with the values
 * that they held when they were left: after 33,000 calls these were 90 MB. So a value is kept in a place that is emptied
 * when it goes.
 */

interface Place<V> {
  value: V | undefined;
}

export class BriefMap<K, V extends object> {
  readonly #places = new Map<K, Place<V>>();

  get size(): number {
    return this.#places.size;
  }

  get(key: K): V | undefined {
    return this.#places.get(key)?.value;
  }

  /** The values, in the order in which their keys came. */
  values(): V[] {
    return [...this.#places.values()].map(({ value }) => value!);
  }

  set(key: K, value: V): void {
    const place = this.#places.get(key);
    if (place) place.value = value;
    else this.#places.set(key, { value });
  }

  delete(key: K): void {
    const place = this.#places.get(key);
    if (!place) return;
    place.value = undefined;
    this.#places.delete(key);
  }

  clear(): void {
    for (const place of this.#places.values()) place.value = undefined;
    this.#places.clear();
  }
}
