/**
 * Shapes in space: the simple bodies that describe parts of a machine.
 *
 * A `Geometry` is a shape, the pose of its centre and a label, with the fields of viam.common.v1.Geometry.
 * The centre is relative to the frame that the holder names. A published "point" is a sphere of radius 0.
 *
 * The room owns shapes, poses, frames and the kinematics of arms. Pure functions.
 */

import { composePoses, type Pose, type Vec3 } from "./pose.ts";

/** A body about its own centre; lengths in millimetres. */
export type GeometryShape =
  | { readonly type: "box"; readonly dimsMm: Vec3 }
  | { readonly type: "sphere"; readonly radiusMm: number }
  /** Along local Z; the length is from tip to tip, at least twice the radius. */
  | { readonly type: "capsule"; readonly radiusMm: number; readonly lengthMm: number }
  | { readonly type: "mesh"; readonly contentType: string; readonly mesh: Uint8Array }
  /** A PCD file. */
  | { readonly type: "point_cloud"; readonly pcd: Uint8Array };

/** A shape, its place, and its name. */
export interface Geometry {
  /** The centre of the shape in the holder's frame. */
  readonly center: Pose;
  /** For people; may be empty. */
  readonly label: string;
  /** The body about its centre. */
  readonly shape: GeometryShape;
}

/** The geometry as seen from the frame in which its own frame has the pose `by`. */
export function transformGeometry(geometry: Geometry, by: Pose): Geometry {
  return { ...geometry, center: composePoses(by, geometry.center) };
}

/**
 * A capsule of this size, or a sphere if it has no straight part; `undefined` if the sizes contradict each
 * other.
 */
export function capsule(radiusMm: number, lengthMm: number): GeometryShape | undefined {
  if (lengthMm === 0 || lengthMm === 2 * radiusMm) return { type: "sphere", radiusMm };
  return lengthMm < 2 * radiusMm ? undefined : { type: "capsule", radiusMm, lengthMm };
}
