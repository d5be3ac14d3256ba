/**
 * Scores a trajectory by relations: poses of the robot at one time relative to its pose at another, which people
 * have determined by matching scans (Kuemmerle et al., Autonomous Robots 27(4), 2009).
 */

import { firstIndex } from "../../base/collections/first_index.ts";
import { between2d, interpolate2d, type Pose2d } from "../pose2d.ts";
import { logLines } from "./carmen.ts";

export interface Relation {
  readonly firstS: number;
  readonly secondS: number;
  /** The robot at `secondS` in the frame of the robot at `firstS`. */
  readonly pose: Pose2d;
}

export interface TimedPose {
  readonly timeS: number;
  readonly pose: Pose2d;
}

export interface Spread {
  readonly mean: number;
  readonly deviation: number;
  readonly median: number;
  readonly p95: number;
  readonly max: number;
}

export interface RelationScore {
  readonly used: number;
  readonly translationM: Spread;
  readonly rotationDeg: Spread;
  /** Relations whose translation is wrong by more than a metre. */
  readonly overMetre: number;
}

const FIELDS = 8;
/** A relation counts if the trajectory has poses within this time of both of its times. */
const REACH_S = 1;

/** Reads the lines `t1 t2 x y z roll pitch yaw`; `#` begins a comment. */
export function readRelations(text: string): Relation[] {
  const relations: Relation[] = [];
  let lineNumber = 0;
  for (const line of logLines(text)) {
    lineNumber++;
    if (line.trim() === "" || line.startsWith("#")) continue;
    const values = line.trim().split(/\s+/).map(Number);
    if (values.length !== FIELDS || !values.every(Number.isFinite)) {
      throw new RangeError(
        `line ${lineNumber}: no relation; want ${FIELDS} numbers: t1 t2 x y z roll pitch yaw`,
      );
    }
    const [firstS = NaN, secondS = NaN, x = NaN, y = NaN, , , , yaw = NaN] = values;
    relations.push({ firstS, secondS, pose: { x, y, yaw } });
  }
  return relations;
}

/** The error of each relation: expected^-1 * (first^-1 * second), with poses interpolated in time. */
function relationErrors(trajectory: readonly TimedPose[], relations: readonly Relation[]): Pose2d[] {
  return relations.flatMap(({ firstS, secondS, pose }) => {
    const first = poseAt(trajectory, firstS), second = poseAt(trajectory, secondS);
    return first && second ? [between2d(pose, between2d(first, second))] : [];
  });
}

/** `trajectory` is sorted by time. */
export function scoreRelations(
  trajectory: readonly TimedPose[],
  relations: readonly Relation[],
): RelationScore {
  const errors = relationErrors(trajectory, relations);
  const translations = errors.map(({ x, y }) => Math.hypot(x, y));
  return {
    used: errors.length,
    translationM: spreadOf(translations),
    rotationDeg: spreadOf(errors.map(({ yaw }) => Math.abs(yaw) * 180 / Math.PI)),
    overMetre: translations.filter((one) => one > 1).length,
  };
}

function poseAt(trajectory: readonly TimedPose[], timeS: number): Pose2d | undefined {
  const at = firstIndex(trajectory.length, (index) => !((trajectory[index]?.timeS ?? Infinity) < timeS));
  const after = trajectory[at], before = trajectory[at - 1];
  if (after?.timeS === timeS) return after.pose;
  if (before && after) {
    return interpolate2d(before.pose, after.pose, (timeS - before.timeS) / (after.timeS - before.timeS));
  }
  const end = before ?? after;
  return end && Math.abs(end.timeS - timeS) <= REACH_S ? end.pose : undefined;
}

function spreadOf(values: readonly number[]): Spread {
  if (values.length === 0) return { mean: NaN, deviation: NaN, median: NaN, p95: NaN, max: NaN };
  const sorted = [...values].sort((a, b) => a - b);
  const mean = sorted.reduce((sum, one) => sum + one, 0) / sorted.length;
  const square = sorted.reduce((sum, one) => sum + (one - mean) ** 2, 0) / sorted.length;
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN;
  return { mean, deviation: Math.sqrt(square), median: at(0.5), p95: at(0.95), max: at(1) };
}
