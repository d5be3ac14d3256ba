/**
 * Poses in the plane: metres and radians, x ahead, y to the left, yaw counter-clockwise.
 */

import { IDENTITY_POSE, type Pose } from "../geometry/pose.ts";

export interface Pose2d {
  readonly x: number;
  readonly y: number;
  readonly yaw: number;
}

export const IDENTITY_2D: Pose2d = { x: 0, y: 0, yaw: 0 };

/** The same in the world's units: millimetres and degrees. */
export function worldPose({ x, y, yaw }: Pose2d): Pose {
  return { ...IDENTITY_POSE, x: x * 1000, y: y * 1000, theta: yaw * 180 / Math.PI };
}

/** The pose that `b`, given in the frame of `a`, has in the frame of `a` itself. */
export function compose2d(a: Pose2d, b: Pose2d): Pose2d {
  const cos = Math.cos(a.yaw), sin = Math.sin(a.yaw);
  return { x: a.x + cos * b.x - sin * b.y, y: a.y + sin * b.x + cos * b.y, yaw: wrapAngle(a.yaw + b.yaw) };
}

/** `b` as seen from `a`: a^-1 * b. */
export function between2d(a: Pose2d, b: Pose2d): Pose2d {
  const cos = Math.cos(a.yaw), sin = Math.sin(a.yaw);
  const dx = b.x - a.x, dy = b.y - a.y;
  return { x: cos * dx + sin * dy, y: cos * dy - sin * dx, yaw: wrapAngle(b.yaw - a.yaw) };
}

export function inverse2d(pose: Pose2d): Pose2d {
  return between2d(pose, IDENTITY_2D);
}

/** The pose at a share `t` (0 to 1) of the way from `a` to `b`. */
export function interpolate2d(a: Pose2d, b: Pose2d, t: number): Pose2d {
  return {
    x: a.x + t * (b.x - a.x),
    y: a.y + t * (b.y - a.y),
    yaw: wrapAngle(a.yaw + t * wrapAngle(b.yaw - a.yaw)),
  };
}

/** The same angle in [-pi, pi). */
export function wrapAngle(angle: number): number {
  if (angle >= -Math.PI && angle < Math.PI) return angle;
  return angle - 2 * Math.PI * Math.floor((angle + Math.PI) / (2 * Math.PI));
}
