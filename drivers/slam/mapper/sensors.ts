/**
 * The sensors of the mapper: scans of the lidar, and the IMU and odometry of the movement sensor, each with its time.
 *
 * A movement sensor returns one quantity per call. Two quantities form a reading if their times almost agree; otherwise
 * the older one is read again.
 */

import { type Camera } from "../../../lib/api/sensors/camera.ts";
import type { MovementSensor } from "../../../lib/api/sensors/movement_sensor.ts";
import type { GeoPoint } from "../../../lib/api/shared/readings.ts";
import { type Clock, deadline, race } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { planePointOf } from "../../../lib/geometry/geo.ts";
import {
  eulerFromQuaternion,
  type OrientationVector,
  quaternionFromVector,
  type Vec3,
} from "../../../lib/geometry/pose.ts";
import type { Call } from "../../../lib/resource/resource.ts";
import type { LidarMount } from "./lidar_mount.ts";
import type { ImuReading, OdometryReading, RangeScan } from "../../../lib/slam/mapping.ts";
import { readScanCloud } from "../../../lib/slam/scan_cloud.ts";

const READING_MS = 5_000;
/** Largest difference between the times of the two quantities of a reading. */
const PAIR_MS = 50;
const RAD_PER_DEG = Math.PI / 180;
/** The size of the plane on which a sensor's positions lie. */
const PLANE_M = 100_000;

/** A value, and whether it comes from a recording, which has its own times. */
export interface SensorReading<T> {
  readonly reading: T;
  readonly isReplayed: boolean;
}

export interface MovementReading {
  readonly imu?: ImuReading;
  readonly odometry?: OdometryReading;
}

/** The time of a movement: its IMU's time, if it has an IMU. */
export function movementTimeS({ imu, odometry }: MovementReading): number {
  return (imu ?? odometry)!.timeS;
}

/**
 * The time of readings that bring none: the time of day, which goes on steadily when somebody sets it back. A mapper
 * leaves out scans that are older than the last: otherwise it would stand still until the time of day is there again.
 */
export class ReadingTime {
  /** The largest lead of the time of day over the monotonic clock so far. */
  #aheadMs = -Infinity;

  constructor(private readonly clock: Clock) {}

  nowMs(): number {
    const monotonicMs = this.clock.monotonicMs();
    this.#aheadMs = Math.max(this.#aheadMs, this.clock.nowMs() - monotonicMs);
    return monotonicMs + this.#aheadMs;
  }
}

export class LidarSensor {
  constructor(
    readonly camera: Camera,
    private readonly clock: Clock,
    private readonly time: ReadingTime,
    private readonly mount?: LidarMount,
  ) {}

  /** Throws `failed_precondition` for a camera that gives no point clouds. */
  async check(signal: AbortSignal): Promise<void> {
    const { supportsPcd } = await within(
      this.clock,
      signal,
      (signal) => this.camera.getProperties({ signal }),
    );
    if (supportsPcd) return;
    throw new SvcError(
      "failed_precondition",
      `'camera' must support PCD, ${this.camera.name} gives no point clouds`,
    );
  }

  async next(signal: AbortSignal): Promise<SensorReading<RangeScan>> {
    const { value: file, timeMs, isReplayed } = await timed(this.clock, this.time, signal, (call) => {
      return this.camera.getPointCloud({ ...call, withTimes: true });
    });
    const scan = readScanCloud(file, await this.mount?.pose(signal));
    if (scan.points.length === 0) {
      throw new SvcError("unavailable", `${this.camera.name} gave a scan without points`);
    }
    return { reading: { timeS: timeMs / 1000, ...scan }, isReplayed };
  }
}

export class MotionSensor {
  #hasImu = false;
  #hasOdometry = false;
  readonly #plane = new OdometryPlane();

  constructor(
    readonly sensor: MovementSensor,
    private readonly clock: Clock,
    private readonly time: ReadingTime,
  ) {}

  /** Throws `failed_precondition` for a sensor that supports neither an IMU nor odometry. */
  async check(signal: AbortSignal): Promise<void> {
    const has = await within(this.clock, signal, (signal) => this.sensor.getProperties({ signal }));
    this.#hasImu = has.angularVelocitySupported && has.linearAccelerationSupported;
    this.#hasOdometry = has.positionSupported && has.orientationSupported;
    if (this.#hasImu || this.#hasOdometry) return;
    throw new SvcError(
      "failed_precondition",
      `'movement_sensor' must either support both LinearAcceleration and AngularVelocity, or both Position and ` +
        `Orientation; ${this.sensor.name} supports neither of the two pairs`,
    );
  }

  async next(signal: AbortSignal): Promise<SensorReading<MovementReading>> {
    const [imu, odometry] = await Promise.all([
      this.#hasImu ? this.#imu(signal) : undefined,
      this.#hasOdometry ? this.#odometry(signal) : undefined,
    ]);
    return {
      reading: { imu: imu?.reading, odometry: odometry?.reading },
      isReplayed: (imu ?? odometry)!.isReplayed,
    };
  }

  async #imu(signal: AbortSignal): Promise<SensorReading<ImuReading>> {
    const { first, second, timeS, isReplayed } = await this.#pair(
      signal,
      (call) => this.sensor.getLinearAcceleration(call),
      (call) => this.sensor.getAngularVelocity(call),
    );
    return { reading: imuReading(timeS, first, second), isReplayed };
  }

  async #odometry(signal: AbortSignal): Promise<SensorReading<OdometryReading>> {
    const { first, second, timeS, isReplayed } = await this.#pair(
      signal,
      (call) => this.sensor.getPosition(call),
      (call) => this.sensor.getOrientation(call),
    );
    return { reading: this.#plane.reading(timeS, first.coordinate, second), isReplayed };
  }

  async #pair<A, B>(
    signal: AbortSignal,
    askFirst: (call: Call) => Promise<A>,
    askSecond: (call: Call) => Promise<B>,
  ) {
    const start = this.clock.monotonicMs();
    const read = <T>(ask: (call: Call) => Promise<T>) => timed(this.clock, this.time, signal, ask);
    let [first, second] = await Promise.all([read(askFirst), read(askSecond)]);
    while (Math.abs(first.timeMs - second.timeMs) >= PAIR_MS) {
      if (this.clock.monotonicMs() - start > READING_MS) {
        throw new SvcError(
          "deadline_exceeded",
          `${this.sensor.name} gave no two quantities of the same time`,
        );
      }
      if (first.timeMs < second.timeMs) first = await read(askFirst);
      else second = await read(askSecond);
    }
    const timeS = (first.timeMs + second.timeMs) / 2000;
    return { first: first.value, second: second.value, timeS, isReplayed: first.isReplayed };
  }
}

/** A value with its time: its own, or the time at the end of the call. */
async function timed<T>(
  clock: Clock,
  time: ReadingTime,
  signal: AbortSignal,
  ask: (call: Call) => Promise<T>,
) {
  let timeMs: number | undefined;
  const taken = (at: number) => void (timeMs = at);
  const value = await within(clock, signal, (signal) => ask({ signal, taken }));
  const isReplayed = timeMs !== undefined;
  return { value, timeMs: timeMs ?? time.nowMs(), isReplayed };
}

/** The sensor's answer, with the deadline of a reading. */
async function within<T>(
  clock: Clock,
  signal: AbortSignal,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = () =>
    new SvcError("deadline_exceeded", `the sensor did not answer within ${READING_MS / 1000} s`);
  const limit = deadline(clock, READING_MS, late, signal);
  try {
    return await race(ask(limit.signal), limit.signal);
  } finally {
    limit.done();
  }
}

/** From m/s² and degrees per second. Throws `invalid_argument` for a value that is not a number. */
export function imuReading(timeS: number, acceleration: Vec3, velocity: Vec3): ImuReading {
  const linearAcceleration = [acceleration.x, acceleration.y, acceleration.z] as const;
  const angularVelocity = [
    velocity.x * RAD_PER_DEG,
    velocity.y * RAD_PER_DEG,
    velocity.z * RAD_PER_DEG,
  ] as const;
  finite(linearAcceleration, angularVelocity);
  return { timeS, linearAcceleration, angularVelocity };
}

/** The plane on which a sensor's positions lie. It begins where the sensor is first, anywhere on the Earth. */
export class OdometryPlane {
  #origin?: GeoPoint;

  /** Throws `invalid_argument` for what is no number. */
  reading(timeS: number, coordinate: GeoPoint, orientation: OrientationVector): OdometryReading {
    const { yaw } = eulerFromQuaternion(quaternionFromVector(orientation));
    finite([coordinate.latitude, coordinate.longitude, yaw]);
    let { eastM, northM } = planePointOf(coordinate, this.#origin ??= coordinate);
    if (Math.hypot(eastM, northM) > PLANE_M) {
      // No robot goes so far: the sensor did not know yet where it is.
      this.#origin = coordinate;
      eastM = northM = 0;
    }
    return { timeS, pose: { x: eastM, y: northM, yaw } };
  }
}

function finite(...lists: readonly (readonly number[])[]): void {
  if (lists.flat().every(Number.isFinite)) return;
  throw new SvcError(
    "invalid_argument",
    `the movement sensor gave ${lists.flat().join(", ")}, wanted numbers`,
  );
}
