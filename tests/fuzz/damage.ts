/** How files are damaged, the same way for the same seed. */

import { randomFrom } from "../../lib/geometry/random.ts";

/** Numbers that headers lie with. */
const LIES = ["0", "-1", "4294967296", "1000000000000", "1e9", "nan", "inf", "999999999"];

/** Bytes changed, numbers of the header replaced, the end cut off, a piece repeated: one to four of these. */
export function damaged(bytes: Uint8Array, seed: number): Uint8Array {
  const random = randomFrom(seed);
  const below = (limit: number) => Math.floor(limit * random());
  let result: Uint8Array = bytes.slice();
  for (let change = 0; change <= below(4); change++) {
    const at = below(result.length);
    const kind = below(5);
    if (kind === 0) result = result.slice(0, at);
    else if (kind === 1) result[at] = below(256);
    else if (kind === 2) result[below(Math.min(40, result.length))] = [0, 1, 127, 128, 255][below(5)];
    else if (kind === 3) result = withLie(result, below, LIES[below(LIES.length)]);
    else result = joined(result.subarray(0, at), result.subarray(below(at + 1)));
  }
  return result;
}

/** One of the numbers in the first part of a file replaced, as text. */
function withLie(bytes: Uint8Array, below: (limit: number) => number, lie: string): Uint8Array {
  const head = new TextDecoder("latin1").decode(bytes.subarray(0, 300));
  const numbers = [...head.matchAll(/\d+/g)];
  if (numbers.length === 0) return bytes;
  const { 0: number, index } = numbers[below(numbers.length)];
  const written = new TextEncoder().encode(lie);
  return joined(bytes.subarray(0, index), written, bytes.subarray(index + number.length));
}

export function joined(...parts: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}
