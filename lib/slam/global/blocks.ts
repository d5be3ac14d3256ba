/**
 * Arithmetic of 3 x 3 blocks, by rows in one flat array, and of triples in another. A block and a triple are named by
 * their number in the array.
 */

const SIZE = 9;

export function blocksFor(count: number): Float64Array {
  return new Float64Array(SIZE * count);
}

export function triplesFor(count: number): Float64Array {
  return new Float64Array(3 * count);
}

/** blocks[target] += share * a^T * b, where `a` and `b` are one block each. */
export function addProduct(
  blocks: Float64Array,
  target: number,
  a: Float64Array,
  b: Float64Array,
  share: number,
): void {
  for (let row = 0; row < 3; row++) {
    const a0 = share * (a[row] ?? 0), a1 = share * (a[row + 3] ?? 0), a2 = share * (a[row + 6] ?? 0);
    for (let column = 0; column < 3; column++) {
      const sum = a0 * (b[column] ?? 0) + a1 * (b[column + 3] ?? 0) + a2 * (b[column + 6] ?? 0);
      const at = SIZE * target + 3 * row + column;
      blocks[at] = (blocks[at] ?? 0) + sum;
    }
  }
}

export function scaleDiagonal(blocks: Float64Array, target: number, factor: number): void {
  for (const k of [0, 4, 8]) blocks[SIZE * target + k] = factor * (blocks[SIZE * target + k] ?? 0);
}

/** blocks[target] -= blocks[left] * blocks[right]^T. */
export function subtractProduct(blocks: Float64Array, target: number, left: number, right: number): void {
  const to = SIZE * target, a = SIZE * left, b = SIZE * right;
  const b0 = blocks[b] ?? 0, b1 = blocks[b + 1] ?? 0, b2 = blocks[b + 2] ?? 0;
  const b3 = blocks[b + 3] ?? 0, b4 = blocks[b + 4] ?? 0, b5 = blocks[b + 5] ?? 0;
  const b6 = blocks[b + 6] ?? 0, b7 = blocks[b + 7] ?? 0, b8 = blocks[b + 8] ?? 0;
  for (let row = 0; row < SIZE; row += 3) {
    const a0 = blocks[a + row] ?? 0, a1 = blocks[a + row + 1] ?? 0, a2 = blocks[a + row + 2] ?? 0;
    subtract(blocks, to + row, a0 * b0 + a1 * b1 + a2 * b2);
    subtract(blocks, to + row + 1, a0 * b3 + a1 * b4 + a2 * b5);
    subtract(blocks, to + row + 2, a0 * b6 + a1 * b7 + a2 * b8);
  }
}

/** Replaces a block by its Cholesky factor L; reads the lower triangle only. False if it is not positive definite. */
export function factorBlock(blocks: Float64Array, block: number): boolean {
  const d = SIZE * block;
  const l00 = Math.sqrt(blocks[d] ?? 0);
  const l10 = (blocks[d + 3] ?? 0) / l00, l20 = (blocks[d + 6] ?? 0) / l00;
  const l11 = Math.sqrt((blocks[d + 4] ?? 0) - l10 * l10);
  const l21 = ((blocks[d + 7] ?? 0) - l20 * l10) / l11;
  const l22 = Math.sqrt((blocks[d + 8] ?? 0) - l20 * l20 - l21 * l21);
  if (!(l00 > 0 && l11 > 0 && l22 > 0)) return false;
  blocks[d] = l00;
  blocks[d + 3] = l10;
  blocks[d + 4] = l11;
  blocks[d + 6] = l20;
  blocks[d + 7] = l21;
  blocks[d + 8] = l22;
  return true;
}

/** blocks[target] = blocks[target] * L^-T, where L is the block `factor`. */
export function divideByFactor(blocks: Float64Array, target: number, factor: number): void {
  for (let row = 3 * target; row < 3 * target + 3; row++) solveLower(blocks, row, blocks, factor);
}

/** Solves L * x = triples[target] in place, where L is the block `factor`. */
export function solveLower(
  triples: Float64Array,
  target: number,
  blocks: Float64Array,
  factor: number,
): void {
  const t = 3 * target, d = SIZE * factor;
  const x0 = (triples[t] ?? 0) / (blocks[d] ?? 0);
  const x1 = ((triples[t + 1] ?? 0) - x0 * (blocks[d + 3] ?? 0)) / (blocks[d + 4] ?? 0);
  const rest = (triples[t + 2] ?? 0) - x0 * (blocks[d + 6] ?? 0) - x1 * (blocks[d + 7] ?? 0);
  triples[t] = x0;
  triples[t + 1] = x1;
  triples[t + 2] = rest / (blocks[d + 8] ?? 0);
}

/** Solves L^T * x = triples[target] in place. */
export function solveUpper(
  triples: Float64Array,
  target: number,
  blocks: Float64Array,
  factor: number,
): void {
  const t = 3 * target, d = SIZE * factor;
  const x2 = (triples[t + 2] ?? 0) / (blocks[d + 8] ?? 0);
  const x1 = ((triples[t + 1] ?? 0) - x2 * (blocks[d + 7] ?? 0)) / (blocks[d + 4] ?? 0);
  const rest = (triples[t] ?? 0) - x1 * (blocks[d + 3] ?? 0) - x2 * (blocks[d + 6] ?? 0);
  triples[t] = rest / (blocks[d] ?? 0);
  triples[t + 1] = x1;
  triples[t + 2] = x2;
}

/** triples[target] -= blocks[block] * triples[from]. */
export function subtractTimes(
  triples: Float64Array,
  target: number,
  blocks: Float64Array,
  block: number,
  from: number,
): void {
  const t = 3 * target, f = 3 * from;
  const x0 = triples[f] ?? 0, x1 = triples[f + 1] ?? 0, x2 = triples[f + 2] ?? 0;
  for (let row = 0, b = SIZE * block; row < 3; row++, b += 3) {
    const sum = (blocks[b] ?? 0) * x0 + (blocks[b + 1] ?? 0) * x1 + (blocks[b + 2] ?? 0) * x2;
    subtract(triples, t + row, sum);
  }
}

/** triples[target] -= blocks[block]^T * triples[from]. */
export function subtractTransposedTimes(
  triples: Float64Array,
  target: number,
  blocks: Float64Array,
  block: number,
  from: number,
): void {
  const t = 3 * target, f = 3 * from;
  const x0 = triples[f] ?? 0, x1 = triples[f + 1] ?? 0, x2 = triples[f + 2] ?? 0;
  for (let column = 0, b = SIZE * block; column < 3; column++, b++) {
    const sum = (blocks[b] ?? 0) * x0 + (blocks[b + 3] ?? 0) * x1 + (blocks[b + 6] ?? 0) * x2;
    subtract(triples, t + column, sum);
  }
}

/** triples[target] -= share * block^T * triple, where `block` and `triple` are one each. */
export function subtractTransposed(
  triples: Float64Array,
  target: number,
  block: Float64Array,
  triple: Float64Array,
  share: number,
): void {
  const x0 = triple[0] ?? 0, x1 = triple[1] ?? 0, x2 = triple[2] ?? 0;
  for (let column = 0; column < 3; column++) {
    const sum = (block[column] ?? 0) * x0 + (block[column + 3] ?? 0) * x1 +
      (block[column + 6] ?? 0) * x2;
    subtract(triples, 3 * target + column, share * sum);
  }
}

function subtract(values: Float64Array, at: number, value: number): void {
  values[at] = (values[at] ?? 0) - value;
}
