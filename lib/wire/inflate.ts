/**
 * Compressed messages are inflated piece by piece, a few at once, and no further than somebody has room for.
 */

import { Buffer } from "node:buffer";
import { createGunzip, createInflate } from "node:zlib";
import { messageOf, SvcError } from "../base/error.ts";

/** Messages of one connection that are inflated at the same time; the others wait for their turn. */
const INFLATED_AT_ONCE = 2;
const PIECE_BYTES = 64 * 1024;

export interface InflatedTo {
  /** Whether anybody still waits for it. */
  wanted(): boolean;
  /** Keeps what comes out; throws when it is too much. */
  append(bytes: Uint8Array): void;
}

export class Inflater {
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  /** Inflates `bytes` into `to`. Rejects with what `to` throws, `internal` for bytes that are broken. */
  async inflate(bytes: Uint8Array, encoding: string | undefined, to: InflatedTo): Promise<void> {
    const create = encoding === "gzip" ? createGunzip : encoding === "deflate" ? createInflate : undefined;
    if (!create) {
      const problem = `a message is compressed with "${encoding ?? "nothing named"}", wanted gzip or deflate`;
      throw new SvcError(encoding ? "unimplemented" : "internal", problem);
    }
    if (this.#running >= INFLATED_AT_ONCE) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else this.#running++;
    try {
      if (to.wanted()) await run(create({ chunkSize: PIECE_BYTES }), bytes, to);
    } finally {
      // Whoever waits longest has the turn now.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    }
  }
}

function run(inflating: ReturnType<typeof createGunzip>, bytes: Uint8Array, to: InflatedTo): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (error: unknown) => {
      inflating.destroy();
      reject(
        error instanceof SvcError
          ? error
          : new SvcError("internal", `cannot decompress a message: ${messageOf(error)}`, { cause: error }),
      );
    };
    inflating.on("data", (piece: Buffer) => {
      if (inflating.destroyed) return;
      try {
        to.append(piece);
      } catch (error) {
        failed(error);
      }
    });
    inflating.on("error", failed);
    inflating.on("end", resolve);
    inflating.end(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  });
}
