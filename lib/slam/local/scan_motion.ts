/**
 * Estimates the motion between two scans by point-to-line ICP (Censi, ICRA 2008): it pulls the points to the lines
 * through the earlier points. If all lines are parallel, as in a bare corridor, the motion along them keeps its guess.
 * Matching on a grid would pull the points onto the earlier points there, as if the robot stood still.
 */

import { type Pose2d, wrapAngle } from "../pose2d.ts";
import { byAngle, doubleAt, medianOf, thinned, xOf, yOf } from "../points.ts";
import { GUESS_M, GUESS_RAD, type LeastConstrained, LineEquations, NOISE_M } from "./line_equations.ts";
import type { Symmetric } from "./symmetric.ts";

const POINTS_MAX = 180;
const ITERATIONS_MAX = 25;
/** Largest distance of a pair in the first iteration, its factor for each further iteration, and its least value. */
const FIRST_PAIR_M = 0.8;
const PAIR_SHARE = 0.8;
const LAST_PAIR_M = 0.15;
/** Residual at which a pair keeps a quarter of its weight, as a share of the largest distance; and its least value. */
const SCALE_SHARE = 1 / 3;
const LEAST_SCALE_M = 0.1;
/**
 * A line is fitted to the points within this distance on each side of a point, at most this many. With noisy ranges
 * the line is longer, this many times the noise, because a line through fewer points could have any direction.
 */
const SIDE_M = 0.1;
const SIDE_POINTS = 6;
const SIDE_NOISES = 3;
/**
 * Enough for a lidar with beams 0.25 degrees apart, 1.3 m from a wall; the cost grows with the square of this number.
 */
const SIDE_POINTS_MAX = 40;
const RANGE_NOISE_MAX_M = 0.06;
/** The median of the second differences of ranges, of ranges that have a standard deviation of 1. */
const BEND_MEDIAN = 0.6745 * Math.sqrt(6);
/** Largest distance of a point from its line: at the robot, and more for each metre of range. */
const ACROSS_M = 0.03;
const ACROSS_A_METRE = 0.02;
/**
 * Largest angle between the directions to both neighbours, near and farther away than `FAR_M`. A larger angle is a
 * corner or an edge. On far surfaces the noise is as large as the gaps between points, and bends their lines.
 */
const STRAIGHT_COS = Math.cos(25 * Math.PI / 180);
const FAR_STRAIGHT_COS = Math.cos(70 * Math.PI / 180);
const FAR_M = 0.1;
/** Pairs may be as far apart as this many gaps between points at their range, but no farther than at first. */
const PAIR_GAPS = 1.5;
/** A point fits if it is this near to its line. */
const FIT_M = 0.06;
/** A point lies behind another if its range is larger by this factor and by so much. */
const BEHIND_FACTOR = 1.1;
const BEHIND_M = 0.2;
const DONE_M = 5e-4;
const DONE_RAD = 2e-4;

export interface ScanMotionResult {
  /** The robot's pose in its frame at the earlier scan. */
  readonly pose: Pose2d;
  /** The share of the points that fit. */
  readonly share: number;
  /** The standard deviation of its yaw by the noise of the ranges: a short piece of a wall hardly shows a turn. */
  readonly yawDeviation: number;
  /** The least constrained direction, in the frame of the earlier scan, and the number of points that constrain it. */
  readonly leastOfAll: LeastConstrained;
  /** The same without a thing that alone constrains a direction: it may be a person who walks. */
  readonly leastConstrained: LeastConstrained;
}

export class ScanMotion {
  #count = 0;
  /** By angle. */
  #angles: Float64Array = new Float64Array(0);
  #points: Float64Array = new Float64Array(0);
  #ranges = new Float64Array(0);
  /** Normals of the lines; 0, 0 for a point on no line. */
  #normals = new Float64Array(0);
  /** The variances of their directions: noise turns the lines through points that are close together. */
  #bends = new Float64Array(0);
  /** The standard deviation of the ranges. */
  #rangeNoiseM = 0;
  /** The usual angle between neighbours. */
  #gapRad = 0;
  readonly #equations = new LineEquations();
  #fits = 0;

  /** The standard deviation of the ranges of the set scan. */
  get rangeNoiseM(): number {
    return this.#rangeNoiseM;
  }

  /** Sets the scan that later scans are compared with: x, y, … in the robot's frame. */
  begin(points: Float64Array): void {
    const { points: sorted, angles, stepRad } = byAngle(points), count = angles.length;
    this.#count = count;
    this.#points = sorted;
    this.#angles = angles;
    this.#gapRad = stepRad;
    this.#ranges = angles.map((_, k) => Math.hypot(xOf(sorted, k), yOf(sorted, k)));
    this.#rangeNoiseM = Math.min(RANGE_NOISE_MAX_M, rangeNoiseOf(this.#ranges));
    this.#normals = new Float64Array(2 * count);
    this.#bends = new Float64Array(count);
    for (let k = 1; k + 1 < count; k++) this.#findNormal(k);
  }

  /** The normal of the line through the neighbours of a point, if they lie on a line. */
  #findNormal(k: number): void {
    const p = this.#points, count = this.#count;
    const x = xOf(p, k), y = yOf(p, k), side = (SIDE_NOISES * this.#rangeNoiseM) ** 2;
    const square = (other: number) => (xOf(p, other) - x) ** 2 + (yOf(p, other) - y) ** 2;
    const isIn = (m: number) => m < SIDE_POINTS_MAX && k > m && k + m + 1 < count;
    let m = 1;
    for (; isIn(m); m++) {
      const nearest = Math.min(square(k - m), square(k + m));
      if (nearest >= side && (m >= SIDE_POINTS || nearest >= SIDE_M * SIDE_M)) break;
    }
    if (!this.#isStraight(k, m)) return;
    let meanX = 0, meanY = 0;
    for (let other = k - m; other <= k + m; other++) {
      meanX += xOf(p, other) / (2 * m + 1);
      meanY += yOf(p, other) / (2 * m + 1);
    }
    let xx = 0, xy = 0, yy = 0;
    for (let other = k - m; other <= k + m; other++) {
      const dx = xOf(p, other) - meanX, dy = yOf(p, other) - meanY;
      xx += dx * dx;
      xy += dx * dy;
      yy += dy * dy;
    }
    const along = 0.5 * Math.atan2(2 * xy, xx - yy);
    const nx = -Math.sin(along), ny = Math.cos(along);
    const residual = Math.max(0, nx * nx * xx + 2 * nx * ny * xy + ny * ny * yy);
    const across = Math.sqrt(residual / (2 * m + 1));
    const rangeM = doubleAt(this.#ranges, k);
    if (across > Math.max(1.5 * this.#rangeNoiseM, ACROSS_M + ACROSS_A_METRE * rangeM)) return;
    this.#normals[2 * k] = nx;
    this.#normals[2 * k + 1] = ny;
    this.#bends[k] = residual / ((2 * m - 1) * (xx + yy - residual));
  }

  /** Whether so many points on each side of one have the same direction from it. */
  #isStraight(k: number, m: number): boolean {
    // With many points, their means count, because single points are noisy.
    const some = m > SIDE_POINTS ? Math.floor(m / SIDE_POINTS) : 0;
    const [x, y] = this.#mean(k, some), [fromX, fromY] = this.#mean(k - m + some, some);
    const [toX, toY] = this.#mean(k + m - some, some);
    const ax = x - fromX, ay = y - fromY, bx = toX - x, by = toY - y;
    const a = Math.hypot(ax, ay), b = Math.hypot(bx, by);
    return ax * bx + ay * by >
      (Math.min(a, b) > FAR_M && some === 0 ? FAR_STRAIGHT_COS : STRAIGHT_COS) * a * b;
  }

  /** The mean of a point and so many on each side. */
  #mean(k: number, side: number): readonly [x: number, y: number] {
    const p = this.#points, count = 2 * side + 1;
    let x = 0, y = 0;
    for (let other = k - side; other <= k + side; other++) {
      x += xOf(p, other) / count;
      y += yOf(p, other) / count;
    }
    return [x, y];
  }

  /** The direction that the counted points of the set scan constrain least. */
  leastConstrainedOf(counts: (x: number, y: number) => boolean): LeastConstrained {
    const p = this.#points, weight = 1 / NOISE_M ** 2;
    this.#equations.clear();
    for (let k = 0; k < this.#count; k++) {
      const x = xOf(p, k), y = yOf(p, k);
      if (!counts(x, y)) continue;
      const nx = xOf(this.#normals, k), ny = yOf(this.#normals, k);
      if (nx === 0 && ny === 0) continue;
      this.#equations.add(x, y, nx, ny, weight, doubleAt(this.#bends, k));
    }
    return this.#equations.leastConstrained();
  }

  /**
   * The information of the counted points of the set scan about a pose with this heading. `isSure`: also of a thing that
   * alone constrains a direction, because it is known to stand.
   */
  informationOf(yaw: number, isSure: boolean, counts: (x: number, y: number) => boolean): Symmetric {
    const p = this.#points, weight = 1 / NOISE_M ** 2, cos = Math.cos(yaw), sin = Math.sin(yaw);
    this.#equations.clear();
    for (let k = 0; k < this.#count; k++) {
      const nx = xOf(this.#normals, k), ny = yOf(this.#normals, k), px = xOf(p, k), py = yOf(p, k);
      if ((nx === 0 && ny === 0) || !counts(px, py)) continue;
      const x = cos * px - sin * py, y = sin * px + cos * py;
      this.#equations.add(x, y, cos * nx - sin * ny, sin * nx + cos * ny, weight, doubleAt(this.#bends, k));
    }
    if (!isSure) this.#equations.dropThings();
    return this.#equations.sums.matrix();
  }

  /** The motion nearest to a guess that fits `points`. */
  match(points: Float64Array, guess: Pose2d): ScanMotionResult {
    const few = thinned(points, POINTS_MAX);
    let { x, y, yaw } = guess;
    let reach = FIRST_PAIR_M;
    for (let iteration = 0; iteration < ITERATIONS_MAX; iteration++) {
      this.#sum(few, x, y, yaw, reach);
      const n = this.#equations.sums;
      n.xx += 1 / GUESS_M ** 2;
      n.yy += 1 / GUESS_M ** 2;
      n.tt += 1 / GUESS_RAD ** 2;
      n.x += (x - guess.x) / GUESS_M ** 2;
      n.y += (y - guess.y) / GUESS_M ** 2;
      n.t += wrapAngle(yaw - guess.yaw) / GUESS_RAD ** 2;
      const step = n.solve(0);
      if (!step) break;
      x += step.x;
      y += step.y;
      yaw += step.yaw;
      const isStill = Math.hypot(step.x, step.y) < DONE_M && Math.abs(step.yaw) < DONE_RAD;
      if (isStill && reach === LAST_PAIR_M) break;
      reach = Math.max(LAST_PAIR_M, PAIR_SHARE * reach);
    }
    this.#sum(few, x, y, yaw, LAST_PAIR_M);
    const equations = this.#equations, leastOfAll = equations.leastConstrained();
    const yawDeviation = equations.yawDeviation(this.#rangeNoiseM);
    equations.dropThings();
    return {
      pose: { x, y, yaw: wrapAngle(yaw) },
      share: this.#fits / Math.max(1, few.length / 2),
      yawDeviation,
      leastOfAll,
      leastConstrained: equations.leastConstrained(),
    };
  }

  /**
   * By what share of the points the motion of scans fits better than that of odometry with the same turn: along a
   * corridor, all motions fit its walls, and those of people who walk by fit best.
   */
  fitsMore(points: Float64Array, scans: Pose2d, odometry: Pose2d): number {
    return this.shareAt(points, scans) - this.shareAt(points, { ...odometry, yaw: scans.yaw });
  }

  /** The share of the points that fit at a pose. */
  shareAt(points: Float64Array, { x, y, yaw }: Pose2d): number {
    const few = thinned(points, POINTS_MAX);
    this.#sum(few, x, y, yaw, LAST_PAIR_M);
    return this.#fits / Math.max(1, few.length / 2);
  }

  /**
   * The share of the points, seen from a pose, that lie behind what the set scan saw in their direction. People hide
   * what is behind them, but they show nothing through a wall.
   */
  shareBehind(points: Float64Array, { x, y, yaw }: Pose2d): number {
    const few = thinned(points, POINTS_MAX), cos = Math.cos(yaw), sin = Math.sin(yaw);
    let behind = 0;
    for (let k = 0; 2 * k < few.length; k++) {
      const fx = xOf(few, k), fy = yOf(few, k), px = x + cos * fx - sin * fy, py = y + sin * fx + cos * fy;
      const at = this.#inDirection(Math.atan2(py, px));
      if (at >= 0 && Math.hypot(px, py) > BEHIND_M + BEHIND_FACTOR * doubleAt(this.#ranges, at)) behind++;
    }
    return behind / Math.max(1, few.length / 2);
  }

  /** The point in a direction; -1 if there is none. */
  #inDirection(angle: number): number {
    const at = this.#firstFrom(angle), off = (k: number) => Math.abs(doubleAt(this.#angles, k) - angle);
    const nearest = at > 0 && (at === this.#count || off(at - 1) < off(at)) ? at - 1 : at;
    return nearest < this.#count && off(nearest) <= this.#gapRad ? nearest : -1;
  }

  /** The first point at an angle or after it. */
  #firstFrom(angle: number): number {
    const angles = this.#angles;
    let low = 0, high = this.#count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (doubleAt(angles, middle) < angle) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Fills the normal equations with the pairs at a pose, and counts the points that fit. */
  #sum(points: Float64Array, x: number, y: number, yaw: number, reach: number): void {
    const cos = Math.cos(yaw), sin = Math.sin(yaw), n = this.#equations.sums;
    const scale = Math.max(LEAST_SCALE_M, SCALE_SHARE * reach);
    this.#fits = 0;
    this.#equations.clear();
    for (let k = 0; 2 * k < points.length; k++) {
      const px = xOf(points, k), py = yOf(points, k);
      const rx = cos * px - sin * py, ry = sin * px + cos * py;
      const at = this.#nearest(x + rx, y + ry, reach);
      if (at < 0) continue;
      const nx = xOf(this.#normals, at), ny = yOf(this.#normals, at);
      if (nx === 0 && ny === 0) {
        this.#fits += 0.5;
        continue;
      }
      const off = nx * (x + rx - xOf(this.#points, at)) + ny * (y + ry - yOf(this.#points, at));
      if (Math.abs(off) < FIT_M) this.#fits++;
      const share = 1 / (1 + (off / scale) ** 2);
      const w = share * share / NOISE_M ** 2;
      const turn = this.#equations.add(rx, ry, nx, ny, w, doubleAt(this.#bends, at));
      n.x += w * nx * off;
      n.y += w * ny * off;
      n.t += w * turn * off;
    }
  }

  /** The nearest earlier point within reach; -1 if there is none. */
  #nearest(x: number, y: number, reach: number): number {
    const angle = Math.atan2(y, x), range = Math.sqrt(x * x + y * y);
    const angles = this.#angles, count = this.#count;
    reach = Math.max(reach, Math.min(FIRST_PAIR_M, PAIR_GAPS * this.#gapRad * range));
    const low = this.#firstFrom(angle);
    // Every point beyond this angle is farther away than the best.
    let best = reach * reach, limit = angleWithin(reach, range), found = -1;
    for (const direction of [1, -1]) {
      for (let k = direction > 0 ? low : low - 1; k >= 0 && k < count; k += direction) {
        if (Math.abs(doubleAt(angles, k) - angle) > limit) break;
        if (Math.abs(doubleAt(this.#ranges, k) - range) > reach) continue;
        const dx = xOf(this.#points, k) - x, dy = yOf(this.#points, k) - y;
        const square = dx * dx + dy * dy;
        if (square >= best) continue;
        best = square;
        limit = angleWithin(Math.sqrt(square), range);
        found = k;
      }
    }
    return found;
  }
}

/** The largest angle between a point at a range and another one within reach of it, up to a right angle, or a bit more. */
function angleWithin(reach: number, range: number): number {
  if (reach >= range) return Math.PI / 2;
  // At least the arc sine, which would take longer than the distances of the points that it spares.
  const sine = reach / range;
  return sine * (1 + (Math.PI / 2 - 1) * sine * sine);
}

/** How much the ranges of neighbours differ from straight lines. */
function rangeNoiseOf(ranges: Float64Array): number {
  const bends = ranges.subarray(2).map((range, k) =>
    Math.abs(doubleAt(ranges, k) - 2 * doubleAt(ranges, k + 1) + range)
  );
  return medianOf(bends) / BEND_MEDIAN;
}
