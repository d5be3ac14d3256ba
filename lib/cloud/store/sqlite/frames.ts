/**
 * The protocol between svc-cloud and the processes that run SQLite for it.
 *
 * A frame is the length of its content (4 bytes, little-endian) and the content, a value in V8's own format: both sides
 * are the same program. Requests are answered in their order, each with any number of pages of rows and one end. The
 * statements of a request are answered together, because each message costs more than most statements.
 */

import { deserialize, serialize } from "node:v8";
import type { Code } from "../../../base/error.ts";
import type { BatchStatement, SqlValue } from "../store.ts";

export type StatementRequest = readonly [text: string, ...values: SqlValue[]];

export type SqliteRequest =
  | { readonly open: string; readonly reads: boolean }
  /** Each by itself, whatever becomes of the others. */
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

export function frameOf(content: SqliteRequest | SqliteAnswer): Uint8Array {
  const bytes = serialize(content);
  const frame = new Uint8Array(HEAD_BYTES + bytes.length);
  new DataView(frame.buffer).setUint32(0, bytes.length, true);
  frame.set(bytes, HEAD_BYTES);
  return frame;
}

export function concatenated(pieces: readonly Uint8Array[]): Uint8Array {
  if (pieces.length === 1) return pieces[0];
  const all = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

/** Takes bytes in any pieces, and gives the contents of the frames that are complete. */
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
      this.#pieces = [isComplete ? all.subarray(end) : all];
      this.#bytes = this.#pieces[0].length;
      this.#wanted = isComplete ? HEAD_BYTES : end;
      if (isComplete) yield deserialize(all.subarray(HEAD_BYTES, end)) as T;
    }
  }
}
