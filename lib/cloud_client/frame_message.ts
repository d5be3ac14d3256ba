/**
 * Converts a resource's frame from the JSON that people write to its message. Leaves out values of the wrong type.
 */

import type { FrameSchema, OrientationSchema } from "../../proto/gen/robot_config_pb.ts";
import { toGeometryMessage } from "../api/shared/geometry.ts";
import { DecodeContext, isObject, type Json, type JsonObject } from "../base/schema/schema.ts";
import { geometryField } from "../geometry/schema.ts";
import type { MessageInitShape } from "../wire/rpc/proto.ts";

export function frameMessage(frame: Json | undefined): MessageInitShape<typeof FrameSchema> | undefined {
  if (!isObject(frame)) return undefined;
  const { parent, translation, orientation, geometry } = frame as JsonObject;
  const shape = geometry ? geometryField.decode(geometry, new DecodeContext()) : undefined;
  return {
    parent: typeof parent === "string" ? parent : "",
    translation: isObject(translation) ? vector(translation as JsonObject) : undefined,
    orientation: isObject(orientation) ? orientationMessage(orientation as JsonObject) : undefined,
    geometry: shape && toGeometryMessage(shape),
  };
}

function vector(value: JsonObject) {
  return {
    x: numberOrZero(value.x ?? value.X),
    y: numberOrZero(value.y ?? value.Y),
    z: numberOrZero(value.z ?? value.Z),
  };
}

function orientationMessage({ type, value }: JsonObject): MessageInitShape<typeof OrientationSchema> {
  const given = isObject(value) ? value as JsonObject : {};
  const turned = { ...vector(given), theta: numberOrZero(given.th) };
  switch (type) {
    case "ov_radians":
      return { type: { case: "vectorRadians", value: turned } };
    case "ov_degrees":
      return { type: { case: "vectorDegrees", value: turned } };
    case "axis_angles":
      return { type: { case: "axisAngles", value: turned } };
    case "euler_angles": {
      const { roll, pitch, yaw } = given;
      return {
        type: {
          case: "eulerAngles",
          value: { roll: numberOrZero(roll), pitch: numberOrZero(pitch), yaw: numberOrZero(yaw) },
        },
      };
    }
    case "quaternion":
      return {
        type: { case: "quaternion", value: { w: numberOrZero(given.w ?? given.W), ...vector(given) } },
      };
  }
  return { type: { case: "noOrientation", value: {} } };
}

/** A number of a configuration; 0 for anything else. */
export function numberOrZero(value: Json | undefined): number {
  return typeof value === "number" ? value : 0;
}
