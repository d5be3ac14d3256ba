/**
 * The answer to a query: its documents in BSON, within the limits of an answer; the only file that imports BSON.
 */

import { Double, serialize } from "bson";
import { messageOf, SvcError } from "../../base/error.ts";
import { DOCUMENTS_BYTES_MAX, DOCUMENTS_MAX } from "../data/queries/query_requests.ts";

export { BSONError, deserialize, Long } from "bson";

export type Document = { [name: string]: unknown };

export class AnswerWriter {
  readonly documents: Uint8Array[] = [];
  #bytes = 0;

  /** `most` limits the number of documents. */
  constructor(private readonly most = DOCUMENTS_MAX) {}

  /** Throws `resource_exhausted` if the answer becomes too large. */
  add(document: Document): void {
    if (this.documents.length >= this.most) throw tooLarge(`more than ${this.most} documents`, this.most);
    const encoded = written(document);
    this.#bytes += encoded.length;
    if (this.#bytes > DOCUMENTS_BYTES_MAX) throw tooLarge("too many bytes", DOCUMENTS_BYTES_MAX);
    this.documents.push(encoded);
  }
}

export function tooLarge(found: string, most: number): SvcError {
  const hint = "reduce it by conditions, groups or a limit ($match, $group, $limit; WHERE, GROUP BY, LIMIT)";
  return new SvcError("resource_exhausted", `the answer has ${found}, wanted at most ${most}: ${hint}`);
}

/**
 * A document in BSON. Numbers in `data` are doubles, as machines send them; elsewhere whole numbers are integers,
 * such as counts.
 */
function written(document: Document): Uint8Array {
  const { data } = document;
  const whole = isPlainObject(data) ? { ...document, data: doubles(data) } : document;
  try {
    return serialize(whole, { ignoreUndefined: true });
  } catch (error) {
    if (hasNull(whole)) return written(withoutNulls(whole) as Document);
    throw new SvcError("invalid_argument", `cannot write a document of the answer: ${messageOf(error)}`);
  }
}

/** Whether a name has the character 0, which machines may send and BSON has not. */
function hasNull(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(hasNull);
  return isPlainObject(value) &&
    Object.entries(value).some(([name, inner]) => name.includes("\0") || hasNull(inner));
}

/** The same with the sign for an unreadable character in its place. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isPlainObject(value)) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(
    entries.map(([name, inner]) => [name.replaceAll("\0", "\ufffd"), withoutNulls(inner)]),
  );
}

function doubles(value: unknown): unknown {
  if (typeof value === "number") return new Double(value);
  if (Array.isArray(value)) return value.map(doubles);
  if (typeof value !== "object" || value === null) return value;
  return isPlainObject(value)
    ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, doubles(inner)]))
    : value;
}

/** A plain object, as JSON and BSON have them. */
export function isPlainObject(value: unknown): value is Document {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
