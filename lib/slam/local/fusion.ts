/**
 * Weighs odometry against the match of a scan, direction by direction: a Kalman filter of the robot's pose among the
 * latest scans. In a direction that the scan does not constrain, as along a bare corridor, only odometry counts. The
 * errors of odometry are learned from the differences between its predictions and the matches.
 */

import { between2d, type Pose2d, wrapAngle } from "../pose2d.ts";
import type { OdometryVerdict, OdometryVerdicts } from "./odometry/proof.ts";

/** The upper triangle of a symmetric matrix over x, y and yaw: xx, xy, xt, yy, yt, tt. */
export type Information = Float64Array;

/** Variances of odometry: of translation per metre, of rotation per radian and per metre. */
const TRANSLATION_VARIANCE_A_METRE = 0.05 ** 2;
const ROTATION_VARIANCE_A_RADIAN = 0.08 ** 2;
const ROTATION_VARIANCE_A_METRE = 0.008 ** 2;
/** Their factors, which are learned. */
const FACTOR_MIN = 0.05;
const FACTOR_MAX = 200;
const LEARNING = 0.05;
/** The errors of the points of a scan are correlated: together the points are worth this share of independent ones. */
const INDEPENDENT_SHARE = 0.7;
/** A scan carries its full information after a motion of this size, and at least this share of it before. */
const NEW_M = 0.05;
const NEW_RAD = Math.PI / 180;
const NEW_SHARE_MIN = 0.1;
/** Information about a direction from this many points or fewer counts as none. */
const POINTS_NONE = 0.5;
const POINT_VARIANCE = 0.03 ** 2;
/**
 * If a match is off by more than this many standard deviations, noise is not the cause: either odometry or the match
 * has failed. It was odometry if the scan has this many points across each direction. A scan with a narrow view decides
 * only together with the scans before it, if these are off by the same amount, within these metres or radians and this
 * share of the path. Against proven odometry it takes more of them: a narrow view of a corridor with niches fits at the
 * neighbouring niche for several scans.
 */
const DEVIATIONS_MAX = 3.5;
const SURE_POINTS = 6;
const ALIKE_OFF = 0.05;
const ALIKE_SHARE = 0.3;
const ALIKE_SCANS = 2;
const ALIKE_SCANS_PROVEN = 6;
/** The required certainty of a match in a direction, for it to show the error of odometry there. */
const KNOWN_M = 0.05;
const KNOWN_RAD = 0.03;
const OPEN = 1;
const ALONG_SHARE = 0.6;
/**
 * By the verdict on odometry: the share of its information that a match keeps, and the share of its variances that
 * odometry keeps.
 */
const SHARES: Record<OdometryVerdict, { readonly match: number; readonly noise: number }> = {
  refuted: { match: 1, noise: 1 },
  open: { match: 0.02, noise: 0.02 },
  proven: { match: 0.004, noise: 0.003 },
};
/**
 * A match with a submap of this many scans is worth a quarter of a later one, because the noise of the scans affects
 * every match with them. Where odometry is refuted, only matches with fewer scans count less.
 */
const YOUNG_SCANS = 30;
const VARIANCE_MAX = [0.3 ** 2, 0.1 ** 2] as const;

/** A pose predicted by odometry from the last pose, and the verdicts on odometry. */
export interface PredictedPose {
  readonly last: Pose2d;
  readonly predicted: Pose2d;
  readonly verdicts: OdometryVerdicts;
  /** The number of scans in the matched submap. */
  readonly scanCount: number;
}

export class OdometryFusion {
  /** The covariance of the pose. */
  #covariance: Float64Array = new Float64Array(6);
  #translationFactor = 1;
  #rotationFactor = 1;
  #left: Float64Array = new Float64Array(9);
  /** The error of the last match, if it was too large for noise, and the number of such errors in a row. */
  #lastOff: readonly number[] | undefined;
  #alikeScans = 0;

  /** The share of an error of the last prediction that is left after the match: a matrix over x, y and yaw, row by row. */
  get left(): Float64Array {
    return this.#left;
  }

  /**
   * Resets the certainty of the pose to that of the last match. If odometry counts more than matches, the next match
   * counts alone.
   */
  reset({ translation, rotation }: OdometryVerdicts): void {
    const squareM = translation === "refuted" ? 0 : VARIANCE_MAX[0] / 2;
    const squareRad = rotation === "refuted" ? 0 : VARIANCE_MAX[1];
    this.#covariance.set([squareM, 0, 0, squareM, 0, squareRad]);
    this.#lastOff = undefined;
    this.#left = new Float64Array(9);
  }

  /** The pose by odometry and by a match that has `information`. */
  fuse(
    { last, predicted, verdicts, scanCount }: PredictedPose,
    matched: Pose2d,
    information: Information,
  ): Pose2d {
    const moved = between2d(last, predicted);
    const movedM = Math.hypot(moved.x, moved.y), turned = Math.abs(moved.yaw);
    const before = this.#grown(
      predicted.x - last.x,
      predicted.y - last.y,
      SHARES[verdicts.translation].noise * this.#translationFactor * TRANSLATION_VARIANCE_A_METRE * movedM,
      SHARES[verdicts.rotation].noise * this.#rotationFactor *
        (ROTATION_VARIANCE_A_RADIAN * turned + ROTATION_VARIANCE_A_METRE * movedM),
    );
    const isNew = Math.max(NEW_SHARE_MIN, Math.min(1, movedM / NEW_M + turned / NEW_RAD));
    const known = weighed(scaled(cut(information), INDEPENDENT_SHARE * isNew), verdicts, scanCount);
    const off = [matched.x - predicted.x, matched.y - predicted.y, wrapAngle(matched.yaw - predicted.yaw)];
    if (isNew >= 1) {
      if (verdicts.rotation === "refuted") this.#learnRotation(before, known, off);
      if (verdicts.translation === "refuted") {
        this.#learnTranslation(before, known, off, predicted.x - last.x, predicted.y - last.y);
      }
    }
    const wide = widened(before, known, off);
    this.#noteOff(wide && off);
    const prior = wide && this.#hasFailed(information, verdicts) ? wide : before;
    // (1 + P H)^-1 P, and the share of the innovation: P' H.
    const after = updated(prior, known);
    const step = times(after, known, off);
    this.#covariance = after;
    this.#left = leftOf(after, known);
    return { x: predicted.x + step[0], y: predicted.y + step[1], yaw: wrapAngle(predicted.yaw + step[2]) };
  }

  /** Whether odometry, and not a match that is off too far for noise, has failed. */
  #hasFailed(information: Information, verdicts: OdometryVerdicts): boolean {
    if (verdicts.translation === "refuted" || verdicts.rotation === "refuted") return true;
    if (translationPoints(information) >= SURE_POINTS) return true;
    const isProven = verdicts.translation === "proven" && verdicts.rotation === "proven";
    return this.#alikeScans >= (isProven ? ALIKE_SCANS_PROVEN : ALIKE_SCANS);
  }

  /** Counts the errors in a row that are too large for noise, and alike. */
  #noteOff(off: readonly number[] | undefined): void {
    const last = this.#lastOff;
    const isAlike = off && last && Math.hypot(off[0] - last[0], off[1] - last[1]) <=
        ALIKE_OFF + ALIKE_SHARE * Math.hypot(off[0], off[1]) &&
      Math.abs(wrapAngle(off[2] - last[2])) <= ALIKE_OFF + ALIKE_SHARE * Math.abs(off[2]);
    this.#alikeScans = isAlike ? this.#alikeScans + 1 : 1;
    this.#lastOff = off;
  }

  /** The covariance after a motion, by the variances of odometry. */
  #grown(dx: number, dy: number, step: number, turn: number): Float64Array {
    const [xx, xy, xt, yy, yt, tt] = this.#covariance;
    const grown = Float64Array.of(
      xx - 2 * dy * xt + dy * dy * tt + step,
      xy + dx * xt - dy * yt - dx * dy * tt,
      xt - dy * tt,
      yy + 2 * dx * yt + dx * dx * tt + step,
      yt + dx * tt,
      tt + turn,
    );
    const most = Math.max(1, (grown[0] + grown[3]) / VARIANCE_MAX[0], grown[5] / VARIANCE_MAX[1]);
    return scaled(grown, 1 / most);
  }

  /** Follows the squares of the innovations, compared with what they should be, if the match knows the rotation. */
  #learnRotation(before: Float64Array, known: Float64Array, off: readonly number[]): void {
    const [xx, xy, xt, yy, yt, tt] = known;
    // The translation is left free.
    const free = (xx + OPEN) * (yy + OPEN) - xy * xy;
    const turn = tt - (xt * xt * (yy + OPEN) - 2 * xt * yt * xy + yt * yt * (xx + OPEN)) / free;
    if (turn > 1 / KNOWN_RAD ** 2) {
      this.#rotationFactor = learned(this.#rotationFactor, off[2] ** 2 / (before[5] + 1 / turn));
    }
  }

  /** Does the same for the directions of translation that the match knows. */
  #learnTranslation(
    before: Float64Array,
    [xx, xy, xt, yy, yt, tt]: Float64Array,
    off: readonly number[],
    movedX: number,
    movedY: number,
  ): void {
    if (!(tt > 0)) return;
    const a = xx - xt * xt / tt, b = xy - xt * yt / tt, c = yy - yt * yt / tt;
    const most = 0.5 * Math.atan2(2 * b, a - c), movedM = Math.hypot(movedX, movedY);
    for (const angle of [most, most + Math.PI / 2]) {
      const x = Math.cos(angle), y = Math.sin(angle);
      // The robot hardly moves sideways, so odometry is always right in that direction.
      const isAlong = Math.abs(x * movedX + y * movedY) > ALONG_SHARE * movedM;
      const sure = x * x * a + 2 * x * y * b + y * y * c;
      if (!isAlong || !(sure > 1 / KNOWN_M ** 2)) continue;
      const variance = x * x * before[0] + 2 * x * y * before[1] + y * y * before[3];
      const square = (x * off[0] + y * off[1]) ** 2 / (variance + 1 / sure);
      this.#translationFactor = learned(this.#translationFactor, square);
    }
  }
}

function learned(factor: number, square: number): number {
  const grown = factor * Math.exp(LEARNING * Math.min(3, Math.log(Math.max(1e-3, square)) + 1));
  return Math.min(FACTOR_MAX, Math.max(FACTOR_MIN, grown));
}

/** The direction of translation that is known least if the rotation is left free, and the information about it. */
function leastKnown([xx, xy, xt, yy, yt, tt]: Information): { x: number; y: number; information: number } {
  const a = xx - xt * xt / tt, b = xy - xt * yt / tt, c = yy - yt * yt / tt;
  const along = 0.5 * Math.atan2(2 * b, a - c) + Math.PI / 2, x = Math.cos(along), y = Math.sin(along);
  return { x, y, information: x * x * a + 2 * x * y * b + y * y * c };
}

/** The minimum, over all directions, of the number of points that constrain a translation. */
export function translationPoints(information: Information): number {
  return information[5] > 0 ? leastKnown(information).information * POINT_VARIANCE : 0;
}

/** The information, without translations that hardly any point constrains. */
function cut(information: Information): Float64Array {
  const out = Float64Array.from(information);
  if (!(information[5] > 0)) return out.fill(0);
  const { x, y, information: least } = leastKnown(information);
  const wanted = Math.max(0, least - POINTS_NONE / POINT_VARIANCE);
  const drop = least - wanted;
  out[0] -= drop * x * x;
  out[1] -= drop * x * y;
  out[3] -= drop * y * y;
  return out;
}

/** The information of a match as it counts beside odometry, by the number of its scans and the verdict on odometry. */
function weighed(
  [xx, xy, xt, yy, yt, tt]: Float64Array,
  { translation, rotation }: OdometryVerdicts,
  scanCount: number,
): Float64Array {
  const age = (scanCount / (scanCount + YOUNG_SCANS)) ** 2,
    youth = Math.min(1, (scanCount / YOUNG_SCANS) ** 2);
  const shareOf = (verdict: OdometryVerdict) => SHARES[verdict].match * (verdict === "refuted" ? youth : age);
  const a = shareOf(translation), b = shareOf(rotation), c = Math.sqrt(a * b);
  return Float64Array.of(a * xx, a * xy, c * xt, a * yy, c * yt, b * tt);
}

function scaled(matrix: Float64Array, factor: number): Float64Array {
  return matrix.map((one) => one * factor);
}

/** The covariance, widened in the direction of an implausible innovation; undefined if the innovation is plausible. */
function widened(
  before: Float64Array,
  known: Float64Array,
  off: readonly number[],
): Float64Array | undefined {
  // The part of the innovation that the match is sure of.
  const sure = times(updated(Float64Array.of(1, 0, 0, 1, 0, 1), known), known, off);
  const least = [1e-6, 0, 0, 1e-6, 0, 1e-8];
  const spread = inverse(Float64Array.from(before, (one, k) => one + (least[k] ?? 0)));
  if (!spread) return undefined;
  const square = quadratic(spread, sure), limit = DEVIATIONS_MAX ** 2;
  if (!(square > limit)) return undefined;
  const more = (square - limit) / limit;
  const [x, y, t] = sure, share = Math.min(1, more);
  return Float64Array.from(before, (one, k) => one + share * [x * x, x * y, x * t, y * y, y * t, t * t][k]);
}

function quadratic([xx, xy, xt, yy, yt, tt]: Float64Array, [x, y, t]: readonly number[]): number {
  return xx * x * x + yy * y * y + tt * t * t + 2 * (xy * x * y + xt * x * t + yt * y * t);
}

/** The covariance after a measurement: (P^-1 + H)^-1 = (1 + P H)^-1 P, which needs no inverse of P. */
function updated(P: Float64Array, H: Float64Array): Float64Array {
  const p = whole(P), h = whole(H);
  const m = [0, 1, 2].map((row) =>
    [0, 1, 2].map((column) => {
      let sum = row === column ? 1 : 0;
      for (let k = 0; k < 3; k++) sum += p[row][k] * h[k][column];
      return sum;
    })
  );
  const inverted = inverse3(m);
  const out = [0, 1, 2].map((row) =>
    [0, 1, 2].map((column) => [0, 1, 2].reduce((sum, k) => sum + inverted[row][k] * p[k][column], 0))
  );
  return Float64Array.of(
    out[0][0],
    (out[0][1] + out[1][0]) / 2,
    (out[0][2] + out[2][0]) / 2,
    out[1][1],
    (out[1][2] + out[2][1]) / 2,
    out[2][2],
  );
}

/** P H off. */
function times(P: Float64Array, H: Float64Array, off: readonly number[]): number[] {
  const p = whole(P), h = whole(H);
  const pulled = h.map((row) => row[0] * off[0] + row[1] * off[1] + row[2] * off[2]);
  return p.map((row) => row[0] * pulled[0] + row[1] * pulled[1] + row[2] * pulled[2]);
}

/** 1 - P H. */
function leftOf(P: Float64Array, H: Float64Array): Float64Array {
  const p = whole(P), h = whole(H), left = new Float64Array(9);
  for (let row = 0; row < 3; row++) {
    for (let column = 0; column < 3; column++) {
      let sum = row === column ? 1 : 0;
      for (let k = 0; k < 3; k++) sum -= p[row][k] * h[k][column];
      left[3 * row + column] = sum;
    }
  }
  return left;
}

function whole([xx, xy, xt, yy, yt, tt]: Float64Array): number[][] {
  return [[xx, xy, xt], [xy, yy, yt], [xt, yt, tt]];
}

function inverse3(m: readonly (readonly number[])[]): number[][] {
  const [[a, b, c], [d, e, f], [g, h, i]] = m;
  const A = e * i - f * h, B = f * g - d * i, C = d * h - e * g;
  const scale = 1 / (a * A + b * B + c * C);
  return [
    [A * scale, (c * h - b * i) * scale, (b * f - c * e) * scale],
    [B * scale, (a * i - c * g) * scale, (c * d - a * f) * scale],
    [C * scale, (b * g - a * h) * scale, (a * e - b * d) * scale],
  ];
}

/** Undefined unless the matrix is positive. */
function inverse([xx, xy, xt, yy, yt, tt]: Float64Array): Float64Array | undefined {
  const A = yy * tt - yt * yt, B = xt * yt - xy * tt, C = xy * yt - xt * yy;
  const determinant = xx * A + xy * B + xt * C;
  if (!(determinant > 1e-30 && xx > 0 && yy > 0 && tt > 0)) return undefined;
  const s = 1 / determinant;
  return Float64Array.of(
    A * s,
    B * s,
    C * s,
    (xx * tt - xt * xt) * s,
    (xy * xt - xx * yt) * s,
    (xx * yy - xy * xy) * s,
  );
}
