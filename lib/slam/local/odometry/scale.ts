/**
 * Learns by which factor the motions of odometry differ from those of the scans: a wheel of another size, tyres that
 * slip on every metre, or a wrong distance between the wheels make all ways, or all turns, too long by the same share.
 */

/** A factor counts after this many motions, if it differs from 1 by this many standard deviations. */
const MOTIONS_MIN = 5;
const DEVIATIONS_MIN = 3;
/** The scatter of the motions is their own, and that of so many motions with the expected one. */
const USUAL_MOTIONS = 4;
/** A factor that is already used is replaced if it is off by this share, and by this many standard deviations. */
const OFF_AGAIN = 0.001;
const DEVIATIONS_AGAIN = 1;
/** A change of this share makes odometry another one. */
const OTHER_SHARE = 0.01;
/** Other factors have other causes. */
const FACTOR_MIN = 0.7;
const FACTOR_MAX = 1.4;

/** By which the ways and the turns of odometry are multiplied. */
export interface OdometryScale {
  readonly translation: number;
  readonly rotation: number;
}

export const UNSCALED: OdometryScale = { translation: 1, rotation: 1 };

export function isSameScale(a: OdometryScale, b: OdometryScale): boolean {
  return a.translation === b.translation && a.rotation === b.rotation;
}

/** Whether what was found out about odometry with one of them says nothing about it with the other. */
export function isOtherScale(a: OdometryScale, b: OdometryScale): boolean {
  return Math.abs(a.translation - b.translation) > OTHER_SHARE ||
    Math.abs(a.rotation - b.rotation) > OTHER_SHARE;
}

/** In words; undefined if odometry counts as it is. */
export function describeScale({ translation, rotation }: OdometryScale): string | undefined {
  const parts = [["ways", translation], ["turns", rotation]] as const;
  const changed = parts.filter(([, factor]) => factor !== 1);
  if (changed.length === 0) return undefined;
  return `the scans show its ${
    changed.map(([what, factor]) => `${what} times ${factor.toFixed(3)}`).join(" and its ")
  }`;
}

/** Sums over motions, each by odometry and by scans. */
interface Sums {
  readonly products: number;
  readonly squares: number;
  /** Of the motions of the scans, to know how far they scatter around the factor. */
  readonly seenSquares: number;
  readonly motions: number;
}

const NOTHING: Sums = { products: 0, squares: 0, seenSquares: 0, motions: 0 };

/** One of the two factors. */
export class ScaleEstimate {
  #kept = NOTHING;
  /** The latest motion, until another replaces it. */
  #latest = NOTHING;
  #times = 0;

  /** `leastOff`: the least difference from 1 that counts, after so many motions. */
  constructor(private readonly leastOff: number, private readonly motionsMin = MOTIONS_MIN) {}

  /** A motion by odometry as it came, and by scans, which have this standard deviation. */
  add(odometry: number, scans: number, deviation: number): void {
    this.replace(odometry, scans, deviation);
    this.keep();
  }

  /** Takes a motion that contains the latest one. */
  replace(odometry: number, scans: number, deviation: number): void {
    const weight = 1 / deviation ** 2;
    this.#latest = {
      products: weight * odometry * scans,
      squares: weight * odometry ** 2,
      seenSquares: weight * scans ** 2,
      motions: 1,
    };
    this.#times++;
  }

  /** Keeps the latest motion: the next is another. */
  keep(): void {
    this.#kept = this.#sums;
    this.#latest = NOTHING;
  }

  /** Forgets the latest motion, and those that it contains. */
  drop(): void {
    this.#latest = NOTHING;
    this.#times = 0;
  }

  /** Whether there were motions enough for a factor. */
  get isKnown(): boolean {
    return this.#times >= this.motionsMin;
  }

  get #sums(): Sums {
    const a = this.#kept, b = this.#latest;
    return {
      products: a.products + b.products,
      squares: a.squares + b.squares,
      seenSquares: a.seenSquares + b.seenSquares,
      motions: a.motions + b.motions,
    };
  }

  /** The factor that counts from now on; `used`: the one that counted so far. */
  factor(used: number): number {
    if (!this.isKnown) return used;
    const { products, squares, seenSquares, motions } = this.#sums, factor = products / squares;
    if (!(factor > FACTOR_MIN && factor < FACTOR_MAX)) return used;
    const scattered = Math.max(0, seenSquares - factor * products);
    const variance = (scattered + USUAL_MOTIONS) / (motions - 1 + USUAL_MOTIONS);
    const deviation = Math.sqrt(variance / squares), off = Math.abs(factor - used);
    const [deviations, least] = used === 1 ? [DEVIATIONS_MIN, this.leastOff] : [DEVIATIONS_AGAIN, OFF_AGAIN];
    return off > deviations * deviation && off > least ? factor : used;
  }
}
