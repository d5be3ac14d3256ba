/**
 * The readings of odometry with their faults mended, as far as readings alone tell them: after a jump they begin anew, a
 * standstill that is made up for at once was motion, and late readings count for their time.
 *
 * The room owns what is known of odometry: its readings, how late it is, and whether it counts.
 */

import type { OdometryReading } from "../../mapping.ts";
import { interpolate2d, type Pose2d } from "../../pose2d.ts";
import { OdometryDelay, type ScanPose } from "./delay.ts";
import { OdometryJumps } from "./jumps.ts";

/** Odometry is used for a time at most this far from it. */
export const ODOMETRY_REACH_S = 1;
const KEPT = 1000;
/**
 * Shortest span for a velocity of odometry. A sensor without times of its own has those of its answers: on a busy
 * machine two of them may come a millisecond apart, and would give a speed of many metres a second.
 */
export const ODOMETRY_BASE_S = 0.1;

export class OdometryHistory {
  readonly #jumps = new OdometryJumps();
  readonly #delay = new OdometryDelay();
  #readings: OdometryReading[] = [];
  #isHanging = false;
  /** When odometry last made up for a standstill, and whether no scan has come since. */
  #caughtUpS = -Infinity;
  #hasCaughtUp = false;
  #stoodSinceS = -Infinity;
  /** Whether the motion before the first reading is not known. */
  #hasBegunAnew = false;

  get isHanging(): boolean {
    return this.#isHanging;
  }

  /** Takes the next reading. True if earlier ones no longer count: after a jump, the motion since is not known. */
  add(reading: OdometryReading): boolean {
    const last = this.#readings.at(-1);
    let isAnew = false;
    if (last && this.#isCatchingUp(last, reading)) this.#catchUp(reading.timeS);
    else if (last) {
      isAnew = (this.#isHanging && !isSamePose(last.pose, reading.pose)) || this.#jumps.isJump(last, reading);
    }
    if (isAnew) this.#beginAnew();
    this.#readings.push(reading);
    if (this.#readings.length > KEPT) this.#readings = this.#readings.slice(-KEPT / 2);
    return isAnew;
  }

  #beginAnew(): void {
    this.#readings = [];
    this.#hasBegunAnew = true;
    this.#isHanging = false;
  }

  #isCatchingUp(last: OdometryReading, reading: OdometryReading): boolean {
    if (isSamePose(last.pose, reading.pose)) return false;
    return this.#jumps.isCatchingUp(this.#readings[this.#standingFrom()].timeS, last, reading);
  }

  /** The first of the latest readings that are alike. */
  #standingFrom(): number {
    const readings = this.#readings, { timeS, pose } = readings[readings.length - 1];
    // A filter makes up for a standstill with several readings.
    if (timeS === this.#caughtUpS && readings.length > 1) return readings.length - 2;
    return readings.findLastIndex((one) => !isSamePose(one.pose, pose)) + 1;
  }

  /** What odometry said while it hung was wrong: it moved steadily, for all that is known. */
  #catchUp(toS: number): void {
    this.#readings = this.#readings.slice(0, this.#standingFrom() + 1);
    this.#stoodSinceS = this.#readings[this.#readings.length - 1].timeS;
    this.#caughtUpS = toS;
    this.#hasCaughtUp = true;
    this.#isHanging = false;
  }

  /** Since when odometry stood still if it makes up for that at a time. Once. */
  takeCaughtUp(timeS: number): number | undefined {
    const { delayS } = this.#delay;
    if (!this.#hasCaughtUp || timeS + delayS < this.#caughtUpS) return undefined;
    this.#hasCaughtUp = false;
    this.#delay.restart();
    return this.#stoodSinceS - delayS;
  }

  /** The catching up was no motion: odometry counts from its last reading on. */
  forget(): void {
    this.#readings = this.#readings.slice(-1);
    this.#hasBegunAnew = true;
  }

  clear(): void {
    this.#readings = [];
    this.#isHanging = false;
    this.#hasCaughtUp = false;
    this.#delay.restart();
  }

  /** Odometry stands still while the robot moves. What it says once it changes again is no motion. */
  markHanging(): void {
    this.#isHanging = true;
  }

  /** Learns from the pose of a scan alone how late odometry is. True if that changes. */
  learnDelay(scan: ScanPose): boolean {
    const newest = this.#readings.at(-1);
    if (newest && !this.#isHanging) return this.#delay.add(scan, newest.timeS, (atS) => this.#readingAt(atS));
    this.#delay.restart();
    return false;
  }

  /** Whether odometry of a time has come, late as it is: until then its motion is guessed. */
  has(timeS: number): boolean {
    const newest = this.#readings.at(-1);
    return newest !== undefined && newest.timeS >= timeS + this.#delay.delayS;
  }

  /** The pose at a time: late odometry of it comes under a later one. Undefined if there is no reading near it. */
  at(timeS: number): Pose2d | undefined {
    return this.#readingAt(timeS + this.#delay.delayS);
  }

  #readingAt(timeS: number): Pose2d | undefined {
    const readings = this.#readings;
    let k = readings.length - 1;
    while (k >= 0 && readings[k].timeS > timeS) k--;
    const before = readings[k], after = readings[k + 1];
    if (before && after) {
      return interpolate2d(before.pose, after.pose, (timeS - before.timeS) / (after.timeS - before.timeS));
    }
    if (before) return beyond(readings, timeS);
    // The first reading may come a moment after the first scan.
    const isFirst = after && !this.#hasBegunAnew;
    return isFirst && after.timeS - timeS <= ODOMETRY_BASE_S ? after.pose : undefined;
  }
}

/** The pose a moment after the last reading, if the robot goes on; undefined if that is too long ago. */
function beyond(readings: readonly OdometryReading[], timeS: number): Pose2d | undefined {
  const last = readings.at(-1);
  if (!last || timeS - last.timeS > ODOMETRY_REACH_S) return undefined;
  const before = readings.findLast((one) => last.timeS - one.timeS >= ODOMETRY_BASE_S);
  if (!before || timeS === last.timeS || last.timeS - before.timeS > ODOMETRY_REACH_S) return last.pose;
  return interpolate2d(before.pose, last.pose, (timeS - before.timeS) / (last.timeS - before.timeS));
}

export function isSamePose(a: Pose2d, b: Pose2d): boolean {
  return a.x === b.x && a.y === b.y && a.yaw === b.yaw;
}
