/**
 * Detects a lidar whose scans are mirrored: it hangs upside down, or its beams do not go in the configured direction.
 * Its map looks right but is the mirror image of the building. Scans alone do not show it, but the robot's turns do:
 * the world turns the wrong way.
 */

import type { RangeScan } from "./mapping.ts";
import { singleAt } from "./points.ts";
import { wrapAngle } from "./pose2d.ts";

const BINS = 360;
const BIN_RAD = 2 * Math.PI / BINS;
/** Directions without a beam use one up to this many directions away. */
const BESIDE_MAX = 3;
/** Two scans are compared if the robot turned by this much between them, in this time. */
const TURN_RAD = { least: 0.08, most: 1 } as const;
const APART_MAX_S = 2;
/** Directions that both scans must show. */
const COMPARED_MIN = 60;
const DIFFERENCE_MAX_M = 1;
/** One sense of rotation explains a scan if its differences are at most this share of those of the other. */
const CLEAR_SHARE = 0.6;
/** The verdict needs this many clear turns, and this share of them in one sense. */
const VOTES_MIN = 12;
const VOTES_SHARE = 0.85;

interface SeenAround {
  readonly timeS: number;
  readonly yaw: number;
  readonly ranges: Float32Array;
}

export class MirrorCheck {
  #last: SeenAround | undefined;
  #votes = { right: 0, wrong: 0 };

  /** Adds a scan and the robot's heading at its time, from wheels or a gyroscope. */
  add({ timeS, points, origin }: RangeScan, yaw: number): void {
    const last = this.#last, turn = last ? wrapAngle(yaw - last.yaw) : 0;
    const isApart = !last || !(timeS - last.timeS <= APART_MAX_S && timeS > last.timeS);
    if (!isApart && Math.abs(turn) < TURN_RAD.least) return;
    const seen = { timeS, yaw, ranges: rangesAround(points, origin) };
    this.#last = seen;
    if (isApart || Math.abs(turn) > TURN_RAD.most) return;
    const right = difference(seen.ranges, last.ranges, turn),
      wrong = difference(seen.ranges, last.ranges, -turn);
    if (right < CLEAR_SHARE * wrong) this.#votes.right++;
    else if (wrong < CLEAR_SHARE * right) this.#votes.wrong++;
  }

  /** Whether the scans turn in the opposite sense to the robot; undefined while too few turns are clear. */
  get isMirrored(): boolean | undefined {
    const { right, wrong } = this.#votes, all = right + wrong;
    if (all < VOTES_MIN) return undefined;
    if (wrong >= VOTES_SHARE * all) return true;
    return right >= VOTES_SHARE * all ? false : undefined;
  }
}

/** The nearest range in each direction, or of the beam beside it; infinite without one. */
function rangesAround(points: Float32Array, origin = { x: 0, y: 0 }): Float32Array {
  const ranges = new Float32Array(BINS).fill(Infinity);
  for (let n = 0; n + 2 < points.length; n += 3) {
    const x = singleAt(points, n) - origin.x,
      y = singleAt(points, n + 1) - origin.y,
      range = Math.hypot(x, y);
    if (!Number.isFinite(range)) continue;
    const bin = binOf(Math.atan2(y, x));
    ranges[bin] = Math.min(singleAt(ranges, bin), range);
  }
  return ranges.map((range, bin) => {
    for (let beside = 1; beside <= BESIDE_MAX && range === Infinity; beside++) {
      const after = singleAt(ranges, (bin + beside) % BINS);
      range = Math.min(after, singleAt(ranges, (bin - beside + BINS) % BINS));
    }
    return range;
  });
}

/** How much a scan differs from an earlier one after the robot has turned; infinite if too little is comparable. */
function difference(now: Float32Array, before: Float32Array, turn: number): number {
  const shift = Math.round(turn / BIN_RAD);
  let sum = 0, compared = 0;
  for (let bin = 0; bin < BINS; bin++) {
    const off = Math.abs(singleAt(now, bin) - singleAt(before, (bin + shift + BINS) % BINS));
    if (!Number.isFinite(off)) continue;
    sum += Math.min(off, DIFFERENCE_MAX_M);
    compared++;
  }
  return compared >= COMPARED_MIN ? sum / compared : Infinity;
}

function binOf(angle: number): number {
  return (Math.floor(angle / BIN_RAD) % BINS + BINS) % BINS;
}
