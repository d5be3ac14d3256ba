/**
 * The information of points on lines about a pose, as normal equations over x, y and yaw: what the points say about each
 * direction, and how much of that a single thing says, which may be a person who walks.
 */

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
  /** The upper triangle over x, y and yaw (xx, xy, xt, yy, yt, tt), and the right side. */
  readonly sums = new Float64Array(9);
  /** Of the information about a translation, what the noise of the normals alone gives. */
  #byNoise = 0;
  /** For each line: x, y, its normal, its weight, and its part of the information about a direction. */
  readonly #lines = new Float64Array(6 * LINES_MAX);
  #lineCount = 0;

  clear(): void {
    this.sums.fill(0);
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
      const lines = this.#lines, at = 6 * this.#lineCount++;
      lines[at] = x;
      lines[at + 1] = y;
      lines[at + 2] = nx;
      lines[at + 3] = ny;
      lines[at + 4] = weight;
    }
    return this.#sum(x, y, nx, ny, weight);
  }

  #sum(x: number, y: number, nx: number, ny: number, weight: number): number {
    const n = this.sums, turn = ny * x - nx * y;
    n[0] += weight * nx * nx;
    n[1] += weight * nx * ny;
    n[2] += weight * nx * turn;
    n[3] += weight * ny * ny;
    n[4] += weight * ny * turn;
    n[5] += weight * turn * turn;
    return turn;
  }

  /** The standard deviation of the yaw, with the translation left free, of two scans whose ranges have this noise. */
  yawDeviation(rangeNoiseM: number): number {
    const n = this.sums, free = 1 / GUESS_M ** 2, xx = n[0] + free, yy = n[3] + free;
    const lost = (n[2] * n[2] * yy - 2 * n[2] * n[4] * n[1] + n[4] * n[4] * xx) / (xx * yy - n[1] * n[1]);
    const known = Math.max(0, n[5] - lost) + 1 / GUESS_RAD ** 2;
    return Math.SQRT2 * rangeNoiseM / NOISE_M / Math.sqrt(known);
  }

  /** The direction of translation with the least information, if the rotation is left free. */
  leastConstrained(): LeastConstrained {
    const n = this.sums, turn = n[5] + 1 / GUESS_RAD ** 2;
    const xx = n[0] - n[2] * n[2] / turn, xy = n[1] - n[2] * n[4] / turn, yy = n[3] - n[4] * n[4] / turn;
    const along = 0.5 * Math.atan2(2 * xy, xx - yy) + Math.PI / 2;
    const x = Math.cos(along), y = Math.sin(along);
    // The normals on a straight wall scatter a little.
    const known = x * x * xx + 2 * x * y * xy + y * y * yy - this.#byNoise;
    return { x, y, points: NOISE_M ** 2 * Math.max(0, known) };
  }

  /** Takes away the lines of one thing if hardly another shows the translation in a direction. */
  dropThings(): void {
    const [xx, xy, , yy] = this.sums, most = 0.5 * Math.atan2(2 * xy, xx - yy);
    for (const angle of [most, most + Math.PI / 2]) this.#dropThing(Math.cos(angle), Math.sin(angle));
  }

  #dropThing(x: number, y: number): void {
    const lines = this.#lines, counted: number[] = [];
    let all = 0;
    for (let at = 0; at < 6 * this.#lineCount; at += 6) {
      const across = x * lines[at + 2] + y * lines[at + 3];
      lines[at + 5] = lines[at + 4] * across * across;
      all += lines[at + 5];
      if (across * across >= ACROSS_LEAST) counted.push(at);
    }

    const isNear = (a: number, b: number) =>
      (lines[a] - lines[b]) ** 2 + (lines[a + 1] - lines[b + 1]) ** 2 < THING_M * THING_M;
    const stride = Math.ceil(counted.length / CENTERS_MAX);
    let most = 0, center = 0;
    for (let k = 0; k < counted.length; k += stride) {
      const at = counted[k];
      let sum = 0;
      for (const other of counted) if (isNear(at, other)) sum += lines[other + 5];
      if (sum <= most) continue;
      most = sum;
      center = at;
    }
    if (most <= THING_SHARE * all) return;

    const thing = counted.filter((at) => isNear(at, center));
    for (const at of thing) {
      this.#sum(lines[at], lines[at + 1], lines[at + 2], lines[at + 3], -lines[at + 4]);
      lines[at + 4] = 0;
    }
  }
}
