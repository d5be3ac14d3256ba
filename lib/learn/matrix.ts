/**
 * Matrix multiplication, in which training spends most of its time: one WebAssembly SIMD kernel, assembled
 * here.
 *
 * Owns the memory of a network's numbers; the kernel reaches no other memory. Promises the same bits for the
 * same numbers on every machine: plain 32-bit multiplication and addition in a fixed order, without fused
 * operations.
 */

import { SvcError } from "../base/error.ts";

/**
 * The kernel computes four rows by eight columns of the result at a time, because that many sums fit the
 * processor's registers.
 */
export const ROWS = 4;
export const BLOCK_COLUMNS = 8;

const PAGE_BYTES = 65_536;
/** Memory limit of a network; untouched pages cost nothing. */
const MEMORY_BYTES_MAX = 256 * 1024 * 1024;
const ALIGN_BYTES = 64;

type Kernel = (
  rows: number,
  columns: number,
  depth: number,
  a: number,
  aRowBytes: number,
  aStepBytes: number,
  b: number,
  bRowBytes: number,
  c: number,
  cRowBytes: number,
  accumulate: number,
) => void;

/** The numbers of one network and the multiplication over them. */
export class Matrices {
  readonly #memory = new WebAssembly.Memory({ initial: MEMORY_BYTES_MAX / PAGE_BYTES });
  readonly #kernel: Kernel;
  #used = ALIGN_BYTES;

  constructor() {
    const module = new WebAssembly.Module(assemble());
    this.#kernel = new WebAssembly.Instance(module, { m: { m: this.#memory } }).exports.g as Kernel;
  }

  /** Space for `count` numbers, all zero; throws `resource_exhausted` if the network is too large. */
  space(count: number): Float32Array {
    const start = this.#used;
    this.#used = Math.ceil((start + 4 * count) / ALIGN_BYTES) * ALIGN_BYTES;
    if (this.#used > MEMORY_BYTES_MAX) {
      const found = `it needs more than ${MEMORY_BYTES_MAX} bytes`;
      throw new SvcError("resource_exhausted", `Cannot build the network: ${found}`);
    }
    return new Float32Array(this.#memory.buffer, start, count);
  }

  /**
   * `c = a b`, or `c += a b`, of row-major matrices: `a` is [rows, depth], `b` [depth, columns]. Rows must be
   * a multiple of 4, columns of 8.
   */
  multiply(
    c: Float32Array,
    a: Float32Array,
    b: Float32Array,
    rows: number,
    columns: number,
    depth: number,
    accumulate = false,
  ): void {
    const add = accumulate ? 1 : 0;
    const [at, bt, ct] = [a.byteOffset, b.byteOffset, c.byteOffset];
    this.#kernel(rows, columns, depth, at, 4 * depth, 4, bt, 4 * columns, ct, 4 * columns, add);
  }

  /** `c += aᵀ b`: `a` is [depth, rows], `b` [depth, columns]; the same multiples. */
  multiplyTransposed(
    c: Float32Array,
    a: Float32Array,
    b: Float32Array,
    rows: number,
    columns: number,
    depth: number,
  ): void {
    const [at, bt, ct] = [a.byteOffset, b.byteOffset, c.byteOffset];
    this.#kernel(rows, columns, depth, at, 4, 4 * rows, bt, 4 * columns, ct, 4 * columns, 1);
  }
}

// The kernel's parameters, then its variables, by their WebAssembly index.
const ROWS_LEFT = 0, COLUMN_COUNT = 1, DEPTH = 2, A = 3, A_ROW = 4, A_STEP = 5;
const B = 6, B_ROW = 7, C = 8, C_ROW = 9, ACCUMULATE = 10;
const COLUMNS_LEFT = 11, DEPTH_LEFT = 12, B_COLUMN = 13, C_COLUMN = 14, B_AT = 15, C_AT = 16;
const A_AT = range(17, ROWS);
const INTEGERS = 6 + ROWS;
const SUMS = range(17 + ROWS, 2 * ROWS);
const B_LEFT = 17 + 3 * ROWS, B_RIGHT = B_LEFT + 1, A_VALUE = B_LEFT + 2;
const VECTORS = 2 * ROWS + 3;

type Code = readonly number[];

/** The module: imports memory `m.m`, exports the kernel as `g`. */
function assemble(): Uint8Array<ArrayBuffer> {
  const section = (id: number, body: Code) => [id, ...unsigned(body.length), ...body];
  const body = [2, ...unsigned(INTEGERS), 0x7f, ...unsigned(VECTORS), 0x7b, ...kernel(), 0x0b];
  return new Uint8Array([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 11, ...Array(11).fill(0x7f), 0]),
    ...section(2, [1, 1, 0x6d, 1, 0x6d, 2, 0, 0]),
    ...section(3, [1, 0]),
    ...section(7, [1, 1, 0x67, 0, 0]),
    ...section(10, [1, ...unsigned(body.length), ...body]),
  ]);
}

/**
 * For each four rows and eight columns of `c`: loads the sums into registers, runs along the depth, and
 * stores them.
 */
function kernel(): Code {
  const sums = (each: (sum: number, row: number, side: number) => Code) =>
    SUMS.flatMap((sum, index) => each(sum, index >> 1, index & 1));
  const tile = [
    ...move(B_AT, get(B_COLUMN)),
    ...move(C_AT, get(C_COLUMN)),
    ...A_AT.flatMap((at, row) => move(at, row === 0 ? get(A) : add(get(at - 1), get(A_ROW)))),
    ...get(ACCUMULATE),
    ...[0x04, 0x40],
    ...sums((sum, _, side) => [
      ...move(sum, load(C_AT, 16 * side)),
      ...(side === 1 ? increase(C_AT, get(C_ROW)) : []),
    ]),
    ...[0x05],
    ...sums((sum) => move(sum, [0xfd, 0x0c, ...Array(16).fill(0)])),
    ...[0x0b],
    ...move(DEPTH_LEFT, get(DEPTH)),
    ...loop(DEPTH_LEFT, 1, [
      ...move(B_LEFT, load(B_AT, 0)),
      ...move(B_RIGHT, load(B_AT, 16)),
      ...increase(B_AT, get(B_ROW)),
      ...A_AT.flatMap((at, row) => [
        ...move(A_VALUE, [...get(at), 0xfd, 0x09, 2, 0]),
        ...increase(at, get(A_STEP)),
        ...SUMS.slice(2 * row, 2 * row + 2).flatMap((sum, side) =>
          move(sum, plus(get(sum), times(get(A_VALUE), get(side === 0 ? B_LEFT : B_RIGHT))))
        ),
      ]),
    ]),
    ...move(C_AT, get(C_COLUMN)),
    ...sums((sum, _, side) => [
      ...[...get(C_AT), ...get(sum), 0xfd, 0x0b, 2, 16 * side],
      ...(side === 1 ? increase(C_AT, get(C_ROW)) : []),
    ]),
    ...increase(B_COLUMN, constant(4 * BLOCK_COLUMNS)),
    ...increase(C_COLUMN, constant(4 * BLOCK_COLUMNS)),
  ];
  return loop(ROWS_LEFT, ROWS, [
    ...move(B_COLUMN, get(B)),
    ...move(C_COLUMN, get(C)),
    ...move(COLUMNS_LEFT, get(COLUMN_COUNT)),
    ...loop(COLUMNS_LEFT, BLOCK_COLUMNS, tile),
    ...increase(A, [...get(A_ROW), ...constant(ROWS), 0x6c]),
    ...increase(C, [...get(C_ROW), ...constant(ROWS), 0x6c]),
  ]);
}

/** Repeats `body` until `counter`, lowered by `step` after each round, is zero; at least once. */
function loop(counter: number, step: number, body: Code): Code {
  const lower = [...get(counter), ...constant(step), 0x6b, 0x22, counter];
  return [0x03, 0x40, ...body, ...lower, 0x0d, 0, 0x0b];
}

function get(variable: number): Code {
  return [0x20, variable];
}

function move(variable: number, value: Code): Code {
  return [...value, 0x21, variable];
}

function add(a: Code, b: Code): Code {
  return [...a, ...b, 0x6a];
}

function increase(variable: number, by: Code): Code {
  return move(variable, add(get(variable), by));
}

/** Loads four numbers from the address in `at`, plus `offset` bytes. */
function load(at: number, offset: number): Code {
  return [...get(at), 0xfd, 0x00, 2, offset];
}

function plus(a: Code, b: Code): Code {
  return [...a, ...b, 0xfd, 0xe4, 0x01];
}

function times(a: Code, b: Code): Code {
  return [...a, ...b, 0xfd, 0xe6, 0x01];
}

/** A constant below 64, which takes one byte. */
function constant(value: number): Code {
  return [0x41, value];
}

function unsigned(value: number): Code {
  return value < 0x80 ? [value] : [value & 0x7f | 0x80, ...unsigned(value >> 7)];
}

function range(start: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => start + index);
}
