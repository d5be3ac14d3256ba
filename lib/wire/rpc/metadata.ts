/**
 * Metadata of a call: lower-case keys, each with one or more values in order. A key ending in `-bin` holds bytes as
 * base64 text.
 */

/** Header fields in order; names in lower case. Values hold one character per byte. */
export type HeaderFields = readonly (readonly [name: string, value: string])[];

/** Keys are in lower case. */
type Pair = readonly [key: string, value: string];

/** Not published: the address by which the caller reaches the server, because a proxy may pass on another one. */
export const ADDRESSED = "svc-addressed";

/** A refused call's trailer: the time after which the caller may try again (source: gRPC's proposal A6). */
const RETRY_PUSHBACK = "grpc-retry-pushback-ms";
/** The longest time that a server can hold callers back: longer than any server of this project asks for. */
const RETRY_PUSHBACK_MAX_MS = 300_000;

/** The header or trailer of a call; keys are in lower case. */
export class Metadata {
  /** A call has few entries, too few for a map to pay off. */
  #pairs: Pair[] = [];

  /** From pairs; a key may repeat. */
  static from(pairs: Iterable<Pair>): Metadata {
    const metadata = new Metadata();
    for (const [key, value] of pairs) metadata.append(key, value);
    return metadata;
  }

  /** Whether it has no entry. */
  get isEmpty(): boolean {
    return this.#pairs.length === 0;
  }

  /** The first value of a key. */
  get(key: string): string | undefined {
    const wanted = key.toLowerCase();
    for (const pair of this.#pairs) if (pair[0] === wanted) return pair[1];
    return undefined;
  }

  /** All values of a key, in order. */
  all(key: string): readonly string[] {
    const wanted = key.toLowerCase();
    return this.#pairs.filter((pair) => pair[0] === wanted).map((pair) => pair[1]);
  }

  /** Replaces every value of a key. */
  set(key: string, value: string): void {
    const wanted = key.toLowerCase();
    this.#pairs = this.#pairs.filter((pair) => pair[0] !== wanted);
    this.#pairs.push([wanted, value]);
  }

  /** Adds a value to a key. */
  append(key: string, value: string): void {
    this.#pairs.push([key.toLowerCase(), value]);
  }

  /** How long the server wants its caller to wait. A value that is no such time counts as none. */
  get retryPushbackMs(): number | undefined {
    const text = this.get(RETRY_PUSHBACK) ?? "";
    return /^\d+$/.test(text) ? Math.min(Number(text), RETRY_PUSHBACK_MAX_MS) : undefined;
  }

  set retryPushbackMs(ms: number) {
    this.set(RETRY_PUSHBACK, String(Math.ceil(ms)));
  }

  /** Every pair; a key repeats for each value. */
  [Symbol.iterator](): IterableIterator<Pair> {
    return this.#pairs.values();
  }
}
