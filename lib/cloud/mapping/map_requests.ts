/** Requests to a content process that make a map, scan by scan. */

import type { ImuReading, MapperOptions, OdometryReading } from "../../slam/mapping.ts";

export type MapRequest =
  /** Starts a map: a new one, or, with bytes, the one in that package. */
  | { readonly ask: "map"; readonly options: MapperOptions; readonly bytes: number }
  /** A scan as a PCD file. The answer is the robot's pose, once it is known. */
  | { readonly ask: "scan"; readonly timeS: number; readonly bytes: number }
  | { readonly ask: "movements"; readonly movements: Movements; readonly bytes: 0 }
  /** The map so far as a PCD file, or at its end as a `.pbstream` file. */
  | { readonly ask: "map_cloud" | "map_file"; readonly bytes: 0 };

/** Measurements of the robot's own movement. */
export interface Movements {
  readonly imu: readonly ImuReading[];
  readonly odometry: readonly OdometryReading[];
}

/** The name of the map in its package. */
export const MAP_FILE = "internalState.pbstream";
