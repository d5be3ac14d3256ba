/**
 * The state of a map: a mapper's result so far, and the content of a map file.
 *
 * Lengths are metres, angles radians. Times are ticks: units of 100 ns since 0001-01-01 UTC, as map files have
 * them. Indices count within a trajectory, and may have gaps where submaps or nodes were trimmed.
 */

import type { Pose2d } from "./pose2d.ts";

/** Ticks at the Unix epoch, and in a second. */
const UNIX_EPOCH_TICKS = 621_355_968_000_000_000n;
export const TICKS_A_SECOND = 10_000_000;

export interface MapState {
  readonly trajectories: readonly TrajectoryState[];
  readonly submaps: readonly SubmapState[];
  readonly nodes: readonly NodeState[];
  readonly constraints: readonly ConstraintState[];
  /** Poses of landmarks in the map, which a mapper of scans does not use, and passes on. */
  readonly landmarks?: readonly { readonly id: string; readonly pose: RigidState }[];
}

export interface TrajectoryState {
  readonly trajectory: number;
  readonly odometry: readonly OdometryState[];
  readonly imu: readonly ImuState[];
  /** The number of submaps that a localizing trajectory keeps; undefined for a mapping one. */
  readonly submapsKept: number | undefined;
  /** Data that a mapper of scans does not use, and passes on; undefined if there are none. */
  readonly carried?: CarriedState;
}

/** Data of other programs. */
export interface CarriedState {
  readonly gravityMPerS2: number;
  readonly imuCalibration: RigidState["rotation"];
  readonly fixedFrameOrigin: RigidState | undefined;
  /** Poses in a fixed frame, such as that of satellites. */
  readonly fixedFramePoses: readonly { readonly ticks: bigint; readonly pose: RigidState | undefined }[];
  readonly sightings: readonly { readonly ticks: bigint; readonly landmarks: readonly LandmarkSighting[] }[];
}

export interface LandmarkSighting {
  readonly id: Uint8Array;
  /** As seen from the robot. */
  readonly pose: RigidState | undefined;
  readonly translationWeight: number;
  readonly rotationWeight: number;
}

/** A pose in three dimensions; parts that a file leaves out are undefined. */
export interface RigidState {
  readonly translation: { readonly x: number; readonly y: number; readonly z: number } | undefined;
  readonly rotation:
    | { readonly x: number; readonly y: number; readonly z: number; readonly w: number }
    | undefined;
}

export interface OdometryState {
  readonly ticks: bigint;
  readonly pose: Pose2d;
}

export interface ImuState {
  readonly ticks: bigint;
  /** Metres per second squared. */
  readonly linearAcceleration: readonly [number, number, number];
  /** Radians per second. */
  readonly angularVelocity: readonly [number, number, number];
}

export interface SubmapState {
  readonly trajectory: number;
  readonly index: number;
  /** Its origin in the frame of its trajectory's local SLAM. */
  readonly localPose: Pose2d;
  /** Its origin in the frame of the map. */
  readonly globalPose: Pose2d;
  /** Scans inserted so far. */
  readonly scanCount: number;
  /** Whether scans are no longer inserted. */
  readonly finished: boolean;
  readonly grid: GridState;
}

/**
 * A grid of correspondence costs in the local frame. The cell (i, j) is `cells[cellsX * j + i]`; its centre is at
 * x = maxX - (j + 0.5) * resolution, y = maxY - (i + 0.5) * resolution: i runs along -y and j along -x, as in the
 * published files. A cell is 0 (unknown) or 1 to 32767, which is a cost (1 - probability) from 0.1 to 0.9.
 */
export interface GridState {
  readonly resolution: number;
  readonly maxX: number;
  readonly maxY: number;
  readonly cellsX: number;
  readonly cellsY: number;
  readonly cells: Uint16Array;
  /** The range of known cells, edges included; undefined if none is known. */
  readonly known: CellRange | undefined;
}

export interface CellRange {
  readonly minI: number;
  readonly minJ: number;
  readonly maxI: number;
  readonly maxJ: number;
}

export interface NodeState {
  readonly trajectory: number;
  readonly index: number;
  readonly ticks: bigint;
  readonly localPose: Pose2d;
  readonly globalPose: Pose2d;
  /** The rotation (x, y, z, w) from the robot's frame into one whose z axis is up; yaw is left as it is. */
  readonly gravityAlignment: readonly [number, number, number, number];
  /** The filtered, gravity-aligned points of the scan: x, y, z, x, y, z, … */
  readonly points: Float32Array;
}

export interface ConstraintState {
  readonly submap: { readonly trajectory: number; readonly index: number };
  readonly node: { readonly trajectory: number; readonly index: number };
  /** The node in the frame of the submap. */
  readonly pose: Pose2d;
  readonly translationWeight: number;
  readonly rotationWeight: number;
  /** Intra: the node's scan is part of the submap. Inter: a loop closure. */
  readonly kind: "intra" | "inter";
}

/** Ticks of a time in seconds since the Unix epoch. */
export function ticksOf(unixS: number): bigint {
  const whole = Math.floor(unixS);
  return UNIX_EPOCH_TICKS + BigInt(whole) * BigInt(TICKS_A_SECOND) +
    BigInt(Math.round((unixS - whole) * TICKS_A_SECOND));
}

/** Seconds since the Unix epoch. */
export function secondsOf(ticks: bigint): number {
  const since = ticks - UNIX_EPOCH_TICKS;
  const second = BigInt(TICKS_A_SECOND);
  return Number(since / second) + Number(since % second) / TICKS_A_SECOND;
}
