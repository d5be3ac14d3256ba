/**
 * Sparse Cholesky factorisation of symmetric matrices of 3 x 3 blocks, in an order of minimum degree.
 *
 * The room owns global SLAM: the pose graph and its optimisation, the search for loop closures, and the
 * trimming of maps that grow.
 */

import {
  blocksFor,
  divideByFactor,
  factorBlock,
  solveLower,
  solveUpper,
  subtractProduct,
  subtractTimes,
  subtractTransposedTimes,
  triplesFor,
} from "./blocks.ts";
import type { Elimination } from "./elimination.ts";

/** Products of blocks in one piece of work: some milliseconds. */
const PRODUCTS_A_PIECE = 100_000;

export class BlockCholesky {
  readonly #pattern: Pattern;
  /** The blocks: the diagonal of each column, then all rows. */
  readonly #values: Float64Array;
  /** Left-looking elimination: the block of each row in the current column. */
  readonly #slots: Int32Array;

  constructor(private readonly count: number, order: readonly Elimination[]) {
    this.#pattern = new Pattern(order);
    this.#values = blocksFor(this.#pattern.blockCount);
    this.#slots = new Int32Array(count);
  }

  /** The number in `values` of the block of two variables; `first` tells whose rows it has. */
  blockOf(a: number, b: number): { readonly block: number; readonly first: number } {
    const pa = this.#pattern.place(a), pb = this.#pattern.place(b);
    const first = pa >= pb ? a : b;
    return { block: this.#pattern.blockAt(Math.max(pa, pb), Math.min(pa, pb)), first };
  }

  /** The blocks of the matrix's lower triangle, by rows. The caller fills them before factoring. */
  get values(): Float64Array {
    return this.#values;
  }

  /** Replaces the matrix by its factor, yielding between pieces. Returns false if it is not positive definite. */
  *factoring(): Generator<void, boolean> {
    const lists = new ColumnLists(this.#pattern, this.count);
    let products = 0;
    for (let column = 0; column < this.count; column++) {
      const more = this.#factorColumn(column, lists);
      if (more < 0) return false;
      products += more;
      if (products < PRODUCTS_A_PIECE) continue;
      products = 0;
      yield;
    }
    return true;
  }

  /** Returns the number of block products; negative if the matrix is not positive definite. */
  #factorColumn(column: number, lists: ColumnLists): number {
    const pattern = this.#pattern, slots = this.#slots, values = this.#values;
    const first = pattern.begin(column), end = pattern.end(column);
    let products = 0;
    slots[column] = column;
    for (let block = first; block < end; block++) slots[pattern.row(block)] = block;
    for (let other = lists.first(column); other >= 0;) {
      const following = lists.next(other), from = lists.cursor(other), to = pattern.end(other);
      for (let block = from; block < to; block++) {
        subtractProduct(values, slots[pattern.row(block)] ?? 0, block, from);
      }
      products += to - from;
      lists.add(other, from + 1);
      other = following;
    }
    if (!factorBlock(values, column)) return -1;
    for (let block = first; block < end; block++) divideByFactor(values, block, column);
    lists.add(column, first);
    return products;
  }

  /** Solves for one right side, three values a variable, in place. */
  solve(right: Float64Array): void {
    const pattern = this.#pattern, values = this.#values, { count } = this;
    const x = triplesFor(count);
    for (let v = 0; v < count; v++) x.set(right.subarray(3 * v, 3 * v + 3), 3 * pattern.place(v));
    for (let column = 0; column < count; column++) {
      solveLower(x, column, values, column);
      const end = pattern.end(column);
      for (let block = pattern.begin(column); block < end; block++) {
        subtractTimes(x, pattern.row(block), values, block, column);
      }
    }
    for (let column = count - 1; column >= 0; column--) {
      const end = pattern.end(column);
      for (let block = pattern.begin(column); block < end; block++) {
        subtractTransposedTimes(x, column, values, block, pattern.row(block));
      }
      solveUpper(x, column, values, column);
    }
    for (let v = 0; v < count; v++) {
      const place = pattern.place(v);
      right.set(x.subarray(3 * place, 3 * place + 3), 3 * v);
    }
  }
}

/** Which blocks of the factor are not zero. They are numbered: the diagonal, then the rows below it by columns. */
class Pattern {
  /** Position of each variable in the order of elimination. */
  readonly #places: Int32Array;
  /** The row of each block. */
  readonly #rows: Int32Array;
  /** The first block below the diagonal of each column, and the number of all blocks. */
  readonly #begins: Int32Array;

  constructor(order: readonly Elimination[]) {
    const count = order.length;
    this.#places = new Int32Array(count);
    this.#begins = new Int32Array(count + 1);
    let blocks = count;
    for (const [place, { variable, neighbours }] of order.entries()) {
      this.#places[variable] = place;
      this.#begins[place] = blocks;
      blocks += neighbours.length;
    }
    this.#begins[count] = blocks;
    this.#rows = new Int32Array(blocks);
    for (const [place, { neighbours }] of order.entries()) {
      this.#rows[place] = place;
      this.#rows.set(neighbours.map((one) => this.place(one)).sort(), this.begin(place));
    }
  }

  get blockCount(): number {
    return this.#rows.length;
  }

  place(variable: number): number {
    return this.#places[variable] ?? 0;
  }

  begin(column: number): number {
    return this.#begins[column] ?? 0;
  }

  /** One more than the last block of a column. */
  end(column: number): number {
    return this.begin(column + 1);
  }

  row(block: number): number {
    return this.#rows[block] ?? 0;
  }

  blockAt(row: number, column: number): number {
    if (row === column) return column;
    let low = this.begin(column), high = this.end(column);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.row(middle) < row) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Linked lists of the columns whose next row is the current column. */
class ColumnLists {
  readonly #heads: Int32Array;
  readonly #nexts: Int32Array;
  /** The block of the next row of each column. */
  readonly #cursors: Int32Array;

  constructor(private readonly pattern: Pattern, count: number) {
    this.#heads = new Int32Array(count).fill(-1);
    this.#nexts = new Int32Array(count);
    this.#cursors = new Int32Array(count);
  }

  /** The first column of a row's list; -1 if there is none. */
  first(row: number): number {
    return this.#heads[row] ?? -1;
  }

  next(column: number): number {
    return this.#nexts[column] ?? -1;
  }

  cursor(column: number): number {
    return this.#cursors[column] ?? 0;
  }

  /** Adds a column to the list of the row of `block`, if that is still a block of the column. */
  add(column: number, block: number): void {
    this.#cursors[column] = block;
    if (block >= this.pattern.end(column)) return;
    const row = this.pattern.row(block);
    this.#nexts[column] = this.first(row);
    this.#heads[row] = column;
  }
}

/** Runs work in pieces to its end without a pause. */
export function withoutPause<T>(work: Generator<void, T>): T {
  let piece = work.next();
  while (!piece.done) piece = work.next();
  return piece.value;
}
