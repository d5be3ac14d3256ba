/**
 * The information of points on lines about a pose, as normal equations over x, y and yaw: what the points say about each
 * direction, and how much of that a single thing says, which may be a person who walks.
 */

import { doubleAt, xOf, yOf } from "../points.ts";
import { NormalEquations } from "./normal_equations.ts";

/** Limit of the lines that are kept to find things; more of them still count. */
const LINES_MAX = 1024;
/** The noise of a point across its line. */
export const NOISE_M = 0.03;
/** A person, or a thing of this radius, that gives this share of the information about a direction. */
const THING_M = 0.5;
const THING_SHARE = 0.75;
/** Lines that are tried as the middle of a thing: it has several. */
const CENTERS_MAX = 40;
/** The least square of the sine between a line and a direction for which it counts. */
const ACROSS_LEAST = 0.02;
/** Standard deviations of a guess of the pose. */
export const GUESS_M = 0.1;
export const GUESS_RAD = 0.3;

export interface LeastConstrained {
  readonly x: number;
  readonly y: number;
  readonly points: number;
}

export class LineEquations {
  readonly sums = new NormalEquations();
  /** Of the information about a translation, what the noise of the normals alone gives. */
  #byNoise = 0;
  /** For each line a point on it, its normal, its weight, and its part of the information about a direction. */
  readonly #points = new Float64Array(2 * LINES_MAX);
  readonly #normals = new Float64Array(2 * LINES_MAX);
  readonly #weights = new Float64Array(LINES_MAX);
  readonly #parts = new Float64Array(LINES_MAX);
  #lineCount = 0;

  clear(): void {
    this.sums.clear();
    this.#byNoise = 0;
    this.#lineCount = 0;
  }

  /**
   * Adds the information of a point on a line with this normal, whose direction has the variance `bend`; returns the
   * lever of a rotation.
   */
  add(x: number, y: number, nx: number, ny: number, weight: number, bend: number): number {
    this.#byNoise += weight * bend;
    if (this.#lineCount < LINES_MAX) {
      const line = this.#lineCount++;
      this.#points[2 * line] = x;
      this.#points[2 * line + 1] = y;
      this.#normals[2 * line] = nx;
      this.#normals[2 * line + 1] = ny;
      this.#weights[line] = weight;
    }
    return this.#sum(x, y, nx, ny, weight);
  }

  #sum(x: number, y: number, nx: number, ny: number, weight: number): number {
    const n = this.sums, turn = ny * x - nx * y;
    n.xx += weight * nx * nx;
    n.xy += weight * nx * ny;
    n.xt += weight * nx * turn;
    n.yy += weight * ny * ny;
    n.yt += weight * ny * turn;
    n.tt += weight * turn * turn;
    return turn;
  }

  /** The standard deviation of the yaw, with the translation left free, of two scans whose ranges have this noise. */
  yawDeviation(rangeNoiseM: number): number {
    const { xy, xt, yt, tt } = this.sums, free = 1 / GUESS_M ** 2;
    const xx = this.sums.xx + free, yy = this.sums.yy + free;
    const lost = (xt * xt * yy - 2 * xt * yt * xy + yt * yt * xx) / (xx * yy - xy * xy);
    const known = Math.max(0, tt - lost) + 1 / GUESS_RAD ** 2;
    return Math.SQRT2 * rangeNoiseM / NOISE_M / Math.sqrt(known);
  }

  /** The direction of translation with the least information, if the rotation is left free. */
  leastConstrained(): LeastConstrained {
    const n = this.sums, turn = n.tt + 1 / GUESS_RAD ** 2;
    const xx = n.xx - n.xt * n.xt / turn, xy = n.xy - n.xt * n.yt / turn, yy = n.yy - n.yt * n.yt / turn;
    const along = 0.5 * Math.atan2(2 * xy, xx - yy) + Math.PI / 2;
    const x = Math.cos(along), y = Math.sin(along);
    // The normals on a straight wall scatter a little.
    const known = x * x * xx + 2 * x * y * xy + y * y * yy - this.#byNoise;
    return { x, y, points: NOISE_M ** 2 * Math.max(0, known) };
  }

  /** Takes away the lines of one thing if hardly another shows the translation in a direction. */
  dropThings(): void {
    const { xx, xy, yy } = this.sums, most = 0.5 * Math.atan2(2 * xy, xx - yy);
    for (const angle of [most, most + Math.PI / 2]) this.#dropThing(Math.cos(angle), Math.sin(angle));
  }

  #dropThing(x: number, y: number): void {
    const points = this.#points, normals = this.#normals, weights = this.#weights, parts = this.#parts;
    const counted: number[] = [];
    let all = 0;
    for (let line = 0; line < this.#lineCount; line++) {
      const across = x * xOf(normals, line) + y * yOf(normals, line);
      const part = doubleAt(weights, line) * across * across;
      parts[line] = part;
      all += part;
      if (across * across >= ACROSS_LEAST) counted.push(line);
    }

    const isNear = (a: number, b: number) =>
      (xOf(points, a) - xOf(points, b)) ** 2 + (yOf(points, a) - yOf(points, b)) ** 2 < THING_M * THING_M;
    const stride = Math.ceil(counted.length / CENTERS_MAX);
    let most = 0, center = 0;
    for (const [k, line] of counted.entries()) {
      if (k % stride !== 0) continue;
      let sum = 0;
      for (const other of counted) if (isNear(line, other)) sum += doubleAt(parts, other);
      if (sum <= most) continue;
      most = sum;
      center = line;
    }
    if (most <= THING_SHARE * all) return;

    for (const line of counted.filter((one) => isNear(one, center))) {
      this.#sum(
        xOf(points, line),
        yOf(points, line),
        xOf(normals, line),
        yOf(normals, line),
        -doubleAt(weights, line),
      );
      weights[line] = 0;
    }
  }
}
