/**
 * The Huffman code of HPACK (RFC 7541, appendix B), decoded half a byte at a time from a table.
 *
 * Decoding takes the same few steps for every byte, whatever the symbols, and refuses what the standard refuses:
 * unknown codes, the end-of-string symbol within a string, and padding that is too long or not all ones.
 */

import { assert } from "../../base/error.ts";
import { Buffer } from "node:buffer";
import { giveBack } from "../flow/given_back.ts";

/** Bits of each symbol's code; the code is canonical, so lengths say it all. */
// deno-fmt-ignore
const CODE_BITS = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28,
  28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15,
  6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
  15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20,
  20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23,
  24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22,
  22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27,
  24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26,
  26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const END_OF_STRING = 256;
/** Bits of padding that may follow the last symbol. */
const PADDING_BITS = 7;

/** Strings up to this size are decoded in a shared buffer. */
const SCRATCH_BYTES = 4096;

/** A table entry: the next state, above it a symbol of 8 bits, above that whether there is one. */
const SYMBOL_SHIFT = 8;
const COMPLETE = 1 << 16;
const BROKEN = 0xffffffff;

interface Table {
  /** By state and half byte. A state is a node within the tree of codes; 0 is its root. */
  readonly steps: Uint32Array;
  /** By state: whether a string may end there. */
  readonly ends: Uint8Array;
  /** Buffer for the text of a string. */
  readonly text: Uint8Array;
}

/** Shared by all connections; created on first use. */
const table = once(makeTable);

/** The text of a string; `undefined` if it is broken. One character per byte. */
export function huffmanText(bytes: Uint8Array): string | undefined {
  const { steps, ends, text: scratch } = table();
  // The shortest code takes 5 bits.
  const text = bytes.length * 8 / 5 <= scratch.length ? scratch : new Uint8Array(bytes.length * 8 / 5);
  let length = 0, state = 0;
  for (const byte of bytes) {
    const first = steps[(state << 4) | (byte >> 4)] ?? BROKEN;
    if (first === BROKEN) return undefined;
    if (first & COMPLETE) text[length++] = first >> SYMBOL_SHIFT;
    const second = steps[((first & 0xff) << 4) | (byte & 15)] ?? BROKEN;
    if (second === BROKEN) return undefined;
    if (second & COMPLETE) text[length++] = second >> SYMBOL_SHIFT;
    state = second & 0xff;
  }

  const whole = ends[state] === 1 ? latin1(text, 0, length) : undefined;
  if (text !== scratch) giveBack(text);
  return whole;
}

/** Below this size the engine is faster than a call into the runtime. */
const SHORT_BYTES = 24;

/** Bytes as text, one character each. */
export function latin1(bytes: Uint8Array, start: number, end: number): string {
  if (end - start <= SHORT_BYTES) return String.fromCharCode.apply(null, bytes.subarray(start, end) as never);
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString("latin1");
}

/** A node's two branches: other nodes or, negative, leaves with their symbols. */
type Branches = [number, number];

/** The tree of codes. */
function makeTree(): Branches[] {
  const symbols = CODE_BITS.map((bits, symbol) => ({ bits, symbol }))
    .sort((a, b) => a.bits - b.bits || a.symbol - b.symbol);
  const tree: Branches[] = [[0, 0]];
  let code = 0, codeBits = 0;
  for (const { bits, symbol } of symbols) {
    code <<= bits - codeBits;
    codeBits = bits;
    let node = 0;
    for (let bit = codeBits - 1; bit > 0; bit--) {
      const branches = branchesOf(tree, node);
      const side = sideOf(code >> bit);
      branches[side] ||= tree.push([0, 0]) - 1;
      node = branches[side];
    }
    branchesOf(tree, node)[sideOf(code)] = -1 - symbol;
    code++;
  }

  return tree;
}

function branchesOf(tree: readonly Branches[], node: number): Branches {
  const branches = tree[node];
  assert(branches, `the tree of codes has no node ${node}`);
  return branches;
}

/** The branch of the lowest bit. */
function sideOf(bits: number): 0 | 1 {
  return (bits & 1) === 1 ? 1 : 0;
}

function makeTable(): Table {
  const tree = makeTree();
  const steps = new Uint32Array(tree.length << 4), ends = new Uint8Array(tree.length);
  for (let state = 0; state < tree.length; state++) {
    for (let half = 0; half < 16; half++) steps[(state << 4) | half] = step(tree, state, half);
  }
  // The end-of-string code is all ones, and so is each prefix of it.
  for (let node = 0, bits = 0; bits <= PADDING_BITS; bits++, [, node] = branchesOf(tree, node)) {
    ends[node] = 1;
  }
  return { steps, ends, text: new Uint8Array(SCRATCH_BYTES) };
}

/** Follows four bits from a node. Codes are longer, so at most one symbol is completed on the way. */
function step(tree: readonly Branches[], node: number, half: number): number {
  let complete = 0;
  for (let bit = 3; bit >= 0; bit--) {
    const next = branchesOf(tree, node)[sideOf(half >> bit)];
    if (next === -1 - END_OF_STRING) return BROKEN;
    if (next < 0) complete = COMPLETE | ((-1 - next) << SYMBOL_SHIFT);
    node = Math.max(0, next);
  }
  return complete | node;
}

/** The result of `make`, created on first use. */
export function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => made ??= make();
}
