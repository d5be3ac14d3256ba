/**
 * LZF: the small, fast compression of PCD files. It consists of runs of literals and references to earlier
 * data only.
 *
 * Decompression trusts no length: for any input, it ends within the requested size or with an error.
 */

import { SvcError } from "../../base/error.ts";

const MAX_LITERALS = 32;
const MAX_OFFSET = 8192;
const MIN_MATCH = 3;
const MAX_MATCH = 264;
const HASH_BITS = 14;
/** LZF data grows at most by this factor: the longest match takes three bytes. */
const MAX_RATIO = MAX_MATCH / 3;

/** @throws invalid_argument if the input is broken or does not make exactly `size` bytes */
export function decompressLzf(input: Uint8Array, size: number): Uint8Array<ArrayBuffer> {
  if (size > input.length * MAX_RATIO) throw broken(`${input.length} bytes cannot become ${size}`);
  const output = new Uint8Array(size);
  let [from, to] = [0, 0];
  while (from < input.length) {
    const control = input[from++] ?? NaN;
    if (control < MAX_LITERALS) {
      const length = control + 1;
      if (from + length > input.length || to + length > size) {
        throw broken(`literals overrun at byte ${from}`);
      }
      output.set(input.subarray(from, from + length), to);
      from += length;
      to += length;
      continue;
    }

    let length = (control >> 5) + 2;
    if (length === 9) length += input[from++] ?? NaN;
    const source = to - ((control & 0x1f) << 8) - (input[from++] ?? NaN) - 1;

    // A truncated reference has no source.
    if (!(source >= 0) || !(to + length <= size)) throw broken(`a reference out of bounds at byte ${from}`);
    // Copies byte by byte, because a reference may reach into its own output.
    for (let n = 0; n < length; n++) output[to++] = output[source + n] ?? 0;
  }

  if (to !== size) throw broken(`it makes ${to} bytes, wanted ${size}`);
  return output;
}

/** The result is longer than the input by at most one byte in 32. */
export function compressLzf(input: Uint8Array): Uint8Array<ArrayBuffer> {
  const output = new Uint8Array(input.length + Math.ceil(input.length / MAX_LITERALS));
  const seen = new Int32Array(1 << HASH_BITS).fill(-1);
  let to = 0;
  let literalsFrom = 0;
  const flush = (end: number) => {
    for (let from = literalsFrom; from < end; from += MAX_LITERALS) {
      const run = input.subarray(from, Math.min(from + MAX_LITERALS, end));
      output[to++] = run.length - 1;
      output.set(run, to);
      to += run.length;
    }
  };
  for (let at = 0; at + MIN_MATCH <= input.length;) {
    const slot = hash(input, at);
    const earlier = seen[slot] ?? -1;
    seen[slot] = at;

    const length = earlier < 0 || at - earlier > MAX_OFFSET ? 0 : matchLength(input, earlier, at);
    if (length < MIN_MATCH) {
      at++;
      continue;
    }

    flush(at);
    const offset = at - earlier - 1;
    const code = length - 2;
    output[to++] = (Math.min(code, 7) << 5) | (offset >> 8);
    if (code >= 7) output[to++] = code - 7;
    output[to++] = offset & 0xff;

    at += length;
    literalsFrom = at;
  }

  flush(input.length);
  return output.subarray(0, to);
}

function hash(input: Uint8Array, at: number): number {
  const three = ((input[at] ?? 0) << 16) | ((input[at + 1] ?? 0) << 8) | (input[at + 2] ?? 0);
  return Math.imul(three, 0x9e3779b1) >>> (32 - HASH_BITS);
}

function matchLength(input: Uint8Array, earlier: number, at: number): number {
  const most = Math.min(MAX_MATCH, input.length - at);
  let length = 0;
  while (length < most && input[earlier + length] === input[at + length]) length++;
  return length;
}

function broken(found: string): SvcError {
  return new SvcError("invalid_argument", `decompressing LZF: ${found}`);
}
