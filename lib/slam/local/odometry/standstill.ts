/**
 * What scans say of the motion since odometry stopped changing. All of them are compared with the last scan before: the
 * errors of such comparisons do not add up, as those of matches with submaps do that grow from wrong poses.
 */

import { between2d, compose2d, type Pose2d } from "../../pose2d.ts";
import { ScanMotion, type ScanMotionResult } from "../scan_motion.ts";

/** Share of points on lines, and points across each direction, that tell a robot that moves from one that stands. */
const MOVING_SHARE = 0.45;
const MOVING_POINTS = 8;
/** By so much the share must be larger than if the robot stands. */
const MOVING_GAIN = 0.05;
/** Below this share, two scans say nothing of each other. */
const SHARE_LEAST = 0.3;
/** A comparison agrees with the motion that it began with if it ends this near to it: metres, a share, radians. */
const AGREEING_M = 0.15;
const AGREEING_SHARE = 0.1;
const AGREEING_RAD = 0.1;
/** Odometry between two readings is guessed, and may seem to change when it does not. */
const SCANS_KEPT = 5;
/** A motion may fit by this share of the points less than another and still be as likely. */
const ALIKE_SHARE = 0.05;

/** A scan, and the pose that it has among the latest. */
export interface StandingScan {
  readonly seen: Float64Array;
  readonly timeS: number;
  readonly pose: Pose2d;
}

export class Standstill {
  readonly #motion = new ScanMotion();
  /** The latest scans at which odometry had changed. */
  #scans: StandingScan[] = [];
  #isBegun = false;

  /** The scan before the last at which odometry changed: it may hang since between the two. */
  get before(): StandingScan | undefined {
    return this.#scans.at(-2);
  }

  /** Takes a scan at which odometry has changed. */
  begin(scan: StandingScan): void {
    this.#scans.push(scan);
    if (this.#scans.length > SCANS_KEPT) this.#scans.shift();
    this.#isBegun = false;
  }

  /** Odometry has stood still since a time, as is known by now: the scan before it is the one to compare with. */
  goBack(timeS: number): void {
    const isLater = () => this.before !== undefined && this.before.timeS > timeS;
    while (this.#scans.length > 2 && isLater()) this.#scans.pop();
    this.#isBegun = false;
  }

  /** Nothing is known of the motion since earlier scans. */
  restart(): void {
    this.#scans = [];
  }

  /** Where the scans see the robot, which odometry puts at `standing`; undefined if they do not tell. */
  seenAt(seen: Float64Array, standing: Pose2d, others: readonly Pose2d[]): Pose2d | undefined {
    const still = this.#compared(seen, standing), { before } = this;
    if (!before || !still) return undefined;
    const isClear = ({ share, leastConstrained }: ScanMotionResult) =>
      share >= MOVING_SHARE && leastConstrained.points >= MOVING_POINTS;
    let best = still;
    for (const other of others) {
      const found = this.#compared(seen, other);
      if (found && found.share > best.share + MOVING_GAIN) best = found;
    }
    if (!isClear(best)) return undefined;
    const shareStanding = this.#motion.shareAt(seen, between2d(before.pose, standing));
    return best.share > shareStanding + MOVING_GAIN ? compose2d(before.pose, best.pose) : standing;
  }

  /** Whether the scans say that the robot is where it has followed them to, and not where odometry puts it. */
  refutes(seen: Float64Array, byOdometry: Pose2d, byScans: Pose2d): boolean {
    const odometry = this.#compared(seen, byOdometry), scans = this.#compared(seen, byScans);
    const { before } = this;
    if (!before || !odometry || !scans || scans.share < SHARE_LEAST) return false;
    if (scans.leastConstrained.points < MOVING_POINTS) return false;
    const moved = between2d(before.pose, byOdometry), off = between2d(moved, odometry.pose);
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
