/**
 * Metadata of a call: lower-case keys, each with one or more values in order. A key ending in `-bin` holds bytes
 * as base64 text, as it travels.
 */

export class Metadata {
  readonly #values = new Map<string, string[]>();

  /** From pairs; a key may come more than once. */
  static from(pairs: Iterable<readonly [string, string]>): Metadata {
    const metadata = new Metadata();
    for (const [key, value] of pairs) metadata.append(key, value);
    return metadata;
  }

  /** The first value of a key. */
  get(key: string): string | undefined {
    return this.#values.get(key.toLowerCase())?.[0];
  }

  all(key: string): readonly string[] {
    return this.#values.get(key.toLowerCase()) ?? [];
  }

  set(key: string, value: string): void {
    this.#values.set(key.toLowerCase(), [value]);
  }

  append(key: string, value: string): void {
    const values = this.#values.get(key.toLowerCase());
    if (values) values.push(value);
    else this.set(key, value);
  }

  /** Every pair, a key once per value. */
  *[Symbol.iterator](): IterableIterator<[string, string]> {
    for (const [key, values] of this.#values) for (const value of values) yield [key, value];
  }
}
