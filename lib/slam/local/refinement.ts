/**
 * Refines the pose of a scan to a fraction of a cell: Levenberg-Marquardt on the costs under its points, made smooth by
 * bicubic (Catmull-Rom) interpolation, and on the distance from the expected pose.
 */

import { type Pose2d, wrapAngle } from "../pose2d.ts";
import { doubleAt, xOf, yOf } from "../points.ts";
import { NormalEquations } from "./normal_equations.ts";
import { COST_MAX, COST_MIN, COST_STEP, costAt, type ProbabilityGrid } from "./probability_grid.ts";

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

const ITERATIONS_MAX = 20;
const TRANSLATION_DONE_M = 1e-4;
const ROTATION_DONE_RAD = 1e-5;

/** What a pose costs, and the normal equations there. */
class Evaluation {
  readonly equations = new NormalEquations();
  /** Half the sum of all squares. */
  total = 0;
  /** The sum of the costs under the points. */
  costSum = 0;
}

export class ScanRefiner {
  readonly #evaluations = [new Evaluation(), new Evaluation()] as const;
  readonly #splineI = new Float64Array(8);
  readonly #splineJ = new Float64Array(8);

  /** The weights pull the pose to `expected`. The iterations begin at `start`. */
  refine(
    grid: ProbabilityGrid,
    points: Float64Array,
    start: Pose2d,
    expected: Pose2d,
    weights: RefinementWeights,
  ): Refinement {
    const count = Math.max(1, points.length / 2);
    const evaluate = (into: Evaluation, pose: Pose2d) => {
      const squares = this.#sumPoints(into, grid, points, pose);
      const share = weights.occupiedSpace * weights.occupiedSpace / count;
      into.equations.scale(share);
      into.total = 0.5 * (share * squares + pull(into.equations, pose, expected, weights));
    };

    let [present, next] = this.#evaluations;
    let pose = start, lambda = 1e-4;
    evaluate(present, pose);
    for (let iteration = 0; iteration < ITERATIONS_MAX; iteration++) {
      const step = present.equations.solve(lambda);
      if (!step) break;
      const moved = { x: pose.x + step.x, y: pose.y + step.y, yaw: pose.yaw + step.yaw };
      evaluate(next, moved);
      if (next.total < present.total) {
        const isDone = present.total - next.total < 1e-7 * present.total;
        pose = moved;
        [present, next] = [next, present];
        lambda = Math.max(1e-9, lambda / 10);
        if (isDone) break;
      } else {
        lambda *= 10;
        if (lambda > 1e3) break;
      }
      if (Math.hypot(step.x, step.y) < TRANSLATION_DONE_M && Math.abs(step.yaw) < ROTATION_DONE_RAD) break;
    }
    return {
      pose: { x: pose.x, y: pose.y, yaw: wrapAngle(pose.yaw) },
      score: 1 - present.costSum / count,
    };
  }

  /** Sums what each point adds to the normal equations; returns the sum of squared costs. */
  #sumPoints(
    into: Evaluation,
    grid: ProbabilityGrid,
    points: Float64Array,
    { x, y, yaw }: Pose2d,
  ): number {
    const { cells, cellsX, cellsY } = grid;
    const scale = 1 / grid.resolution, slope = COST_STEP * scale;
    const cos = Math.cos(yaw), sin = Math.sin(yaw);
    const fromI = (grid.maxY - y) * scale - 0.5, fromJ = (grid.maxX - x) * scale - 0.5;
    const S = this.#splineI, T = this.#splineJ;
    let a00 = 0, a01 = 0, a02 = 0, a11 = 0, a12 = 0, a22 = 0, b0 = 0, b1 = 0, b2 = 0, squares = 0, sum = 0;
    for (let k = 0; 2 * k < points.length; k++) {
      const px = xOf(points, k), py = yOf(points, k);
      const rx = cos * px - sin * py, ry = sin * px + cos * py;
      const u = fromI - ry * scale, v = fromJ - rx * scale;
      const i = Math.floor(u), j = Math.floor(v);
      if (i < 1 || j < 1 || i >= cellsX - 2 || j >= cellsY - 2) {
        squares += COST_MAX * COST_MAX;
        sum += COST_MAX;
        continue;
      }
      catmullRom(u - i, S);
      catmullRom(v - j, T);
      const w0 = doubleAt(S, 0), w1 = doubleAt(S, 1), w2 = doubleAt(S, 2), w3 = doubleAt(S, 3);
      const d0 = doubleAt(S, 4), d1 = doubleAt(S, 5), d2 = doubleAt(S, 6), d3 = doubleAt(S, 7);
      let value = 0, byI = 0, byJ = 0;
      let at = cellsX * (j - 1) + i - 1;
      for (let row = 0; row < 4; row++, at += cellsX) {
        const c0 = costAt(cells, at), c1 = costAt(cells, at + 1);
        const c2 = costAt(cells, at + 2), c3 = costAt(cells, at + 3);
        const along = w0 * c0 + w1 * c1 + w2 * c2 + w3 * c3;
        const weight = doubleAt(T, row);
        value += weight * along;
        byI += weight * (d0 * c0 + d1 * c1 + d2 * c2 + d3 * c3);
        byJ += doubleAt(T, row + 4) * along;
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
    into.costSum = sum;
    Object.assign(into.equations, {
      xx: a00,
      xy: a01,
      xt: a02,
      yy: a11,
      yt: a12,
      tt: a22,
      x: b0,
      y: b1,
      t: b2,
    });
    return squares;
  }
}

/** Adds the pull to the expected pose to the normal equations; returns the sum of its squares. */
function pull(
  into: NormalEquations,
  { x, y, yaw }: Pose2d,
  expected: Pose2d,
  weights: RefinementWeights,
): number {
  const wt = weights.translation * weights.translation, wr = weights.rotation * weights.rotation;
  const ex = x - expected.x, ey = y - expected.y, eyaw = wrapAngle(yaw - expected.yaw);
  into.xx += wt;
  into.yy += wt;
  into.tt += wr;
  into.x += wt * ex;
  into.y += wt * ey;
  into.t += wr * eyaw;
  const squares = wt * (ex * ex + ey * ey) + wr * eyaw * eyaw;
  if (!weights.along) return squares;
  const { x: ax, y: ay, weight } = weights.along, wa = weight * weight, off = ax * ex + ay * ey;
  into.xx += wa * ax * ax;
  into.xy += wa * ax * ay;
  into.yy += wa * ay * ay;
  into.x += wa * ax * off;
  into.y += wa * ay * off;
  return squares + wa * off * off;
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
