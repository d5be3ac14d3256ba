/**
 * A grid of occupancy probabilities that grows with what is inserted, in the layout of the published files (see
 * `GridState`).
 *
 * The room owns local SLAM: from a scan and a prediction to the scan's pose among the latest scans, and submaps.
 */

import type { CellRange, GridState } from "../map_state.ts";
import { xOf, yOf } from "../points.ts";

/** Cell values: 0 is unknown, 1 to `COST_VALUES` a cost from `COST_MIN` to `COST_MAX`. */
export const COST_MIN = 0.1;
export const COST_MAX = 0.9;
export const COST_VALUES = 32767;
export const COST_STEP = (COST_MAX - COST_MIN) / (COST_VALUES - 1);
const HIGHEST = COST_VALUES - 1;

/** Flag of a cell that the current insertion has changed. */
const TOUCHED = 0x8000;
/** A power of two, so that growing keeps blocks whole. */
const FIRST_CELLS = 128;
/** Cells along the side of a block. */
export const BLOCK_CELLS = 4;
const BLOCK_SHIFT = 2;
/** Most cells along a side: 800 m at 5 cm. */
const CELLS_MAX = 16_384;

/** The value of a cell or block by its index, which must be one of theirs. */
export function cellAt(cells: Uint16Array, at: number): number {
  return cells[at] ?? outside(cells, at);
}

/** The cost under a cell, in steps of `COST_STEP` above `COST_MIN`; the highest if it is unknown. */
export function costAt(cells: Uint16Array, at: number): number {
  // 0, unknown, becomes 65535.
  return Math.min(HIGHEST, (cellAt(cells, at) - 1) & 0xffff);
}

function outside({ length }: Uint16Array, at: number): never {
  throw new Error(`Bug: cell ${at} of ${length}`);
}

export class ProbabilityGrid {
  #cells: Uint16Array;
  /** For each block, the highest probability that a cell in it or in the next blocks ever had, 0 to 32766. */
  #blocks = new Uint16Array((FIRST_CELLS >> BLOCK_SHIFT) ** 2);
  #cellsX = FIRST_CELLS;
  #cellsY = FIRST_CELLS;
  #maxX: number;
  #maxY: number;
  #minI = Infinity;
  #minJ = Infinity;
  #maxI = -1;
  #maxJ = -1;

  /** An empty grid around a point. Grids from `of` take no scans. */
  constructor(readonly resolution: number, centreX: number, centreY: number) {
    this.#cells = new Uint16Array(FIRST_CELLS * FIRST_CELLS);
    this.#maxX = centreX + 0.5 * FIRST_CELLS * resolution;
    this.#maxY = centreY + 0.5 * FIRST_CELLS * resolution;
  }

  /** The grid of a state, whose cells it shares. */
  static of(state: GridState): ProbabilityGrid {
    const grid = new ProbabilityGrid(state.resolution, 0, 0);
    grid.#take(state);
    return grid;
  }

  get cells(): Uint16Array {
    return this.#cells;
  }

  /**
   * The highest probability that a hit cell ever had, 0 to 32766, in the squares of `BLOCK_CELLS` that begin in block
   * (I, J): `blocks[cellsX / 4 * J + I]`. 0 without hits. Empty in a finished grid.
   */
  get blocks(): Uint16Array {
    return this.#blocks;
  }

  get cellsX(): number {
    return this.#cellsX;
  }

  get cellsY(): number {
    return this.#cellsY;
  }

  get maxX(): number {
    return this.#maxX;
  }

  get maxY(): number {
    return this.#maxY;
  }

  get known(): CellRange | undefined {
    if (this.#maxI < 0) return undefined;
    return { minI: this.#minI, minJ: this.#minJ, maxI: this.#maxI, maxJ: this.#maxJ };
  }

  /** Whether the cell at a place, or a neighbour, is a wall rather than free. */
  isWall(x: number, y: number): boolean {
    const i = Math.floor((this.#maxY - y) / this.resolution),
      j = Math.floor((this.#maxX - x) / this.resolution);
    for (let b = Math.max(0, j - 1); b <= Math.min(this.#cellsY - 1, j + 1); b++) {
      for (let a = Math.max(0, i - 1); a <= Math.min(this.#cellsX - 1, i + 1); a++) {
        const cost = cellAt(this.#cells, this.#cellsX * b + a) & ~TOUCHED;
        if (cost !== 0 && cost < COST_VALUES / 2) return true;
      }
    }
    return false;
  }

  /** Doubles the grid around its centre until it holds the box; false if it would be too large. */
  growTo(minX: number, minY: number, maxX: number, maxY: number): boolean {
    while (
      maxX >= this.#maxX || maxY >= this.#maxY ||
      minX <= this.#maxX - this.#cellsY * this.resolution ||
      minY <= this.#maxY - this.#cellsX * this.resolution
    ) {
      if (2 * Math.max(this.#cellsX, this.#cellsY) > CELLS_MAX) return false;
      this.#double();
    }
    return true;
  }

  #double(): void {
    const offsetI = this.#cellsX >> 1, offsetJ = this.#cellsY >> 1;
    const cells = new Uint16Array(4 * this.#cells.length);
    for (let j = 0; j < this.#cellsY; j++) {
      const row = this.#cells.subarray(this.#cellsX * j, this.#cellsX * (j + 1));
      cells.set(row, 2 * this.#cellsX * (j + offsetJ) + offsetI);
    }
    const across = this.#cellsX >> BLOCK_SHIFT, down = this.#cellsY >> BLOCK_SHIFT;
    const blocks = new Uint16Array(4 * across * down);
    for (let j = 0; j < down; j++) {
      const row = this.#blocks.subarray(across * j, across * (j + 1));
      blocks.set(row, 2 * across * (j + (down >> 1)) + (across >> 1));
    }
    this.#blocks = blocks;
    this.#maxX += offsetJ * this.resolution;
    this.#maxY += offsetI * this.resolution;
    this.#cellsX *= 2;
    this.#cellsY *= 2;
    this.#cells = cells;
    if (this.#maxI < 0) return;
    this.#minI += offsetI;
    this.#maxI += offsetI;
    this.#minJ += offsetJ;
    this.#maxJ += offsetJ;
  }

  /** Raises the bounds of the blocks around a hit. */
  raise(i: number, j: number): void {
    const value = COST_VALUES - (cellAt(this.#cells, this.#cellsX * j + i) & ~TOUCHED);
    const across = this.#cellsX >> BLOCK_SHIFT;
    const I = i >> BLOCK_SHIFT, J = j >> BLOCK_SHIFT;
    for (let b = J; b >= Math.max(0, J - 1); b--) {
      for (let a = I; a >= Math.max(0, I - 1); a--) {
        const at = across * b + a;
        if (cellAt(this.#blocks, at) < value) this.#blocks[at] = value;
      }
    }
  }

  /** Extends the known area by the cells from (minI, minJ) to (maxI, maxJ). */
  know(minI: number, minJ: number, maxI: number, maxJ: number): void {
    this.#minI = Math.min(this.#minI, minI);
    this.#minJ = Math.min(this.#minJ, minJ);
    this.#maxI = Math.max(this.#maxI, maxI);
    this.#maxJ = Math.max(this.#maxJ, maxJ);
  }

  /** Crops the grid to its known area. */
  crop(): void {
    const known = this.known;
    if (!known) return;
    const cellsX = known.maxI - known.minI + 1, cellsY = known.maxJ - known.minJ + 1;
    const cells = new Uint16Array(cellsX * cellsY);
    for (let j = 0; j < cellsY; j++) {
      const from = this.#cellsX * (j + known.minJ) + known.minI;
      cells.set(this.#cells.subarray(from, from + cellsX), cellsX * j);
    }
    this.#take({
      resolution: this.resolution,
      maxX: this.#maxX - known.minJ * this.resolution,
      maxY: this.#maxY - known.minI * this.resolution,
      cellsX,
      cellsY,
      cells,
      known: { minI: 0, minJ: 0, maxI: cellsX - 1, maxJ: cellsY - 1 },
    });
  }

  #take(state: GridState): void {
    this.#cells = state.cells;
    this.#blocks = new Uint16Array(0);
    this.#cellsX = state.cellsX;
    this.#cellsY = state.cellsY;
    this.#maxX = state.maxX;
    this.#maxY = state.maxY;
    this.#minI = state.known?.minI ?? Infinity;
    this.#minJ = state.known?.minJ ?? Infinity;
    this.#maxI = state.known?.maxI ?? -1;
    this.#maxJ = state.known?.maxJ ?? -1;
  }

  /** A copy; the cells of a finished grid never change and are shared. */
  state(finished: boolean): GridState {
    return {
      resolution: this.resolution,
      maxX: this.#maxX,
      maxY: this.#maxY,
      cellsX: this.#cellsX,
      cellsY: this.#cellsY,
      cells: finished ? this.#cells : this.#cells.slice(),
      known: this.known,
    };
  }
}

/** A scan's rays in the frame of a grid: x, y, … */
export interface RayEnds {
  readonly origin: { readonly x: number; readonly y: number };
  /** Their ends. */
  readonly returns: Float64Array;
  readonly misses: Float64Array;
  /** Points between returns: occupied like these, but without rays. */
  readonly surface: Float64Array;
}

/** Inserts scans: cells of returns become likelier to be occupied, those that a ray crosses less. */
export class GridInserter {
  readonly #hits: Uint16Array;
  readonly #misses: Uint16Array;
  #touched = new Int32Array(4096);
  #count = 0;

  constructor(hitProbability: number, missProbability: number) {
    this.#hits = updateTable(hitProbability);
    this.#misses = updateTable(missProbability);
  }

  insert(grid: ProbabilityGrid, ends: RayEnds): void {
    const { returns, misses, surface, origin: { x: originX, y: originY } } = ends;
    if (!growToHold(grid, ends)) return;
    const { cells, cellsX, maxX, maxY, resolution } = grid;
    this.#count = 0;
    let minI = Infinity, minJ = Infinity, maxI = -1, maxJ = -1;
    const see = (x: number, y: number): number => {
      const i = Math.floor((maxY - y) / resolution), j = Math.floor((maxX - x) / resolution);
      if (i < minI) minI = i;
      if (i > maxI) maxI = i;
      if (j < minJ) minJ = j;
      if (j > maxJ) maxJ = j;
      return cellsX * j + i;
    };
    see(originX, originY);
    for (const hits of [returns, surface]) {
      for (let k = 0; 2 * k < hits.length; k++) {
        const at = see(xOf(hits, k), yOf(hits, k));
        if (cellAt(cells, at) & TOUCHED) continue;
        this.#touch(cells, at, this.#hits);
        grid.raise(at % cellsX, Math.floor(at / cellsX));
      }
    }
    const fromI = (maxY - originY) / resolution, fromJ = (maxX - originX) / resolution;
    for (const ends of [returns, misses]) {
      for (let k = 0; 2 * k < ends.length; k++) {
        const x = xOf(ends, k), y = yOf(ends, k);
        see(x, y);
        const toI = (maxY - y) / resolution, toJ = (maxX - x) / resolution;
        this.#ray(cells, cellsX, fromI, fromJ, toI, toJ);
      }
    }
    for (const at of this.#touched.subarray(0, this.#count)) cells[at] = cellAt(cells, at) & ~TOUCHED;
    grid.know(minI, minJ, maxI, maxJ);
  }

  /** Misses every cell that the segment crosses. */
  #ray(cells: Uint16Array, cellsX: number, fromI: number, fromJ: number, toI: number, toJ: number): void {
    const di = toI - fromI, dj = toJ - fromJ;
    const endI = Math.floor(toI), endJ = Math.floor(toJ);
    let i = Math.floor(fromI), j = Math.floor(fromJ);
    const stepI = di > 0 ? 1 : -1, stepJ = dj > 0 ? 1 : -1;
    const deltaI = di === 0 ? Infinity : Math.abs(1 / di), deltaJ = dj === 0 ? Infinity : Math.abs(1 / dj);
    let nextI = di === 0 ? Infinity : (di > 0 ? i + 1 - fromI : fromI - i) * deltaI;
    let nextJ = dj === 0 ? Infinity : (dj > 0 ? j + 1 - fromJ : fromJ - j) * deltaJ;
    let left = Math.abs(endI - i) + Math.abs(endJ - j);
    let at = cellsX * j + i;
    const strideJ = stepJ * cellsX;
    const misses = this.#misses;
    for (;;) {
      if ((cellAt(cells, at) & TOUCHED) === 0) this.#touch(cells, at, misses);
      if (left-- <= 0) return;
      if (nextI < nextJ) {
        nextI += deltaI;
        i += stepI;
        at += stepI;
      } else {
        nextJ += deltaJ;
        j += stepJ;
        at += strideJ;
      }
    }
  }

  #touch(cells: Uint16Array, at: number, table: Uint16Array): void {
    const value = cellAt(cells, at);
    if (value & TOUCHED) return;
    cells[at] = cellAt(table, value);
    if (this.#count === this.#touched.length) {
      const larger = new Int32Array(2 * this.#count);
      larger.set(this.#touched);
      this.#touched = larger;
    }
    this.#touched[this.#count++] = at;
  }
}

/** So far inside the grid, in metres, rays end, so that rounding takes none of them outside. */
const PADDING = 1e-6;

function growToHold(grid: ProbabilityGrid, { origin, returns, misses }: RayEnds): boolean {
  let minX = origin.x, minY = origin.y, maxX = origin.x, maxY = origin.y;
  for (const ends of [returns, misses]) {
    for (let k = 0; 2 * k < ends.length; k++) {
      const x = xOf(ends, k), y = yOf(ends, k);
      if (x < minX) minX = x;
      if (x > maxX) maxX = x;
      if (y < minY) minY = y;
      if (y > maxY) maxY = y;
    }
  }
  return grid.growTo(minX - PADDING, minY - PADDING, maxX + PADDING, maxY + PADDING);
}

/** For each cell value, the value (flagged as changed) after one observation with a probability. */
function updateTable(probability: number): Uint16Array {
  const seen = probability / (1 - probability);
  const table = new Uint16Array(COST_VALUES + 1);
  table[0] = valueOf(1 - probability) | TOUCHED;
  for (let value = 1; value <= COST_VALUES; value++) {
    const before = 1 - (COST_MIN + (value - 1) * COST_STEP);
    const odds = seen * before / (1 - before);
    table[value] = valueOf(1 - odds / (1 + odds)) | TOUCHED;
  }
  return table;
}

function valueOf(cost: number): number {
  const clamped = Math.min(COST_MAX, Math.max(COST_MIN, cost));
  return Math.round((clamped - COST_MIN) / COST_STEP) + 1;
}
