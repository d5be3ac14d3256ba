/**
 * Estimates the motion between two scans by point-to-line ICP (Censi, ICRA 2008): it pulls the points to the lines
 * through the earlier points. If all lines are parallel, as in a bare corridor, the motion along them keeps its guess.
 * Matching on a grid would pull the points onto the earlier points there, as if the robot stood still.
 */

import { type Pose2d, wrapAngle } from "../pose2d.ts";
import { thinned } from "./filters.ts";
import { GUESS_M, GUESS_RAD, type LeastConstrained, LineEquations, NOISE_M } from "./line_equations.ts";
import { solve3 } from "./refinement.ts";

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
  #angles = new Float64Array(0);
  #points = new Float64Array(0);
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
  readonly #step = new Float64Array(3);
  #fits = 0;

  /** The standard deviation of the ranges of the set scan. */
  get rangeNoiseM(): number {
    return this.#rangeNoiseM;
  }

  /** Sets the scan that later scans are compared with: x, y, … in the robot's frame. */
  begin(points: Float64Array): void {
    const count = points.length / 2;
    const order = Array.from({ length: count }, (_, k) => k);
    const angles = order.map((k) => Math.atan2(points[2 * k + 1], points[2 * k]));
    order.sort((a, b) => angles[a] - angles[b]);
    this.#count = count;
    this.#angles = Float64Array.from(order, (k) => angles[k]);
    this.#gapRad = usualGap(this.#angles);
    this.#ranges = Float64Array.from(order, (k) => Math.hypot(points[2 * k], points[2 * k + 1]));
    this.#rangeNoiseM = Math.min(RANGE_NOISE_MAX_M, rangeNoiseOf(this.#ranges));
    this.#points = Float64Array.from({ length: 2 * count }, (_, k) => points[2 * order[k >> 1] + (k & 1)]);
    this.#normals = new Float64Array(2 * count);
    this.#bends = new Float64Array(count);
    for (let k = 1; k + 1 < count; k++) this.#findNormal(k);
  }

  /** The normal of the line through the neighbours of a point, if they lie on a line. */
  #findNormal(k: number): void {
    const p = this.#points, count = this.#count;
    const away = (other: number) => Math.hypot(p[2 * other] - p[2 * k], p[2 * other + 1] - p[2 * k + 1]);
    const sideM = SIDE_NOISES * this.#rangeNoiseM;
    const isIn = (m: number) => m < SIDE_POINTS_MAX && k > m && k + m + 1 < count;
    let m = 1;
    for (; isIn(m); m++) {
      const nearest = Math.min(away(k - m), away(k + m));
      if (nearest >= sideM && (m >= SIDE_POINTS || nearest >= SIDE_M)) break;
    }
    let meanX = 0, meanY = 0;
    for (let other = k - m; other <= k + m; other++) {
      meanX += p[2 * other] / (2 * m + 1);
      meanY += p[2 * other + 1] / (2 * m + 1);
    }
    let xx = 0, xy = 0, yy = 0;
    for (let other = k - m; other <= k + m; other++) {
      const dx = p[2 * other] - meanX, dy = p[2 * other + 1] - meanY;
      xx += dx * dx;
      xy += dx * dy;
      yy += dy * dy;
    }
    const along = 0.5 * Math.atan2(2 * xy, xx - yy);
    const nx = -Math.sin(along), ny = Math.cos(along);
    const square = Math.max(0, nx * nx * xx + 2 * nx * ny * xy + ny * ny * yy);
    const across = Math.sqrt(square / (2 * m + 1));
    if (!this.#isStraight(k, m)) return;
    if (across > Math.max(1.5 * this.#rangeNoiseM, ACROSS_M + ACROSS_A_METRE * this.#ranges[k])) return;
    this.#normals[2 * k] = nx;
    this.#normals[2 * k + 1] = ny;
    this.#bends[k] = square / ((2 * m - 1) * (xx + yy - square));
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
      x += p[2 * other] / count;
      y += p[2 * other + 1] / count;
    }
    return [x, y];
  }

  /** The direction that the counted points of the set scan constrain least. */
  leastConstrainedOf(counts: (x: number, y: number) => boolean): LeastConstrained {
    const p = this.#points, weight = 1 / NOISE_M ** 2;
    this.#equations.clear();
    for (let k = 0; k < 2 * this.#count; k += 2) {
      if (!counts(p[k], p[k + 1])) continue;
      const nx = this.#normals[k], ny = this.#normals[k + 1];
      if (nx === 0 && ny === 0) continue;
      this.#equations.add(p[k], p[k + 1], nx, ny, weight, this.#bends[k / 2]);
    }
    return this.#equations.leastConstrained();
  }

  /**
   * The information of the counted points of the set scan about a pose with this heading: the upper triangle over x, y
   * and yaw. `isSure`: also of a thing that alone constrains a direction, because it is known to stand.
   */
  informationOf(yaw: number, isSure: boolean, counts: (x: number, y: number) => boolean): Float64Array {
    const p = this.#points, weight = 1 / NOISE_M ** 2, cos = Math.cos(yaw), sin = Math.sin(yaw);
    this.#equations.clear();
    for (let k = 0; k < 2 * this.#count; k += 2) {
      const nx = this.#normals[k], ny = this.#normals[k + 1];
      if ((nx === 0 && ny === 0) || !counts(p[k], p[k + 1])) continue;
      const x = cos * p[k] - sin * p[k + 1], y = sin * p[k] + cos * p[k + 1];
      this.#equations.add(x, y, cos * nx - sin * ny, sin * nx + cos * ny, weight, this.#bends[k / 2]);
    }
    if (!isSure) this.#equations.dropThings();
    return this.#equations.sums.slice(0, 6);
  }

  /** The motion nearest to a guess that fits `points`. */
  match(points: Float64Array, guess: Pose2d): ScanMotionResult {
    const few = thinned(points, POINTS_MAX);
    let { x, y, yaw } = guess;
    let reach = FIRST_PAIR_M;
    for (let iteration = 0; iteration < ITERATIONS_MAX; iteration++) {
      this.#sum(few, x, y, yaw, reach);
      const n = this.#equations.sums;
      n[0] += 1 / GUESS_M ** 2;
      n[3] += 1 / GUESS_M ** 2;
      n[5] += 1 / GUESS_RAD ** 2;
      n[6] += (x - guess.x) / GUESS_M ** 2;
      n[7] += (y - guess.y) / GUESS_M ** 2;
      n[8] += wrapAngle(yaw - guess.yaw) / GUESS_RAD ** 2;
      if (!solve3(n, 0, this.#step)) break;
      x += this.#step[0];
      y += this.#step[1];
      yaw += this.#step[2];
      const isStill = Math.hypot(this.#step[0], this.#step[1]) < DONE_M && Math.abs(this.#step[2]) < DONE_RAD;
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

  /** Fills the normal equations with the pairs at a pose, and counts the points that fit. */
  #sum(points: Float64Array, x: number, y: number, yaw: number, reach: number): void {
    const cos = Math.cos(yaw), sin = Math.sin(yaw), n = this.#equations.sums;
    const scale = Math.max(LEAST_SCALE_M, SCALE_SHARE * reach);
    this.#fits = 0;
    this.#equations.clear();
    for (let k = 0; k < points.length; k += 2) {
      const rx = cos * points[k] - sin * points[k + 1], ry = sin * points[k] + cos * points[k + 1];
      const at = this.#nearest(x + rx, y + ry, reach);
      if (at < 0) continue;
      const nx = this.#normals[2 * at], ny = this.#normals[2 * at + 1];
      if (nx === 0 && ny === 0) {
        this.#fits += 0.5;
        continue;
      }
      const off = nx * (x + rx - this.#points[2 * at]) + ny * (y + ry - this.#points[2 * at + 1]);
      if (Math.abs(off) < FIT_M) this.#fits++;
      const share = 1 / (1 + (off / scale) ** 2);
      const w = share * share / NOISE_M ** 2;
      const turn = this.#equations.add(rx, ry, nx, ny, w, this.#bends[at]);
      n[6] += w * nx * off;
      n[7] += w * ny * off;
      n[8] += w * turn * off;
    }
  }

  /** The nearest earlier point within reach; -1 if there is none. */
  #nearest(x: number, y: number, reach: number): number {
    const angle = Math.atan2(y, x), range = Math.hypot(x, y);
    const angles = this.#angles, count = this.#count;
    reach = Math.max(reach, Math.min(FIRST_PAIR_M, PAIR_GAPS * this.#gapRad * range));
    let low = 0, high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (angles[middle] < angle) low = middle + 1;
      else high = middle;
    }
    let best = reach * reach, found = -1;
    for (const direction of [1, -1]) {
      for (let k = direction > 0 ? low : low - 1; k >= 0 && k < count; k += direction) {
        const across = Math.abs(angles[k] - angle);
        // Every point beyond this angle is farther away than the best.
        if (across > Math.PI / 2 || (range * Math.sin(across)) ** 2 > best) break;
        if (Math.abs(this.#ranges[k] - range) > reach) continue;
        const dx = this.#points[2 * k] - x, dy = this.#points[2 * k + 1] - y;
        const square = dx * dx + dy * dy;
        if (square >= best) continue;
        best = square;
        found = k;
      }
    }
    return found;
  }
}

/** How much the ranges of neighbours differ from straight lines. */
function rangeNoiseOf(ranges: Float64Array): number {
  if (ranges.length < 3) return 0;
  const bends = new Float64Array(ranges.length - 2);
  for (let k = 0; k < bends.length; k++) bends[k] = Math.abs(ranges[k] - 2 * ranges[k + 1] + ranges[k + 2]);
  return bends.sort()[bends.length >> 1] / BEND_MEDIAN;
}

/** The median of the steps between sorted angles. */
function usualGap(angles: Float64Array): number {
  const gaps = angles.slice(1).map((angle, k) => angle - angles[k]).sort();
  return gaps[gaps.length >> 1] ?? 0;
}
