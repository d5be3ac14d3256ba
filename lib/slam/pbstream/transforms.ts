/** Converts positions and rotations from and to the messages of a map file. */

import type { Pose2d } from "../pose2d.ts";
import { type ContentOf, double, message, part } from "./fields.ts";

export const Vector2 = message({ x: double(1), y: double(2) });
export const Vector3 = message({ x: double(1), y: double(2), z: double(3) });
export const QuaternionMessage = message({ x: double(1), y: double(2), z: double(3), w: double(4) });
export const Rigid = message({ translation: part(1, Vector3), rotation: part(2, QuaternionMessage) });

export type VectorMessage = ContentOf<typeof Vector3>;
export type QuaternionMessage = ContentOf<typeof QuaternionMessage>;
export type RigidMessage = ContentOf<typeof Rigid>;

/** Largest deviation of a quaternion's length from 1. Writers round. */
const UNIT_TOLERANCE = 0.01;

export function rigidOf({ x, y, yaw }: Pose2d): RigidMessage {
  return {
    translation: { x, y, z: 0 },
    rotation: { x: 0, y: 0, z: Math.sin(yaw / 2), w: Math.cos(yaw / 2) },
  };
}

/** The planar part of a pose. */
export function pose2dOf({ translation, rotation }: RigidMessage): Pose2d {
  const { x = 0, y = 0 } = translation ?? {};
  const q = rotation ?? { x: 0, y: 0, z: 0, w: 1 };
  return { x, y, yaw: Math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y * q.y + q.z * q.z)) };
}

/** The problem of a pose, if any. */
export function rigidProblem(rigid: RigidMessage | undefined): string | undefined {
  if (rigid === undefined) return "no pose";
  const { x, y, z } = rigid.translation ?? { x: 0, y: 0, z: 0 };
  if (!Number.isFinite(x + y + z)) return `a pose at ${x}, ${y}, ${z}`;
  return quaternionProblem(rigid.rotation);
}

/** The problem of a rotation, if any. */
export function quaternionProblem(rotation: QuaternionMessage | undefined): string | undefined {
  if (rotation === undefined) return "no rotation";
  const { x, y, z, w } = rotation;
  const length = Math.hypot(x, y, z, w);
  // In this form because every comparison with NaN is false.
  if (Math.abs(length - 1) <= UNIT_TOLERANCE) return undefined;
  return `a rotation of the length ${length}, wanted 1`;
}
