/**
 * Finds the ground in a depth image: the plane with the most support among the planes whose direction allows
 * them to be the ground.
 *
 * Candidates come from three points of a regular sample of the pixels, drawn by a seeded generator, so the
 * same frame gives the same answer on every machine. A candidate that beats the best so far is fitted to the
 * points near it, and only then is its direction judged. Larger planes that cannot be the ground are found
 * first and their points set aside; otherwise a plane askew across a wall or a tilted table could find
 * support in those points.
 *
 * Fits use inverse depth, in which a plane is linear and the noise of depth sensors is the same near and far.
 */

import { radians, type Vec3 } from "../pose.ts";
import type { Rays } from "../image/lens.ts";
import { randomFrom } from "../random.ts";

/** The points p with normal . p + offsetMm = 0. The normal has length 1 and points to the camera's side. */
export interface Plane {
  readonly normal: Vec3;
  readonly offsetMm: number;
}

export interface GroundLimits {
  /** Points nearer to the plane than this belong to it. */
  readonly maxDistMm: number;
  /** Largest angle between the plane's normal and the camera's up, (0, -1, 0). */
  readonly toleranceDeg: number;
}

/**
 * A plane as the vector m with m . p = 1 for its points; this form exists because a camera is never on a
 * plane that it sees.
 */
type Form = readonly [number, number, number];

const SEED = 1;
const SAMPLE_POINTS = 16_384;
/** Number of sample points that judge a candidate. */
const SCORE_POINTS = 2048;
const ROUNDS_MAX = 500;
/** The rounds end when the probability that a better plane was missed falls to this. */
const MISS = 1e-4;
/**
 * Reach of the second and third point around the first, as a share of the picture's size: near points are
 * more often on the same surface, far points give a better direction.
 */
const REACHES = [1, 0.25, 0.12];
/** Number of fits of a candidate to the points near it, and of the final fits of the best one. */
const FITS = 3;
const LAST_FITS = 4;
/** The search for larger planes than the ground, such as walls, ends after this many. */
const OTHERS_MAX = 3;
/** The ground's share of the points that it takes away; the rest may be on those larger planes. */
const OWN_SHARE = 0.7;
/**
 * Largest deviation that still counts as noise: a constant for unevenness, and a part that grows with the
 * square of the depth.
 */
const NOISE_MM = 8;
const NOISE_PER_MM = 6e-6;

/** Finds ground planes in frames of one size through one lens. Reuses its buffers for each frame. */
export class GroundFinder {
  readonly #columns: number;
  readonly #rows: number;
  /** A candidate is judged by every `#scoreStep`-th sample point. */
  #scoreStep: number;
  /** For each sample point: its pixel, and its place in mm; z is 0 if there is no reading. */
  readonly #pixels: Uint32Array;
  readonly #x: Float64Array;
  readonly #y: Float64Array;
  readonly #z: Float64Array;
  /**
   * One over the square of the deviation (as a share of the depth) beyond which a point no longer counts;
   * infinite for a point that never counts.
   */
  readonly #sharpness: Float64Array;

  constructor(private readonly rays: Rays, width: number, height: number) {
    const step = Math.max(1, Math.round(Math.sqrt(width * height / SAMPLE_POINTS)));
    this.#columns = Math.floor((width - 1) / step) + 1;
    this.#rows = Math.floor((height - 1) / step) + 1;
    const count = this.#columns * this.#rows;
    this.#scoreStep = Math.ceil(count / SCORE_POINTS);
    // A common divisor would skip whole columns.
    while (commonDivisor(this.#scoreStep, this.#columns) > 1) this.#scoreStep++;
    this.#pixels = Uint32Array.from(
      { length: count },
      (_, n) => Math.floor(n / this.#columns) * step * width + n % this.#columns * step,
    );
    [this.#x, this.#y] = [new Float64Array(count), new Float64Array(count)];
    [this.#z, this.#sharpness] = [new Float64Array(count), new Float64Array(count)];
  }

  /** `undefined` if no possible ground lies within the tolerance. */
  find(depth: Uint16Array, { maxDistMm, toleranceDeg }: GroundLimits): Plane | undefined {
    const least = Math.cos(radians(toleranceDeg)) - 1e-12;
    const random = randomFrom(SEED);
    this.#sample(depth);
    let found = this.#search(random, least);
    for (let others = 0; found.best !== found.within && others < OTHERS_MAX; others++) {
      this.#forget(found.best!);
      found = this.#search(random, least);
    }
    const form = found.within && this.#fit(found.within, 1, LAST_FITS);
    if (!form || upness(form) < least || !this.#holdsItsOwn(form, maxDistMm)) return undefined;
    const [x, y, z] = form;
    const length = Math.hypot(x, y, z);
    return { normal: { x: -x / length, y: -y / length, z: -z / length }, offsetMm: 1 / length };
  }

  #sample(depth: Uint16Array): void {
    for (let n = 0; n < this.#pixels.length; n++) {
      const pixel = this.#pixels[n] ?? 0;
      const rayX = this.rays.x[pixel] ?? NaN;
      const z = Number.isNaN(rayX) ? 0 : depth[pixel] ?? 0;
      const reach = (NOISE_MM + NOISE_PER_MM * z * z) / z;
      this.#x[n] = z === 0 ? 0 : rayX * z;
      this.#y[n] = z === 0 ? 0 : (this.rays.y[pixel] ?? NaN) * z;
      this.#z[n] = z;
      this.#sharpness[n] = z === 0 ? Infinity : 1 / (reach * reach);
    }
  }

  /** The plane with the most support, and the plane with the most support among possible grounds. */
  #search(random: () => number, least: number): { best?: Form; within?: Form } {
    let best: Form | undefined, within: Form | undefined;
    let bestScore = 0, withinScore = 0, tried = 0, triedWithin = 0;
    for (let round = 0, rounds = ROUNDS_MAX; round < rounds; round++) {
      const drawn = this.#draw(random, REACHES[round % REACHES.length] ?? 1);
      if (!drawn) continue;
      const drawnScore = this.#score(drawn);
      const mayBe = upness(drawn) >= least;
      if (drawnScore <= (mayBe ? triedWithin : tried)) continue;
      if (mayBe) triedWithin = drawnScore;
      else tried = drawnScore;
      const fitted = this.#fit(drawn, this.#scoreStep, FITS);
      const score = fitted ? this.#score(fitted) : 0;
      if (score > withinScore && upness(fitted!) >= least) [within, withinScore] = [fitted, score];
      if (score <= bestScore) continue;
      [best, bestScore] = [fitted, score];
      rounds = Math.min(ROUNDS_MAX, roundsFor(score * this.#scoreStep / this.#z.length));
    }

    return { best, within };
  }

  /** Excludes the points on the plane from further judgements. */
  #forget([mx, my, mz]: Form): void {
    for (let n = 0; n < this.#z.length; n++) {
      const { x, y, z } = this.#point(n);
      const off = mx * x + my * y + mz * z - 1;
      if (off * off * (this.#sharpness[n] ?? Infinity) < 1) this.#sharpness[n] = Infinity;
    }
  }

  /** Whether most of the points that the plane would take away are on no plane found earlier. */
  #holdsItsOwn([mx, my, mz]: Form, maxDistMm: number): boolean {
    const limit = maxDistMm * Math.hypot(mx, my, mz);
    let all = 0, own = 0;
    for (let n = 0; n < this.#z.length; n++) {
      const { x, y, z } = this.#point(n);
      const off = Math.abs(mx * x + my * y + mz * z - 1);
      if (off >= limit || z === 0) continue;
      all++;
      if (this.#sharpness[n] !== Infinity) own++;
    }
    return own > all * OWN_SHARE;
  }

  /**
   * The plane through three points, the second and third within `reach` of the first; `undefined` after a bad
   * draw.
   */
  #draw(random: () => number, reach: number): Form | undefined {
    const column = Math.floor(random() * this.#columns);
    const row = Math.floor(random() * this.#rows);
    const near = (at: number, size: number) => {
      const from = Math.max(0, at - reach * size);
      return Math.floor(from + random() * (Math.min(size, at + reach * size) - from));
    };
    const a = row * this.#columns + column;
    const b = near(row, this.#rows) * this.#columns + near(column, this.#columns);
    const c = near(row, this.#rows) * this.#columns + near(column, this.#columns);

    if (!this.#counts(a) || !this.#counts(b) || !this.#counts(c)) return undefined;

    const { x: ax, y: ay, z: az } = this.#point(a);
    const { x: bx, y: by, z: bz } = this.#point(b);
    const { x: cx, y: cy, z: cz } = this.#point(c);
    const ux = bx - ax, uy = by - ay, uz = bz - az;
    const vx = cx - ax, vy = cy - ay, vz = cz - az;
    const nx = uy * vz - uz * vy, ny = uz * vx - ux * vz, nz = ux * vy - uy * vx;
    const offset = nx * ax + ny * ay + nz * az;
    return offset === 0 ? undefined : [nx / offset, ny / offset, nz / offset];
  }

  /** Whether a sample point has a reading that may still be on a plane. */
  #counts(n: number): boolean {
    return this.#sharpness[n] !== Infinity;
  }

  #point(n: number): Vec3 {
    return { x: this.#x[n] ?? 0, y: this.#y[n] ?? 0, z: this.#z[n] ?? 0 };
  }

  /** The plane's support: the number of sample points on it, each weighted less the farther away it is. */
  #score([mx, my, mz]: Form): number {
    const [x, y, z, sharpness] = [this.#x, this.#y, this.#z, this.#sharpness];
    const step = this.#scoreStep;
    let score = 0;
    for (let n = 0; n < z.length; n += step) {
      const off = mx * (x[n] ?? 0) + my * (y[n] ?? 0) + mz * (z[n] ?? 0) - 1;
      const share = off * off * (sharpness[n] ?? Infinity);
      if (share < 1) score += 1 - share;
    }
    return score;
  }

  /** The plane fitted to the points near it; `undefined` if they are on a line. */
  #fit(from: Form, step: number, turns: number): Form | undefined {
    const [x, y, z, sharpness] = [this.#x, this.#y, this.#z, this.#sharpness];
    let form: Form | undefined = from;
    for (let turn = 0; turn < turns && form; turn++) {
      const [mx, my, mz]: Form = form;
      let xx = 0, xy = 0, xz = 0, yy = 0, yz = 0, zz = 0, sx = 0, sy = 0, sz = 0;
      for (let n = 0; n < z.length; n += step) {
        const px = x[n] ?? 0, py = y[n] ?? 0, pz = z[n] ?? 0;
        const off = mx * px + my * py + mz * pz - 1;
        const share = off * off * (sharpness[n] ?? Infinity);
        if (!(share < 1)) continue;
        const weight = (1 - share) / (pz * pz);
        const wx = weight * px, wy = weight * py, wz = weight * pz;
        xx += wx * px, xy += wx * py, xz += wx * pz;
        yy += wy * py, yz += wy * pz, zz += wz * pz;
        sx += wx, sy += wy, sz += wz;
      }
      form = solve(xx, xy, xz, yy, yz, zz, sx, sy, sz);
    }

    return form;
  }
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b);
}

/**
 * Cosine of the angle between the plane's normal and the camera's up; below 0 for planes above the camera.
 */
function upness([x, y, z]: Form): number {
  return y / Math.hypot(x, y, z);
}

/**
 * Number of draws after which three points of a plane with this share of all points were drawn, except with
 * probability `MISS`.
 */
function roundsFor(share: number): number {
  return Math.ceil(Math.log(MISS) / Math.log1p(-(share ** 3)));
}

/** Solves the symmetric system of three equations by Cramer's rule. */
// deno-fmt-ignore
function solve(
  xx: number, xy: number, xz: number, yy: number, yz: number, zz: number, a: number, b: number, c: number,
): Form | undefined {
  const [cxx, cxy, cxz] = [yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy];
  const [cyy, cyz, czz] = [xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy];
  const volume = xx * cxx + xy * cxy + xz * cxz;
  if (!(volume > 1e-12 * xx * yy * zz)) return undefined;
  return [
    (cxx * a + cxy * b + cxz * c) / volume,
    (cxy * a + cyy * b + cyz * c) / volume,
    (cxz * a + cyz * b + czz * c) / volume,
  ];
}
