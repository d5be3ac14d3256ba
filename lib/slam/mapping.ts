/**
 * The interface of a mapper for its callers: readings in, poses and the map out.
 *
 * The room owns 2D SLAM: submaps from scans (local SLAM), loop closures and the pose graph (global SLAM), and the state
 * of a map. It knows no sensors, no files and no clocks: every reading brings its time.
 */

import type { MapState } from "./map_state.ts";
import type { Pose2d } from "./pose2d.ts";

export type MapperMode = "create" | "update" | "localize";

export interface MapperOptions {
  /** Nodes between two optimisations of the pose graph; 0: local SLAM only. */
  readonly optimizeEveryNodes: number;
  /** Scans until the next submap begins; each submap gets twice as many. */
  readonly scansPerSubmap: number;
  readonly minRangeM: number;
  /** A longer range counts as no return: the ray is free for `missingDataRayLengthM`. */
  readonly maxRangeM: number;
  readonly missingDataRayLengthM: number;
  /** Submaps that a localizing trajectory keeps. */
  readonly maxSubmapsToKeep: number;
  /** When updating: newest submaps to keep of each place. */
  readonly freshSubmapsCount: number;
  readonly minCoveredAreaM2: number;
  readonly minAddedSubmapsCount: number;
  /** Weights of the refinement of loop closures. */
  readonly occupiedSpaceWeight: number;
  readonly translationWeight: number;
  readonly rotationWeight: number;
}

/** The documented defaults of the service's attributes. */
export const MAPPER_DEFAULTS: MapperOptions = {
  optimizeEveryNodes: 3,
  scansPerSubmap: 30,
  minRangeM: 0.2,
  maxRangeM: 25,
  missingDataRayLengthM: 25,
  maxSubmapsToKeep: 3,
  freshSubmapsCount: 3,
  minCoveredAreaM2: 1,
  minAddedSubmapsCount: 1,
  occupiedSpaceWeight: 20,
  translationWeight: 10,
  rotationWeight: 1,
};

/** Limit of the points of a scan that comes as a file. */
export const SCAN_POINTS_MAX = 1_000_000;

export interface RangeScan {
  /** Seconds since the Unix epoch, of the last point. */
  readonly timeS: number;
  /** In the robot's frame, metres: x, y, z, x, y, z, … Points that are not finite are left out. */
  readonly points: Float32Array;
  /** Where the lidar is in that frame; undefined: where the robot is. */
  readonly origin?: { readonly x: number; readonly y: number };
  /** When each point was measured, in seconds relative to `timeS`; undefined: all at `timeS`. */
  readonly offsetsS?: Float32Array;
}

export interface OdometryReading {
  readonly timeS: number;
  readonly pose: Pose2d;
}

export interface ImuReading {
  readonly timeS: number;
  readonly linearAcceleration: readonly [number, number, number];
  readonly angularVelocity: readonly [number, number, number];
}

/** The state of localization. */
export interface Localization {
  /** `lost`: the map contradicts the scans, and the pose is the last known one. */
  readonly place: "localized" | "not localized" | "lost";
  /** How well the scans fit the map at the place, from 0 to 1; 0 unless the robot is localized. */
  readonly confidence: number;
}

/**
 * Readings are added in the order of their times; of equal times, odometry and IMU before the scan. A reading that
 * is older than the last of its kind is left out (`false`).
 */
export interface Mapping {
  addScan(scan: RangeScan): boolean;
  addOdometry(reading: OdometryReading): boolean;
  addImu(reading: ImuReading): boolean;
  /** The robot in the map at the last reading; undefined before the first scan, and until it is found in a given map. */
  pose(): Pose2d | undefined;
  localization(): Localization;
  /** Why odometry is ignored at present, because many scans contradict it; undefined if it counts. */
  odometryDoubt(): string | undefined;
  /** By what odometry is multiplied at present, because the scans show other ways or turns; undefined if by nothing. */
  odometryCorrection(): string | undefined;
  /**
   * Does one piece of the work that may wait (loop closures, optimisation), some milliseconds long; false if there
   * is none. A caller that works offline calls it after each scan until it returns false, so that the same readings
   * give the same map; one that works online calls it when no reading waits.
   */
  work(): boolean;
  /** Does all the work that waits, and optimises to the end. */
  finish(): void;
  /** Schedules the same work; each call of `work` does one slice of it. */
  finishLater(): void;
  /** A copy of the present map. */
  state(): MapState;
}

/** The start of a mapper. */
export interface MapperStart {
  readonly mode: MapperMode;
  readonly options: MapperOptions;
  /** The map to update, or to localize in. */
  readonly map?: MapState;
  /** The robot's pose in that map, if it is known. */
  readonly pose?: Pose2d;
}
