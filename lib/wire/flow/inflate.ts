/**
 * Inflates compressed messages in small pieces, only a few messages at a time, and only as far as there is room.
 *
 * The runtime inflates on the main thread, although its interface is asynchronous, so each piece of input or output
 * is followed by a turn for other work.
 */

import { Buffer } from "node:buffer";
import { pipeline } from "node:stream/promises";
import { createGunzip, createInflate } from "node:zlib";
import { Semaphore } from "../../base/async/semaphore.ts";
import { nextTurn } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { giveBack } from "./given_back.ts";

/** Messages inflated at once, over all connections; one per connection. */
export const INFLATED_AT_ONCE = 4;
/** Input per turn: input may cost work without any output. */
const INPUT_BYTES = 16 * 1024;
const OUTPUT_BYTES = 64 * 1024;

export interface InflatedTo {
  /** Whether the message is still wanted. */
  wanted(): boolean;
  /** Copies the output; throws when it is too much. */
  append(bytes: Uint8Array): void;
}

/** Inflates the messages of one connection, one after the other. */
export class Inflater {
  readonly #own = new Semaphore(1);

  /** `shared` limits all connections together. */
  constructor(private readonly shared = new Semaphore(INFLATED_AT_ONCE)) {}

  /** Inflates `bytes` into `to`. Rejects with what `to` throws, `internal` for bytes that are broken. */
  async inflate(bytes: Uint8Array, encoding: string | undefined, to: InflatedTo): Promise<void> {
    let create: typeof createGunzip | typeof createInflate | undefined;
    if (encoding === "gzip") create = createGunzip;
    else if (encoding === "deflate") create = createInflate;

    if (!create) {
      const problem = `a message is compressed with "${encoding ?? "nothing named"}", wanted gzip or deflate`;
      // "identity" promises that nothing is compressed, as no word does.
      const isPromised = encoding === undefined || encoding === "" || encoding === "identity";
      throw new SvcError(isPromised ? "internal" : "unimplemented", problem);
    }
    await this.#own.acquire();
    await this.shared.acquire();
    try {
      if (to.wanted()) await run(create({ chunkSize: OUTPUT_BYTES }), bytes, to);
    } finally {
      this.shared.release();
      this.#own.release();
    }
  }
}

async function run(inflating: ReturnType<typeof createGunzip>, bytes: Uint8Array, to: InflatedTo) {
  try {
    await pipeline(inTurns(bytes, to), inflating, async (pieces: AsyncIterable<Uint8Array>) => {
      for await (const piece of pieces) {
        if (!to.wanted()) throw new SvcError("canceled", "nobody waits for a compressed message any more");
        to.append(piece);
        giveBack(piece);
        await turn();
      }
    });
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw new SvcError("internal", `cannot decompress a message: ${messageOf(error)}`, { cause: error });
  }
}

async function* inTurns(bytes: Uint8Array, to: InflatedTo): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length && to.wanted(); at += INPUT_BYTES) {
    const piece = bytes.subarray(at, at + INPUT_BYTES);
    yield Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    await turn();
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => void nextTurn(resolve));
}
