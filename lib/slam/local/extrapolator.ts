/**
 * Predicts the robot's pose at a time from its earlier poses: with odometry if there is any, otherwise from its last
 * motion. With an IMU, the turn comes from the gyroscope.
 */

import type { ImuReading, OdometryReading } from "../mapping.ts";
import { between2d, compose2d, IDENTITY_2D, interpolate2d, type Pose2d, wrapAngle } from "../pose2d.ts";
import { GravityTracker, type QuaternionTuple } from "./gravity.ts";
import { OdometryDelay, type ScanPose } from "./odometry_delay.ts";

/** Odometry is used for a time at most this far from it. */
const ODOMETRY_REACH_S = 1;
const ODOMETRY_KEPT = 1000;
/**
 * Shortest span for a velocity of odometry. A sensor without times of its own has those of its answers: on a busy
 * machine two of them may come a millisecond apart, and would give a speed of many metres a second.
 */
const ODOMETRY_BASE_S = 0.1;
/**
 * No robot moves farther between two readings than this and, for each second between them, than so many times its
 * greatest speed so far, or than at the least speed.
 */
const JUMP_M = 0.3;
const JUMP_RAD = 0.3;
const JUMP_FACTOR = 2;
const JUMP_MPS = 2;
const JUMP_RPS = 3;
/** Shortest span for a velocity, with and without odometry. Over shorter spans the noise of matching dominates. */
const VELOCITY_BASE_S = 0.15;
const FREE_VELOCITY_BASE_S = 0.3;
/** Longest use of the last velocity without odometry. */
const VELOCITY_KEPT_S = 0.5;
const POSES_KEPT = 16;

interface TimedPose {
  readonly timeS: number;
  readonly pose: Pose2d;
}

/** How the last pose came about: by odometry as it was known then, and by a scan. */
interface Settling {
  /** Odometry at the time of the pose, which may have been beyond the last reading. */
  readonly odometry: Pose2d;
  readonly predicted: Pose2d;
  /** The share of an error of the prediction that is left in the pose: a matrix over x, y and yaw, row by row. */
  readonly left: Float64Array;
}

/** Odometry and the robot's pose at the first scan since odometry stopped changing. */
interface Standstill {
  readonly timeS: number;
  readonly odometry: Pose2d;
  readonly pose: Pose2d;
}

export interface Alternatives {
  readonly poses: readonly Pose2d[];
  /** Whether odometry stands still, or has just begun to move: it may be late. */
  readonly isLate: boolean;
}

export class Extrapolator {
  readonly #gravity = new GravityTracker();
  readonly #jumps = new OdometryJumps();
  readonly #delay = new OdometryDelay();
  #odometry: OdometryReading[] = [];
  #poses: TimedPose[] = [];
  /** The gyroscope's heading at the last pose. */
  #yawAtPose: number | undefined;
  #hasImu = false;
  #standstill: Standstill | undefined;
  #settling: Settling | undefined;
  #isHanging = false;

  /** After an impossible jump, earlier odometry no longer counts: its sensor has begun anew. So it has after it hung. */
  addOdometry(reading: OdometryReading): void {
    const last = this.#odometry.at(-1);
    const hasEnded = this.#isHanging && last && !same(last.pose, reading.pose);
    if (hasEnded || (last && this.#jumps.isJump(last, reading))) {
      this.#odometry = [];
      this.#settling = undefined;
      this.#isHanging = false;
    }
    this.#odometry.push(reading);
    if (this.#odometry.length > ODOMETRY_KEPT) this.#odometry = this.#odometry.slice(-ODOMETRY_KEPT / 2);
  }

  /** Learns from the pose of a scan alone how late odometry is. The last pose is corrected with the next prediction. */
  learnDelay(scan: ScanPose): void {
    const newest = this.#odometry.at(-1);
    if (!newest || this.#isHanging) return this.#delay.restart();
    const hasChanged = this.#delay.add(scan, newest.timeS, (atS) => this.#readingAt(atS));
    if (hasChanged) this.#standstill = undefined;
  }

  /** Whether odometry of a time has come, late as it is: until then its motion is guessed. */
  hasOdometryOf(timeS: number): boolean {
    const newest = this.#odometry.at(-1);
    return newest !== undefined && newest.timeS >= timeS + this.#delay.delayS;
  }

  /** Odometry stands still while the robot moves. What it says once it changes again is no motion. */
  markHanging(): void {
    this.#isHanging = true;
  }

  /** Where the robot was when odometry stopped changing, and for how long it has not; undefined if it changes. */
  standstill(timeS: number): { readonly pose: Pose2d; readonly lastedS: number } | undefined {
    const odometry = this.#odometryAt(timeS), began = this.#standstill;
    if (!odometry || !began || !same(odometry, began.odometry)) return undefined;
    return { pose: began.pose, lastedS: timeS - began.timeS };
  }

  addImu(reading: ImuReading): void {
    this.#hasImu = true;
    this.#gravity.add(reading);
  }

  /** `left`: the share of an error of the prediction, `predicted`, that is left in the pose. */
  addPose(timeS: number, pose: Pose2d, predicted?: Pose2d, left?: Float64Array): void {
    const odometry = this.#odometryAt(timeS);
    this.#settling = odometry && predicted && left && { odometry, predicted, left };
    if (!odometry) this.#standstill = undefined;
    else if (!this.#standstill || !same(odometry, this.#standstill.odometry)) {
      this.#standstill = { timeS, odometry, pose };
    }
    this.#poses.push({ timeS, pose });
    if (this.#poses.length > POSES_KEPT) this.#poses.shift();
    this.#yawAtPose = this.#gravity.yawAt(timeS);
  }

  /** Forgets the earlier motion, because the robot's time goes on elsewhere. */
  reset(timeS: number, pose: Pose2d): void {
    this.#poses = [];
    this.#odometry = [];
    this.#standstill = undefined;
    this.#settling = undefined;
    this.#isHanging = false;
    this.#delay.restart();
    this.addPose(timeS, pose);
  }

  gravityAlignment(): QuaternionTuple | undefined {
    return this.#hasImu ? this.#gravity.alignment() : undefined;
  }

  /** The pose at a time; the identity before the first pose. */
  predict(timeS: number): Pose2d {
    const last = this.#poses.at(-1);
    if (!last) return IDENTITY_2D;
    const moved = (this.#isHanging ? undefined : this.odometryBetween(last.timeS, timeS)) ??
      this.#byVelocity(Math.min(VELOCITY_KEPT_S, timeS - last.timeS), FREE_VELOCITY_BASE_S);
    const yaw = this.#gravity.yawAt(timeS);
    const turned = yaw !== undefined && this.#yawAtPose !== undefined ? yaw - this.#yawAtPose : moved.yaw;
    return compose2d(this.#settled(last), { x: moved.x, y: moved.y, yaw: turned });
  }

  /** The last pose with odometry as it is known by now: readings may have come that were not there then. */
  #settled({ timeS, pose }: TimedPose): Pose2d {
    const odometry = this.#settling && this.#odometryAt(timeS);
    if (!this.#settling || !odometry) return pose;
    const { predicted, left } = this.#settling;
    const moved = between2d(this.#settling.odometry, odometry);
    // With a gyroscope, the turn of the prediction is not that of odometry.
    const now = compose2d(predicted, this.#yawAtPose === undefined ? moved : { ...moved, yaw: 0 });
    const off = [now.x - predicted.x, now.y - predicted.y, wrapAngle(now.yaw - predicted.yaw)];
    const [x, y, yaw] = [0, 3, 6].map((row) =>
      left[row] * off[0] + left[row + 1] * off[1] + left[row + 2] * off[2]
    );
    return { x: pose.x + x, y: pose.y + y, yaw: wrapAngle(pose.yaw + yaw) };
  }

  /**
   * Further guesses for odometry that may arrive late: the robot moves on as before, or the first odometry after a
   * standstill contains all of the motion since.
   */
  alternatives(timeS: number): Alternatives {
    const last = this.#poses.at(-1), odometry = this.#odometryAt(timeS);
    if (!last || !odometry || !this.#standstill) return { poses: [], isLate: false };
    const asBefore = compose2d(last.pose, this.#byVelocity(timeS - last.timeS, VELOCITY_BASE_S));
    if (same(odometry, this.#standstill.odometry)) return { poses: [asBefore], isLate: true };
    if (this.#standstill.pose === last.pose) return { poses: [asBefore], isLate: false };
    const atOnce = compose2d(this.#standstill.pose, between2d(this.#standstill.odometry, odometry));
    return { poses: [asBefore, atOnce], isLate: true };
  }

  /** The motion between two times by odometry; undefined if odometry has no reading near one of them. */
  odometryBetween(fromS: number, toS: number): Pose2d | undefined {
    const from = this.#odometryAt(fromS), to = this.#odometryAt(toS);
    return from && to && between2d(from, to);
  }

  /** Late odometry of a time comes under a later one. */
  #odometryAt(timeS: number): Pose2d | undefined {
    return this.#readingAt(timeS + this.#delay.delayS);
  }

  #readingAt(timeS: number): Pose2d | undefined {
    const readings = this.#odometry;
    let k = readings.length - 1;
    while (k >= 0 && readings[k].timeS > timeS) k--;
    const before = readings[k], after = readings[k + 1];
    if (before && after) {
      return interpolate2d(before.pose, after.pose, (timeS - before.timeS) / (after.timeS - before.timeS));
    }
    if (before && before.timeS === timeS) return before.pose;
    if (before && timeS - before.timeS <= ODOMETRY_REACH_S) {
      while (k >= 0 && before.timeS - readings[k].timeS < ODOMETRY_BASE_S) k--;
      const earlier = readings[k];
      if (!earlier || before.timeS - earlier.timeS > ODOMETRY_REACH_S) return before.pose;
      return along(earlier, before, timeS);
    }
    return undefined;
  }

  #byVelocity(dt: number, baseS: number): Pose2d {
    const last = this.#poses.at(-1)!;
    const base = this.#poses.findLast(({ timeS }) => last.timeS - timeS >= baseS);
    if (!base || last.timeS - base.timeS > 2 * ODOMETRY_REACH_S) return IDENTITY_2D;
    const moved = between2d(base.pose, last.pose);
    const share = dt / (last.timeS - base.timeS);
    // The robot drives an arc: halfway along it, half of the turn is done.
    const heading = -0.5 * moved.yaw + 0.5 * moved.yaw * share;
    const cos = Math.cos(heading), sin = Math.sin(heading);
    return {
      x: share * (cos * moved.x - sin * moved.y),
      y: share * (sin * moved.x + cos * moved.y),
      yaw: wrapAngle(share * moved.yaw),
    };
  }
}

/** Tells the jumps of odometry from fast motion: two of them in a row are a fast robot. */
class OdometryJumps {
  #fastestMps = JUMP_MPS;
  #fastestRps = JUMP_RPS;
  #isAfterJump = false;

  isJump(from: OdometryReading, to: OdometryReading): boolean {
    const { x, y, yaw } = between2d(from.pose, to.pose), dt = to.timeS - from.timeS;
    const movedM = Math.hypot(x, y), turned = Math.abs(yaw);
    const isFar = movedM > JUMP_M + JUMP_FACTOR * this.#fastestMps * dt ||
      turned > JUMP_RAD + JUMP_FACTOR * this.#fastestRps * dt;
    const isJump = isFar && !this.#isAfterJump;
    this.#isAfterJump = isJump;
    if (isJump) return true;
    const spanS = Math.max(dt, ODOMETRY_BASE_S);
    this.#fastestMps = Math.max(this.#fastestMps, movedM / spanS);
    this.#fastestRps = Math.max(this.#fastestRps, turned / spanS);
    return false;
  }
}

function along(a: TimedPose, b: TimedPose, timeS: number): Pose2d {
  return interpolate2d(a.pose, b.pose, (timeS - a.timeS) / (b.timeS - a.timeS));
}

function same(a: Pose2d, b: Pose2d): boolean {
  return a.x === b.x && a.y === b.y && a.yaw === b.yaw;
}
