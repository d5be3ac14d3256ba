/**
 * Local SLAM: gives each scan its pose among the latest scans, and inserts it into the submaps if the robot has moved.
 */

import type { ImuReading, MapperOptions, OdometryReading, RangeScan } from "../mapping.ts";
import { joinedPoints, pointsAt, singleAt, thinned } from "../points.ts";
import { between2d, compose2d, IDENTITY_2D, interpolate2d, type Pose2d, wrapAngle } from "../pose2d.ts";
import { CorrelativeMatcher, type CorrelativeWindow } from "./correlative.ts";
import { Extrapolator, STANDING_M, STANDING_RAD } from "./extrapolator.ts";
import { VoxelFilter } from "./filters.ts";
import { LEVEL, type QuaternionTuple, rotatePoint } from "./gravity.ts";
import type { LeastConstrained } from "./line_equations.ts";
import { OdometryFusion, translationPoints } from "./fusion.ts";
import { LaserOdometry, type Predictions } from "./laser_odometry.ts";
import type { OdometryBeliefs } from "./odometry/beliefs.ts";
import { isOtherDelay } from "./odometry/delay.ts";
import {
  isRight,
  type MatchedScan,
  OdometryProof,
  type OdometryVerdicts,
  PROVEN,
  REFUTED,
  worseOf,
} from "./odometry/proof.ts";
import { isOtherScale, isSameScale } from "./odometry/scale.ts";
import { OdometryTrust } from "./odometry/trust.ts";
import { type Refinement, type RefinementWeights, ScanRefiner } from "./refinement.ts";
import { ScanMotion } from "./scan_motion.ts";
import { type StandingScan, Standstill } from "./odometry/standstill.ts";
import { ActiveSubmaps, type Submap } from "./submaps.ts";
import { surfaceBetween } from "./surface.ts";
import type { Symmetric } from "./symmetric.ts";

const DEGREE = Math.PI / 180;
const VOXEL_M = 0.025;
const ADAPTIVE_EDGE_M = 0.5;
const ADAPTIVE_POINTS = 200;
const MIN_Z_M = -0.8;
const MAX_Z_M = 2;

/** Weights of the refinement: of the points, and of the pose that the motion predicts. */
const WEIGHTS = { occupiedSpace: 1, translation: 3, rotation: 1 };
/** Weight of the prediction in the direction that fewest points constrain: all of it at none, half at `DEGENERATE_POINTS`. */
const DEGENERATE_POINTS = 8;
const DEGENERATE_WEIGHT = 30;
/** Matches that are this far from the pose by scans have followed frozen odometry. */
const LEFT_BEHIND_M = 0.2, LEFT_BEHIND_RAD = 0.1;
/** Limit of scans that wait for odometry. */
const UNPROVEN_MAX = 20;
/** With this many points across each direction, scans show how far the robot drove. */
const KNOWN_POINTS = 6;

/** Rate at which the usual score follows the latest score, and the drop below it that starts a search. */
const SCORE_SHARE = 0.1;
const SEARCH_DROP = 0.05;
/**
 * Rate for worse scores without odometry: low, because otherwise bad scores would soon count as usual for a lost robot.
 */
const SCORE_SHARE_DOWN = 0.02;
/** Gain in score that a search must reach. */
const SEARCH_GAIN = 0.01;
/**
 * Gain in score that a pose needs for each metre between it and the prediction. In a bare corridor the points fit best
 * on those of the last scan, as if the robot stood still. The gain is smaller while odometry seems to be late.
 */
const GAIN_A_METRE = 0.3;
const GAIN_LATE_A_METRE = 0.05;
/** The same for each radian after that time, because a narrow view of a hedge fits in many places. */
const GAIN_A_RADIAN = 0.6;
/** Time after which the gain shrinks, because the robot may have gone far. */
const GAIN_TIME_S = 1;
/** A search that turns the robot farther counts only if the last scan confirms it: odometry may be right. */
const SURE_TURN_RAD = 3 * DEGREE;
/** After this time, late or slipping odometry may be far off, so the last scan counts, too. */
const SPARSE_S = 0.4;
/** Gain in score that the pose by the last scan needs for each metre between it and the prediction. */
const GAIN_BY_SCAN_A_METRE = 0.1;
/** Scans that put the robot farther than this from odometry contradict it if so much more of them fits there. */
const CONTRADICTED_M = 0.06;
const FITS_MORE = 0.25;
/** A match this near to the prediction is as expected. */
const EXPECTED_M = 0.1;
/** Points of a scan that are used to find which directions it constrains. */
const SHAPE_POINTS = 360;
const SEARCH_POINTS = 100;
const SEARCH_STEP_RAD = 0.5 * DEGREE;
/** A search without odometry covers more and is coarser. */
const FREE_POINTS = 80, FREE_STEP_RAD = DEGREE;
const SEARCH_WEIGHTS = { translationWeight: 0.1, rotationWeight: 0.1 };
/**
 * Some lidars report their greatest range if there is no return, so ranges this close to the greatest of a scan are
 * ignored.
 */
const NO_RETURN_M = 0.2;
/** Below this score, the search for a scan that does not overlap with the last one covers a larger area. */
const DISTORTED_SCORE = 0.33;

/** The motion filter: a scan is inserted after this time, this distance, or this turn. */
const MOTION_TIME_S = 5;
const MOTION_DISTANCE_M = 0.2;
const MOTION_ANGLE_RAD = DEGREE;

export interface LocalResult {
  readonly timeS: number;
  readonly pose: Pose2d;
  /** Mean probability under the points, 0.1 to 0.9; 1 for a first scan. */
  readonly score: number;
  /** The direction that the scan constrains least, in the frame of the pose; undefined with odometry. */
  readonly leastConstrained: LeastConstrained | undefined;
  /** The verdicts on the odometry since the last inserted scan: the worst ones. Without odometry it counts as refuted. */
  readonly verdicts: OdometryVerdicts;
  /** Odometry stood still since this time, and has made up for it since the last insertion: it knows the motion. */
  readonly caughtUpFromS: number | undefined;
  /** Whether no point of the scan is in range: its pose is that of odometry. */
  readonly isBlind: boolean;
  /** The filtered points in the robot's upright frame: x, y, … */
  readonly points: Float64Array;
  /** The inserted scan; undefined if the motion filter left it out. */
  readonly insertion: Insertion | undefined;
}

export interface Insertion {
  readonly submaps: readonly Submap[];
  readonly gravityAlignment: QuaternionTuple;
}

/** A scan in the robot's upright frame: x, y, … */
interface ScanPoints {
  readonly seen: Float64Array;
  readonly returns: Float64Array;
  /** Few points, for matching. */
  readonly points: Float64Array;
}

interface Found {
  readonly pose: Pose2d;
  readonly score: number;
  readonly leastConstrained?: LeastConstrained;
  /** The pose before it was weighed against odometry, and whether its points constrain it in every direction. */
  readonly matched?: Pose2d;
  readonly knowsTranslation?: boolean;
  /** On odometry, if the pose follows it. */
  readonly verdicts?: OdometryVerdicts;
}

/** A scan in the robot's upright frame: x, y, … */
interface UprightScan {
  readonly returns: Float64Array;
  readonly misses: Float64Array;
  /** The returns before filtering. */
  readonly all: Float64Array;
  /** The returns, and those that are too far for the map but still show how the robot moves. */
  readonly seen: Float64Array;
}

export class LocalMapper {
  readonly #extrapolator: Extrapolator;
  readonly #filter = new VoxelFilter();
  readonly #correlative = new CorrelativeMatcher();
  readonly #refiner = new ScanRefiner();
  readonly #laser = new LaserOdometry();
  readonly #trust = new OdometryTrust();
  readonly #fusion = new OdometryFusion();
  readonly #proof: OdometryProof;
  /** Scans whose odometry has not arrived. */
  #unproven: MatchedScan[] = [];
  readonly #shape = new ScanMotion();
  readonly #standstill = new Standstill();
  /** The pose by the latest scan that was compared with the one before a standstill. */
  #lastSeen: { readonly timeS: number; readonly pose: Pose2d } | undefined;
  readonly #submaps: ActiveSubmaps;
  #lastInserted: { readonly timeS: number; readonly pose: Pose2d } | undefined;
  #worst = PROVEN;
  /** Odometry stood still since this time, and has made up for it since the last inserted scan. */
  #caughtUpFromS: number | undefined;
  #usualScore = 0.5;
  #last: { readonly timeS: number; readonly pose: Pose2d } | undefined;

  constructor(private readonly options: MapperOptions, beliefs?: OdometryBeliefs) {
    this.#extrapolator = new Extrapolator(beliefs);
    this.#proof = new OdometryProof(beliefs?.verdicts);
    this.#submaps = new ActiveSubmaps(options.scansPerSubmap);
  }

  addOdometry(reading: OdometryReading): void {
    this.#extrapolator.addOdometry(reading);
  }

  addImu(reading: ImuReading): void {
    this.#extrapolator.addImu(reading);
  }

  /** Why odometry is ignored at present; undefined if it counts. */
  get odometryDoubt(): string | undefined {
    return this.#trust.reason;
  }

  /** What the scans have shown about odometry so far. */
  get odometryBeliefs(): OdometryBeliefs {
    return { ...this.#extrapolator.odometryBeliefs, verdicts: this.#proof.verdicts };
  }

  /** The robot's pose at a time after the last scan. */
  predict(timeS: number): Pose2d {
    return this.#extrapolator.predict(timeS);
  }

  /** Ends the active submaps, because the robot may have been moved. The next scan begins new ones. */
  restart(): void {
    this.#submaps.end();
    this.#lastInserted = undefined;
  }

  /** Continues at another time, at the pose of the last scan. */
  moveTime(timeS: number): void {
    if (!this.#last) return;
    this.#last = { ...this.#last, timeS };
    this.#standstill.restart();
    if (this.#lastInserted) this.#lastInserted = { ...this.#lastInserted, timeS };
    this.#extrapolator.reset(timeS, this.#last.pose);
  }

  /**
   * Undefined if no point of the scan is in range and there is no odometry, or its pose is not finite. `isNode`: whether
   * the scan goes into the submaps; undefined: if the robot has moved.
   */
  addScan(scan: RangeScan, isNode?: boolean): LocalResult | undefined {
    const { timeS, origin = IDENTITY_2D } = scan;
    const stoodSinceS = this.#extrapolator.takeCaughtUp(timeS);
    let prediction = this.#extrapolator.predict(timeS);
    const gravityAlignment = this.#extrapolator.gravityAlignment() ?? LEVEL;
    const { returns, misses, all, seen } = this.#upright(scan, prediction, gravityAlignment);
    if (stoodSinceS !== undefined) {
      const byOdometry = this.#caughtUp(seen, stoodSinceS, timeS);
      prediction = byOdometry ?? this.#extrapolator.predict(timeS);
      if (byOdometry) this.#caughtUpFromS = this.#standstill.before?.timeS;
    }
    if (returns.length === 0) return this.#goOn(timeS, prediction);
    const points = this.#filter.adaptive(returns, ADAPTIVE_EDGE_M, ADAPTIVE_POINTS);
    const found = this.#match({ points, returns, seen }, prediction, timeS);
    const { pose, score, leastConstrained, matched = pose, knowsTranslation = false } = found;
    // A ray from a pose that is not finite would never end.
    if (!Number.isFinite(pose.x + pose.y + pose.yaw)) return undefined;
    this.#extrapolator.addPose(timeS, pose, prediction, this.#fusion.left);
    const { delayS } = this.#extrapolator.odometryBeliefs;
    this.#extrapolator.learnDelay({ seen, timeS, pose: matched, knowsTranslation });
    if (isOtherDelay(delayS, this.#extrapolator.odometryBeliefs.delayS)) this.#proof.reset();
    this.#last = { timeS, pose };
    this.#worst = worseOf(this.#worst, found.verdicts ?? REFUTED);
    this.#noteStandstill({ seen, timeS, pose });
    const result = {
      timeS,
      pose,
      score,
      leastConstrained,
      verdicts: this.#worst,
      caughtUpFromS: this.#caughtUpFromS,
      isBlind: false,
      points,
    };
    // Frozen odometry held the robot back when the nodes were chosen.
    const isOpen = isNode === undefined || (!isNode && this.#extrapolator.isOdometryKnownFrozen);
    if (!(isOpen ? this.#isDue(timeS, pose) : isNode)) return { ...result, insertion: undefined };
    this.#lastInserted = { timeS, pose };
    this.#worst = PROVEN;
    this.#caughtUpFromS = undefined;
    this.#laser.begin(seen, pose);
    this.#prove({ seen, timeS, pose, matched });
    const submaps = this.#submaps.insert(pose, {
      returns: pointsAt(returns, pose),
      misses: pointsAt(misses, pose),
      surface: pointsAt(surfaceBetween(all, origin), pose),
      origin: compose2d(pose, { ...origin, yaw: 0 }),
    });
    return { ...result, insertion: { submaps, gravityAlignment } };
  }

  /** Follows odometry where a scan shows nothing in range. */
  #goOn(timeS: number, pose: Pose2d): LocalResult | undefined {
    const last = this.#last;
    if (!last || !this.#extrapolator.odometryBetween(last.timeS, timeS)) return undefined;
    const { verdicts } = this.#proof, scanCount = 0;
    this.#fusion.goOn({ last: last.pose, predicted: pose, verdicts, scanCount, sinceS: timeS - last.timeS });
    this.#extrapolator.addPose(timeS, pose, pose, this.#fusion.left);
    this.#last = { timeS, pose };
    this.#worst = worseOf(this.#worst, verdicts);
    return {
      timeS,
      pose,
      score: this.#usualScore,
      leastConstrained: undefined,
      verdicts: this.#worst,
      caughtUpFromS: this.#caughtUpFromS,
      isBlind: true,
      points: new Float64Array(),
      insertion: undefined,
    };
  }

  /**
   * Compares odometry with scans once it is known for them. Odometry that has not changed for a while may be frozen:
   * that is found out in another way, and says nothing about odometry that changes.
   */
  #prove(scan: MatchedScan): void {
    const standstill = this.#extrapolator.standstill(scan.timeS);
    if (standstill && this.#trust.mayHang(standstill.lastedS)) {
      const { x, y, yaw } = between2d(standstill.pose, scan.pose);
      if (Math.hypot(x, y) < STANDING_M && Math.abs(yaw) < STANDING_RAD) return;
      this.#proof.restart();
      this.#unproven = [];
      return;
    }
    this.#unproven.push(scan);
    if (this.#unproven.length > UNPROVEN_MAX) this.#unproven.shift();
    const extrapolator = this.#extrapolator, odometryScale = extrapolator.odometryBeliefs.scale;
    const unproven = this.#unproven;
    for (let [next] = unproven; next && extrapolator.hasOdometryOf(next.timeS); [next] = unproven) {
      unproven.shift();
      this.#proof.add(
        next,
        (fromS, toS) => extrapolator.odometryBetween(fromS, toS),
        odometryScale,
        extrapolator.odometryDelayDeviationS,
      );
    }
    const scale = this.#proof.scaleAfter(odometryScale);
    if (isSameScale(scale, odometryScale)) return;
    extrapolator.rescaleOdometry(scale);
    if (isOtherScale(scale, odometryScale)) this.#proof.resetVerdicts();
  }

  #match(scan: ScanPoints, prediction: Pose2d, timeS: number): Found {
    const { points, returns, seen } = scan;
    const submap = this.#submaps.matched;
    if (!submap || !this.#last) {
      this.#fusion.begin();
      return { pose: prediction, score: 1 };
    }
    const last = this.#last.pose, dt = timeS - this.#last.timeS;
    const hasOdometry = this.#extrapolator.odometryBetween(this.#last.timeS, timeS) !== undefined;
    let best = hasOdometry ? this.#matchByOdometry(submap, scan, prediction, timeS, dt) : undefined;
    let predictions: Predictions | undefined;
    if (!best || this.#isContradicted(scan, prediction, best, timeS)) {
      const seenPose = best && this.#leftBehind(best, timeS);
      if (seenPose) return { pose: seenPose, score: best!.score };
      predictions = this.#laser.predictions(seen, last, prediction);
      best = this.#matchByScans(submap, points, predictions, dt);
      const onward = this.#onwardInstead(best.pose, timeS);
      // Where the scans were mapped by the motion of others, a new submap begins.
      if (onward && !this.#submaps.matched) return { pose: onward, score: best.score };
      if (onward) {
        const { leastConstrained } = predictions;
        const along = leastConstrained && { ...leastConstrained, weight: DEGENERATE_WEIGHT };
        best = this.#refined(submap, points, onward, onward, { ...WEIGHTS, along });
      }
      this.#fusion.reset(this.#proof.verdicts);
    } else {
      // A thing that stands where it is expected is no person who walks.
      const { x, y } = best.pose, isAsExpected = Math.hypot(x - prediction.x, y - prediction.y) < EXPECTED_M;
      const information = this.#informationOf(submap, returns, best.pose, isAsExpected),
        { scanCount } = submap;
      const isStanding = this.#mayHang(timeS), proven = this.#proof.verdicts;
      const verdicts = isStanding && !isRight(proven) ? REFUTED : proven;
      const predicted = { last, predicted: prediction, verdicts, scanCount, sinceS: dt, isStanding };
      best = {
        ...best,
        verdicts,
        matched: best.pose,
        knowsTranslation: translationPoints(information) >= KNOWN_POINTS,
        pose: this.#fusion.fuse(predicted, best.pose, information),
      };
    }
    this.#laser.learn(last, prediction, best.pose);
    const off = best.score - this.#usualScore;
    this.#usualScore += (off < 0 && !hasOdometry ? SCORE_SHARE_DOWN : SCORE_SHARE) * off;
    return { ...best, leastConstrained: predictions?.leastConstrained };
  }

  /** The information of a scan about its pose in a submap, from its points on walls. */
  #informationOf(
    { grid }: Submap,
    returns: Float64Array,
    { x, y, yaw }: Pose2d,
    isSure: boolean,
  ): Symmetric {
    const cos = Math.cos(yaw), sin = Math.sin(yaw);
    this.#shape.begin(thinned(returns, SHAPE_POINTS));
    return this.#shape.informationOf(
      yaw,
      isSure,
      (px, py) => grid.isWall(x + cos * px - sin * py, y + sin * px + cos * py),
    );
  }

  /** Whether odometry has not changed for a while, so that it may be frozen, and matches count, too. */
  #mayHang(timeS: number): boolean {
    return this.#trust.mayHang(this.#extrapolator.standstill(timeS)?.lastedS ?? 0);
  }

  /** Keeps the last scan before odometry freezes. */
  #noteStandstill(scan: StandingScan): void {
    if (this.#extrapolator.standstill(scan.timeS)?.lastedS !== 0) return;
    this.#standstill.begin(scan);
    this.#lastSeen = undefined;
  }

  /**
   * The pose if odometry catches up after a standstill: its motion since the scan before; undefined if the scans refute
   * it. Scans mapped meanwhile may be in the wrong place.
   */
  #caughtUp(seen: Float64Array, sinceS: number, timeS: number): Pose2d | undefined {
    this.#standstill.goBack(sinceS);
    const { before } = this.#standstill;
    const moved = before && this.#extrapolator.odometryBetween(before.timeS, timeS);
    const byOdometry = moved && compose2d(before.pose, moved), byScans = this.#last?.pose;
    const isRefuted = byOdometry && byScans && this.#standstill.refutes(seen, byOdometry, byScans);
    if (!byOdometry || !byScans || isRefuted) {
      this.#extrapolator.forgetOdometry(isRefuted ? byScans : undefined);
      return undefined;
    }
    this.restart();
    this.#proof.restart();
    this.#unproven = [];
    return byOdometry;
  }

  /** The pose if the robot goes on as it has since the standstill, by the scans. */
  #seenOnward(timeS: number): Pose2d | undefined {
    const { before } = this.#standstill, seen = this.#lastSeen;
    if (!before || !seen || !(seen.timeS > before.timeS)) return undefined;
    return interpolate2d(before.pose, seen.pose, (timeS - before.timeS) / (seen.timeS - before.timeS));
  }

  /** Whether odometry is frozen although the scans move. */
  #isHanging(seen: Float64Array, best: Found, timeS: number): boolean {
    const standstill = this.#extrapolator.standstill(timeS);
    const isHanging = this.#extrapolator.isOdometryKnownFrozen ||
      this.#trust.isHanging(standstill?.lastedS ?? 0, () => {
        const { before } = this.#standstill;
        const guesses = [
          best.pose,
          before && this.#extrapolator.onward(before, timeS),
          this.#seenOnward(timeS),
        ];
        const pose = standstill &&
          this.#standstill.seenAt(
            seen,
            standstill.pose,
            guesses.filter((one) => !!one),
            !this.#extrapolator.hasBraked(),
          );
        if (pose !== "elsewhere") this.#lastSeen = pose && { timeS, pose };
        // People who stood in the view of a robot that stops, and walk on, show what is behind them.
        else if (this.#extrapolator.hasBraked()) return undefined;
        return pose;
      });
    if (isHanging) {
      this.#extrapolator.markHanging();
      this.#proof.restart();
      this.#unproven = [];
    }
    return isHanging;
  }

  /**
   * Odometry turns out to be frozen, and the matches have followed it: the pose from the scans, if it is elsewhere.
   * Scans mapped meanwhile may be in the wrong place.
   */
  #leftBehind({ pose }: Found, timeS: number): Pose2d | undefined {
    const seen = this.#seenOnward(timeS), { before } = this.#standstill;
    this.#lastSeen = undefined;
    if (!seen || !before) return undefined;
    const { x, y, yaw } = between2d(pose, seen);
    if (Math.hypot(x, y) < LEFT_BEHIND_M && Math.abs(yaw) < LEFT_BEHIND_RAD) return undefined;
    this.#extrapolator.forgetPosesAfter(before.timeS);
    this.restart();
    return seen;
  }

  /** The pose if the robot goes on as before odometry froze, but turns as the scans do, if these have gone too fast. */
  #onwardInstead(pose: Pose2d, timeS: number): Pose2d | undefined {
    const { before } = this.#standstill, mps = this.#extrapolator.hangingMps;
    const onward = before && mps !== undefined && this.#extrapolator.onward(before, timeS);
    if (!onward) return undefined;
    if (this.#standstill.notePose(pose, timeS, mps)) {
      this.#extrapolator.forgetPosesAfter(before.timeS);
      this.restart();
    }
    return this.#standstill.isTooFast ? { ...onward, yaw: pose.yaw } : undefined;
  }

  /** Whether the scan contradicts the pose by odometry. */
  #isContradicted({ seen }: ScanPoints, prediction: Pose2d, best: Found, timeS: number): boolean {
    if (this.#isHanging(seen, best, timeS)) return true;
    const isPoor = best.score < this.#usualScore - SEARCH_DROP;
    const key = this.#lastInserted, last = this.#last;
    const byOdometry = key && this.#extrapolator.odometryBetween(key.timeS, timeS);
    if (!byOdometry || !last || !this.#trust.isDue(isPoor)) {
      return this.#trust.isDoubted;
    }
    const byScans = this.#laser.clearMotion(seen, [best.pose, prediction, last.pose]);
    const fitsMore = byScans ? this.#laser.fitsMore(seen, byScans, byOdometry) : 0;
    const off = byScans && between2d(byOdometry, byScans);
    if (off && (Math.hypot(off.x, off.y) < CONTRADICTED_M || fitsMore > FITS_MORE)) {
      this.#trust.compare(byOdometry, byScans, fitsMore);
    } else this.#trust.noteUnclear();
    // People who walk through the view may contradict odometry that fits.
    return this.#trust.isDoubted || (byScans !== undefined && isPoor && this.#trust.isContradicting);
  }

  /**
   * Refines the prediction, which is usually enough. After a longer time, tries the pose from the last scan as well. If
   * the points fit worse than usual, tries other predictions, and finally searches around them.
   */
  #matchByOdometry(submap: Submap, scan: ScanPoints, prediction: Pose2d, timeS: number, dt: number): Found {
    const { points, seen } = scan;
    const window = windowFor(dt), isSparse = dt > SPARSE_S;
    const turnMax = isSparse ? window.angularRad : Infinity;
    let best = this.#refined(submap, points, prediction, prediction);
    const isNearer = (found: Found, least: number, gain: number) => {
      const turn = turnBetween(found, best);
      return turn <= turnMax && isBetter(found, best, least + (isSparse ? GAIN_A_RADIAN * turn : 0), gain);
    };
    if (isSparse) {
      const start = this.#laser.poseFrom(seen, best.pose);
      const found = start && this.#refined(submap, points, start, start);
      if (found && isNearer(found, 0, GAIN_BY_SCAN_A_METRE)) best = found;
    }
    if (best.score >= this.#usualScore) return best;
    const { poses, isLate } = this.#extrapolator.alternatives(timeS);
    const gain = isLate ? GAIN_LATE_A_METRE : GAIN_A_METRE;
    for (const other of poses) {
      const found = this.#refined(submap, points, other, other);
      if (isNearer(found, 0, gain)) best = found;
    }
    if (best.score >= this.#usualScore - SEARCH_DROP) return best;
    const start = this.#correlative.match(submap.grid, thinned(points, SEARCH_POINTS), best.pose, window);
    const found = this.#refined(submap, points, start, { x: best.pose.x, y: best.pose.y, yaw: start.yaw });
    if (!isNearer(found, SEARCH_GAIN, gain)) return best;
    const isSure = turnBetween(found, best) <= SURE_TURN_RAD ||
      this.#laser.confirms(seen, found.pose, best.pose);
    return isSure ? found : best;
  }

  /** The same for the less certain predictions without odometry; the last resort is a wide search. */
  #matchByScans(
    submap: Submap,
    points: Float64Array,
    { poses, leastConstrained }: Predictions,
    dt: number,
  ): Found {
    const gain = GAIN_A_METRE * Math.min(1, (GAIN_TIME_S / dt) ** 2);
    const along = leastConstrained &&
      {
        ...leastConstrained,
        weight: DEGENERATE_WEIGHT / (1 + (leastConstrained.points / DEGENERATE_POINTS) ** 2),
      };
    const [likeliest, ...others] = poses;
    let best = this.#refined(submap, points, likeliest, likeliest, { ...WEIGHTS, along });
    for (const other of others) {
      if (best.score >= this.#usualScore) return best;
      const found = this.#refined(submap, points, other, other);
      if (isBetter(found, best, SEARCH_GAIN, gain)) best = found;
    }
    if (best.score >= this.#usualScore - SEARCH_DROP) return best;
    best = this.#searched(submap, points, best, freeWindowFor(dt), gain);
    if (best.score >= DISTORTED_SCORE || leastConstrained) return best;
    return this.#searched(submap, points, best, farWindowFor(dt), gain);
  }

  /** The best pose in a window around another, if it fits better. */
  #searched(
    submap: Submap,
    points: Float64Array,
    best: Found,
    window: CorrelativeWindow,
    gain: number,
  ): Found {
    const start = this.#correlative.match(submap.grid, thinned(points, FREE_POINTS), best.pose, window);
    const found = this.#refined(submap, points, start, start);
    return isBetter(found, best, SEARCH_GAIN, gain) ? found : best;
  }

  #refined(
    { grid }: Submap,
    points: Float64Array,
    start: Pose2d,
    expected: Pose2d,
    weights: RefinementWeights = WEIGHTS,
  ): Refinement {
    return this.#refiner.refine(grid, points, start, expected, weights);
  }

  /** Whether a scan goes into the submaps. */
  #isDue(timeS: number, pose: Pose2d): boolean {
    const last = this.#lastInserted;
    // The first scan of a submap must be in the right place.
    if (!last) return !this.#extrapolator.isGuessAt(timeS);
    const moved = between2d(last.pose, pose);
    return timeS - last.timeS > MOTION_TIME_S || Math.hypot(moved.x, moved.y) > MOTION_DISTANCE_M ||
      Math.abs(moved.yaw) > MOTION_ANGLE_RAD;
  }

  /** Moves each point to where it was seen from the pose at the scan's end, sorts by range, and filters. */
  #upright(scan: RangeScan, pose: Pose2d, alignment: QuaternionTuple): UprightScan {
    const { timeS, points, offsetsS, origin = IDENTITY_2D } = scan;
    const count = Math.floor(points.length / 3);
    const returns = new Float64Array(2 * count), misses = new Float64Array(2 * count);
    const { minRangeM, maxRangeM, missingDataRayLengthM } = this.options;
    const far = new Float64Array(2 * count), farthestM = farthestOf(points, origin) - NO_RETURN_M;
    let returned = 0, missed = 0, farther = 0;
    let offsetS = 0, seenFrom: Pose2d | undefined;
    for (let k = 0; k < count; k++) {
      const rx = singleAt(points, 3 * k) - origin.x, ry = singleAt(points, 3 * k + 1) - origin.y;
      const rz = singleAt(points, 3 * k + 2), range = Math.hypot(rx, ry, rz);
      if (!(range >= minRangeM && range < Infinity)) continue;
      const isMiss = range > maxRangeM;
      const share = isMiss ? missingDataRayLengthM / range : 1;
      let x = origin.x + share * rx, y = origin.y + share * ry, z = share * rz;
      if (alignment !== LEVEL) [x, y, z] = rotatePoint(alignment, x, y, z);
      if (z < MIN_Z_M || z > MAX_Z_M) continue;
      if (offsetsS) {
        const ownS = singleAt(offsetsS, k);
        if (!seenFrom || ownS !== offsetS) {
          offsetS = ownS;
          seenFrom = between2d(pose, this.#extrapolator.predict(timeS + offsetS));
        }
        ({ x, y } = compose2d(seenFrom, { x, y, yaw: 0 }));
      }
      const into = isMiss ? misses : returns, at = 2 * (isMiss ? missed++ : returned++);
      into[at] = x;
      into[at + 1] = y;
      if (!isMiss || !(range < farthestM)) continue;
      const from = seenFrom ? compose2d(seenFrom, { ...origin, yaw: 0 }) : origin;
      far[farther++] = from.x + (x - from.x) / share;
      far[farther++] = from.y + (y - from.y) / share;
    }
    const near = this.#filter.filter(returns.subarray(0, 2 * returned), VOXEL_M);
    return {
      returns: near,
      seen: farther > 0 ? joinedPoints(near, far.subarray(0, farther)) : near,
      misses: this.#filter.filter(misses.subarray(0, 2 * missed), VOXEL_M),
      all: returns.subarray(0, 2 * returned),
    };
  }
}

/** The greatest range of the points; infinite ones do not count. */
function farthestOf(points: Float32Array, { x, y }: { readonly x: number; readonly y: number }): number {
  let square = 0;
  for (let k = 0; k + 2 < points.length; k += 3) {
    const one = (singleAt(points, k) - x) ** 2 + (singleAt(points, k + 1) - y) ** 2 +
      singleAt(points, k + 2) ** 2;
    if (one > square && one < Infinity) square = one;
  }
  return Math.sqrt(square);
}

/** Whether a pose fits better by `least` plus `gain` for each metre of its distance. */
function isBetter(found: Found, best: Found, least: number, gain: number): boolean {
  const away = Math.hypot(found.pose.x - best.pose.x, found.pose.y - best.pose.y);
  return found.score > best.score + least + gain * away;
}

function turnBetween(a: Found, b: Found): number {
  return Math.abs(wrapAngle(a.pose.yaw - b.pose.yaw));
}

/** Search window for a change of speed. */
function windowFor(dt: number): CorrelativeWindow {
  return {
    linearM: Math.min(0.6, 0.3 + 0.5 * dt),
    angularRad: Math.min(40, 20 + 40 * dt) * DEGREE,
    angularStepRad: SEARCH_STEP_RAD,
    ...SEARCH_WEIGHTS,
  };
}

/** Search window for a wrong motion between scans. */
function freeWindowFor(dt: number): CorrelativeWindow {
  return {
    linearM: Math.min(1.2, 0.5 + 0.7 * dt),
    angularRad: Math.min(60, 20 + 60 * dt) * DEGREE,
    angularStepRad: FREE_STEP_RAD,
    ...SEARCH_WEIGHTS,
  };
}

/** Search window for a scan that does not overlap with the last one. */
function farWindowFor(dt: number): CorrelativeWindow {
  return {
    linearM: 1.2,
    angularRad: Math.min(Math.PI, 1.8 + dt),
    angularStepRad: FREE_STEP_RAD,
    ...SEARCH_WEIGHTS,
  };
}
