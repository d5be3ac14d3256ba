/**
 * Learns the delay of odometry: the delay at which its motion agrees with that of the scans while the robot
 * accelerates, brakes or turns. A filter in a movement sensor, or a slow bus, delivers a pose that is a fraction of a
 * second old with the present time.
 */

import { between2d, type Pose2d, wrapAngle } from "../../pose2d.ts";
import { doubleAt } from "../../points.ts";
import { ScanMotion } from "../scan_motion.ts";
import { viewOf } from "./view.ts";

const STEP_S = 0.025;
const STEPS = 21;
/** The longest delay that is considered. */
const DELAY_MAX_S = STEP_S * (STEPS - 1);
/** Time between two compared scans, at least if they overlap, and between two comparisons. */
const SPAN_S = 0.8;
/** After a shorter time, scans overlap more, but show less of a slow motion: they are compared as well. */
const SHORT_SPAN_S = 0.45;
const AGAIN_S = 0.15;
/** Two scans overlap if the robot has turned by this share of the view. */
const TURN_SHARE = 0.4;
/** Noise of a motion between two scans. A motion counts if the delays predict it with larger differences than this. */
const NOISE_RAD = 0.012;
const NOISE_M = 0.02;
/** Limit of the error of one motion in variances, because a scan may be matched wrongly. */
const VARIANCES_MAX = 16;
/** A motion that differs more than this from those of all delays says nothing. */
const EXPLAINED_VARIANCES = 9;
/** A larger motion between two scans, or one after a pause, is ignored as a wrong match. */
const MOTION_MAX_RAD = 2;
const MOTION_MAX_M = 2;
const PAUSE_S = 1.2;
/** Each motion reduces the earlier errors to this share, so that a delay may change. */
const KEPT = 0.99;
/**
 * Another delay is adopted after this many motions, if it explains them better by this factor and by this many
 * variances.
 */
const MOTIONS_MIN = 6;
const BETTER_SHARE = 0.4;
const BETTER_VARIANCES = 10;
/** A smaller change is within the errors of time stamps. */
const CHANGE_STEPS = 2;
/** A delay that is known is refined between the steps, from this change on. */
const FINE_STEPS = 0.4;
/** And if it explains the motions better by so many variances. */
const FINE_VARIANCES = 1;
const PENDING_MAX = 200;
/**
 * The two scans are compared directly, because a map that grew with late odometry confirms it. They show a motion if
 * this share of the points fits, and its length with this many points across each direction.
 */
const SHARE_MIN = 0.5;
const KNOWN_POINTS = 6;

/** The pose by odometry at a time of its readings; undefined if there is none near it. */
export type ReadingAt = (timeS: number) => Pose2d | undefined;

/** A scan and its pose from the match alone, and whether the match shows how far the robot drove. */
export interface ScanPose {
  readonly seen: Float64Array;
  readonly timeS: number;
  readonly pose: Pose2d;
  readonly knowsTranslation: boolean;
}

export class OdometryDelay {
  /** For each delay, the sum of the squared differences of motions, in variances. */
  readonly #errors = new Float64Array(STEPS);
  readonly #motion = new ScanMotion();
  #motions = 0;
  /** The present delay, in steps. */
  #at: number;
  /** The latest scans, until one is so old that the next is compared with it. */
  #scans: ScanPose[] = [];
  #comparedS = -Infinity;
  /** A scan to compare with the first of those before it that show the same. */
  #pending: { readonly before: readonly ScanPose[]; readonly to: ScanPose }[] = [];

  constructor(delayS = 0) {
    this.#at = delayS / STEP_S;
  }

  get delayS(): number {
    return this.#at * STEP_S;
  }

  /** The standard deviation of the delay: it is one of several steps. Without a delay, odometry has its own times. */
  get deviationS(): number {
    return this.#at === 0 ? 0 : STEP_S;
  }

  /** Forgets the last scan, because the time has jumped. */
  restart(): void {
    this.#scans = [];
    this.#comparedS = -Infinity;
    this.#pending = [];
  }

  /** Takes a scan; `readyS` is the time of the latest odometry. True if the delay changes. */
  add(scan: ScanPose, readyS: number, readingAt: ReadingAt): boolean {
    const { timeS } = scan, last = this.#scans.at(-1);
    if (last && !(timeS > last.timeS && timeS - last.timeS < PAUSE_S)) this.#scans = [];
    const newest = this.#scans.findLastIndex((one) => timeS - one.timeS >= SPAN_S);
    if (newest > 0) this.#scans.splice(0, newest);
    const before = this.#scans.slice();
    this.#scans.push(scan);
    if (before.length > 0 && timeS - this.#comparedS >= AGAIN_S) {
      this.#comparedS = timeS;
      this.#pending.push({ before, to: scan });
      if (this.#pending.length > PENDING_MAX) this.#pending.shift();
    }
    const pending = this.#pending;
    for (let [next] = pending; next && next.to.timeS + DELAY_MAX_S <= readyS; [next] = pending) {
      pending.shift();
      const { before, to } = next, first = firstOverlapping(before, to, readingAt);
      const later = before.findLast(({ timeS }) => to.timeS - timeS >= SHORT_SPAN_S);
      if (first) this.#compare(first, to, readingAt);
      if (first && later && later.timeS > first.timeS) this.#compare(later, to, readingAt);
    }
    return this.#choose();
  }

  #compare(from: ScanPose, to: ScanPose, readingAt: ReadingAt): void {
    const motions: Pose2d[] = [];
    for (let k = 0; k < STEPS; k++) {
      const before = readingAt(from.timeS + k * STEP_S), after = readingAt(to.timeS + k * STEP_S);
      if (!before || !after) return;
      motions.push(between2d(before, after));
    }
    if (motions.some(({ yaw }) => Math.abs(yaw) > MOTION_MAX_RAD)) return;
    if (motions.some(({ x, y }) => Math.hypot(x, y) > MOTION_MAX_M)) return;
    const tellsTurn = spreadOf(motions.map(({ yaw }) => yaw)) > NOISE_RAD;
    const mayTellLength = spreadOf(motions.map(({ x, y }) => Math.hypot(x, y))) > NOISE_M;
    if (!tellsTurn && !mayTellLength) return;
    const { seen, knowsTranslation } = this.#seenBetween(from, to);
    if (Math.abs(seen.yaw) > MOTION_MAX_RAD || Math.hypot(seen.x, seen.y) > MOTION_MAX_M) return;
    const tellsLength = knowsTranslation && mayTellLength;
    if (!tellsTurn && !tellsLength) return;
    const lengthM = Math.hypot(seen.x, seen.y);
    const errors = motions.map(({ x, y, yaw }) => {
      const turnOff = tellsTurn ? wrapAngle(seen.yaw - yaw) / NOISE_RAD : 0;
      const lengthOff = tellsLength ? (lengthM - Math.hypot(x, y)) / NOISE_M : 0;
      return Math.min(VARIANCES_MAX, turnOff ** 2) + Math.min(VARIANCES_MAX, lengthOff ** 2);
    });
    // No delay explains it: the scans were matched wrongly.
    if (Math.min(...errors) > EXPLAINED_VARIANCES) return;
    errors.forEach((one, k) => this.#errors[k] = KEPT * doubleAt(this.#errors, k) + one);
    this.#motions++;
  }

  /** The motion that the two scans show; that of their matches if they hardly overlap. */
  #seenBetween(from: ScanPose, to: ScanPose): { readonly seen: Pose2d; readonly knowsTranslation: boolean } {
    const matched = between2d(from.pose, to.pose);
    this.#motion.begin(from.seen);
    const { pose, share, leastConstrained } = this.#motion.match(to.seen, matched);
    if (share >= SHARE_MIN) return { seen: pose, knowsTranslation: leastConstrained.points >= KNOWN_POINTS };
    return { seen: matched, knowsTranslation: from.knowsTranslation && to.knowsTranslation };
  }

  #choose(): boolean {
    if (this.#motions < MOTIONS_MIN) return false;
    let best = 0;
    for (let k = 1; k < STEPS; k++) if (doubleAt(this.#errors, k) < doubleAt(this.#errors, best)) best = k;
    // Longer delays would explain the motions still better: something else is wrong with odometry.
    if (best === STEPS - 1) return false;
    const { finest, curvature } = this.#refined(best);
    if (Math.abs(best - this.#at) < CHANGE_STEPS) {
      const change = finest - this.#at;
      if (this.#at === 0 || Math.abs(change) < FINE_STEPS || curvature * change ** 2 < FINE_VARIANCES) {
        return false;
      }
    } else {
      const present = doubleAt(this.#errors, Math.round(this.#at)), least = doubleAt(this.#errors, best);
      if (least > BETTER_SHARE * present || present - least < BETTER_VARIANCES) return false;
    }
    this.#at = finest;
    return true;
  }

  /** The least error by a parabola through that of the best step and those beside it. */
  #refined(best: number): { readonly finest: number; readonly curvature: number } {
    if (best === 0) return { finest: 0, curvature: 0 };
    const before = doubleAt(this.#errors, best - 1), after = doubleAt(this.#errors, best + 1);
    const curvature = (before + after) / 2 - doubleAt(this.#errors, best);
    return { finest: curvature > 0 ? best + (before - after) / (4 * curvature) : best, curvature };
  }
}

/**
 * The first scan from which odometry has not turned out of the view, whatever its delay: a narrow view leaves little to
 * compare after a quick turn.
 */
function firstOverlapping(
  before: readonly ScanPose[],
  to: ScanPose,
  readingAt: ReadingAt,
): ScanPose | undefined {
  const turnMax = TURN_SHARE * viewOf(to.seen);
  const isOverlapping = (from: ScanPose) =>
    [0, DELAY_MAX_S / 2, DELAY_MAX_S].every((delayS) => {
      const first = readingAt(from.timeS + delayS), last = readingAt(to.timeS + delayS);
      return !first || !last || Math.abs(wrapAngle(last.yaw - first.yaw)) <= turnMax;
    });
  return before.find(isOverlapping) ?? before.at(-1);
}

/** Whether odometry counted for other times; less is a refinement. */
export function isOtherDelay(earlierS: number, laterS: number): boolean {
  return Math.abs(laterS - earlierS) >= STEP_S * CHANGE_STEPS;
}

function spreadOf(values: readonly number[]): number {
  return Math.max(...values) - Math.min(...values);
}
