/**
 * Filters of point clouds: at most one point in each square of a grid. Points are x, y, x, y, …
 */

import { xOf, yOf } from "../points.ts";

const FIRST_SLOTS = 2048;

/** Keeps its table between calls. */
export class VoxelFilter {
  #slots = FIRST_SLOTS;
  #xs = new Int32Array(FIRST_SLOTS);
  #ys = new Int32Array(FIRST_SLOTS);
  /** The last call that used each slot. */
  #calls = new Int32Array(FIRST_SLOTS);
  #call = 0;

  /** The first point in each square of this edge. */
  filter(points: Float64Array, edge: number): Float64Array {
    const kept = new Float64Array(points.length);
    return kept.slice(0, 2 * this.#pass(points, edge, kept));
  }

  /**
   * The sparsest cloud with at least `wanted` points: squares with an edge of at most `longest`, found to a tenth of
   * the edge; all points if there are no more than `wanted`.
   */
  adaptive(points: Float64Array, longest: number, wanted: number): Float64Array {
    if (points.length <= 2 * wanted) return points;
    if (this.#pass(points, longest, undefined) >= wanted) return this.filter(points, longest);
    let high = longest;
    for (let low = longest / 2; low > longest * 0.01; low /= 2) {
      if (this.#pass(points, low, undefined) < wanted) {
        high = low;
        continue;
      }
      while ((high - low) / low > 0.1) {
        const middle = (low + high) / 2;
        if (this.#pass(points, middle, undefined) >= wanted) low = middle;
        else high = middle;
      }
      return this.filter(points, low);
    }
    return points;
  }

  #pass(points: Float64Array, edge: number, kept: Float64Array | undefined): number {
    if (points.length > this.#slots) this.#grow(points.length);
    this.#call++;
    const mask = this.#slots - 1, call = this.#call;
    const xs = this.#xs, ys = this.#ys, calls = this.#calls;
    let count = 0;
    for (let k = 0; 2 * k < points.length; k++) {
      const px = xOf(points, k), py = yOf(points, k);
      const x = Math.round(px / edge), y = Math.round(py / edge);
      let slot = (Math.imul(x, 73856093) ^ Math.imul(y, 19349663)) & mask;
      while (calls[slot] === call && (xs[slot] !== x || ys[slot] !== y)) slot = (slot + 1) & mask;
      if (calls[slot] === call) continue;
      calls[slot] = call;
      xs[slot] = x;
      ys[slot] = y;
      if (kept) {
        kept[2 * count] = px;
        kept[2 * count + 1] = py;
      }
      count++;
    }
    return count;
  }

  #grow(values: number): void {
    while (this.#slots < values) this.#slots *= 2;
    this.#xs = new Int32Array(this.#slots);
    this.#ys = new Int32Array(this.#slots);
    this.#calls = new Int32Array(this.#slots);
    this.#call = 0;
  }
}
