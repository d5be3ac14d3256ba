/**
 * Holds scans until late odometry of their time has arrived. Without this, the newest motion is a guess, and a scan that
 * takes time is bent by it whenever the robot begins or ends a turn.
 */

import type { ImuReading, RangeScan } from "./mapping.ts";

/** Odometry that is later than this has stopped. */
const WAIT_S = 0.7;
const HELD_MAX = 200;

export type HeldReading =
  | { readonly kind: "imu"; readonly reading: ImuReading }
  | { readonly kind: "scan"; readonly reading: RangeScan };

export class LateOdometry {
  /** In the order of their arrival: the readings of an IMU must not overtake a scan. */
  readonly #held: HeldReading[] = [];
  #odometryS = -Infinity;

  /** The newest scan that is held. */
  get newestScan(): RangeScan | undefined {
    const last = this.#held.findLast(({ kind }) => kind === "scan");
    return last?.kind === "scan" ? last.reading : undefined;
  }

  noteOdometry(timeS: number): void {
    this.#odometryS = timeS;
  }

  /** Holds a reading if it must wait, or if one before it does; `delayS`: how late odometry is. */
  holds(reading: HeldReading, delayS: number): boolean {
    const mustWait = reading.kind === "scan" && this.#mustWait(reading.reading, delayS);
    if (this.#held.length === 0 && !mustWait) return false;
    this.#held.push(reading);
    return true;
  }

  /** The next reading that has waited long enough. */
  next(delayS: number): HeldReading | undefined {
    const [first] = this.#held, newest = this.#held.at(-1);
    if (!first || !newest) return undefined;
    const waitedS = Math.abs(newest.reading.timeS - first.reading.timeS);
    const isOverdue = waitedS > WAIT_S || this.#held.length > HELD_MAX;
    const mustWait = first.kind === "scan" && !isOverdue && this.#mustWait(first.reading, delayS);
    return mustWait ? undefined : this.#held.shift();
  }

  /** The next reading, however long it has waited. */
  nextNow(): HeldReading | undefined {
    return this.#held.shift();
  }

  /** Whether odometry goes on, but has not arrived for the time of a scan. */
  #mustWait({ timeS }: RangeScan, delayS: number): boolean {
    const awayS = timeS + delayS - this.#odometryS;
    return delayS > 0 && awayS > 0 && awayS < WAIT_S;
  }
}
