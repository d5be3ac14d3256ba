/**
 * Plays a recording to a mapper at full speed, and returns the trajectory of all its scans.
 */

import type { Mapper } from "../mapper.ts";
import type { MirrorCheck } from "../mirror_check.ts";
import { between2d, compose2d, IDENTITY_2D, type Pose2d } from "../pose2d.ts";
import { type CarmenLog, type CarmenScan, pointsOf } from "./carmen.ts";
import type { SensorFacts } from "./sensor.ts";
import type { TimedPose } from "./relations.ts";

export interface ReplayOptions {
  readonly withOdometry: boolean;
  /** Facts about the lidar that replace those of the log. */
  readonly sensor?: SensorFacts;
  /** Plays only every Nth scan; between them, the trajectory follows odometry. */
  readonly every?: number;
  /** Gets each scan with the odometry of its time. */
  readonly mirrors?: MirrorCheck;
  /** Called after each scan and all the work that it caused. */
  readonly onScan?: (done: number, total: number) => void;
}

interface ReplayedScan {
  readonly timeS: number;
  /** The time of the last scan that the mapper took, and the motion since by odometry. */
  readonly takenS: number;
  readonly moved: Pose2d;
}

/** Plays the scans in order, except those that are not later than the one before; then finishes the map. */
export function replay(log: CarmenLog, mapper: Mapper, options: ReplayOptions): TimedPose[] {
  const { withOdometry, every = 1 } = options;
  const placed: ReplayedScan[] = [];
  let lastS = -Infinity, taken: CarmenScan | undefined;
  mapper.keepScans();
  log.scans.forEach((scan, at) => {
    const { timeS } = scan;
    if (timeS > lastS) {
      if (withOdometry) mapper.addOdometry({ timeS, pose: scan.odometry });
      if (at % every === 0) {
        taken = addScan(mapper, scan, options) ? scan : undefined;
        if (taken) placed.push({ timeS, takenS: timeS, moved: IDENTITY_2D });
      } else if (withOdometry && taken) {
        placed.push({ timeS, takenS: taken.timeS, moved: between2d(taken.odometry, scan.odometry) });
      }
    }
    lastS = Math.max(lastS, timeS);
    options.onScan?.(at + 1, log.scans.length);
  });
  mapper.finish();
  return placed.flatMap(({ timeS, takenS, moved }) => {
    const pose = mapper.scanPose(takenS);
    return pose ? [{ timeS, pose: compose2d(pose, moved) }] : [];
  });
}

function addScan(mapper: Mapper, scan: CarmenScan, options: ReplayOptions): boolean {
  const sensor = sensorOf(scan, options.sensor);
  const { sweepS = 0 } = sensor, beams = scan.ranges.length;
  const seen = {
    timeS: scan.timeS,
    points: pointsOf(scan.ranges, sensor),
    origin: sensor.lidar,
    ...(sweepS > 0 ? { offsetsS: sweepOf(beams, sweepS) } : {}),
  };
  if (options.withOdometry) options.mirrors?.add(seen, scan.odometry.yaw);
  const isTaken = mapper.addScan(seen);
  while (mapper.work());
  return isTaken;
}

/** When each beam was measured, relative to the last beam. */
export function sweepOf(beams: number, sweepS: number): Float32Array {
  return Float32Array.from({ length: beams }, (_, beam) => beams > 1 ? sweepS * (beam / (beams - 1) - 1) : 0);
}

/** The facts about the lidar: those in `given`, then those of the log. */
export function sensorOf({ sensor }: Pick<CarmenScan, "sensor">, given: SensorFacts = {}): SensorFacts {
  return {
    lidar: given.lidar ?? sensor?.lidar,
    firstBeamRad: given.firstBeamRad ?? sensor?.firstBeamRad,
    stepRad: given.stepRad ?? sensor?.stepRad,
    sweepS: given.sweepS ?? sensor?.sweepS,
    isUpsideDown: given.isUpsideDown ?? sensor?.isUpsideDown,
  };
}

/** The log, alternately forwards and backwards, this many times in total, so that the robot never jumps. */
export function repeated(log: CarmenLog, times: number): CarmenLog {
  const firstS = log.scans[0]?.timeS ?? 0, lastS = log.scans.at(-1)?.timeS ?? 0;
  const spanS = lastS - firstS + 1;
  const scans: CarmenScan[] = [];
  for (let round = 0; round < times; round++) {
    const isBack = round % 2 === 1;
    for (const scan of isBack ? log.scans.toReversed() : log.scans) {
      const sinceS = isBack ? lastS - scan.timeS : scan.timeS - firstS;
      scans.push({ ...scan, timeS: firstS + round * spanS + sinceS });
    }
  }
  return { scans, odometry: [] };
}
