/**
 * Finds a scan's place in a finished submap even if the prediction is far off: branch and bound over grids of maxima
 * (Hess et al., ICRA 2016).
 *
 * The search works on cells of 2 x 2 grid cells; refinement does the rest.
 */

import type { ProbabilityGrid } from "../local/probability_grid.ts";
import { COST_VALUES } from "../local/probability_grid.ts";
import type { Pose2d } from "../pose2d.ts";

/** Levels of maxima: over 1, 2, 4, … cells. */
const LEVELS = 6;
/** Grid cells on a side of a search cell. */
const POOLED = 2;
const HIGHEST = 255;
/** For each value of a grid's cell: 0 (probability 0.1, or unknown) to 255 (0.9). */
const LIKELY = Uint8Array.from(
  { length: COST_VALUES + 1 },
  (_, value) => value === 0 ? 0 : Math.round(HIGHEST * (COST_VALUES - value) / (COST_VALUES - 1)),
);

export interface SearchWindow {
  readonly linearM: number;
  readonly angularRad: number;
}

export interface SearchMatch {
  readonly pose: Pose2d;
  /** Mean probability under the points, 0.1 to 0.9; of grid cells that are searched as one, the likeliest counts. */
  readonly score: number;
}

interface Level {
  readonly cells: Uint8Array;
  readonly width: number;
}

const NO_CELLS: Level = { cells: new Uint8Array(0), width: 0 };

/** A finished submap, prepared for searches. */
export class SearchGrid {
  readonly #levels: Level[];
  readonly #cellM: number;
  readonly #height: number;
  readonly #maxX: number;
  readonly #maxY: number;
  #cellsI = new Int32Array(0);
  #cellsJ = new Int32Array(0);

  constructor(grid: ProbabilityGrid) {
    this.#cellM = POOLED * grid.resolution;
    this.#maxX = grid.maxX;
    this.#maxY = grid.maxY;
    const width = Math.ceil(grid.cellsX / POOLED);
    this.#height = Math.ceil(grid.cellsY / POOLED);
    this.#levels = [{ cells: pooled(grid, width, this.#height), width }];
  }

  /** Makes the levels up to this one: a search in a small window needs only the lower ones. */
  #prepare(top: number): void {
    for (let k = this.#levels.length; k <= top; k++) {
      this.#levels.push(widened(this.#levels.at(-1) ?? NO_CELLS, this.#height, k));
    }
  }

  /**
   * The best pose of `points` (x, y, …) around a prediction in the frame of the grid; undefined if none scores more than
   * `minScore`.
   */
  search(
    points: Float64Array,
    prediction: Pose2d,
    window: SearchWindow,
    minScore: number,
  ): SearchMatch | undefined {
    const count = points.length / 2;
    if (count === 0) return undefined;
    const angularStep = this.#cellM / reachOf(points);
    const turns = Math.ceil(window.angularRad / angularStep);
    this.#place(points, prediction, angularStep, turns);
    const reach = Math.ceil(window.linearM / this.#cellM);
    const top = Math.min(LEVELS - 1, Math.max(0, Math.ceil(Math.log2(Math.max(1, reach / 2)))));
    this.#prepare(top);
    const step = 1 << top;
    const scale = 0.8 / (HIGHEST * count);
    const leastSum = (minScore - 0.1) / scale;
    const search: Search = { count, reach, best: { turn: -1, di: 0, dj: 0, sum: leastSum } };
    const candidates: Candidate[] = [];
    for (let turn = 0; turn <= 2 * turns; turn++) {
      for (let dj = -reach; dj <= reach; dj += step) {
        for (let di = -reach; di <= reach; di += step) {
          const sum = this.#sum(top, turn * count, count, di, dj);
          if (sum > leastSum) candidates.push({ turn, di, dj, sum });
        }
      }
    }
    for (const candidate of likeliestFirst(candidates)) this.#descend(search, top, candidate);
    const { best } = search;
    if (best.turn < 0) return undefined;
    const pose = {
      x: prediction.x - best.dj * this.#cellM,
      y: prediction.y - best.di * this.#cellM,
      yaw: prediction.yaw + (best.turn - turns) * angularStep,
    };
    return { pose, score: 0.1 + scale * best.sum };
  }

  #descend(search: Search, level: number, candidate: Candidate): void {
    if (candidate.sum <= search.best.sum) return;
    if (level === 0) {
      search.best = candidate;
      return;
    }
    const half = 1 << (level - 1);
    const { count, reach } = search, { turn } = candidate;
    const parts: Candidate[] = [];
    for (const dj of [candidate.dj, candidate.dj + half]) {
      for (const di of [candidate.di, candidate.di + half]) {
        if (di > reach || dj > reach) continue;
        const sum = this.#sum(level - 1, turn * count, count, di, dj);
        if (sum > search.best.sum) parts.push({ turn, di, dj, sum });
      }
    }
    for (const part of likeliestFirst(parts)) this.#descend(search, level - 1, part);
  }

  #place(points: Float64Array, pose: Pose2d, angularStep: number, turns: number): void {
    const count = points.length / 2, needed = (2 * turns + 1) * count;
    if (this.#cellsI.length < needed) {
      this.#cellsI = new Int32Array(needed);
      this.#cellsJ = new Int32Array(needed);
    }
    const scale = 1 / this.#cellM;
    const fromI = (this.#maxY - pose.y) * scale, fromJ = (this.#maxX - pose.x) * scale;
    for (let turn = 0, at = 0; turn <= 2 * turns; turn++) {
      const yaw = pose.yaw + (turn - turns) * angularStep;
      const cos = Math.cos(yaw), sin = Math.sin(yaw);
      for (let k = 0; k < points.length; k += 2, at++) {
        const x = points[k] ?? 0, y = points[k + 1] ?? 0;
        this.#cellsI[at] = Math.floor(fromI - (sin * x + cos * y) * scale);
        this.#cellsJ[at] = Math.floor(fromJ - (cos * x - sin * y) * scale);
      }
    }
  }

  /** The best sum of shifts from (di, dj) to less than 2^level more. */
  #sum(level: number, from: number, count: number, di: number, dj: number): number {
    const { cells, width } = this.#levels[level] ?? NO_CELLS;
    const cellsI = this.#cellsI, cellsJ = this.#cellsJ;
    // A level has margins for the windows that reach into the grid.
    const margin = (1 << level) - 1;
    const height = this.#height + margin;
    const offsetI = di + margin, offsetJ = dj + margin;
    let sum = 0;
    for (let at = from; at < from + count; at++) {
      const i = (cellsI[at] ?? 0) + offsetI, j = (cellsJ[at] ?? 0) + offsetJ;
      if (i < 0 || j < 0 || i >= width || j >= height) continue;
      sum += cells[width * j + i] ?? 0;
    }
    return sum;
  }
}

/** A turn, and shifts in cells: on a level, the first of the shifts that are searched as one. */
interface Candidate {
  readonly turn: number;
  readonly di: number;
  readonly dj: number;
  /** The best sum of the values under the points. */
  readonly sum: number;
}

interface Search {
  readonly count: number;
  readonly reach: number;
  best: Candidate;
}

function likeliestFirst(candidates: Candidate[]): Candidate[] {
  return candidates.sort((a, b) => b.sum - a.sum);
}

/** The likeliest of each square of cells. */
function pooled({ cells, cellsX, cellsY }: ProbabilityGrid, width: number, height: number): Uint8Array {
  const out = new Uint8Array(width * height);
  for (let j = 0; j < cellsY; j++) {
    const to = width * Math.floor(j / POOLED), from = cellsX * j;
    for (let i = 0; i < cellsX; i++) {
      const likely = LIKELY[cells[from + i] ?? 0] ?? 0;
      const at = to + (i >> 1);
      if ((out[at] ?? 0) < likely) out[at] = likely;
    }
  }
  return out;
}

/** Maxima over windows twice as wide. The cell (i, j) of the result is the maximum from i - margin, j - margin on. */
function widened({ cells, width: fromWidth }: Level, height: number, into: number): Level {
  const half = 1 << (into - 1);
  const fromHeight = height + half - 1, width = fromWidth + half;
  const rows = new Uint8Array(width * fromHeight);
  for (let j = 0; j < fromHeight; j++) {
    const from = cells.subarray(fromWidth * j, fromWidth * (j + 1));
    raise(rows, width * j, from);
    raise(rows, width * j + half, from);
  }

  const out = new Uint8Array(width * (fromHeight + half));
  raise(out, 0, rows);
  raise(out, width * half, rows);
  return { cells: out, width };
}

/** Raises the cells from an index on to those of another list, where those are higher. */
function raise(cells: Uint8Array, at: number, to: Uint8Array): void {
  for (let k = 0; k < to.length; k++) {
    const value = to[k] ?? 0;
    if ((cells[at + k] ?? 0) < value) cells[at + k] = value;
  }
}

const REACH_MIN_M = 3;
const REACH_MAX_M = 12;

/** The distance at which a turn of one step moves a point by a cell. */
function reachOf(points: Float64Array): number {
  let farthest = 0;
  for (let k = 0; k < points.length; k += 2) {
    farthest = Math.max(farthest, Math.hypot(points[k] ?? 0, points[k + 1] ?? 0));
  }
  return Math.min(REACH_MAX_M, Math.max(REACH_MIN_M, farthest));
}
