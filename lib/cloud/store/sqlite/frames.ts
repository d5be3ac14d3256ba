/**
 * The protocol between svc-cloud and the processes that run SQLite for it.
 *
 * A frame is the length of its content (4 bytes, little-endian) and the content: the length of a JSON text (4 bytes),
 * the text, and the bytes of the blobs in it. V8's own format takes three times as long in this runtime, and its
 * buffers stay in memory until an unrelated garbage collection. Requests are answered in their order, each with any
 * number of pages of rows and one end. The statements of a request are answered together, because each message costs
 * more than most statements.
 */

import type { Code } from "../../../base/error.ts";
import type { BatchStatement, SqlValue } from "../store.ts";

export type StatementRequest = readonly [text: string, ...values: SqlValue[]];

export type SqliteRequest =
  | { readonly open: string; readonly reads: boolean }
  /** Statements that run independently: a failed one does not stop the others. */
  | { readonly statements: readonly StatementRequest[] }
  | { readonly batch: readonly BatchStatement[] }
  | { readonly close: true };

/** Rows of the request's statement with this number, each with a value per column; or its failure. */
export interface StatementAnswer {
  readonly at: number;
  readonly columns?: readonly string[];
  readonly rows?: readonly (readonly SqlValue[])[];
  readonly failed?: StatementFailure;
}

export interface StatementFailure {
  readonly code: Code;
  readonly message: string;
}

export interface SqliteAnswer {
  readonly answers: readonly StatementAnswer[];
  /** More answers to the same request follow. */
  readonly more?: boolean;
}

const HEAD_BYTES = 4;

/** A blob is represented by its place in the bytes after the text, a number without a JSON form by its name. */
type PackedValue = string | number | null | readonly [start: number, bytes: number] | readonly [name: string];

/** The pieces of a frame, for `concatenated`. Throws a `TypeError` for a value that databases cannot store. */
export function frameOf(content: SqliteRequest | SqliteAnswer): Uint8Array[] {
  const blobs: Uint8Array[] = [];
  let blobBytes = 0;
  let isPacked = false;
  const packed = (value: SqlValue): PackedValue => {
    if (typeof value === "string" || value === null || Number.isFinite(value)) return value as PackedValue;
    isPacked = true;
    if (typeof value === "number") return [String(value)];
    if (!(value instanceof Uint8Array)) throw new TypeError(`found a value of the type ${typeof value}`);
    blobs.push(value);
    blobBytes += value.length;
    return [blobBytes - value.length, value.length];
  };
  const plain = withValues(content, packed);
  const text = ENCODER.encode(JSON.stringify(isPacked ? { packed: plain } : plain));
  const head = new Uint8Array(2 * HEAD_BYTES);
  const view = new DataView(head.buffer);
  view.setUint32(0, HEAD_BYTES + text.length + blobBytes, true);
  view.setUint32(HEAD_BYTES, text.length, true);
  return [head, text, ...blobs];
}

const ENCODER = new TextEncoder();
const DECODER = new TextDecoder();

function contentOf<T extends SqliteRequest | SqliteAnswer>(bytes: Uint8Array): T {
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const blobs = bytes.subarray(HEAD_BYTES + size);
  const content = JSON.parse(DECODER.decode(bytes.subarray(HEAD_BYTES, HEAD_BYTES + size)));
  if (!("packed" in content)) return content;
  return withValues(content.packed as T, (value: PackedValue) => {
    if (!Array.isArray(value)) return value as string | number | null;
    const [start, length] = value;
    return typeof start === "string" ? Number(start) : blobs.slice(start, start + length);
  }) as T;
}

/** The same content with other values. */
function withValues<V, W>(content: SqliteRequest | SqliteAnswer, other: (value: V) => W): unknown {
  const all = (values: readonly unknown[]) => values.map((value) => other(value as V));
  if ("statements" in content) return { statements: content.statements.map(all) };
  if ("batch" in content) {
    return { batch: content.batch.map((one) => ({ ...one, values: all(one.values) })) };
  }
  if (!("answers" in content)) return content;
  return { ...content, answers: content.answers.map((one) => ({ ...one, rows: one.rows?.map(all) })) };
}

export function concatenated(pieces: readonly Uint8Array[]): Uint8Array {
  const [first, ...others] = pieces;
  if (first && others.length === 0) return first;

  const all = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

/** Takes bytes in pieces of any size, and returns the contents of complete frames. */
export class SqliteFrames<T extends SqliteRequest | SqliteAnswer> {
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  #wanted = HEAD_BYTES;

  *add(piece: Uint8Array): Generator<T> {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    while (this.#bytes >= this.#wanted) {
      const all = concatenated(this.#pieces);
      const size = new DataView(all.buffer, all.byteOffset).getUint32(0, true);
      const end = HEAD_BYTES + size;
      const isComplete = all.length >= end;
      const rest = isComplete ? all.subarray(end) : all;
      this.#pieces = [rest];
      this.#bytes = rest.length;
      this.#wanted = isComplete ? HEAD_BYTES : end;
      if (isComplete) yield contentOf<T>(all.subarray(HEAD_BYTES, end));
    }
  }
}
