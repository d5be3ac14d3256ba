/** The scans of a CARMEN log, one after the other. */

import { endOfData } from "../../../lib/api/shared/replay.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import { assert, SvcError } from "../../../lib/base/error.ts";
import type { ReadFiles } from "../../../lib/base/files/files.ts";
import type { ResourceName } from "../../../lib/resource/name.ts";
import type { Call } from "../../../lib/resource/resource.ts";
import { type CarmenScan, pointsOf } from "../../../lib/slam/evaluation/carmen.ts";
import { readLogFile, readSensorFile } from "../../../lib/slam/evaluation/log_file.ts";
import { sensorOf, sweepOf } from "../../../lib/slam/evaluation/replay.ts";
import type { SensorFacts } from "../../../lib/slam/evaluation/sensor.ts";
import { Lidar, type LidarTurn } from "./lidar.ts";

export class CarmenLidar extends Lidar {
  #next = 0;

  constructor(
    name: ResourceName,
    clock: Clock,
    private readonly scans: readonly CarmenScan[],
    /** What counts of the lidar in place of what the log says. */
    private readonly facts?: SensorFacts,
  ) {
    super(name, clock);
  }

  /** Throws `invalid_argument` for a log without scans. */
  static async open(name: ResourceName, files: ReadFiles, path: string, clock: Clock): Promise<CarmenLidar> {
    const { scans } = await readLogFile(files, path);
    const [first] = scans;
    if (!first) {
      throw new SvcError("invalid_argument", `the log "${path}" has no scans (FLASER, RLASER, ROBOTLASER1)`);
    }
    // The scans of a second laser look another way, and this lidar has one place.
    const yaw = first.sensor?.lidar?.yaw;
    const ofOne = scans.filter(({ sensor }) => sensor?.lidar?.yaw === yaw);
    return new CarmenLidar(name, clock, ofOne, await readSensorFile(files, path));
  }

  protected override scan(call?: Call): Promise<LidarTurn> {
    return Promise.try(() => {
      const scan = this.scans[this.#next];
      if (!scan) throw endOfData(`${this.name}: the log`);
      this.#next++;
      call?.taken?.(scan.timeS * 1000);
      return flat(scan, this.facts);
    });
  }

  protected override shown(): Promise<LidarTurn> {
    const scan = this.scans[Math.max(0, this.#next - 1)];
    assert(scan, "a log without scans is refused");
    return Promise.resolve(flat(scan, this.facts));
  }
}

/** The returns in the lidar's frame: its place on the robot is the frame system's. */
function flat({ ranges, sensor }: CarmenScan, facts?: SensorFacts): LidarTurn {
  const { sweepS = 0, ...beams } = sensorOf({ sensor }, facts);
  const points = pointsOf(ranges, { ...beams, lidar: undefined }), sweep = sweepOf(ranges.length, sweepS);
  const out = new Float32Array(2 * ranges.length), offsetsS = new Float32Array(ranges.length);
  let to = 0;
  for (let n = 0; n < ranges.length; n++) {
    const x = points[3 * n] ?? NaN;
    if (!Number.isFinite(x)) continue;
    offsetsS[to] = sweep[n] ?? 0;
    out[2 * to] = x;
    out[2 * to++ + 1] = points[3 * n + 1] ?? NaN;
  }
  return { points: out.slice(0, 2 * to), ...(sweepS > 0 ? { offsetsS: offsetsS.slice(0, to) } : {}) };
}
