/** The scans of a CARMEN log, one after the other. */

import { endOfData } from "../../../lib/api/shared/replay.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import type { ReadFiles } from "../../../lib/base/files/files.ts";
import type { ResourceName } from "../../../lib/resource/name.ts";
import type { Call } from "../../../lib/resource/resource.ts";
import { type CarmenScan, pointsOf } from "../../../lib/slam/evaluation/carmen.ts";
import { readLogFile } from "../../../lib/slam/evaluation/log_file.ts";
import { Lidar } from "./lidar.ts";

export class CarmenLidar extends Lidar {
  #next = 0;

  constructor(name: ResourceName, clock: Clock, private readonly scans: readonly CarmenScan[]) {
    super(name, clock);
  }

  /** Throws `invalid_argument` for a log without scans. */
  static async open(name: ResourceName, files: ReadFiles, path: string, clock: Clock): Promise<CarmenLidar> {
    const { scans } = await readLogFile(files, path);
    if (scans.length === 0) {
      throw new SvcError("invalid_argument", `the log "${path}" has no scans (FLASER, RLASER, ROBOTLASER1)`);
    }
    // The scans of a second laser look another way, and this lidar has one place.
    const yaw = scans[0].sensor?.lidar?.yaw;
    return new CarmenLidar(name, clock, scans.filter(({ sensor }) => sensor?.lidar?.yaw === yaw));
  }

  protected override scan(call?: Call): Promise<Float32Array> {
    return Promise.try(() => {
      if (this.#next === this.scans.length) throw endOfData(`${this.name}: the log`);
      const scan = this.scans[this.#next++];
      call?.taken?.(scan.timeS * 1000);
      return flat(scan);
    });
  }

  protected override shown(): Promise<Float32Array> {
    return Promise.resolve(flat(this.scans[Math.max(0, this.#next - 1)]));
  }
}

/** The returns in the lidar's frame: its place on the robot is the frame system's. */
function flat({ ranges, sensor }: CarmenScan): Float32Array {
  const points = pointsOf(ranges, { ...sensor, lidar: undefined });
  const out = new Float32Array(2 * ranges.length);
  let to = 0;
  for (let n = 0; n < points.length; n += 3) {
    if (!Number.isFinite(points[n])) continue;
    out[to++] = points[n];
    out[to++] = points[n + 1];
  }
  return out.slice(0, to);
}
