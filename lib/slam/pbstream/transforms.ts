/** Positions and rotations as the messages of a map file have them. */

import type { Pose2d } from "../pose2d.ts";
import { type ContentOf, double, message, part } from "./fields.ts";

export const Vector2 = message({ x: double(1), y: double(2) });
export const Vector3 = message({ x: double(1), y: double(2), z: double(3) });
export const QuaternionMessage = message({ x: double(1), y: double(2), z: double(3), w: double(4) });
export const Rigid = message({ translation: part(1, Vector3), rotation: part(2, QuaternionMessage) });

export type VectorMessage = ContentOf<typeof Vector3>;
export type QuaternionMessage = ContentOf<typeof QuaternionMessage>;
export type RigidMessage = ContentOf<typeof Rigid>;

/** How far the length of a quaternion may be from 1: writers round. */
const UNIT_TOLERANCE = 0.01;

export function rigidOf({ x, y, yaw }: Pose2d): RigidMessage {
  return {
    translation: { x, y, z: 0 },
    rotation: { x: 0, y: 0, z: Math.sin(yaw / 2), w: Math.cos(yaw / 2) },
  };
}

/** The part of a pose that lies in the plane. */
export function pose2dOf({ translation, rotation }: RigidMessage): Pose2d {
  const { x = 0, y = 0 } = translation ?? {};
  const q = rotation ?? { x: 0, y: 0, z: 0, w: 1 };
  return { x, y, yaw: Math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y * q.y + q.z * q.z)) };
}

/** What is wrong with a pose, if anything. */
export function rigidProblem(rigid: RigidMessage | undefined): string | undefined {
  if (rigid === undefined) return "no pose";
  const { x, y, z } = rigid.translation ?? { x: 0, y: 0, z: 0 };
  if (!Number.isFinite(x + y + z)) return `a pose at ${x}, ${y}, ${z}`;
  return quaternionProblem(rigid.rotation);
}

/** What is wrong with a rotation, if anything. */
export function quaternionProblem(rotation: QuaternionMessage | undefined): string | undefined {
  if (rotation === undefined) return "no rotation";
  const { x, y, z, w } = rotation;
  const length = Math.hypot(x, y, z, w);
  // Not the other way round: the comparison is false for NaN.
  if (Math.abs(length - 1) <= UNIT_TOLERANCE) return undefined;
  return `a rotation of the length ${length}, wanted 1`;
}
