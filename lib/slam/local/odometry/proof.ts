/**
 * Decides whether odometry or the match with the submaps is closer to the truth. If the view is narrow or the surfaces
 * are far away, matches err in the same direction again and again, and the errors add up; the same happens with
 * slipping wheels. A comparison of two scans some decimetres apart, without a map, shows which of the two errs.
 */

import { between2d, type Pose2d, wrapAngle } from "../../pose2d.ts";
import { isSameScale, type OdometryScale, ScaleEstimate, UNSCALED } from "./scale.ts";
import { viewOf } from "./view.ts";
import { ScanMotion, type ScanMotionResult } from "../scan_motion.ts";

/** Motion after which scans are compared. */
const SPAN_M = 0.5;
const SPAN_RAD = 0.5;
/** A turn by this share of the view: in a narrow view, two scans would have little in common after more. */
const SPAN_VIEW = 0.3;
/** Share of points on lines above which a comparison counts. */
const SHARE_MIN = 0.45;
/** Comparisons from both guesses must end this near to each other. */
const SAME_M = 0.02;
const SAME_RAD = 0.003;
/**
 * A translation counts in a direction with at least this many points across it, if this share of the motion is in that
 * direction.
 */
const KNOWN_POINTS = 4;
const ALONG_SHARE = 0.6;
/** Largest errors that count. */
const ERROR_MAX_M = 0.3;
const ERROR_MAX_RAD = 0.1;
/** The span over which odometry shows how quickly the robot turns. */
const RATE_S = 0.1;
/** Each comparison reduces the weight of the earlier ones to this share. */
const KEPT = 0.97;
/**
 * Odometry is proven after this many comparisons, if its errors are at most this share of those of the matches. From
 * then on the matches follow it, so that both have the same errors.
 */
const PROVEN_AFTER = { count: 6, share: 0.6 };
/**
 * Until it is refuted, it is also proven after this many comparisons if the squares of its errors, with the noise of the
 * comparisons in them, are at most this share of usual noise: wheels that slip err more. Matches may err less, down to
 * a share, because they err as the comparisons do.
 */
const SMALL_AFTER = { count: 12, square: 0.5, share: 2 };
/**
 * It is refuted if the squares of its errors are this many times those of the matches, and larger than the noise of the
 * comparisons by this many standard deviations. A single square counts up to a limit: a comparison may fail.
 */
const REFUTED_AFTER = { count: 3, share: 2 };
const NOISE_M = 0.012;
const NOISE_RAD = 0.004;
const DEVIATIONS_MAX = 2.5;
const SQUARE_MAX = 16;
/** The noise of the comparisons is proportional to that of the ranges, which is usually this; down to a share. */
const USUAL_RANGE_NOISE_M = 0.025;
const NOISE_SHARE_MIN = 0.5;
/**
 * It is also refuted if its errors point in the same direction again and again, beyond this many standard deviations of
 * their mean. Their scatter is that of the errors themselves, and that of so many errors of usual noise.
 */
const USUAL_ERRORS = 4;
/** Scans that put the robot farther than this from odometry count if so much more of them fits there: people walk by. */
const OFF_M = 0.06;
const FITS_MORE = 0.15;
/** Errors of one direction count from this weight on: before, a factor may turn out that makes up for them. */
const DRIFT_WEIGHT_MIN = 4.5;
/** A factor of the ways, or of the turns, that is nearer to 1 may be an error of the comparisons. */
const WAYS_OFF = 0.03;
const TURNS_OFF = 0.015;
/**
 * A factor of the ways shows better over a longer straight way, as long as the scans have much in common, with so many
 * points across each direction: until many comparisons show it, two of them suffice. On a way with turns, odometry that
 * turns wrongly ends elsewhere, too.
 */
const FAR_M = 2;
const FAR_POINTS = 12;
const FAR_TIMES = 2;
const FAR_TURN_RAD = 0.2;
/** A turn of at least this shows whether odometry turns too far. */
const TURN_MIN_RAD = 0.15;

/** The result of the comparisons: undecided, odometry is better than the matches, or odometry is worse. */
export type OdometryVerdict = "open" | "proven" | "refuted";

/** Of the translation and of the rotation. */
export interface OdometryVerdicts {
  readonly translation: OdometryVerdict;
  readonly rotation: OdometryVerdict;
}

const OPEN: OdometryVerdicts = { translation: "open", rotation: "open" };
export const PROVEN: OdometryVerdicts = { translation: "proven", rotation: "proven" };
export const REFUTED: OdometryVerdicts = { translation: "refuted", rotation: "refuted" };

/**
 * Whether odometry is right as far as scans show. Where they do not show its ways, as along a corridor, its turns are
 * evidence: wheels that slip turn wrongly, too.
 */
export function isRight({ translation, rotation }: OdometryVerdicts): boolean {
  return rotation === "proven" && translation !== "refuted";
}

const WORST_FIRST: readonly OdometryVerdict[] = ["refuted", "open", "proven"];

/** The worse of the verdicts on each part. */
export function worseOf(a: OdometryVerdicts, b: OdometryVerdicts): OdometryVerdicts {
  const worse = (one: OdometryVerdict, other: OdometryVerdict) =>
    WORST_FIRST.indexOf(one) < WORST_FIRST.indexOf(other) ? one : other;
  return { translation: worse(a.translation, b.translation), rotation: worse(a.rotation, b.rotation) };
}

/** A scan in the submaps. */
export interface MatchedScan {
  readonly seen: Float64Array;
  readonly timeS: number;
  readonly pose: Pose2d;
  /** Its pose by the match alone. */
  readonly matched: Pose2d;
}

/** The scan that the next ones are compared with until they are far away. */
interface Far {
  readonly scan: MatchedScan;
  /** The factors of odometry since, and its turns. */
  readonly scale: OdometryScale;
  turnedRad: number;
  /** The ways by odometry until each of the next scans, and by how much they were too far. */
  readonly ways: { readonly movedM: number; readonly tooFarM: number }[];
}

export class OdometryProof {
  readonly #motion = new ScanMotion();
  #translation: Comparison;
  #rotation: Comparison;
  #ways = new ScaleEstimate(WAYS_OFF);
  #turns = new ScaleEstimate(TURNS_OFF);
  /** By the same comparisons over longer ways. */
  #farWays = new ScaleEstimate(WAYS_OFF, FAR_TIMES);
  #far: Far | undefined;
  /** The scan that the next one is compared with after a motion, and the turn that suffices. */
  #from: MatchedScan | undefined;
  #spanRad = 0;

  constructor({ translation, rotation }: OdometryVerdicts = OPEN) {
    this.#translation = new Comparison(NOISE_M, translation);
    this.#rotation = new Comparison(NOISE_RAD, rotation);
  }

  get verdicts(): OdometryVerdicts {
    return { translation: this.#translation.verdict, rotation: this.#rotation.verdict };
  }

  /** Forgets everything: odometry counted for other times until now. */
  reset(): void {
    this.resetVerdicts();
    this.#ways = new ScaleEstimate(WAYS_OFF);
    this.#farWays = new ScaleEstimate(WAYS_OFF, FAR_TIMES);
    this.#turns = new ScaleEstimate(TURNS_OFF);
  }

  /** Forgets the comparisons, but not the factors: odometry is multiplied by others from now on. */
  resetVerdicts(): void {
    this.restart();
    this.#translation = new Comparison(NOISE_M, OPEN.translation);
    this.#rotation = new Comparison(NOISE_RAD, OPEN.rotation);
  }

  /** The factors of odometry that count from now on; `used`: those that counted so far. */
  scaleAfter({ translation, rotation }: OdometryScale): OdometryScale {
    const ways = this.#ways.isKnown ? this.#ways : this.#farWays;
    return { translation: ways.factor(translation), rotation: this.#turns.factor(rotation) };
  }

  /** Drops the earlier scans: odometry does not know the motion since. */
  restart(): void {
    this.#from = undefined;
    this.#endFar();
  }

  /**
   * Takes the next scan; `odometryBetween` gives the motion by odometry, times `scale`, between two times, which have
   * this standard deviation.
   */
  add(
    scan: MatchedScan,
    odometryBetween: (fromS: number, toS: number) => Pose2d | undefined,
    scale = UNSCALED,
    timeDeviationS = 0,
  ): void {
    const from = this.#from, moved = from && between2d(from.pose, scan.pose);
    if (moved && Math.hypot(moved.x, moved.y) < SPAN_M && Math.abs(moved.yaw) < this.#spanRad) return;
    this.#from = scan;
    this.#spanRad = Math.min(SPAN_RAD, SPAN_VIEW * viewOf(scan.seen));
    const odometry = from && odometryBetween(from.timeS, scan.timeS);
    if (this.#far) this.#far.turnedRad += Math.abs(odometry?.yaw ?? Infinity);
    this.#addFar(scan, odometryBetween, scale);
    if (!odometry) return;
    const matched = between2d(from.matched, scan.matched);
    this.#motion.begin(from.seen);
    const byMatch = this.#motion.match(scan.seen, matched);
    const byOdometry = this.#motion.match(scan.seen, odometry);
    if (Math.min(byMatch.share, byOdometry.share) < SHARE_MIN) return;
    const { yaw } = byOdometry.pose;
    if (Math.abs(wrapAngle(byMatch.pose.yaw - yaw)) > SAME_RAD) return;
    const offRad = (by: Pose2d) => Math.min(ERROR_MAX_RAD, Math.abs(wrapAngle(by.yaw - yaw)));
    const noisier = this.#noisier;
    // Wheels that slip turn too far, or not far enough, at every turn.
    const tooFarRad = Math.abs(yaw) < TURN_MIN_RAD
      ? undefined
      : Math.sign(yaw) * wrapAngle(odometry.yaw - yaw);
    const noiseRad = Math.hypot(NOISE_RAD * noisier, byOdometry.yawDeviation);
    // Odometry of another time turns too far where a turn begins, or ends.
    const rateAt = (timeS: number) => (odometryBetween(timeS - RATE_S, timeS)?.yaw ?? 0) / RATE_S;
    const untimedRad = timeDeviationS && timeDeviationS * (rateAt(scan.timeS) - rateAt(from.timeS));
    const turnNoiseRad = Math.hypot(noiseRad, untimedRad);
    this.#rotation.add(offRad(odometry), offRad(matched), turnNoiseRad / NOISE_RAD, tooFarRad);
    if (Math.abs(yaw) >= TURN_MIN_RAD) this.#turns.add(odometry.yaw / scale.rotation, yaw, noiseRad);
    const tooFarM = this.#addTranslation(byMatch, byOdometry, odometry, matched, noisier, scan.seen);
    if (tooFarM === undefined) return;
    const movedM = Math.hypot(odometry.x, odometry.y);
    this.#ways.add(movedM / scale.translation, movedM - tooFarM, NOISE_M * noisier);
  }

  /** Compares with the scan from which the way is longest, and takes the next one after `FAR_M`. */
  #addFar(
    scan: MatchedScan,
    odometryBetween: (fromS: number, toS: number) => Pose2d | undefined,
    scale: OdometryScale,
  ): void {
    const far = this.#far, isSame = far && far.turnedRad <= FAR_TURN_RAD && isSameScale(far.scale, scale);
    const odometry = isSame ? odometryBetween(far.scan.timeS, scan.timeS) : undefined;
    const tooFarM = far && odometry && this.#tooFarM(far.scan, scan, odometry);
    const movedM = odometry ? Math.hypot(odometry.x, odometry.y) : 0;
    if (far && tooFarM !== undefined) {
      const noiseM = NOISE_M * this.#noisier;
      // An error that came at once is no factor: the robot was carried, or people walked by.
      const isGrowing = far.ways.every((one) =>
        Math.abs(one.tooFarM - tooFarM * one.movedM / movedM) <= DEVIATIONS_MAX * noiseM
      );
      if (isGrowing) {
        far.ways.push({ movedM, tooFarM });
        this.#farWays.replace(movedM / scale.translation, movedM - tooFarM, noiseM);
        if (movedM < FAR_M) return;
      } else this.#farWays.drop();
    }
    this.#endFar();
    this.#far = { scan, scale, turnedRad: 0, ways: [] };
  }

  #endFar(): void {
    this.#farWays.keep();
    this.#far = undefined;
  }

  /** How much noisier than usual the ranges of the compared scans are. */
  get #noisier(): number {
    return Math.max(NOISE_SHARE_MIN, this.#motion.rangeNoiseM / USUAL_RANGE_NOISE_M);
  }

  /** By how much odometry drove too far between two scans, if they show it. */
  #tooFarM(from: MatchedScan, to: MatchedScan, odometry: Pose2d): number | undefined {
    this.#motion.begin(from.seen);
    const { pose, share, leastConstrained } = this.#motion.match(to.seen, odometry);
    const movedM = Math.hypot(odometry.x, odometry.y);
    if (share < SHARE_MIN || leastConstrained.points < FAR_POINTS || movedM < SPAN_M / 2) return undefined;
    return tooFarAlong(odometry, pose);
  }

  /**
   * Compares across the direction that the scans constrain least, or everywhere if that one is constrained enough.
   * Returns by how much odometry drove too far, if the scans show it.
   */
  #addTranslation(
    byMatch: ScanMotionResult,
    byOdometry: ScanMotionResult,
    odometry: Pose2d,
    matched: Pose2d,
    noisier: number,
    seen: Float64Array,
  ): number | undefined {
    const { pose, leastConstrained, leastOfAll } = byOdometry;
    const isFarOff = Math.hypot(odometry.x - pose.x, odometry.y - pose.y) > OFF_M;
    const { x, y, points } = isFarOff ? leastConstrained : leastOfAll;
    const knownOf = (dx: number, dy: number) => {
      return points >= KNOWN_POINTS ? Math.hypot(dx, dy) : Math.abs(x * dy - y * dx);
    };
    const movedM = Math.hypot(odometry.x, odometry.y);
    if (movedM < SPAN_M / 2 || knownOf(odometry.x, odometry.y) < ALONG_SHARE * movedM) return undefined;
    if (knownOf(byMatch.pose.x - pose.x, byMatch.pose.y - pose.y) > SAME_M) return undefined;
    if (isFarOff && this.#motion.fitsMore(seen, pose, odometry) < FITS_MORE) return undefined;
    const offM = (by: Pose2d) => Math.min(ERROR_MAX_M, knownOf(by.x - pose.x, by.y - pose.y));
    const tooFarM = tooFarAlong(odometry, pose);
    this.#translation.add(offM(odometry), offM(matched), noisier, tooFarM);
    return tooFarM;
  }
}

/** By how much a motion is longer than another one, along its own way. */
function tooFarAlong({ x, y }: Pose2d, shown: Pose2d): number {
  return ((x - shown.x) * x + (y - shown.y) * y) / Math.hypot(x, y);
}

/** The errors of odometry and of the matches; later errors weigh more. */
class Comparison {
  #odometry = 0;
  #matches = 0;
  /** Of the squares, in variances of the noise. */
  #odometrySquares = 0;
  #matchSquares = 0;
  /** The same of odometry, in variances of usual noise. */
  #usualSquares = 0;
  /** Of the errors of odometry with their signs, in standard deviations. */
  #drift = 0;
  #driftSquares = 0;
  #driftWeight = 0;
  #weight = 0;
  #count = 0;
  #verdict: OdometryVerdict;

  /** `verdict` counts until the comparisons give another. */
  constructor(private readonly noise: number, verdict: OdometryVerdict) {
    this.#verdict = verdict;
  }

  get verdict(): OdometryVerdict {
    return this.#verdict;
  }

  /** `noisier`: how many times the usual noise; `signed`: the error of odometry, if errors with a sign add up. */
  add(odometry: number, matches: number, noisier: number, signed: number | undefined): void {
    const noise = this.noise * noisier;
    this.#odometry = KEPT * this.#odometry + odometry / noise;
    this.#matches = KEPT * this.#matches + matches / noise;
    this.#odometrySquares = KEPT * this.#odometrySquares + Math.min(SQUARE_MAX, (odometry / noise) ** 2);
    this.#matchSquares = KEPT * this.#matchSquares + Math.min(SQUARE_MAX, (matches / noise) ** 2);
    this.#usualSquares = KEPT * this.#usualSquares + (odometry / this.noise) ** 2;
    if (signed !== undefined) this.#addDrift(signed / noise);
    this.#weight = KEPT * this.#weight + 1;
    this.#count++;
    const share = this.#odometry / this.#matches;
    if (this.#count >= PROVEN_AFTER.count && share <= PROVEN_AFTER.share) this.#verdict = "proven";
    if (this.#verdict === "open" && this.#isSmall(share)) this.#verdict = "proven";
    if (this.#count < REFUTED_AFTER.count) return;
    if (this.#isLarge || (share >= 1 && this.#drifts)) this.#verdict = "refuted";
  }

  #addDrift(deviations: number): void {
    const limit = Math.sqrt(SQUARE_MAX), drift = Math.max(-limit, Math.min(limit, deviations));
    this.#drift = KEPT * this.#drift + drift;
    this.#driftSquares = KEPT * this.#driftSquares + drift ** 2;
    this.#driftWeight = KEPT * this.#driftWeight + 1;
  }

  #isSmall(share: number): boolean {
    return this.#count >= SMALL_AFTER.count && share <= SMALL_AFTER.share &&
      this.#usualSquares <= SMALL_AFTER.square * this.#weight;
  }

  get #isLarge(): boolean {
    return this.#odometrySquares > this.#weight + DEVIATIONS_MAX * Math.sqrt(2 * this.#weight) &&
      this.#odometrySquares >= REFUTED_AFTER.share * this.#matchSquares;
  }

  get #drifts(): boolean {
    if (this.#driftWeight < DRIFT_WEIGHT_MIN) return false;
    const mean = this.#drift / this.#driftWeight;
    const scattered = Math.max(0, this.#driftSquares - mean * this.#drift);
    const variance = (scattered + USUAL_ERRORS) / (this.#driftWeight + USUAL_ERRORS);
    return Math.abs(mean) > DEVIATIONS_MAX * Math.sqrt(variance / this.#driftWeight);
  }
}
