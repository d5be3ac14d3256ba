/**
 * Sparse Cholesky factorisation of symmetric matrices of 3 x 3 blocks, in an order of minimum degree.
 *
 * The room owns global SLAM: the pose graph and its optimisation, the search for loop closures, and the
 * trimming of maps that grow.
 */

const SIZE = 9;
/** Products of blocks in one piece of work: some milliseconds. */
const PRODUCTS_A_PIECE = 100_000;
const ELIMINATED_A_PIECE = 1000;

export class BlockCholesky {
  /** Position of each variable in the order of elimination. */
  readonly #place: Int32Array;
  /** Rows below the diagonal of each column, ascending, and where the rows of a column begin. */
  readonly #rows: Int32Array;
  readonly #starts: Int32Array;
  /** The blocks: the diagonal of each column, then all rows. */
  readonly #values: Float64Array;
  /** Left-looking elimination: the position of each row in the current column. */
  readonly #slots: Int32Array;

  constructor(private readonly count: number, { order, columns }: Elimination) {
    this.#place = new Int32Array(count);
    order.forEach((variable, place) => this.#place[variable] = place);
    this.#starts = new Int32Array(count + 1);
    let total = 0;
    order.forEach((variable, place) => {
      this.#starts[place] = total;
      total += columns[variable].length;
    });
    this.#starts[count] = total;
    this.#rows = new Int32Array(total);
    order.forEach((variable, place) => {
      const rows = Int32Array.from(columns[variable], (one) => this.#place[one]).sort();
      this.#rows.set(rows, this.#starts[place]);
    });
    this.#values = new Float64Array(SIZE * (count + total));
    this.#slots = new Int32Array(count);
  }

  /** The position in `values` of the block of two variables; `first` tells whose rows it has. */
  blockOf(a: number, b: number): { readonly at: number; readonly first: number } {
    const pa = this.#place[a], pb = this.#place[b];
    if (pa === pb) return { at: SIZE * pa, first: a };
    const column = Math.min(pa, pb), row = Math.max(pa, pb);
    let low = this.#starts[column], high = this.#starts[column + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#rows[middle] < row) low = middle + 1;
      else high = middle;
    }
    return { at: SIZE * (this.count + low), first: pa === row ? a : b };
  }

  /** The blocks of the matrix's lower triangle, by rows. The caller fills them before factoring. */
  get values(): Float64Array {
    return this.#values;
  }

  /** Replaces the matrix by its factor, yielding between pieces. Returns false if it is not positive definite. */
  *factoring(): Generator<void, boolean> {
    const lists = new ColumnLists(this.#starts);
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
  #factorColumn(column: number, { heads, nexts, cursors }: ColumnLists): number {
    const { count } = this;
    const rows = this.#rows, starts = this.#starts, slots = this.#slots, values = this.#values;
    let products = 0;
    for (let k = starts[column]; k < starts[column + 1]; k++) slots[rows[k]] = SIZE * (count + k);
    slots[column] = SIZE * column;
    for (let other = heads[column]; other >= 0;) {
      const following = nexts[other], from = cursors[other], end = starts[other + 1];
      const b = SIZE * (count + from);
      for (let k = from; k < end; k++) subtractProduct(values, slots[rows[k]], SIZE * (count + k), b);
      products += end - from;
      cursors[other]++;
      this.#link(other, heads, nexts, cursors);
      other = following;
    }
    if (!factorDiagonal(values, SIZE * column)) return -1;
    for (let k = starts[column]; k < starts[column + 1]; k++) {
      divideByFactor(values, SIZE * (count + k), SIZE * column);
    }
    this.#link(column, heads, nexts, cursors);
    return products;
  }

  #link(column: number, heads: Int32Array, nexts: Int32Array, cursors: Int32Array): void {
    if (cursors[column] >= this.#starts[column + 1]) return;
    const row = this.#rows[cursors[column]];
    nexts[column] = heads[row];
    heads[row] = column;
  }

  /** Solves for one right side, three values a variable, in place. */
  solve(right: Float64Array): void {
    const { count } = this;
    const rows = this.#rows, starts = this.#starts, l = this.#values;
    const x = new Float64Array(3 * count);
    for (let v = 0; v < count; v++) x.set(right.subarray(3 * v, 3 * v + 3), 3 * this.#place[v]);
    for (let column = 0; column < count; column++) {
      const d = SIZE * column, c = 3 * column;
      x[c] /= l[d];
      x[c + 1] = (x[c + 1] - l[d + 3] * x[c]) / l[d + 4];
      x[c + 2] = (x[c + 2] - l[d + 6] * x[c] - l[d + 7] * x[c + 1]) / l[d + 8];
      const x0 = x[c], x1 = x[c + 1], x2 = x[c + 2];
      for (let k = starts[column]; k < starts[column + 1]; k++) {
        const b = SIZE * (count + k), r = 3 * rows[k];
        x[r] -= l[b] * x0 + l[b + 1] * x1 + l[b + 2] * x2;
        x[r + 1] -= l[b + 3] * x0 + l[b + 4] * x1 + l[b + 5] * x2;
        x[r + 2] -= l[b + 6] * x0 + l[b + 7] * x1 + l[b + 8] * x2;
      }
    }
    for (let column = count - 1; column >= 0; column--) {
      const d = SIZE * column, c = 3 * column;
      let x0 = x[c], x1 = x[c + 1], x2 = x[c + 2];
      for (let k = starts[column]; k < starts[column + 1]; k++) {
        const b = SIZE * (count + k), r = 3 * rows[k];
        const r0 = x[r], r1 = x[r + 1], r2 = x[r + 2];
        x0 -= l[b] * r0 + l[b + 3] * r1 + l[b + 6] * r2;
        x1 -= l[b + 1] * r0 + l[b + 4] * r1 + l[b + 7] * r2;
        x2 -= l[b + 2] * r0 + l[b + 5] * r1 + l[b + 8] * r2;
      }
      x[c + 2] = x2 / l[d + 8];
      x[c + 1] = (x1 - l[d + 7] * x[c + 2]) / l[d + 4];
      x[c] = (x0 - l[d + 3] * x[c + 1] - l[d + 6] * x[c + 2]) / l[d];
    }
    for (let v = 0; v < count; v++) {
      right.set(x.subarray(3 * this.#place[v], 3 * this.#place[v] + 3), 3 * v);
    }
  }
}

/** Linked lists of the columns whose next row is the current column. */
class ColumnLists {
  readonly heads: Int32Array;
  readonly nexts: Int32Array;
  /** The next row of each column. */
  readonly cursors: Int32Array;

  constructor(starts: Int32Array) {
    this.heads = new Int32Array(starts.length - 1).fill(-1);
    this.nexts = new Int32Array(starts.length - 1);
    this.cursors = starts.slice();
  }
}

/** target -= a * b^T, for blocks at these places. */
function subtractProduct(v: Float64Array, target: number, a: number, b: number): void {
  const b0 = v[b], b1 = v[b + 1], b2 = v[b + 2], b3 = v[b + 3], b4 = v[b + 4], b5 = v[b + 5];
  const b6 = v[b + 6], b7 = v[b + 7], b8 = v[b + 8];
  for (let row = 0; row < 9; row += 3) {
    const a0 = v[a + row], a1 = v[a + row + 1], a2 = v[a + row + 2];
    v[target + row] -= a0 * b0 + a1 * b1 + a2 * b2;
    v[target + row + 1] -= a0 * b3 + a1 * b4 + a2 * b5;
    v[target + row + 2] -= a0 * b6 + a1 * b7 + a2 * b8;
  }
}

/** Replaces a block by its Cholesky factor; reads the lower triangle only. */
function factorDiagonal(v: Float64Array, d: number): boolean {
  const l00 = Math.sqrt(v[d]);
  const l10 = v[d + 3] / l00, l20 = v[d + 6] / l00;
  const l11 = Math.sqrt(v[d + 4] - l10 * l10);
  const l21 = (v[d + 7] - l20 * l10) / l11;
  const l22 = Math.sqrt(v[d + 8] - l20 * l20 - l21 * l21);
  if (!(l00 > 0 && l11 > 0 && l22 > 0)) return false;
  v[d] = l00;
  v[d + 3] = l10;
  v[d + 4] = l11;
  v[d + 6] = l20;
  v[d + 7] = l21;
  v[d + 8] = l22;
  return true;
}

/** block = block * L^-T, where L is the factor at `d`. */
function divideByFactor(v: Float64Array, at: number, d: number): void {
  for (let row = at; row < at + SIZE; row += 3) {
    const x0 = v[row] / v[d];
    const x1 = (v[row + 1] - x0 * v[d + 3]) / v[d + 4];
    v[row + 2] = (v[row + 2] - x0 * v[d + 6] - x1 * v[d + 7]) / v[d + 8];
    v[row] = x0;
    v[row + 1] = x1;
  }
}

/** Runs work in pieces to its end without a pause. */
export function withoutPause<T>(work: Generator<void, T>): T {
  let piece = work.next();
  while (!piece.done) piece = work.next();
  return piece.value;
}

export interface Elimination {
  /** Variables in the order in which they are eliminated. */
  readonly order: Int32Array;
  /** For each variable, its neighbours at its elimination. */
  readonly columns: readonly Int32Array[];
}

/**
 * Eliminates the variable with the fewest neighbours first; of equals, the one that became so last. `pairs` holds the
 * variables (a, b, a, b, …) whose blocks are not zero. Yields now and then.
 */
export function* eliminating(count: number, pairs: Int32Array): Generator<void, Elimination> {
  const neighbours = adjacency(count, pairs);
  const queue = new DegreeQueue(neighbours.map((one) => one.length));
  const order = new Int32Array(count);
  const columns: Int32Array[] = new Array(count);
  const marks = new Int32Array(count);
  let mark = 0;
  for (let step = 0; step < count; step++) {
    if (step % ELIMINATED_A_PIECE === 0) yield;
    const variable = queue.take();
    const clique = neighbours[variable];
    order[step] = variable;
    columns[variable] = Int32Array.from(clique);
    for (const one of clique) {
      const own = neighbours[one];
      marks[one] = ++mark;
      let kept = 0;
      for (let k = 0; k < own.length; k++) {
        if (own[k] === variable) continue;
        marks[own[k]] = mark;
        own[kept++] = own[k];
      }
      own.length = kept;
      for (let k = 0; k < clique.length; k++) {
        if (marks[clique[k]] !== mark) own.push(clique[k]);
      }
      queue.move(one, own.length);
    }
    neighbours[variable] = [];
  }
  return { order, columns };
}

function adjacency(count: number, pairs: Int32Array): number[][] {
  const neighbours: number[][] = Array.from({ length: count }, () => []);
  for (let k = 0; k < pairs.length; k += 2) {
    if (pairs[k] === pairs[k + 1]) continue;
    neighbours[pairs[k]].push(pairs[k + 1]);
    neighbours[pairs[k + 1]].push(pairs[k]);
  }
  return neighbours.map((one) => [...new Set(one)]);
}

/** Variables by their degree, as a list for each degree. */
class DegreeQueue {
  readonly #degrees: number[];
  readonly #heads: Int32Array;
  readonly #nexts: Int32Array;
  readonly #previous: Int32Array;
  #lowest = 0;

  constructor(degrees: number[]) {
    this.#degrees = degrees;
    this.#heads = new Int32Array(degrees.length + 1).fill(-1);
    this.#nexts = new Int32Array(degrees.length).fill(-1);
    this.#previous = new Int32Array(degrees.length).fill(-1);
    for (let variable = degrees.length - 1; variable >= 0; variable--) this.#insert(variable);
  }

  take(): number {
    while (this.#heads[this.#lowest] < 0) this.#lowest++;
    const variable = this.#heads[this.#lowest];
    this.#remove(variable);
    return variable;
  }

  move(variable: number, degree: number): void {
    this.#remove(variable);
    this.#degrees[variable] = degree;
    this.#lowest = Math.min(this.#lowest, degree);
    this.#insert(variable);
  }

  #insert(variable: number): void {
    const degree = this.#degrees[variable], head = this.#heads[degree];
    this.#nexts[variable] = head;
    this.#previous[variable] = -1;
    if (head >= 0) this.#previous[head] = variable;
    this.#heads[degree] = variable;
  }

  #remove(variable: number): void {
    const before = this.#previous[variable], after = this.#nexts[variable];
    if (before >= 0) this.#nexts[before] = after;
    else this.#heads[this.#degrees[variable]] = after;
    if (after >= 0) this.#previous[after] = before;
  }
}
