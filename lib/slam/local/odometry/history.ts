/**
 * The readings of odometry, corrected as far as the readings alone allow: they restart after a jump, a standstill with
 * a sudden catch-up was a steady motion, and delayed readings count at their true time.
 *
 * The room owns the knowledge about odometry: its readings, its delay, and whether it counts.
 */

import type { OdometryReading } from "../../mapping.ts";
import { between2d, compose2d, interpolate2d, type Pose2d } from "../../pose2d.ts";
import type { ReadingBeliefs } from "./beliefs.ts";
import { OdometryDelay, type ScanPose } from "./delay.ts";
import { OdometryJumps } from "./jumps.ts";
import type { OdometryScale } from "./scale.ts";

/** A reading is used for times at most this far from it. */
export const ODOMETRY_REACH_S = 1;
const KEPT = 1000;
/** Limit of the times at which odometry froze. */
const FROZEN_MAX = 20;
/**
 * Shortest span for a velocity of odometry. A sensor without time stamps gets those of its answers. On a busy machine
 * two answers may arrive within a millisecond, which would give a speed of many metres per second.
 */
export const ODOMETRY_BASE_S = 0.1;

/**
 * A robot brakes before it stands: in the last of these times it moves by less than this share of its motion in the
 * longer one. Odometry that freezes while the robot drives stops at full speed.
 */
const BRAKING_S = [0.1, 0.3] as const;
const BRAKING_SHARE = 0.15;

export class OdometryHistory {
  readonly #jumps = new OdometryJumps();
  readonly #delay: OdometryDelay;
  #readings: OdometryReading[] = [];
  #isHanging = false;
  /** When odometry last caught up after a standstill, and whether no scan has arrived since. */
  #caughtUpS = -Infinity;
  #hasCaughtUp = false;
  #stoodSinceS = -Infinity;
  /** Whether the motion before the first reading is unknown, because of a jump. */
  #hasBegunAnew = false;
  /** The pose of the last reading as it came. */
  #given: Pose2d | undefined;
  #scale: OdometryScale;
  #frozenAtS: readonly number[];

  constructor({ delayS, scale, frozenAtS }: ReadingBeliefs) {
    this.#delay = new OdometryDelay(delayS);
    this.#scale = scale;
    this.#frozenAtS = frozenAtS;
  }

  get beliefs(): ReadingBeliefs {
    return { delayS: this.delayS, scale: this.#scale, frozenAtS: this.#frozenAtS };
  }

  /** Whether the latest readings are equal since a time at which odometry is known to have frozen. */
  get isKnownFrozen(): boolean {
    const last = this.#readings.at(-1), frozenAtS = this.#frozenAtS;
    if (!last || frozenAtS.length === 0) return false;
    const { timeS } = this.#standingFrom(last);
    return timeS < last.timeS && frozenAtS.includes(timeS);
  }

  /** Multiplies the motions from now on by these factors. */
  rescale(scale: OdometryScale): void {
    this.#scale = scale;
  }

  /** How late odometry is, as far as it is known. */
  get delayS(): number {
    return this.#delay.delayS;
  }

  get delayDeviationS(): number {
    return this.#delay.deviationS;
  }

  /** The greatest speed so far. */
  get fastestMps(): number {
    return this.#jumps.fastestMps;
  }

  get isHanging(): boolean {
    return this.#isHanging;
  }

  /** Takes the next reading. True if earlier ones no longer count: after a jump, the motion since is not known. */
  add(given: OdometryReading): boolean {
    const reading = this.#scaled(given), last = this.#readings.at(-1);
    let isAnew = false;
    if (last && this.#isCatchingUp(last, reading)) this.#catchUp(last, reading.timeS);
    else if (last) {
      const hasHung = this.#isHanging && !isSamePose(last.pose, reading.pose);
      if (hasHung) this.#noteFrozen(this.#standingFrom(last).timeS);
      isAnew = hasHung || this.#jumps.isJump(last, reading);
    }
    if (isAnew) this.#beginAnew();
    this.#readings.push(reading);
    if (this.isKnownFrozen) this.#isHanging = true;
    if (this.#readings.length > KEPT) this.#readings = this.#readings.slice(-KEPT / 2);
    return isAnew;
  }

  #noteFrozen(atS: number): void {
    const frozenAtS = this.#frozenAtS;
    if (frozenAtS.includes(atS) || frozenAtS.length >= FROZEN_MAX) return;
    this.#frozenAtS = [...frozenAtS, atS];
  }

  #scaled({ timeS, pose }: OdometryReading): OdometryReading {
    const given = this.#given, last = this.#readings.at(-1), { translation, rotation } = this.#scale;
    this.#given = pose;
    if (!given || !last || (translation === 1 && rotation === 1)) return { timeS, pose };
    const { x, y, yaw } = between2d(given, pose);
    const moved = { x: translation * x, y: translation * y, yaw: rotation * yaw };
    return { timeS, pose: compose2d(last.pose, moved) };
  }

  #beginAnew(): void {
    this.#readings = [];
    this.#hasBegunAnew = true;
    this.#isHanging = false;
  }

  #isCatchingUp(last: OdometryReading, reading: OdometryReading): boolean {
    if (isSamePose(last.pose, reading.pose)) return false;
    return this.#jumps.isCatchingUp(this.#standingFrom(last).timeS, last, reading);
  }

  /** The first of the latest readings that are equal to the last one. */
  #standingFrom(last: OdometryReading): OdometryReading {
    // A filter catches up with several readings.
    if (last.timeS === this.#caughtUpS) return this.#readings.at(-2) ?? last;
    const moved = this.#readings.findLastIndex((one) => !isSamePose(one.pose, last.pose));
    return this.#readings[moved + 1] ?? last;
  }

  /** Whether the robot braked before odometry stopped changing, or has stood since its first reading. */
  get hasBraked(): boolean {
    const last = this.#readings.at(-1), first = last && this.#standingFrom(last);
    if (!first) return false;
    if (first === this.#readings[0]) return !this.#hasBegunAnew;
    const [late, all] = BRAKING_S.map((spanS) => {
      const before = this.#readingAt(first.timeS - spanS);
      return before && between2d(before, first.pose);
    });
    return late !== undefined && all !== undefined &&
      Math.hypot(late.x, late.y) <= BRAKING_SHARE * Math.hypot(all.x, all.y) &&
      Math.abs(late.yaw) <= BRAKING_SHARE * Math.abs(all.yaw);
  }

  /** Replaces the readings of a frozen period, which were wrong, by a steady motion. */
  #catchUp(last: OdometryReading, toS: number): void {
    const first = this.#standingFrom(last);
    this.#readings = this.#readings.slice(0, this.#readings.indexOf(first) + 1);
    // It froze before the first of the equal readings: until the reading before that one, it was right.
    this.#stoodSinceS = (this.#readings.at(-2) ?? first).timeS;
    this.#caughtUpS = toS;
    this.#hasCaughtUp = true;
    this.#isHanging = false;
  }

  /** The time since which odometry was frozen, if it catches up at `timeS`. Returned only once. */
  takeCaughtUp(timeS: number): number | undefined {
    const { delayS } = this.#delay;
    if (!this.#hasCaughtUp || timeS + delayS < this.#caughtUpS) return undefined;
    this.#hasCaughtUp = false;
    this.#delay.restart();
    return this.#stoodSinceS - delayS;
  }

  /** Whether the motion since odometry caught up is a guess at a time: two readings must show its speed. */
  isGuessAt(timeS: number): boolean {
    const newest = this.#readings.at(-1);
    return newest !== undefined && newest.timeS - this.#caughtUpS < ODOMETRY_BASE_S && !this.has(timeS);
  }

  /**
   * Odometry caught up without a real motion: it counts from its last reading on, which it returns. `stands`: nothing has
   * moved since the standstill began.
   */
  forget(stands: boolean): Pose2d | undefined {
    const last = this.#readings.at(-1);
    this.#readings = last ? [last] : [];
    if (last && stands) this.#readings.unshift({ timeS: this.#stoodSinceS, pose: last.pose });
    this.#hasBegunAnew = true;
    return last?.pose;
  }

  clear(): void {
    this.#readings = [];
    this.#isHanging = false;
    this.#hasCaughtUp = false;
    this.#delay.restart();
  }

  /** Marks odometry as frozen while the robot moves: its next change is not a motion. */
  markHanging(): void {
    this.#isHanging = true;
  }

  /** Learns the delay of odometry from the pose of a scan alone. True if the delay changes. */
  learnDelay(scan: ScanPose): boolean {
    const newest = this.#readings.at(-1);
    if (newest && !this.#isHanging) return this.#delay.add(scan, newest.timeS, (atS) => this.#readingAt(atS));
    this.#delay.restart();
    return false;
  }

  /** Whether odometry for a time has arrived, its delay included; until then its motion is guessed. */
  has(timeS: number): boolean {
    const newest = this.#readings.at(-1);
    return newest !== undefined && newest.timeS >= timeS + this.#delay.delayS;
  }

  /** The pose at a time, with the delay of odometry taken into account. Undefined if there is no reading near it. */
  at(timeS: number): Pose2d | undefined {
    return this.#readingAt(timeS + this.#delay.delayS);
  }

  #readingAt(timeS: number): Pose2d | undefined {
    const readings = this.#readings;
    const k = readings.findLastIndex((one) => !(one.timeS > timeS));
    const before = readings[k], after = readings[k + 1];
    if (before && after) {
      return interpolate2d(before.pose, after.pose, (timeS - before.timeS) / (after.timeS - before.timeS));
    }
    if (before) return beyond(readings, timeS);
    // The first reading may arrive shortly after the first scan.
    const isFirst = after && !this.#hasBegunAnew;
    return isFirst && after.timeS - timeS <= ODOMETRY_BASE_S ? after.pose : undefined;
  }
}

/** The pose shortly after the last reading, if the robot continues its motion; undefined if that reading is too old. */
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
