/**
 * Refines the pose of a scan to a fraction of a cell: Levenberg-Marquardt on the costs under its points, made smooth by
 * bicubic (Catmull-Rom) interpolation, and on the distance from the expected pose.
 */

import { type Pose2d, wrapAngle } from "../pose2d.ts";
import { COST_MAX, COST_MIN, COST_STEP, COST_VALUES, type ProbabilityGrid } from "./probability_grid.ts";

export interface RefinementWeights {
  readonly occupiedSpace: number;
  readonly translation: number;
  readonly rotation: number;
  /** An additional weight in one direction, a unit vector. */
  readonly along?: { readonly x: number; readonly y: number; readonly weight: number };
}

export interface Refinement {
  readonly pose: Pose2d;
  /** Mean probability under the points, 0.1 to 0.9. */
  readonly score: number;
}

const HIGHEST = COST_VALUES - 1;
const ITERATIONS_MAX = 20;
const TRANSLATION_DONE_M = 1e-4;
const ROTATION_DONE_RAD = 1e-5;

export class ScanRefiner {
  /** The normal equations: the upper triangle of the matrix (6), then the gradient (3). */
  readonly #normal = new Float64Array(9);
  readonly #step = new Float64Array(3);
  readonly #splineI = new Float64Array(8);
  readonly #splineJ = new Float64Array(8);
  #costSum = 0;

  /** The weights pull the pose to `expected`. The iterations begin at `start`. */
  refine(
    grid: ProbabilityGrid,
    points: Float64Array,
    start: Pose2d,
    expected: Pose2d,
    weights: RefinementWeights,
  ): Refinement {
    let { x, y, yaw } = start;
    let lambda = 1e-4;
    let cost = this.#normalAt(grid, points, x, y, yaw, expected, weights);
    for (let iteration = 0; iteration < ITERATIONS_MAX; iteration++) {
      if (!solve3(this.#normal, lambda, this.#step)) break;
      const [dx, dy, dyaw] = this.#step;
      const before = this.#normal.slice(), sum = this.#costSum;
      const next = this.#normalAt(grid, points, x + dx, y + dy, yaw + dyaw, expected, weights);
      if (next < cost) {
        x += dx;
        y += dy;
        yaw += dyaw;
        lambda = Math.max(1e-9, lambda / 10);
        const done = cost - next < 1e-7 * cost;
        cost = next;
        if (done) break;
      } else {
        this.#normal.set(before);
        this.#costSum = sum;
        lambda *= 10;
        if (lambda > 1e3) break;
      }
      if (Math.hypot(dx, dy) < TRANSLATION_DONE_M && Math.abs(dyaw) < ROTATION_DONE_RAD) break;
    }
    return {
      pose: { x, y, yaw: wrapAngle(yaw) },
      score: 1 - this.#costSum / Math.max(1, points.length / 2),
    };
  }

  /** Fills the normal equations at a pose, and returns half the sum of squares. */
  #normalAt(
    grid: ProbabilityGrid,
    points: Float64Array,
    x: number,
    y: number,
    yaw: number,
    expected: Pose2d,
    weights: RefinementWeights,
  ): number {
    const squares = this.#sumPoints(grid, points, x, y, yaw);
    const w = weights.occupiedSpace * weights.occupiedSpace / Math.max(1, points.length / 2);
    const wt = weights.translation * weights.translation, wr = weights.rotation * weights.rotation;
    const ex = x - expected.x, ey = y - expected.y, eyaw = wrapAngle(yaw - expected.yaw);
    const n = this.#normal;
    for (let k = 0; k < 9; k++) n[k] *= w;
    n[0] += wt;
    n[3] += wt;
    n[5] += wr;
    n[6] += wt * ex;
    n[7] += wt * ey;
    n[8] += wr * eyaw;
    let pull = wt * (ex * ex + ey * ey) + wr * eyaw * eyaw;
    if (weights.along) {
      const { x: ax, y: ay, weight } = weights.along, wa = weight * weight, off = ax * ex + ay * ey;
      n[0] += wa * ax * ax;
      n[1] += wa * ax * ay;
      n[3] += wa * ay * ay;
      n[6] += wa * ax * off;
      n[7] += wa * ay * off;
      pull += wa * off * off;
    }
    return 0.5 * (w * squares + pull);
  }

  /** Sums what each point adds to the normal equations; returns the sum of squared costs. */
  #sumPoints(grid: ProbabilityGrid, points: Float64Array, x: number, y: number, yaw: number): number {
    const { cells, cellsX, cellsY } = grid;
    const scale = 1 / grid.resolution, slope = COST_STEP * scale;
    const cos = Math.cos(yaw), sin = Math.sin(yaw);
    const fromI = (grid.maxY - y) * scale - 0.5, fromJ = (grid.maxX - x) * scale - 0.5;
    const S = this.#splineI, T = this.#splineJ;
    let a00 = 0, a01 = 0, a02 = 0, a11 = 0, a12 = 0, a22 = 0, b0 = 0, b1 = 0, b2 = 0, squares = 0, sum = 0;
    for (let k = 0; k < points.length; k += 2) {
      const rx = cos * points[k] - sin * points[k + 1], ry = sin * points[k] + cos * points[k + 1];
      const u = fromI - ry * scale, v = fromJ - rx * scale;
      const i = Math.floor(u), j = Math.floor(v);
      if (i < 1 || j < 1 || i >= cellsX - 2 || j >= cellsY - 2) {
        squares += COST_MAX * COST_MAX;
        sum += COST_MAX;
        continue;
      }
      catmullRom(u - i, S);
      catmullRom(v - j, T);
      const w0 = S[0], w1 = S[1], w2 = S[2], w3 = S[3], d0 = S[4], d1 = S[5], d2 = S[6], d3 = S[7];
      let value = 0, byI = 0, byJ = 0;
      let at = cellsX * (j - 1) + i - 1;
      for (let row = 0; row < 4; row++, at += cellsX) {
        // An unknown cell, 0, becomes 65535 and so the highest cost.
        let c0 = (cells[at] - 1) & 0xffff, c1 = (cells[at + 1] - 1) & 0xffff;
        let c2 = (cells[at + 2] - 1) & 0xffff, c3 = (cells[at + 3] - 1) & 0xffff;
        if (c0 > HIGHEST) c0 = HIGHEST;
        if (c1 > HIGHEST) c1 = HIGHEST;
        if (c2 > HIGHEST) c2 = HIGHEST;
        if (c3 > HIGHEST) c3 = HIGHEST;
        const along = w0 * c0 + w1 * c1 + w2 * c2 + w3 * c3;
        value += T[row] * along;
        byI += T[row] * (d0 * c0 + d1 * c1 + d2 * c2 + d3 * c3);
        byJ += T[row + 4] * along;
      }
      const f = COST_MIN + COST_STEP * value;
      const fx = -slope * byJ, fy = -slope * byI, fyaw = fy * rx - fx * ry;
      squares += f * f;
      sum += f;
      a00 += fx * fx;
      a01 += fx * fy;
      a02 += fx * fyaw;
      a11 += fy * fy;
      a12 += fy * fyaw;
      a22 += fyaw * fyaw;
      b0 += fx * f;
      b1 += fy * f;
      b2 += fyaw * f;
    }
    this.#costSum = sum;
    this.#normal.set([a00, a01, a02, a11, a12, a22, b0, b1, b2]);
    return squares;
  }
}

/** The weights of four cells at a share `t` between the middle two, and their derivatives. */
function catmullRom(t: number, into: Float64Array): void {
  const t2 = t * t, t3 = t2 * t;
  into[0] = 0.5 * (-t + 2 * t2 - t3);
  into[1] = 1 - 2.5 * t2 + 1.5 * t3;
  into[2] = 0.5 * (t + 4 * t2 - 3 * t3);
  into[3] = 0.5 * (t3 - t2);
  into[4] = 0.5 * (-1 + 4 * t - 3 * t2);
  into[5] = -5 * t + 4.5 * t2;
  into[6] = 0.5 * (1 + 8 * t - 9 * t2);
  into[7] = 0.5 * (3 * t2 - 2 * t);
}

/** Solves (A + lambda diag(A)) step = -b; false if the matrix is not positive. */
export function solve3(normal: Float64Array, lambda: number, step: Float64Array): boolean {
  const grow = 1 + lambda;
  const l00 = Math.sqrt(normal[0] * grow);
  const l10 = normal[1] / l00, l20 = normal[2] / l00;
  const l11 = Math.sqrt(normal[3] * grow - l10 * l10);
  const l21 = (normal[4] - l20 * l10) / l11;
  const l22 = Math.sqrt(normal[5] * grow - l20 * l20 - l21 * l21);
  if (!(l00 > 0 && l11 > 0 && l22 > 0)) return false;
  const y0 = -normal[6] / l00, y1 = (-normal[7] - l10 * y0) / l11;
  const y2 = (-normal[8] - l20 * y0 - l21 * y1) / l22;
  step[2] = y2 / l22;
  step[1] = (y1 - l21 * step[2]) / l11;
  step[0] = (y0 - l10 * step[1] - l20 * step[2]) / l00;
  return true;
}
