/**
 * Feeds the mapper with readings.
 *
 * Online, it reads the lidar and the movement sensor concurrently, each at its own rate, and drops readings for which
 * the mapper has no time. Offline, it merges the readings of two recordings by their times and drops none. When either
 * recording ends, it optimises the map to the end.
 */

import { isEndOfData } from "../../../lib/api/shared/replay.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../../lib/base/error.ts";
import type { Logger } from "../../../lib/base/log/log.ts";
import type { RangeScan } from "../../../lib/slam/mapping.ts";
import type { Pose2d } from "../../../lib/slam/pose2d.ts";
import type { Engine, Reading } from "./engine.ts";
import type { MirrorWatch } from "./mirror_watch.ts";
import {
  type LidarSensor,
  type MotionSensor,
  type MovementReading,
  movementTimeS,
  type SensorReading,
} from "./sensors.ts";

/**
 * Limit of readings of each kind that wait for the mapper; further ones are dropped. Movements count separately,
 * because on a busy machine they would leave no room for scans.
 */
const WAITING_MAX = { scan: 2, movement: 100 } as const;
/** Pause before a recording that has ended, or a sensor that failed, is read again. */
const RETRY_MS = 1_000;
/** Tries of one reading of a recording before the run fails. */
const TRIES_MAX = 10;

export interface FeedParts {
  readonly engine: Pick<Engine, "add" | "finish">;
  readonly lidar: Pick<LidarSensor, "next">;
  readonly motion?: Pick<MotionSensor, "next">;
  readonly mirrors: MirrorWatch;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called with the robot's pose after each reading. */
  readonly moved: (pose: Pose2d | undefined) => void;
}

/** Runs until the signal aborts. */
export async function feedOnline(
  { engine, lidar, motion, mirrors, clock, logger, moved }: FeedParts,
  rates: { readonly lidarHz: number; readonly motionHz: number },
  signal: AbortSignal,
): Promise<void> {
  const waiting = { scan: 0, movement: 0 };
  const give = async (kind: keyof typeof WAITING_MAX, readings: readonly Reading[], isReplayed: boolean) => {
    if (!isReplayed && waiting[kind] >= WAITING_MAX[kind]) {
      return logger.debug(`left out a ${kind}: ${waiting[kind]} wait for the mapper`);
    }
    waiting[kind]++;
    const added = Promise.all(readings.map((reading) => engine.add(reading)));
    const reported = added.then((poses) => moved(poses.at(-1)), (error) => {
      if (!signal.aborted) logger.warn(`the mapper did not take a ${kind}: ${chainOf(error)}`);
    }).finally(() => void waiting[kind]--);
    if (isReplayed) await reported;
  };
  const scans = forever(periodMs(rates.lidarHz), clock, logger, signal, async () => {
    const { reading, isReplayed } = await lidar.next(signal);
    mirrors.scan(reading);
    await give("scan", [{ kind: "scan", scan: reading }], isReplayed);
    return isReplayed;
  });
  const movements = motion && forever(periodMs(rates.motionHz), clock, logger, signal, async () => {
    const { reading, isReplayed } = await motion.next(signal);
    mirrors.move(reading);
    await give("movement", readingsOf(reading), isReplayed);
    return isReplayed;
  });
  await Promise.all([scans, movements]);
}

/** Milliseconds between two readings. */
function periodMs(hz: number): number {
  return Math.floor(1000 / hz);
}

/** Reads every `everyMs`. A recording is read as fast as it answers. */
async function forever(
  everyMs: number,
  clock: Clock,
  logger: Logger,
  signal: AbortSignal,
  read: () => Promise<boolean>,
): Promise<void> {
  while (!signal.aborted) {
    const start = clock.monotonicMs();
    let waitMs = everyMs;
    try {
      if (await read()) waitMs = 0;
    } catch (error) {
      if (signal.aborted) return;
      if (isEndOfData(error)) waitMs = RETRY_MS;
      else logger.warn(`no reading: ${chainOf(error)}`);
    }
    const passed = clock.monotonicMs() - start;
    await clock.sleep(Math.max(1, waitMs - passed), signal).catch(() => {});
  }
}

/** Runs to the end of a recording, or until the signal aborts. Throws if a sensor keeps failing. */
export async function feedOffline(
  { engine, lidar, motion, mirrors, clock, logger, moved }: FeedParts,
  signal: AbortSignal,
): Promise<void> {
  const next = <T>(read: () => Promise<SensorReading<T>>) => tried(read, clock, logger, signal);
  const add = async (readings: readonly Reading[]) => {
    for (const reading of readings) moved(await engine.add(reading));
  };
  let scan: RangeScan | undefined = await next(() => lidar.next(signal));
  const nextMovement = async () => motion && await next(() => motion.next(signal));
  let movement: MovementReading | undefined = await nextMovement();
  while (scan && movement && movementTimeS(movement) < scan.timeS) movement = await nextMovement();
  while (scan && (movement || !motion)) {
    signal.throwIfAborted();
    // At equal times the movement comes first, because the scan's prediction uses it.
    if (movement && movementTimeS(movement) <= scan.timeS) {
      mirrors.move(movement);
      await add(readingsOf(movement));
      movement = await nextMovement();
    } else {
      mirrors.scan(scan);
      await add([{ kind: "scan", scan }]);
      scan = await next(() => lidar.next(signal));
    }
  }
  moved(await engine.finish());
}

/** The next reading; `undefined` at the end of the recording. */
async function tried<T>(
  read: () => Promise<SensorReading<T>>,
  clock: Clock,
  logger: Logger,
  signal: AbortSignal,
): Promise<T | undefined> {
  for (let attempt = 1;; attempt++) {
    try {
      return (await read()).reading;
    } catch (error) {
      signal.throwIfAborted();
      if (isEndOfData(error)) return undefined;
      if (attempt === TRIES_MAX) {
        throw new SvcError("unavailable", `no reading in ${TRIES_MAX} tries: ${chainOf(error)}`, {
          cause: error,
        });
      }
      logger.warn(`no reading, trying again: ${chainOf(error)}`);
      // After a scan without points, the next is read at once.
      await clock.sleep(attempt === 1 ? 1 : RETRY_MS, signal);
    }
  }
}

function readingsOf({ imu, odometry }: MovementReading): Reading[] {
  const readings: Reading[] = [];
  if (imu) readings.push({ kind: "imu", reading: imu });
  if (odometry) readings.push({ kind: "odometry", reading: odometry });
  return readings;
}
