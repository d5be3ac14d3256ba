/**
 * Estimates the direction of gravity and the heading from an IMU. It integrates the gyroscope and corrects the tilt
 * slowly with a low pass of the accelerometer.
 */

import type { ImuReading } from "../mapping.ts";

/** x, y, z, w. */
export type QuaternionTuple = readonly [number, number, number, number];

export const LEVEL: QuaternionTuple = [0, 0, 0, 1];
const GRAVITY_TIME_S = 10;
/** Longest gap between two readings over which the gyroscope is integrated. */
const GAP_MAX_S = 1;

export class GravityTracker {
  #timeS: number | undefined;
  /** Up, in the robot's frame. */
  #up: [number, number, number] = [0, 0, 1];
  #settled = false;
  #yaw = 0;
  #yawRate = 0;

  add({ timeS, linearAcceleration, angularVelocity }: ImuReading): void {
    const dt = this.#timeS === undefined ? 0 : timeS - this.#timeS;
    if (dt > 0 && dt <= GAP_MAX_S) this.#turn(angularVelocity, dt);
    const share = this.#settled ? 1 - Math.exp(-Math.max(0, dt) / GRAVITY_TIME_S) : 1;
    this.#lean(linearAcceleration, share);
    const [x, y, z] = this.#up, [wx, wy, wz] = angularVelocity;
    this.#yawRate = wx * x + wy * y + wz * z;
    this.#timeS = timeS;
  }

  /** The heading at a time, from an arbitrary start; undefined without readings near that time. */
  yawAt(timeS: number): number | undefined {
    if (this.#timeS === undefined || Math.abs(timeS - this.#timeS) > GAP_MAX_S) return undefined;
    return this.#yaw + this.#yawRate * (timeS - this.#timeS);
  }

  /** The rotation without yaw that makes the robot's z axis upright. */
  alignment(): QuaternionTuple {
    const [x, y, z] = this.#up;
    const w = Math.sqrt(Math.max(0, (1 + z) / 2));
    if (w < 1e-3) return LEVEL;
    return [y / (2 * w), -x / (2 * w), 0, w];
  }

  #turn([wx, wy, wz]: readonly [number, number, number], dt: number): void {
    const [x, y, z] = this.#up;
    this.#yaw += (wx * x + wy * y + wz * z) * dt;
    // In the robot's frame the world turns the opposite way.
    this.#up = unit([x - (wy * z - wz * y) * dt, y - (wz * x - wx * z) * dt, z - (wx * y - wy * x) * dt]) ??
      this.#up;
  }

  #lean(acceleration: readonly [number, number, number], share: number): void {
    const pull = unit(acceleration);
    if (!pull) return;
    const [x, y, z] = this.#up, kept = 1 - share;
    this.#up = unit([kept * x + share * pull[0], kept * y + share * pull[1], kept * z + share * pull[2]]) ??
      this.#up;
    this.#settled = true;
  }
}

function unit([x, y, z]: readonly [number, number, number]): [number, number, number] | undefined {
  const length = Math.hypot(x, y, z);
  return length > 1e-9 && Number.isFinite(length) ? [x / length, y / length, z / length] : undefined;
}

/** A point turned by a quaternion. */
export function rotatePoint(
  [x, y, z, w]: QuaternionTuple,
  px: number,
  py: number,
  pz: number,
): [number, number, number] {
  const tx = 2 * (y * pz - z * py), ty = 2 * (z * px - x * pz), tz = 2 * (x * py - y * px);
  return [
    px + w * tx + y * tz - z * ty,
    py + w * ty + z * tx - x * tz,
    pz + w * tz + x * ty - y * tx,
  ];
}
