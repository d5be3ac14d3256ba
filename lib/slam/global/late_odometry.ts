/**
 * The motions between nodes that were mapped before the mapper knew how late odometry is. Where a motion followed
 * odometry, it is that of another time: a robot that has just started seems to stand still. Once the delay is known,
 * the motion of the right time replaces it in the pose graph.
 */

import { type OdometryState, TICKS_A_SECOND } from "../map_state.ts";
import { between2d, interpolate2d, type Pose2d } from "../pose2d.ts";
import type { MapNode } from "./map/parts.ts";

/** Readings farther apart do not show the motion between them. */
const APART_MAX_S = 1;
/**
 * A smaller difference between two motions is not worth a correction, and a larger one is a jump. A radian counts as
 * this many metres.
 */
const LEAST_M = 0.01;
const MOST_M = 0.4;
const METRES_A_RADIAN = 0.5;
/** The scans have corrected a motion if it differs from that of the right time by at most this share of the correction. */
const RIGHT_SHARE = 0.3;
/** The motion of the right time is wrong if the node's motion differs from it by more than the correction and this. */
const NOISE_M = 0.03;

export class LateOdometry {
  /** The delays that counted, each from a time on. */
  readonly #delays: { readonly from: bigint; readonly delayS: number }[] = [];
  #isDue = false;

  /** Notes the delay that counts from a scan on. */
  note(ticks: bigint, delayS: number): void {
    const before = this.#delays.at(-1)?.delayS ?? 0;
    if (delayS === before) return;
    this.#delays.push({ from: ticks, delayS });
    this.#isDue = true;
  }

  /**
   * Whether the motions need a correction, because of a new delay. It waits for a node that was mapped with the new
   * delay, and for its odometry. Returned only once.
   */
  takeDue(node: MapNode, newest: OdometryState): boolean {
    const last = this.#delays.at(-1);
    if (!this.#isDue || !last || node.ticks <= last.from) return false;
    if (newest.ticks < node.ticks + ticksIn(last.delayS)) return false;
    this.#isDue = false;
    return true;
  }

  /** The motion between two nodes at the right time of odometry; undefined if theirs needs no correction. */
  correction(from: MapNode, to: MapNode, readings: readonly OdometryState[]): Pose2d | undefined {
    const delayS = this.#delays.at(-1)?.delayS ?? 0;
    const moved = (fromS: number, toS: number) => {
      const before = readingAt(readings, from.ticks + ticksIn(fromS));
      const after = readingAt(readings, to.ticks + ticksIn(toS));
      return before && after && between2d(before, after);
    };
    const then = moved(this.#delayOf(from), this.#delayOf(to)), now = moved(delayS, delayS);
    if (!then || !now) return undefined;
    const correctedM = difference(then, now), local = between2d(from.localPose, to.localPose);
    if (correctedM < LEAST_M || correctedM > MOST_M) return undefined;
    const isRight = difference(local, now) <= RIGHT_SHARE * correctedM;
    const isOff = Math.min(difference(local, then), difference(local, now)) > correctedM + NOISE_M;
    return isRight || isOff ? undefined : now;
  }

  #delayOf({ ticks }: MapNode): number {
    return this.#delays.findLast(({ from }) => from < ticks)?.delayS ?? 0;
  }
}

function ticksIn(seconds: number): bigint {
  return BigInt(Math.round(seconds * TICKS_A_SECOND));
}

/** Odometry at a time between two readings, which are sorted by time. */
function readingAt(readings: readonly OdometryState[], ticks: bigint): Pose2d | undefined {
  let low = 0, high = readings.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (readings[middle].ticks <= ticks) low = middle + 1;
    else high = middle;
  }
  const before = readings[low - 1], after = readings[low];
  if (!before || !after || after.ticks - before.ticks > ticksIn(APART_MAX_S)) return undefined;
  return interpolate2d(
    before.pose,
    after.pose,
    Number(ticks - before.ticks) / Number(after.ticks - before.ticks),
  );
}

/** How much two motions differ, in metres. */
function difference(a: Pose2d, b: Pose2d): number {
  const { x, y, yaw } = between2d(a, b);
  return Math.hypot(x, y) + METRES_A_RADIAN * Math.abs(yaw);
}
