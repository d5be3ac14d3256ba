/**
 * Finds the motion since odometry stopped changing from scans. It compares each scan with the last one before the
 * standstill, so that errors do not add up, as they do in matches with submaps that grow from wrong poses.
 */

import { between2d, compose2d, type Pose2d } from "../../pose2d.ts";
import { ScanMotion, type ScanMotionResult } from "../scan_motion.ts";

/**
 * Share of points on lines, and points across each direction, that suffice to distinguish a moving robot from a
 * standing one.
 */
const MOVING_SHARE = 0.45;
const MOVING_POINTS = 8;
/** Fewer points suffice if nearly all of the scan fits, and most of it not where a standing robot would see it. */
const EVIDENT = { share: 0.8, gain: 0.4, points: 2 };
/** Still less is evident if odometry stopped at full speed; most of the scan suffices if a standing robot saw none of it. */
const EVIDENT_SUDDEN = { share: 0.6, gain: 0.12, points: 2 };
/** If odometry stopped at full speed, a scan that fits elsewhere by this much more shows a motion, but not how far it went. */
const ELSEWHERE_GAIN = 0.3;
/** A robot that stands sees more than this share of what it saw, or people who hide it, and no more than this behind. */
const STANDING_SHARE = 0.15;
const BEHIND_SHARE = 0.15;
/** The share must exceed that of a standing robot by this much. */
const MOVING_GAIN = 0.05;
/** Below this share, two scans cannot be compared. */
const SHARE_LEAST = 0.3;
/**
 * A comparison confirms the motion with which it started if its result is this close to it: metres, a share, radians.
 */
const AGREEING_M = 0.15;
const AGREEING_SHARE = 0.1;
const AGREEING_RAD = 0.1;
/**
 * Several scans are kept, because odometry between two readings is guessed, and may seem to change when it does not.
 */
const SCANS_KEPT = 5;
/** A robot whose odometry is frozen drives up to this much faster than ever before, and matches err by so many metres. */
const FASTER = 1.25;
const FASTER_M = 0.2;
/** Two motions are equally likely if their shares of fitting points differ by no more than this. */
const ALIKE_SHARE = 0.05;

/** A scan, and its pose among the latest scans. */
export interface StandingScan {
  readonly seen: Float64Array;
  readonly timeS: number;
  readonly pose: Pose2d;
}

/** `isElsewhere`: the scans show clearly that the robot is not where odometry stands. */
export interface SeenPose extends Pose2d {
  readonly isElsewhere?: boolean;
}

export class Standstill {
  readonly #motion = new ScanMotion();
  /** The latest scans at which odometry had changed. */
  #scans: StandingScan[] = [];
  #isBegun = false;
  #isTooFast = false;

  /** The last scan but one at which odometry changed: odometry may have frozen between the two. */
  get before(): StandingScan | undefined {
    return this.#scans.at(-2);
  }

  /** Adds a scan at which odometry has changed. */
  begin(scan: StandingScan): void {
    this.#scans.push(scan);
    if (this.#scans.length > SCANS_KEPT) this.#scans.shift();
    this.#isBegun = false;
    this.#isTooFast = false;
  }

  /** Odometry turns out to be frozen since a time: later scans are compared with the scan before it. */
  goBack(timeS: number): void {
    const isLater = () => this.before !== undefined && this.before.timeS > timeS;
    while (this.#scans.length > 2 && isLater()) this.#scans.pop();
    this.#isBegun = false;
  }

  /** Drops all scans, because the motion since is unknown. */
  restart(): void {
    this.#scans = [];
    this.#isTooFast = false;
  }

  /**
   * The robot's pose from the scans, while odometry reports `standing`; `elsewhere` if they show only that it is not
   * there, and undefined if they do not show that either.
   */
  seenAt(
    seen: Float64Array,
    standing: Pose2d,
    others: readonly Pose2d[],
    isSudden = false,
  ): SeenPose | "elsewhere" | undefined {
    const still = this.#compared(seen, standing), { before } = this;
    if (!before || !still) return undefined;
    const atStanding = between2d(before.pose, standing);
    const shareStanding = this.#motion.shareAt(seen, atStanding);
    const evident = isSudden ? EVIDENT_SUDDEN : EVIDENT;
    const isClear = ({ share, leastConstrained: { points } }: ScanMotionResult) =>
      (share >= MOVING_SHARE && points >= MOVING_POINTS) ||
      (share >= evident.share && share - shareStanding >= evident.gain && points >= evident.points) ||
      (isSudden && share >= EVIDENT.share && shareStanding < STANDING_SHARE);
    let best = still;
    for (const other of others) {
      const found = this.#compared(seen, other);
      if (found && found.share > best.share + MOVING_GAIN) best = found;
    }
    const isElsewhere = isSudden && best.share >= evident.share &&
      best.share - shareStanding >= ELSEWHERE_GAIN;
    if (!isClear(best)) {
      const isGone = shareStanding < STANDING_SHARE &&
        this.#motion.shareBehind(seen, atStanding) > BEHIND_SHARE;
      return isElsewhere || isGone ? "elsewhere" : undefined;
    }
    if (best.share <= shareStanding + MOVING_GAIN) return standing;
    return { ...compose2d(before.pose, best.pose), isElsewhere };
  }

  /**
   * Whether the scans have put the robot, since odometry stopped, where it cannot be by a speed that is usual for it:
   * they show the motion of people who walk by.
   */
  get isTooFast(): boolean {
    return this.#isTooFast;
  }

  /** Takes a pose by scans; `fastestMps`: the greatest speed of odometry. True if they are too fast from now on. */
  notePose({ x, y }: Pose2d, timeS: number, fastestMps: number): boolean {
    const { before } = this;
    if (!before || this.#isTooFast) return false;
    const movedM = Math.hypot(x - before.pose.x, y - before.pose.y);
    this.#isTooFast = movedM > FASTER_M + FASTER * fastestMps * (timeS - before.timeS);
    return this.#isTooFast;
  }

  /** Whether the scans confirm the pose from scans rather than that from odometry. */
  refutes(seen: Float64Array, byOdometry: Pose2d, byScans: Pose2d): boolean {
    const odometry = this.#compared(seen, byOdometry), scans = this.#compared(seen, byScans);
    const { before } = this;
    if (!before || !odometry || !scans || scans.share < SHARE_LEAST) return false;
    const moved = between2d(before.pose, byOdometry), off = between2d(moved, odometry.pose);
    if (scans.leastConstrained.points < MOVING_POINTS) {
      // Along a corridor the scans do not show how far the robot drove, but they show how it turned.
      return Math.min(scans.share, odometry.share) >= MOVING_SHARE && Math.abs(off.yaw) > AGREEING_RAD;
    }
    const agrees = Math.abs(off.yaw) < AGREEING_RAD &&
      Math.hypot(off.x, off.y) < AGREEING_M + AGREEING_SHARE * Math.hypot(moved.x, moved.y);
    return !agrees || odometry.share < scans.share - ALIKE_SHARE;
  }

  #compared(seen: Float64Array, guess: Pose2d): ScanMotionResult | undefined {
    const { before } = this;
    if (!before) return undefined;
    if (!this.#isBegun) this.#motion.begin(before.seen);
    this.#isBegun = true;
    return this.#motion.match(seen, between2d(before.pose, guess));
  }
}
