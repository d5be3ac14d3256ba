/**
 * Poses, shapes and transforms between their messages and `lib/geometry`. Millimetres and degrees on both sides.
 */

import type { Geometry as GeometryMessage, Pose as PoseMessage } from "../../proto/gen/common_pb.ts";
import { SvcError } from "../base/error.ts";
import type { MessageInitShape } from "../wire/proto.ts";
import type { GeometrySchema } from "../../proto/gen/common_pb.ts";
import type { Geometry } from "../geometry/geometry.ts";
import { IDENTITY_POSE, type Pose } from "../geometry/pose.ts";

/** A message's pose as a plain value; an absent one is the identity, an all-zero orientation points along z. */
export function fromPoseMessage(message: PoseMessage | undefined): Pose {
  if (!message) return IDENTITY_POSE;
  const { x, y, z, oX, oY, oZ, theta } = message;
  return { x, y, z, oX, oY, oZ: oX === 0 && oY === 0 && oZ === 0 ? 1 : oZ, theta };
}

export function toGeometryMessage(geometry: Geometry): MessageInitShape<typeof GeometrySchema> {
  const { center, label } = geometry;
  switch (geometry.type) {
    case "box":
      return { center, label, geometryType: { case: "box", value: { dimsMm: geometry.dimsMm } } };
    case "sphere":
      return { center, label, geometryType: { case: "sphere", value: { radiusMm: geometry.radiusMm } } };
    case "capsule": {
      const { radiusMm, lengthMm } = geometry;
      return { center, label, geometryType: { case: "capsule", value: { radiusMm, lengthMm } } };
    }
    case "mesh": {
      const { contentType, mesh } = geometry;
      return { center, label, geometryType: { case: "mesh", value: { contentType, mesh } } };
    }
    case "point_cloud":
      return { center, label, geometryType: { case: "pointcloud", value: { pointCloud: geometry.pcd } } };
  }
}

export function fromGeometryMessage(message: GeometryMessage): Geometry {
  const center = fromPoseMessage(message.center);
  const { label, geometryType: shape } = message;
  switch (shape.case) {
    case "box": {
      const { x = 0, y = 0, z = 0 } = shape.value.dimsMm ?? {};
      return { type: "box", center, label, dimsMm: { x, y, z } };
    }
    case "sphere":
      return { type: "sphere", center, label, radiusMm: shape.value.radiusMm };
    case "capsule": {
      const { radiusMm, lengthMm } = shape.value;
      return { type: "capsule", center, label, radiusMm, lengthMm };
    }
    case "mesh": {
      const { contentType, mesh } = shape.value;
      return { type: "mesh", center, label, contentType, mesh };
    }
    case "pointcloud":
      return { type: "point_cloud", center, label, pcd: shape.value.pointCloud };
    default:
      throw new SvcError(
        "invalid_argument",
        `geometry "${label}" has no shape, wanted a box, sphere, capsule, …`,
      );
  }
}
