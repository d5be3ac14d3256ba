/** How inputs are changed, the same way for the same random numbers. */

import { INPUT_BYTES_MAX } from "./target.ts";

/** Numbers that headers lie with. */
const LIES = ["0", "-1", "4294967296", "1000000000000", "1e9", "1e400", "nan", "inf", "999999999"];
const BYTES = [0, 1, 127, 128, 255];
const WORDS_32 = [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff];
const CHANGES_MAX = 4;
/** Most numbers that a header lies with stand here. */
const HEADER_BYTES = 300;
const RUN_BYTES_MAX = 64;

export interface Damage {
  readonly random: () => number;
  readonly words?: readonly string[];
  /** Another input, pieces of which are taken. */
  readonly other?: Uint8Array;
}

/** An input with one to four changes: bytes changed, numbers replaced, pieces cut, repeated, inserted or moved. */
export function damaged(bytes: Uint8Array, { random, words = [], other = bytes }: Damage): Uint8Array {
  const below = (limit: number) => Math.floor(limit * random());
  const oneOf = <T>(all: readonly T[]): T => all[below(all.length)];
  let result: Uint8Array = bytes.slice();

  const piece = (from: Uint8Array) => {
    const start = below(from.length);
    return from.subarray(start, start + 1 + below(RUN_BYTES_MAX));
  };
  const insert = (what: Uint8Array, instead = 0) => {
    const at = below(result.length + 1);
    result = joined(result.subarray(0, at), what, result.subarray(at + instead));
  };
  const set = (value: number) => result[below(result.length)] = value;
  const changes: (() => void)[] = [
    () => result = result.slice(0, below(result.length)),
    () => set(below(256)),
    () => result[below(Math.min(40, result.length))] = oneOf(BYTES),
    () => result = withLie(result, HEADER_BYTES, below, oneOf(LIES)),
    () => result = withLie(result, result.length, below, oneOf(LIES)),
    () => {
      const at = below(result.length);
      result = joined(result.subarray(0, at), result.subarray(below(at + 1)));
    },
    () => {
      const at = below(result.length);
      result[at] ^= 1 << below(8);
    },
    () => insert(piece(other)),
    () => insert(piece(result), RUN_BYTES_MAX),
    () => insert(new Uint8Array(), 1 + below(RUN_BYTES_MAX)),
    () => insert(word32(oneOf(WORDS_32), random() < 0.5), 4),
    () => insert(other.subarray(below(other.length)), INPUT_BYTES_MAX),
    () => insert(new TextEncoder().encode(oneOf(words)), random() < 0.5 ? 8 : 0),
  ];
  // The last change needs words.
  const kinds = words.length > 0 ? changes.length : changes.length - 1;
  for (let left = 1 + below(CHANGES_MAX); left > 0; left--) changes[below(kinds)]();
  return result.subarray(0, INPUT_BYTES_MAX);
}

function word32(value: number, isLittle: boolean): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, isLittle);
  return bytes;
}

/** One of the numbers in the first part of a file replaced, as text. */
function withLie(
  bytes: Uint8Array,
  within: number,
  below: (limit: number) => number,
  lie: string,
): Uint8Array {
  const head = new TextDecoder("latin1").decode(bytes.subarray(0, within));
  const numbers = [...head.matchAll(/\d+/g)];
  if (numbers.length === 0) return bytes;
  const { 0: number, index } = numbers[below(numbers.length)];
  const written = new TextEncoder().encode(lie);
  return joined(bytes.subarray(0, index), written, bytes.subarray(index + number.length));
}

export function joined(...parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
