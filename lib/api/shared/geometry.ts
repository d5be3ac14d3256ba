/**
 * Converts poses, shapes and transforms between their messages and `lib/geometry`. Both sides use millimetres
 * and degrees.
 */

import type {
  Geometry as GeometryMessage,
  Pose as PoseMessage,
  PoseInFrame as PoseInFrameMessage,
  Transform as TransformMessage,
  TransformSchema,
} from "../../../proto/gen/common_pb.ts";
import { SvcError } from "../../base/error.ts";
import { create, fromJson, type JsonValue, type MessageInitShape, toJson } from "../../wire/rpc/proto.ts";
import { GeometrySchema } from "../../../proto/gen/common_pb.ts";
import type { FramePart, PoseInFrame } from "../../geometry/frame_system.ts";
import type { Geometry, GeometryShape } from "../../geometry/geometry.ts";
import { IDENTITY_POSE, type Pose } from "../../geometry/pose.ts";

/**
 * A message's pose as a plain value. An absent pose is the identity; an all-zero orientation points along z.
 */
export function fromPoseMessage(message: PoseMessage | undefined): Pose {
  if (!message) return IDENTITY_POSE;
  const { x, y, z, oX, oY, oZ, theta } = message;
  return { x, y, z, oX, oY, oZ: oX === 0 && oY === 0 && oZ === 0 ? 1 : oZ, theta };
}

export function toGeometryMessage(
  { center, label, shape }: Geometry,
): MessageInitShape<typeof GeometrySchema> {
  return { center, label, geometryType: toShapeMessage(shape) };
}

function toShapeMessage(shape: GeometryShape): MessageInitShape<typeof GeometrySchema>["geometryType"] {
  switch (shape.type) {
    case "box":
      return { case: "box", value: { dimsMm: shape.dimsMm } };
    case "sphere":
      return { case: "sphere", value: { radiusMm: shape.radiusMm } };
    case "capsule":
      return { case: "capsule", value: { radiusMm: shape.radiusMm, lengthMm: shape.lengthMm } };
    case "mesh":
      return { case: "mesh", value: { contentType: shape.contentType, mesh: shape.mesh } };
    case "point_cloud":
      return { case: "pointcloud", value: { pointCloud: shape.pcd } };
  }
}

/** @throws invalid_argument when the message has no shape */
export function fromGeometryMessage({ center, label, geometryType }: GeometryMessage): Geometry {
  return { center: fromPoseMessage(center), label, shape: fromShapeMessage(geometryType, label) };
}

function fromShapeMessage(message: GeometryMessage["geometryType"], label: string): GeometryShape {
  switch (message.case) {
    case "box": {
      const { x = 0, y = 0, z = 0 } = message.value.dimsMm ?? {};
      return { type: "box", dimsMm: { x, y, z } };
    }
    case "sphere":
      return { type: "sphere", radiusMm: message.value.radiusMm };
    case "capsule":
      return { type: "capsule", radiusMm: message.value.radiusMm, lengthMm: message.value.lengthMm };
    case "mesh":
      return { type: "mesh", contentType: message.value.contentType, mesh: message.value.mesh };
    case "pointcloud":
      return { type: "point_cloud", pcd: message.value.pointCloud };
    default:
      throw new SvcError(
        "invalid_argument",
        `geometry "${label}" has no shape, wanted a box, sphere, capsule, …`,
      );
  }
}

/** @throws invalid_argument when there is none */
export function fromPoseInFrameMessage(message: PoseInFrameMessage | undefined): PoseInFrame {
  if (!message) throw new SvcError("invalid_argument", "pose in frame was nil, wanted a pose and its frame");
  return { referenceFrame: message.referenceFrame, pose: fromPoseMessage(message.pose) };
}

/**
 * The member of a frame's metadata with the shapes beyond the first, as messages in JSON: the published message has one
 * place for a shape. Others ignore it.
 */
const MORE_SHAPES = "more_geometries";

/** A frame that a request supplies; throws like the conversions of its parts. */
export function fromTransformMessage(message: TransformMessage): FramePart {
  const { referenceFrame: name, poseInObserverFrame, physicalObject, metadata } = message;
  if (name === "") throw new SvcError("invalid_argument", 'frame with name "" cannot be used');
  const { referenceFrame: parent, pose } = fromPoseInFrameMessage(poseInObserverFrame);
  const more = metadata?.[MORE_SHAPES];
  return {
    name,
    parent,
    pose,
    geometry: physicalObject && fromGeometryMessage(physicalObject),
    ...Array.isArray(more) ? { moreGeometries: more.map((one) => geometryIn(one, name)) } : {},
  };
}

export function toTransformMessage(part: FramePart): MessageInitShape<typeof TransformSchema> {
  const { moreGeometries = [] } = part;
  const inJson = (one: Geometry) => toJson(GeometrySchema, create(GeometrySchema, toGeometryMessage(one)));
  return {
    referenceFrame: part.name,
    poseInObserverFrame: { referenceFrame: part.parent, pose: part.pose },
    physicalObject: part.geometry && toGeometryMessage(part.geometry),
    ...moreGeometries.length > 0 ? { metadata: { [MORE_SHAPES]: moreGeometries.map(inJson) } } : {},
  };
}

function geometryIn(json: JsonValue, frame: string): Geometry {
  try {
    return fromGeometryMessage(fromJson(GeometrySchema, json));
  } catch (cause) {
    throw new SvcError("invalid_argument", `frame ${frame}: unusable metadata.${MORE_SHAPES}`, { cause });
  }
}
