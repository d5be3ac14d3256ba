/**
 * Searches points anywhere in a map, and returns the few places with the best fit: best first, by bounds over windows
 * that are halved repeatedly.
 */

import { type Pose2d, wrapAngle } from "../../pose2d.ts";
import { type RelocalizationMap, SEARCH_LEVELS } from "./map.ts";

const TURNS = 360;
const TURN_RAD = 2 * Math.PI / TURNS;
const HIGHEST = 255;
/** Peaks closer than this to a better one are the same place. */
const SAME_M = 0.6;
const SAME_TURNS = 8;
/** Sums are queued in buckets of this many values. */
const BUCKET_SHIFT = 5;
/** Cells processed between two yields, and in all. */
const CELLS_A_PIECE = 4_000_000;
const CELLS_MAX = 400_000_000;
/** Points between two looks at whether a place can still be good enough. */
const POINTS_A_STEP = 16;

export interface PosePeak {
  readonly pose: Pose2d;
  /** Mean certainty of a wall under the points, 0 to 1. */
  readonly score: number;
}

export interface PeakLimits {
  readonly count: number;
  readonly minScore: number;
  /** How much worse than the best a peak may be. */
  readonly spread: number;
}

/** Waiting windows, ordered by their sums, the best first. */
class Windows {
  readonly #first: Int32Array;
  #at = new Int32Array(1 << 16);
  #kind = new Int32Array(1 << 16);
  #next = new Int32Array(1 << 16);
  #count = 0;
  #top = -1;

  constructor(highestSum: number) {
    this.#first = new Int32Array((highestSum >> BUCKET_SHIFT) + 1).fill(-1);
  }

  add(sum: number, at: number, kind: number): void {
    if (this.#count === this.#at.length) this.#grow();
    const bucket = sum >> BUCKET_SHIFT, entry = this.#count++;
    this.#at[entry] = at;
    this.#kind[entry] = kind;
    this.#next[entry] = this.#first[bucket] ?? -1;
    this.#first[bucket] = entry;
    if (bucket > this.#top) this.#top = bucket;
  }

  /** Undefined if none waits. */
  take(): { readonly bucket: number; readonly at: number; readonly kind: number } | undefined {
    for (; this.#top >= 0; this.#top--) {
      const entry = this.#first[this.#top] ?? -1;
      if (entry < 0) continue;
      this.#first[this.#top] = this.#next[entry] ?? -1;
      return { bucket: this.#top, at: this.#at[entry] ?? 0, kind: this.#kind[entry] ?? 0 };
    }
    return undefined;
  }

  #grow(): void {
    const double = (old: Int32Array) => {
      const larger = new Int32Array(2 * old.length);
      larger.set(old);
      return larger;
    };
    [this.#at, this.#kind, this.#next] = [double(this.#at), double(this.#kind), double(this.#next)];
  }
}

/** The places where `points` (x, y, … as seen from the robot) fit best. Yields between pieces of some milliseconds. */
export function* peaksOf(
  map: RelocalizationMap,
  points: Float64Array,
  { count: wanted, minScore, spread }: PeakLimits,
): Generator<void, PosePeak[]> {
  const count = points.length / 2;
  const highest = HIGHEST * count;
  const windows = new Windows(highest);
  const offsets = offsetsOf(points, map);
  let looked = 0, pausedAt = 0;
  const top = SEARCH_LEVELS - 1, step = 1 << top;
  const consider = (level: number, turn: number, at: number) => {
    const walls = map.walls[level], end = (turn + 1) * count;
    if (!walls || ((map.stands[at] ?? 0) >> level & 1) === 0) return;
    let sum = 0;
    for (let k = turn * count; k < end;) {
      const stop = Math.min(end, k + POINTS_A_STEP);
      looked += stop - k;
      for (; k < stop; k++) sum += walls[at + (offsets[k] ?? 0)] ?? 0;
      if (sum + (end - k) * HIGHEST < minSum) return;
    }
    windows.add(sum, at, level * TURNS + turn);
  };
  let minSum = minScore * highest;
  for (let turn = 0; turn < TURNS; turn++) {
    for (let j = map.margin; j < map.height - map.margin; j += step) {
      for (let i = map.margin; i < map.width - map.margin; i += step) consider(top, turn, map.width * j + i);
      if (looked - pausedAt > CELLS_A_PIECE) yield void (pausedAt = looked);
    }
  }
  const peaks: PosePeak[] = [];
  for (let next = windows.take(); next && looked < CELLS_MAX; next = windows.take()) {
    const { bucket, at, kind } = next;
    const sum = bucket << BUCKET_SHIFT;
    if (sum < minSum) break;
    const level = Math.floor(kind / TURNS), turn = kind % TURNS;
    const pose = poseOf(map, at, level, turn);
    if (peaks.some((peak) => isSame(peak.pose, pose))) continue;
    if (level === 0) {
      if (peaks.length === 0) minSum = Math.max(minSum, sum - spread * highest);
      peaks.push({ pose, score: sum / highest });
      if (peaks.length === wanted) break;
      continue;
    }
    const half = 1 << (level - 1);
    for (const more of [0, half, half * map.width, half * map.width + half]) {
      consider(level - 1, turn, at + more);
    }
    if (looked - pausedAt > CELLS_A_PIECE) yield void (pausedAt = looked);
  }
  return peaks;
}

/** The offset of each point from the robot in the grid, for each heading of the robot. */
function offsetsOf(points: Float64Array, map: RelocalizationMap): Int32Array {
  const offsets = new Int32Array(TURNS * points.length / 2);
  for (let turn = 0, to = 0; turn < TURNS; turn++) {
    const cos = Math.cos(turn * TURN_RAD) / map.cellM, sin = Math.sin(turn * TURN_RAD) / map.cellM;
    for (let k = 0; k < points.length; k += 2, to++) {
      const x = points[k] ?? 0, y = points[k + 1] ?? 0;
      const j = Math.floor(0.5 - cos * x + sin * y);
      const i = Math.floor(0.5 - sin * x - cos * y);
      offsets[to] = map.width * j + i;
    }
  }
  return offsets;
}

/** The middle of a window. */
function poseOf(map: RelocalizationMap, at: number, level: number, turn: number): Pose2d {
  const middle = (1 << level) / 2 - map.margin;
  const i = at % map.width + middle, j = Math.floor(at / map.width) + middle;
  return {
    x: map.grid.maxX - j * map.cellM,
    y: map.grid.maxY - i * map.cellM,
    yaw: wrapAngle(turn * TURN_RAD),
  };
}

function isSame(a: Pose2d, b: Pose2d): boolean {
  return Math.abs(a.x - b.x) < SAME_M && Math.abs(a.y - b.y) < SAME_M &&
    Math.abs(wrapAngle(a.yaw - b.yaw)) < SAME_TURNS * TURN_RAD;
}
