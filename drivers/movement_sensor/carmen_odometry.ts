/** The odometry of a CARMEN log, one pose after the other: metres to the east (x) and the north (y) of 0, 0. */

import { BaseMovementSensor } from "../../lib/api/sensors/movement_sensor.ts";
import type { GeoPoint } from "../../lib/api/shared/readings.ts";
import { endOfData } from "../../lib/api/shared/replay.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { ReadFiles } from "../../lib/base/files/files.ts";
import { geoPointAt } from "../../lib/geometry/geo.ts";
import type { OrientationVector } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import type { Call } from "../../lib/resource/resource.ts";
import type { CarmenLog, CarmenOdometry } from "../../lib/slam/evaluation/carmen.ts";
import { readLogFile } from "../../lib/slam/evaluation/log_file.ts";

export class CarmenOdometer extends BaseMovementSensor {
  readonly #next = { position: 0, orientation: 0 };

  constructor(name: ResourceName, private readonly poses: readonly CarmenOdometry[]) {
    super(name, { positionSupported: true, orientationSupported: true });
  }

  /** Throws `invalid_argument` for a log without odometry. */
  static async open(name: ResourceName, files: ReadFiles, path: string): Promise<CarmenOdometer> {
    const poses = odometryOf(await readLogFile(files, path));
    if (poses.length === 0) throw new SvcError("invalid_argument", `the log "${path}" has no odometry`);
    return new CarmenOdometer(name, poses);
  }

  override getPosition(call?: Call): Promise<{ coordinate: GeoPoint; altitudeM: number }> {
    return Promise.try(() => {
      const { x, y } = this.#reading("position", call).pose;
      return { coordinate: geoPointAt({ eastM: x, northM: y }), altitudeM: 0 };
    });
  }

  override getOrientation(call?: Call): Promise<OrientationVector> {
    return Promise.try(() => {
      const { yaw } = this.#reading("orientation", call).pose;
      return { oX: 0, oY: 0, oZ: 1, theta: yaw * 180 / Math.PI };
    });
  }

  #reading(quantity: "position" | "orientation", call?: Call): CarmenOdometry {
    const reading = this.poses[this.#next[quantity]];
    if (!reading) throw endOfData(`${this.name}: the log`);
    this.#next[quantity]++;
    call?.taken?.(reading.timeS * 1000);
    return reading;
  }
}

/** All odometry of a log in the order of time, once for each time. */
function odometryOf({ odometry, scans }: CarmenLog): CarmenOdometry[] {
  const all = [...odometry, ...scans.map(({ timeS, odometry }) => ({ timeS, pose: odometry }))];
  all.sort((a, b) => a.timeS - b.timeS);
  return all.filter(({ timeS }, index) => timeS > (all[index - 1]?.timeS ?? -Infinity));
}
