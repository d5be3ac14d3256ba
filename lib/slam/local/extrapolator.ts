/**
 * Predicts the robot's pose at a time from its earlier poses: with odometry if there is any, otherwise from its last
 * motion. With an IMU, the turn comes from the gyroscope.
 */

import type { ImuReading, OdometryReading } from "../mapping.ts";
import { between2d, compose2d, IDENTITY_2D, type Pose2d, wrapAngle } from "../pose2d.ts";
import { GravityTracker, type QuaternionTuple } from "./gravity.ts";
import { NO_BELIEFS, type ReadingBeliefs } from "./odometry/beliefs.ts";
import type { ScanPose } from "./odometry/delay.ts";
import { isSamePose, ODOMETRY_REACH_S, OdometryHistory } from "./odometry/history.ts";
import type { OdometryScale } from "./odometry/scale.ts";
import { type Matrix, times } from "./symmetric.ts";

/** Shortest span for a velocity, with and without odometry. Over shorter spans the noise of matching dominates. */
const VELOCITY_BASE_S = 0.15;
const FREE_VELOCITY_BASE_S = 0.3;
/** Longest use of the last velocity without odometry. */
const VELOCITY_KEPT_S = 0.5;
const POSES_KEPT = 16;
/** The span of the last motion of odometry that has stopped, and the longest time for which it may have gone on. */
const ONWARD_BASE_S = 0.3;
const ONWARD_MAX_S = 3;
/** A robot that has moved less than this since odometry last changed may stand still. */
export const STANDING_M = 0.1;
export const STANDING_RAD = 0.1;

interface TimedPose {
  readonly timeS: number;
  readonly pose: Pose2d;
}

/** The origin of the last pose: odometry as it was known then, and a scan. */
interface Settling {
  /** Odometry at the time of the pose, which may have been beyond the last reading. */
  readonly odometry: Pose2d;
  readonly predicted: Pose2d;
  /** The share of an error of the prediction that is left in the pose. */
  readonly left: Matrix;
}

/** Odometry and the robot's pose at the first scan since odometry stopped changing. */
interface Standstill {
  readonly timeS: number;
  readonly odometry: Pose2d;
  readonly pose: Pose2d;
  /** Whether the robot braked before, once that was asked. */
  hasBraked?: boolean;
}

export interface Alternatives {
  readonly poses: readonly Pose2d[];
  /** Whether odometry stands still, or has just begun to move: it may be late. */
  readonly isLate: boolean;
}

export class Extrapolator {
  readonly #gravity = new GravityTracker();
  readonly #odometry: OdometryHistory;
  #poses: TimedPose[] = [];
  /** The gyroscope's heading at the last pose. */
  #yawAtPose: number | undefined;
  #hasImu = false;
  #standstill: Standstill | undefined;
  #settling: Settling | undefined;

  constructor(beliefs: ReadingBeliefs = NO_BELIEFS) {
    this.#odometry = new OdometryHistory(beliefs);
  }

  addOdometry(reading: OdometryReading): void {
    if (this.#odometry.add(reading)) this.#settling = undefined;
  }

  /**
   * The time since which odometry had been frozen at the last pose, if it catches up at `timeS`. Returned only once.
   */
  takeCaughtUp(timeS: number): number | undefined {
    const sinceS = this.#odometry.takeCaughtUp(timeS);
    if (sinceS !== undefined) this.#settling = undefined;
    return sinceS;
  }

  /** Whether the motion since odometry caught up is a guess at a time. */
  isGuessAt(timeS: number): boolean {
    return this.#odometry.isGuessAt(timeS);
  }

  /**
   * Odometry caught up without a real motion: it counts from its last reading on. `refutedAt`: the robot's pose, if scans
   * refute the motion. If the robot had braked and is still where it stood, it has not moved; otherwise that is unknown.
   */
  forgetOdometry(refutedAt?: Pose2d): void {
    const began = this.#standstill, off = began && refutedAt && between2d(began.pose, refutedAt);
    const stands = off !== undefined && began?.hasBraked === true &&
      Math.hypot(off.x, off.y) < STANDING_M && Math.abs(off.yaw) < STANDING_RAD;
    const odometry = this.#odometry.forget(stands);
    this.#standstill = stands && odometry && began ? { ...began, odometry } : undefined;
  }

  /**
   * Learns from the pose of a scan alone how late odometry is; true if it is later or less late than assumed. The last
   * pose is corrected with the next prediction.
   */
  learnDelay(scan: ScanPose): boolean {
    const isNew = this.#odometry.learnDelay(scan);
    if (isNew) this.#standstill = undefined;
    return isNew;
  }

  /** What is known of odometry: how late it is, by what its ways and turns are multiplied, and when it froze. */
  get odometryBeliefs(): ReadingBeliefs {
    return this.#odometry.beliefs;
  }

  /** The standard deviation of that delay. */
  get odometryDelayDeviationS(): number {
    return this.#odometry.delayDeviationS;
  }

  /** Whether odometry has not changed since a time at which it is known to have frozen. */
  get isOdometryKnownFrozen(): boolean {
    return this.#odometry.isKnownFrozen;
  }

  /** Multiplies the motions of odometry from now on by these factors. */
  rescaleOdometry(scale: OdometryScale): void {
    this.#odometry.rescale(scale);
  }

  /** Whether odometry for a time has arrived, its delay included; until then its motion is guessed. */
  hasOdometryOf(timeS: number): boolean {
    return this.#odometry.has(timeS);
  }

  /** The greatest speed by odometry so far, while it is frozen and the robot moves; undefined if it is not. */
  get hangingMps(): number | undefined {
    return this.#odometry.isHanging && !this.hasBraked() ? this.#odometry.fastestMps : undefined;
  }

  /** Marks odometry as frozen while the robot moves: its next change is not a motion. */
  markHanging(): void {
    this.#odometry.markHanging();
  }

  /** Whether the robot braked before odometry stopped changing: it stands, and odometry is not frozen. */
  hasBraked(): boolean {
    if (!this.#standstill) return false;
    // The readings of that time are not kept for long.
    return this.#standstill.hasBraked ??= this.#odometry.hasBraked;
  }

  /** The robot's pose when odometry stopped changing, and the time since then; undefined if odometry changes. */
  standstill(timeS: number): { readonly pose: Pose2d; readonly lastedS: number } | undefined {
    const odometry = this.#odometry.at(timeS), began = this.#standstill;
    if (!odometry || !began || !isSamePose(odometry, began.odometry)) return undefined;
    return { pose: began.pose, lastedS: timeS - began.timeS };
  }

  addImu(reading: ImuReading): void {
    this.#hasImu = true;
    this.#gravity.add(reading);
  }

  /** `left`: the share of an error of the prediction, `predicted`, that is left in the pose. */
  addPose(timeS: number, pose: Pose2d, predicted?: Pose2d, left?: Matrix): void {
    const odometry = this.#odometry.at(timeS);
    this.#settling = odometry && predicted && left && { odometry, predicted, left };
    if (!odometry) this.#standstill = undefined;
    else if (!this.#standstill || !isSamePose(odometry, this.#standstill.odometry)) {
      this.#standstill = { timeS, odometry, pose };
    }
    this.#poses.push({ timeS, pose });
    if (this.#poses.length > POSES_KEPT) this.#poses.shift();
    this.#yawAtPose = this.#gravity.yawAt(timeS);
  }

  /** Forgets the earlier motion, because the robot's time goes on elsewhere. */
  reset(timeS: number, pose: Pose2d): void {
    this.#poses = [];
    this.#odometry.clear();
    this.#standstill = undefined;
    this.#settling = undefined;
    this.addPose(timeS, pose);
  }

  gravityAlignment(): QuaternionTuple | undefined {
    return this.#hasImu ? this.#gravity.alignment() : undefined;
  }

  /** The pose at a time; the identity before the first pose. */
  predict(timeS: number): Pose2d {
    const last = this.#poses.at(-1);
    if (!last) return IDENTITY_2D;
    const moved = (this.#odometry.isHanging ? undefined : this.odometryBetween(last.timeS, timeS)) ??
      this.#byVelocity(Math.min(VELOCITY_KEPT_S, timeS - last.timeS), FREE_VELOCITY_BASE_S);
    const yaw = this.#gravity.yawAt(timeS);
    const turned = yaw !== undefined && this.#yawAtPose !== undefined ? yaw - this.#yawAtPose : moved.yaw;
    return compose2d(this.#settled(last), { x: moved.x, y: moved.y, yaw: turned });
  }

  /** The last pose, corrected by readings of odometry that have arrived since. */
  #settled({ timeS, pose }: TimedPose): Pose2d {
    const odometry = this.#settling && this.#odometry.at(timeS);
    if (!this.#settling || !odometry) return pose;
    const { predicted, left } = this.#settling;
    const moved = between2d(this.#settling.odometry, odometry);
    // With a gyroscope, the turn of the prediction is not that of odometry.
    const now = compose2d(predicted, this.#yawAtPose === undefined ? moved : { ...moved, yaw: 0 });
    const off = {
      x: now.x - predicted.x,
      y: now.y - predicted.y,
      yaw: wrapAngle(now.yaw - predicted.yaw),
    };
    const { x, y, yaw } = times(left, off);
    return { x: pose.x + x, y: pose.y + y, yaw: wrapAngle(pose.yaw + yaw) };
  }

  /**
   * Further guesses in case odometry is late: the robot continues its motion, or the first odometry after a standstill
   * contains all motion since.
   */
  alternatives(timeS: number): Alternatives {
    const last = this.#poses.at(-1), odometry = this.#odometry.at(timeS);
    if (!last || !odometry || !this.#standstill) return { poses: [], isLate: false };
    const asBefore = compose2d(last.pose, this.#byVelocity(timeS - last.timeS, VELOCITY_BASE_S));
    if (isSamePose(odometry, this.#standstill.odometry)) return { poses: [asBefore], isLate: true };
    if (this.#standstill.pose === last.pose) return { poses: [asBefore], isLate: false };
    const atOnce = compose2d(this.#standstill.pose, between2d(this.#standstill.odometry, odometry));
    return { poses: [asBefore, atOnce], isLate: true };
  }

  /** The motion between two times by odometry; undefined if odometry has no reading near one of them. */
  odometryBetween(fromS: number, toS: number): Pose2d | undefined {
    const from = this.#odometry.at(fromS), to = this.#odometry.at(toS);
    return from && to && between2d(from, to);
  }

  /** The pose if the robot has gone on as by odometry until an earlier pose, although odometry has stopped. */
  onward({ timeS, pose }: TimedPose, toS: number): Pose2d | undefined {
    const before = this.odometryBetween(timeS - ONWARD_BASE_S, timeS);
    return before &&
      compose2d(pose, timesMotion(before, Math.min(ONWARD_MAX_S, toS - timeS) / ONWARD_BASE_S));
  }

  /** Forgets the poses after a time: they were wrong. */
  forgetPosesAfter(timeS: number): void {
    this.#poses = this.#poses.filter((one) => one.timeS <= timeS);
  }

  #byVelocity(dt: number, baseS: number): Pose2d {
    const last = this.#poses.at(-1)!;
    const base = this.#poses.findLast(({ timeS }) => last.timeS - timeS >= baseS);
    if (!base || last.timeS - base.timeS > 2 * ODOMETRY_REACH_S) return IDENTITY_2D;
    const moved = between2d(base.pose, last.pose);
    const share = dt / (last.timeS - base.timeS);
    return timesMotion(moved, share);
  }
}

/** A motion, so many times. The robot drives an arc: halfway along it, half of the turn is done. */
function timesMotion(moved: Pose2d, share: number): Pose2d {
  const heading = -0.5 * moved.yaw + 0.5 * moved.yaw * share;
  const cos = Math.cos(heading), sin = Math.sin(heading);
  return {
    x: share * (cos * moved.x - sin * moved.y),
    y: share * (sin * moved.x + cos * moved.y),
    yaw: wrapAngle(share * moved.yaw),
  };
}
