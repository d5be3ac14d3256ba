/**
 * Reads a stream of chunks of any size in pieces of the size that the caller wants.
 */

import { SvcError } from "../error.ts";
import { race } from "../clock.ts";

/** Takes bytes from chunks of any size. */
export class ByteReader {
  /** Bytes taken so far. */
  at = 0;
  #chunk: Uint8Array = new Uint8Array();
  readonly #chunks: AsyncIterator<Uint8Array>;

  /** `cut` makes the error for a stream that ends before the requested bytes. */
  constructor(chunks: AsyncIterable<Uint8Array>, private readonly cut: () => Error) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  async *part(bytes: number): AsyncGenerator<Uint8Array> {
    for (let left = bytes; left > 0;) {
      if (this.#chunk.length === 0 && !await this.#more()) throw this.cut();
      const some = this.#chunk.subarray(0, left);
      this.#chunk = this.#chunk.subarray(some.length);
      left -= some.length;
      this.at += some.length;
      yield some;
    }
  }

  async take(bytes: number): Promise<Uint8Array> {
    const taken = new Uint8Array(bytes);
    let at = 0;
    for await (const some of this.part(bytes)) {
      taken.set(some, at);
      at += some.length;
    }
    return taken;
  }

  async skip(bytes: number): Promise<void> {
    for await (const _ of this.part(bytes));
  }

  /** Whether the stream has ended and every byte was taken. */
  async ended(): Promise<boolean> {
    while (this.#chunk.length === 0) if (!await this.#more()) return true;
    return false;
  }

  /** Reads to the end of the stream, where a decompressor reports its errors. */
  async rest(): Promise<void> {
    while (await this.#more());
  }

  async close(): Promise<void> {
    await this.#chunks.return?.();
  }

  async #more(): Promise<boolean> {
    const { done, value } = await this.#chunks.next();
    if (!done) this.#chunk = value;
    return !done;
  }
}

/** All chunks as one array of `bytes` bytes. Throws `data_loss` if their size differs. */
export async function collectBytes(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  bytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const whole = new Uint8Array(bytes);
  let at = 0;
  for await (const chunk of chunks) {
    if (at + chunk.length > bytes) break;
    whole.set(chunk, at);
    at += chunk.length;
  }
  if (at === bytes) return whole;
  throw new SvcError("data_loss", `found a content of another size than ${bytes} bytes`);
}

/** All chunks as one array; `undefined` if they have more than `bytesMax` bytes, and then no more are taken. */
export async function bytesUpTo(
  chunks: AsyncIterable<Uint8Array>,
  bytesMax: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of chunks) {
    if ((bytes += piece.length) > bytesMax) return undefined;
    pieces.push(piece);
  }
  return joinedBytes(pieces);
}

/** Several arrays of bytes as one. */
export function joinedBytes(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** A stream of bytes that are there already. */
export async function* onePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** Ends the pieces with the signal's reason when it aborts, also while the next one is awaited. */
export async function* piecesUntil(
  signal: AbortSignal,
  pieces: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const reader = pieces[Symbol.asyncIterator]();
  let isComplete = false;
  try {
    for (;;) {
      const next = await race(Promise.resolve(reader.next()), signal);
      isComplete = next.done === true;
      if (next.done) return;
      yield next.value;
    }
  } finally {
    // Not awaited, because a source that hangs does not end.
    if (!isComplete) void Promise.resolve(reader.return?.()).catch(() => {});
  }
}
