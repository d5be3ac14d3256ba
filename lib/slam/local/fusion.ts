/**
 * Weighs odometry against the match of a scan, direction by direction: a Kalman filter of the robot's pose among the
 * latest scans. In a direction that the scan does not constrain, as along a bare corridor, only odometry counts. The
 * errors of odometry are learned from the differences between its predictions and the matches.
 */

import { between2d, type Pose2d, wrapAngle } from "../pose2d.ts";
import { isRight, type OdometryVerdict, type OdometryVerdicts, REFUTED } from "./odometry/proof.ts";
import {
  inverse,
  leftAfter,
  type Matrix,
  quadratic,
  scaled,
  type Symmetric,
  timesBoth,
  UNIT,
  UNIT_MATRIX,
  updated,
  widenedBy,
  ZERO,
  ZERO_MATRIX,
} from "./symmetric.ts";

/** See `SHARES`. */
interface Shares {
  readonly match: number;
  readonly noise: number;
}

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
 * has failed. It was odometry if the scan has this many points across each direction, and this share of all: along a
 * corridor, the few may be people. If the robot seems to stand, or if scans with a smaller share come with long pauses,
 * so many in a row must be off by the same amount, within these metres or radians and this share of the path. Other scans
 * decide only together with more scans before them: people walk on, and a narrow view of a corridor with niches fits at
 * the neighbouring niche for several scans.
 */
const DEVIATIONS_MAX = 3.5;
const SURE_POINTS = 6;
const SURE_SHARE = 0.07;
const SURE_SCANS = 2;
const ALIKE_OFF = 0.05;
const ALIKE_SHARE = 0.3;
const ALIKE_SCANS = 6;
/** Unless odometry is proven, so few of them suffice if scans come with longer pauses than this. */
const ALIKE_SCANS_SPARSE = 2;
const SPARSE_SCANS_S = 1.5;
/**
 * A smaller error overrules odometry that is right only after `ALIKE_SCANS`: single matches err by that much. A larger
 * one does after `LARGE_SCANS`: a crowd in a corridor fits the walls at one wrong place, but not at the same place again.
 * And only if this share of it came at once: an error that grows is the drift of the map, which matches follow.
 */
const LARGE_M = 0.3;
const LARGE_RAD = 0.1;
const LARGE_SCANS = 2;
const SUDDEN_SHARE = 0.5;
/** The required certainty of a match in a direction, for it to show the error of odometry there. */
const KNOWN_M = 0.05;
const KNOWN_RAD = 0.03;
const OPEN = 1;
const ALONG_SHARE = 0.6;
/**
 * By the verdict on odometry: the share of its information that a match keeps, and the share of its variances that
 * odometry keeps.
 */
const SHARES: Record<OdometryVerdict, Shares> = {
  refuted: { match: 1, noise: 1 },
  open: { match: 0.02, noise: 0.02 },
  proven: { match: 0.004, noise: 0.003 },
};
/**
 * The same of odometry that is right. A map grows from the poses that matches with it correct, so that it drifts along:
 * matches must count over a path that is much longer than a submap, or their drift is that of the robot.
 */
const SHARES_RIGHT: Shares = { match: 0.0002, noise: 0.0002 };
/** An error of a match up to its usual size says nothing against odometry that is right. */
const MATCH_VARIANCES = [0.02 ** 2, 0.005 ** 2] as const;
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
  /** The time since the last pose. */
  readonly sinceS: number;
  /** Whether odometry has not changed for a while: the robot stands, or odometry is frozen. */
  readonly isStanding?: boolean;
}

export class OdometryFusion {
  /** The covariance of the pose. */
  #covariance = ZERO;
  #translationFactor = 1;
  #rotationFactor = 1;
  #left = ZERO_MATRIX;
  /** The error of the last match, if it was too large for noise, and the number of such errors in a row. */
  #lastOff: Pose2d | undefined;
  #alikeScans = 0;
  /** The error of the last match, whatever its size. */
  #offBefore: Pose2d | undefined;

  /** The share of an error of the last prediction that is left after the match. */
  get left(): Matrix {
    return this.#left;
  }

  /**
   * Resets the certainty of the pose to that of the last match. If odometry counts more than matches, the next match
   * counts alone.
   */
  reset({ translation, rotation }: OdometryVerdicts): void {
    const squareM = translation === "refuted" ? 0 : VARIANCE_MAX[0] / 2;
    const squareRad = rotation === "refuted" ? 0 : VARIANCE_MAX[1];
    this.#covariance = { ...ZERO, xx: squareM, yy: squareM, tt: squareRad };
    this.#forgetOff();
    this.#left = ZERO_MATRIX;
  }

  /** The first scan of a submap: its pose is that of odometry, and the submap lies around it. */
  begin(): void {
    this.#covariance = ZERO;
    this.#forgetOff();
    this.#left = UNIT_MATRIX;
  }

  /** There is no match: the pose is that of odometry. */
  goOn(predicted: PredictedPose): void {
    this.#covariance = this.#covarianceAt(predicted);
    this.#forgetOff();
    this.#left = UNIT_MATRIX;
  }

  /** The pose by odometry and by a match that has `information`. */
  fuse(prediction: PredictedPose, matched: Pose2d, information: Symmetric): Pose2d {
    const { last, predicted, verdicts, scanCount } = prediction;
    const { movedM, turned } = motionOf(prediction), before = this.#covarianceAt(prediction);
    const isNew = Math.max(NEW_SHARE_MIN, Math.min(1, movedM / NEW_M + turned / NEW_RAD));
    const seen = scaled(cut(information), INDEPENDENT_SHARE * isNew);
    const usual = weighed(seen, verdicts, scanCount);
    const off = {
      x: matched.x - predicted.x,
      y: matched.y - predicted.y,
      yaw: wrapAngle(matched.yaw - predicted.yaw),
    };
    if (isNew >= 1) {
      if (verdicts.rotation === "refuted") this.#learnRotation(before, usual, off);
      if (verdicts.translation === "refuted") {
        this.#learnTranslation(before, usual, off, predicted.x - last.x, predicted.y - last.y);
      }
    }
    const wide = widened(before, usual, off, isRight(verdicts));
    this.#noteOff(wide && (!isRight(verdicts) || this.#isSudden(off)) ? off : undefined);
    this.#offBefore = off;
    const failed = this.#lastOff && this.#hasFailed(prediction, information) ? wide : undefined;
    const prior = failed ?? before;
    // A pose that is no longer known by odometry is that of the match at once.
    const known = failed && isRight(verdicts) ? weighed(seen, REFUTED, scanCount) : usual;
    // (1 + P H)^-1 P, and the share of the innovation: P' H.
    const after = updated(prior, known);
    const step = timesBoth(after, known, off);
    this.#covariance = after;
    this.#left = leftAfter(after, known);
    return { x: predicted.x + step.x, y: predicted.y + step.y, yaw: wrapAngle(predicted.yaw + step.yaw) };
  }

  /** Whether odometry, and not a match that is off too far for noise, has failed. */
  #hasFailed({ verdicts, sinceS, isStanding = false }: PredictedPose, information: Symmetric): boolean {
    const { translation, rotation } = verdicts, isSparse = sinceS >= SPARSE_SCANS_S, off = this.#lastOff;
    const isLarge = off && (Math.hypot(off.x, off.y) > LARGE_M || Math.abs(off.yaw) > LARGE_RAD);
    if (isRight(verdicts) && this.#alikeScans < (isLarge ? LARGE_SCANS : ALIKE_SCANS)) return false;
    if (isRight(verdicts) && !isLarge) return true;
    if (!isStanding && (translation === "refuted" || rotation === "refuted")) return true;
    const points = translationPoints(information), all = (information.xx + information.yy) * POINT_VARIANCE;
    if (points >= SURE_POINTS) {
      const isShare = points >= SURE_SHARE * all;
      if (isShare && !isStanding) return true;
      if ((isShare || isSparse) && this.#alikeScans >= SURE_SCANS) return true;
    }
    return this.#alikeScans >= (isSparse && !isRight(verdicts) ? ALIKE_SCANS_SPARSE : ALIKE_SCANS);
  }

  /** Whether an error of a match, or those before it that were alike, came at once. */
  #isSudden(off: Pose2d): boolean {
    if (this.#lastOff) return true;
    const { x, y, yaw } = this.#offBefore ?? { x: 0, y: 0, yaw: 0 };
    return sizeOf(off.x - x, off.y - y, wrapAngle(off.yaw - yaw)) >
      SUDDEN_SHARE * sizeOf(off.x, off.y, off.yaw);
  }

  #forgetOff(): void {
    this.#lastOff = undefined;
    this.#offBefore = undefined;
  }

  /** Counts the errors in a row that are too large for noise, and alike. */
  #noteOff(off: Pose2d | undefined): void {
    const last = this.#lastOff;
    const isAlike = off && last && Math.hypot(off.x - last.x, off.y - last.y) <=
        ALIKE_OFF + ALIKE_SHARE * Math.hypot(off.x, off.y) &&
      Math.abs(wrapAngle(off.yaw - last.yaw)) <= ALIKE_OFF + ALIKE_SHARE * Math.abs(off.yaw);
    this.#alikeScans = isAlike ? this.#alikeScans + 1 : 1;
    this.#lastOff = off;
  }

  /** The covariance of the predicted pose. */
  #covarianceAt(prediction: PredictedPose): Symmetric {
    const { last, predicted, verdicts } = prediction, { movedM, turned } = motionOf(prediction);
    const shares = sharesOf(verdicts);
    return this.#grown(
      predicted.x - last.x,
      predicted.y - last.y,
      shares.translation.noise * this.#translationFactor * TRANSLATION_VARIANCE_A_METRE * movedM,
      shares.rotation.noise * this.#rotationFactor *
        (ROTATION_VARIANCE_A_RADIAN * turned + ROTATION_VARIANCE_A_METRE * movedM),
    );
  }

  /** The covariance after a motion, by the variances of odometry. */
  #grown(dx: number, dy: number, step: number, turn: number): Symmetric {
    const { xx, xy, xt, yy, yt, tt } = this.#covariance;
    const grown = {
      xx: xx - 2 * dy * xt + dy * dy * tt + step,
      xy: xy + dx * xt - dy * yt - dx * dy * tt,
      xt: xt - dy * tt,
      yy: yy + 2 * dx * yt + dx * dx * tt + step,
      yt: yt + dx * tt,
      tt: tt + turn,
    };
    const most = Math.max(1, (grown.xx + grown.yy) / VARIANCE_MAX[0], grown.tt / VARIANCE_MAX[1]);
    return scaled(grown, 1 / most);
  }

  /** Follows the squares of the innovations, compared with what they should be, if the match knows the rotation. */
  #learnRotation(before: Symmetric, { xx, xy, xt, yy, yt, tt }: Symmetric, off: Pose2d): void {
    // The translation is left free.
    const free = (xx + OPEN) * (yy + OPEN) - xy * xy;
    const turn = tt - (xt * xt * (yy + OPEN) - 2 * xt * yt * xy + yt * yt * (xx + OPEN)) / free;
    if (turn > 1 / KNOWN_RAD ** 2) {
      this.#rotationFactor = learned(this.#rotationFactor, off.yaw ** 2 / (before.tt + 1 / turn));
    }
  }

  /** Does the same for the directions of translation that the match knows. */
  #learnTranslation(
    before: Symmetric,
    { xx, xy, xt, yy, yt, tt }: Symmetric,
    off: Pose2d,
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
      const variance = x * x * before.xx + 2 * x * y * before.xy + y * y * before.yy;
      const square = (x * off.x + y * off.y) ** 2 / (variance + 1 / sure);
      this.#translationFactor = learned(this.#translationFactor, square);
    }
  }
}

function sharesOf(verdicts: OdometryVerdicts): Record<keyof OdometryVerdicts, Shares> {
  if (isRight(verdicts)) return { translation: SHARES_RIGHT, rotation: SHARES_RIGHT };
  return { translation: SHARES[verdicts.translation], rotation: SHARES[verdicts.rotation] };
}

/** The size of an error of a match, in usual ones. */
function sizeOf(x: number, y: number, yaw: number): number {
  const [squareM, squareRad] = MATCH_VARIANCES;
  return Math.sqrt((x * x + y * y) / squareM + yaw * yaw / squareRad);
}

function motionOf({ last, predicted }: PredictedPose): { readonly movedM: number; readonly turned: number } {
  const { x, y, yaw } = between2d(last, predicted);
  return { movedM: Math.hypot(x, y), turned: Math.abs(yaw) };
}

function learned(factor: number, square: number): number {
  const grown = factor * Math.exp(LEARNING * Math.min(3, Math.log(Math.max(1e-3, square)) + 1));
  return Math.min(FACTOR_MAX, Math.max(FACTOR_MIN, grown));
}

/** The direction of translation that is known least if the rotation is left free, and the information about it. */
function leastKnown({ xx, xy, xt, yy, yt, tt }: Symmetric): { x: number; y: number; information: number } {
  const a = xx - xt * xt / tt, b = xy - xt * yt / tt, c = yy - yt * yt / tt;
  const along = 0.5 * Math.atan2(2 * b, a - c) + Math.PI / 2, x = Math.cos(along), y = Math.sin(along);
  return { x, y, information: x * x * a + 2 * x * y * b + y * y * c };
}

/** The minimum, over all directions, of the number of points that constrain a translation. */
export function translationPoints(information: Symmetric): number {
  return information.tt > 0 ? leastKnown(information).information * POINT_VARIANCE : 0;
}

/** The information, without translations that hardly any point constrains. */
function cut(information: Symmetric): Symmetric {
  if (!(information.tt > 0)) return ZERO;
  const { x, y, information: least } = leastKnown(information);
  const wanted = Math.max(0, least - POINTS_NONE / POINT_VARIANCE);
  const drop = least - wanted;
  return {
    ...information,
    xx: information.xx - drop * x * x,
    xy: information.xy - drop * x * y,
    yy: information.yy - drop * y * y,
  };
}

/** The information of a match as it counts beside odometry, by the number of its scans and the verdict on odometry. */
function weighed(
  { xx, xy, xt, yy, yt, tt }: Symmetric,
  verdicts: OdometryVerdicts,
  scanCount: number,
): Symmetric {
  const age = (scanCount / (scanCount + YOUNG_SCANS)) ** 2,
    youth = Math.min(1, (scanCount / YOUNG_SCANS) ** 2);
  const shares = sharesOf(verdicts);
  const shareOf = (part: keyof OdometryVerdicts) =>
    shares[part].match * (verdicts[part] === "refuted" ? youth : age);
  const a = shareOf("translation"), b = shareOf("rotation"), c = Math.sqrt(a * b);
  return { xx: a * xx, xy: a * xy, xt: c * xt, yy: a * yy, yt: c * yt, tt: b * tt };
}

/** The covariance, widened in the direction of an implausible innovation; undefined if the innovation is plausible. */
function widened(
  before: Symmetric,
  known: Symmetric,
  off: Pose2d,
  isOdometryRight: boolean,
): Symmetric | undefined {
  // The part of the innovation that the match is sure of.
  const sure = timesBoth(updated(UNIT, known), known, off);
  const [squareM, squareRad] = isOdometryRight ? MATCH_VARIANCES : [1e-6, 1e-8];
  const spread = inverse({
    ...before,
    xx: before.xx + squareM,
    yy: before.yy + squareM,
    tt: before.tt + squareRad,
  });
  if (!spread) return undefined;
  const square = quadratic(spread, sure), limit = DEVIATIONS_MAX ** 2;
  if (!(square > limit)) return undefined;
  return widenedBy(before, sure, Math.min(1, (square - limit) / limit));
}
