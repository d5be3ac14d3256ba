/**
 * Unpacks the chunks of bags within limits: each chunk must unpack to exactly the size that it states, and all chunks
 * together to a limited multiple of the file.
 */

import { zstdDecompressSync } from "node:zlib";
import Bzip2 from "seek-bzip";
import { unpackLz4 } from "./lz4.ts";

/** Limit of a chunk, packed and unpacked: recorders write chunks of about a megabyte. */
export const CHUNK_BYTES_MAX = 256 * 1024 ** 2;
/** All chunks together may unpack to this many times the bytes read, and always to this much. */
const RATIO_MAX = 200;
const FREE_BYTES = 1024 ** 3;

export type PackedForm = "none" | "lz4" | "zstd" | "bz2";

export class Unpacker {
  #readBytes = 0;
  #unpackedBytes = 0;

  constructor(private readonly freeBytes = FREE_BYTES) {}

  /** Counts what was read of the file. */
  count(bytes: number): void {
    this.#readBytes += bytes;
  }

  /** Throws a `RangeError` for a chunk that exceeds the limits or does not have the size that it states. */
  unpack(form: string, packed: Uint8Array, bytes: number): Uint8Array {
    if (!(bytes >= 0 && bytes <= CHUNK_BYTES_MAX)) {
      throw new RangeError(`a chunk of ${bytes} bytes, wanted at most ${CHUNK_BYTES_MAX}`);
    }
    this.#unpackedBytes += bytes;
    if (this.#unpackedBytes > this.freeBytes + RATIO_MAX * this.#readBytes) {
      throw new RangeError(`the chunks unpack to more than ${RATIO_MAX} times the size of the file`);
    }
    const unpacked = unpackedOf(form, packed, bytes);
    if (unpacked.length === bytes) return unpacked;
    throw new RangeError(`a chunk unpacks to ${unpacked.length} bytes, but says ${bytes}`);
  }
}

function unpackedOf(form: string, packed: Uint8Array, bytes: number): Uint8Array {
  if (form === "none") return packed;
  if (bytes === 0) return new Uint8Array(0);
  if (form === "lz4") return unpackLz4(packed, bytes);
  if (form === "zstd") return zstdDecompressSync(packed, { maxOutputLength: bytes });
  if (form === "bz2") return Bzip2.decode(packed, bytes);
  throw new RangeError(`a chunk packed with "${form.slice(0, 20)}", wanted none, lz4, zstd or bz2`);
}
