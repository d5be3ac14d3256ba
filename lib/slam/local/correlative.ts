/**
 * Correlative scan matching: finds, of all poses in a window around a prediction, the one whose points fall on the
 * likeliest cells (Olson, ICRA 2009). It needs no gradient, so it finds matches that refinement alone would miss.
 * Blocks of cells give upper bounds for many poses at once, and only poses whose block may hold the best are evaluated.
 */

import type { Pose2d } from "../pose2d.ts";
import { doubleAt, indexAt, xOf, yOf } from "../points.ts";
import { BLOCK_CELLS, cellAt, COST_VALUES, costAt, type ProbabilityGrid } from "./probability_grid.ts";

export interface CorrelativeWindow {
  readonly linearM: number;
  readonly angularRad: number;
  /** The largest angle between two candidates. */
  readonly angularStepRad: number;
  /** The penalty of distant poses. */
  readonly translationWeight: number;
  readonly rotationWeight: number;
}

const HIGHEST = COST_VALUES - 1;
/** Bound of a cell whose block has no hit: its probability never rises above this. */
const FREE = Math.ceil(0.2 * HIGHEST);
/** Largest window: 64 turns each way, and 8 blocks each way. */
const CANDIDATES_MAX = 40_000;

export class CorrelativeMatcher {
  /** The cells of the points by turn. */
  #cellsI = new Int32Array(4096);
  #cellsJ = new Int32Array(4096);
  readonly #bounds = new Float64Array(CANDIDATES_MAX);

  /** The best pose of `points` (x, y, …) for a grid that still takes scans. In a finished one it finds little. */
  match(grid: ProbabilityGrid, points: Float64Array, prediction: Pose2d, window: CorrelativeWindow): Pose2d {
    const count = points.length / 2;
    const { angularStepRad, translationWeight, rotationWeight } = window;
    const reach = Math.ceil(window.linearM / grid.resolution);
    const across = Math.ceil((2 * reach + 1) / BLOCK_CELLS);
    const turnsMax = (CANDIDATES_MAX / (across * across) - 1) / 2;
    const turns = Math.min(Math.floor(turnsMax), Math.ceil(window.angularRad / angularStepRad));
    const likeliest = this.#coarse(grid, points, prediction, window, turns, reach, across);
    const candidates = (2 * turns + 1) * across * across;
    let best = -1, bestI = 0, bestJ = 0, bestYaw = 0;
    for (let k = -1; k < candidates; k++) {
      const candidate = k < 0 ? likeliest : k;
      if (doubleAt(this.#bounds, candidate) <= best) continue;
      const turn = Math.floor(candidate / (across * across)), square = candidate % (across * across);
      const yaw = (turn - turns) * angularStepRad;
      const firstJ = Math.floor(square / across) * BLOCK_CELLS - reach;
      const firstI = square % across * BLOCK_CELLS - reach;
      for (let dj = firstJ; dj < firstJ + BLOCK_CELLS && dj <= reach; dj++) {
        for (let di = firstI; di < firstI + BLOCK_CELLS && di <= reach; di++) {
          const sum = this.#sum(grid, turn * count, count, di, dj);
          const away = Math.hypot(di, dj) * grid.resolution * translationWeight +
            Math.abs(yaw) * rotationWeight;
          const weighted = (0.1 + 0.8 * sum / (count * HIGHEST)) * Math.exp(-away * away);
          if (weighted <= best) continue;
          best = weighted;
          bestI = di;
          bestJ = dj;
          bestYaw = yaw;
        }
      }
    }
    return {
      x: prediction.x - bestJ * grid.resolution,
      y: prediction.y - bestI * grid.resolution,
      yaw: prediction.yaw + bestYaw,
    };
  }

  /** Computes a bound for each turn and each square of shifts, and returns the candidate with the highest bound. */
  #coarse(
    grid: ProbabilityGrid,
    points: Float64Array,
    prediction: Pose2d,
    { angularStepRad, rotationWeight }: CorrelativeWindow,
    turns: number,
    reach: number,
    across: number,
  ): number {
    const count = points.length / 2;
    this.#makeRoom((2 * turns + 1) * count);
    let candidate = 0, highest = -1, likeliest = 0;
    for (let turn = 0; turn <= 2 * turns; turn++) {
      const yaw = (turn - turns) * angularStepRad;
      const away = Math.abs(yaw) * rotationWeight, share = Math.exp(-away * away);
      this.#place(grid, points, prediction, yaw, turn * count);
      for (let b = 0; b < across; b++) {
        for (let a = 0; a < across; a++) {
          const dj = b * BLOCK_CELLS - reach, di = a * BLOCK_CELLS - reach;
          const sum = this.#bound(grid, turn * count, count, di, dj);
          const bound = share * (0.1 + 0.8 * sum / (count * HIGHEST));
          if (bound > highest) {
            highest = bound;
            likeliest = candidate;
          }
          this.#bounds[candidate++] = bound;
        }
      }
    }
    return likeliest;
  }

  #makeRoom(count: number): void {
    if (count <= this.#cellsI.length) return;
    this.#cellsI = new Int32Array(2 * count);
    this.#cellsJ = new Int32Array(2 * count);
  }

  /** Finds the cells of the turned points. */
  #place(grid: ProbabilityGrid, points: Float64Array, pose: Pose2d, turn: number, at: number): void {
    const cos = Math.cos(pose.yaw + turn), sin = Math.sin(pose.yaw + turn);
    const scale = 1 / grid.resolution;
    const fromI = (grid.maxY - pose.y) * scale, fromJ = (grid.maxX - pose.x) * scale;
    const cellsI = this.#cellsI, cellsJ = this.#cellsJ;
    for (let k = 0; 2 * k < points.length; k++, at++) {
      const px = xOf(points, k), py = yOf(points, k);
      cellsI[at] = Math.floor(fromI - (sin * px + cos * py) * scale);
      cellsJ[at] = Math.floor(fromJ - (cos * px - sin * py) * scale);
    }
  }

  /** Upper bound over the shifts from (di, dj) to less than one block more. */
  #bound(
    { blocks, cellsX, cellsY }: ProbabilityGrid,
    from: number,
    count: number,
    di: number,
    dj: number,
  ): number {
    // A finished grid has dropped its bounds, and all squares count as alike: a search there hardly looks beyond one corner
    // of the window. With bounds it would, but then the test of a robot that is carried away finds it in a wrong place.
    if (blocks.length === 0) return count * FREE;
    const cellsI = this.#cellsI, cellsJ = this.#cellsJ;
    const blocksX = cellsX / BLOCK_CELLS;
    let sum = 0;
    for (let at = from; at < from + count; at++) {
      const i = indexAt(cellsI, at) + di, j = indexAt(cellsJ, at) + dj;
      if (i < 0 || j < 0 || i >= cellsX || j >= cellsY) {
        // The square may reach into the grid.
        sum += FREE;
        continue;
      }
      const value = cellAt(blocks, blocksX * (j >> 2) + (i >> 2));
      sum += value > FREE ? value : FREE;
    }
    return sum;
  }

  #sum(
    { cells, cellsX, cellsY }: ProbabilityGrid,
    from: number,
    count: number,
    di: number,
    dj: number,
  ): number {
    const cellsI = this.#cellsI, cellsJ = this.#cellsJ;
    let sum = 0;
    for (let at = from; at < from + count; at++) {
      const i = indexAt(cellsI, at) + di, j = indexAt(cellsJ, at) + dj;
      if (i < 0 || j < 0 || i >= cellsX || j >= cellsY) continue;
      sum += HIGHEST - costAt(cells, cellsX * j + i);
    }
    return sum;
  }
}
