/**
 * Whether a reading is usable: sensors and recordings may give impossible numbers, or values that are not numbers.
 */

import type { ImuReading, OdometryReading } from "./mapping.ts";

/** Seconds since 1970: some thousand years. */
const TIME_MAX_S = 1e11;
const OFFSET_MAX_M = 1e6;
/** Radians: enough for a robot that turns in one direction all its life. */
const YAW_MAX = 1e6;
const ACCELERATION_MAX = 1e4;
const ANGULAR_VELOCITY_MAX = 1e4;

export function isTime(timeS: number): boolean {
  return within(TIME_MAX_S, timeS);
}

export function isUsableOdometry({ timeS, pose }: OdometryReading): boolean {
  return isTime(timeS) && within(OFFSET_MAX_M, pose.x, pose.y) && within(YAW_MAX, pose.yaw);
}

export function isUsableImu({ timeS, linearAcceleration, angularVelocity }: ImuReading): boolean {
  return isTime(timeS) && within(ACCELERATION_MAX, ...linearAcceleration) &&
    within(ANGULAR_VELOCITY_MAX, ...angularVelocity);
}

/** False for numbers that are not finite, too. */
function within(max: number, ...values: readonly number[]): boolean {
  return values.every((value) => Math.abs(value) <= max);
}
