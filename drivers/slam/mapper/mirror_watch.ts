/** Warns once of a lidar whose scans turn the other way than the movement sensor says. */

import type { Logger } from "../../../lib/base/log/log.ts";
import type { RangeScan } from "../../../lib/slam/mapping.ts";
import { MirrorCheck } from "../../../lib/slam/mirror_check.ts";
import type { MovementReading } from "./sensors.ts";

/** A gyroscope's pause that is bridged. */
const GAP_MAX_S = 0.5;

export class MirrorWatch {
  readonly #check = new MirrorCheck();
  #heading: number | undefined;
  #gyro = { timeS: -Infinity, yaw: 0 };
  #hasWarned = false;

  constructor(private readonly lidar: string, private readonly logger: Logger) {}

  move({ odometry, imu }: MovementReading): void {
    if (imu) {
      const passedS = imu.timeS - this.#gyro.timeS;
      const turned = passedS > 0 && passedS < GAP_MAX_S ? passedS * imu.angularVelocity[2] : 0;
      this.#gyro = { timeS: imu.timeS, yaw: this.#gyro.yaw + turned };
    }
    this.#heading = odometry?.pose.yaw ?? this.#gyro.yaw;
  }

  scan(scan: RangeScan): void {
    if (this.#heading === undefined || this.#hasWarned) return;
    this.#check.add(scan, this.#heading);
    if (this.#check.isMirrored !== true) return;
    this.#hasWarned = true;
    this.logger.warn(
      `the map is probably mirrored: the scans of ${this.lidar} turn the other way than the movement sensor says. If the ` +
        "lidar hangs upside down, say so in its frame: a roll of 180 degrees",
    );
  }
}
