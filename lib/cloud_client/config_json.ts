/**
 * Converts a machine's configuration message to the form of a configuration file, so that one decoder serves both.
 *
 * The message becomes JSON by the rules of protobuf; the members that a file writes differently are converted here.
 * Members at their default are left out, which the decoder treats alike.
 */

import {
  CredentialsType,
  type Frame,
  type Orientation,
  type RobotConfig,
  RobotConfigSchema,
} from "../../proto/gen/robot_config_pb.ts";
import type { Geometry as GeometryMessage } from "../../proto/gen/common_pb.ts";
import { fromGeometryMessage } from "../api/shared/geometry.ts";
import { isObject, type Json, type JsonObject } from "../base/schema/schema.ts";
import { toJson } from "../wire/rpc/proto.ts";

const CREDENTIALS: { readonly [T in CredentialsType]: string } = {
  [CredentialsType.UNSPECIFIED]: "",
  [CredentialsType.INTERNAL]: "internal",
  [CredentialsType.API_KEY]: "api-key",
  [CredentialsType.ROBOT_SECRET]: "robot-secret",
  [CredentialsType.ROBOT_LOCATION_SECRET]: "robot-location-secret",
};

/** Members that a file does not have. */
const LEFT_OUT = ["overwrite_fragment_status", "processes"];

/** Throws if the message holds a value without a JSON form, such as NaN. */
export function robotConfigJson(config: RobotConfig): JsonObject {
  const json = toJson(RobotConfigSchema, config, { useProtoFieldName: true }) as JsonObject;
  for (const key of LEFT_OUT) delete json[key];
  each(json.components, config.components, (entry, { frame }) => putFrame(entry, frame));
  each(json.remotes, config.remotes, (entry, { frame, auth }) => {
    putFrame(entry, frame);
    const credentials = (entry.auth as JsonObject | undefined)?.credentials;
    if (isObject(credentials) && auth?.credentials) credentials.type = CREDENTIALS[auth.credentials.type];
  });
  each(json.modules, config.modules, (entry) => rename(entry, "path", "executable_path"));
  each(json.packages, config.packages, (entry) => delete entry.status);
  each(json.modules, config.modules, (entry) => putVersion(entry, config));
  if (isObject(json.tracing)) rename(json.tracing as JsonObject, "otlp_endpoint", "otlpendpoint");
  if (isObject(json.auth)) putAuth(json.auth as JsonObject, config);
  if (isObject(json.maintenance)) putSensor(json.maintenance as JsonObject, config);
  return json;
}

/** Changes each entry of a list; it came from the message at the same place. */
function each<T>(
  entries: Json | undefined,
  messages: readonly T[],
  change: (entry: JsonObject, message: T) => void,
): void {
  const list = entries as JsonObject[] | undefined ?? [];
  for (const [index, message] of messages.entries()) {
    const entry = list[index];
    if (entry) change(entry, message);
  }
}

function rename(entry: JsonObject, from: string, to: string): void {
  const value = entry[from];
  if (value === undefined) return;
  entry[to] = value;
  delete entry[from];
}

/** A module of a registry has the version of its package. */
function putVersion(module: JsonObject, { packages }: RobotConfig): void {
  const found = packages.find((one) => one.type === "module" && one.package === module.module_id);
  if (found?.version) module.version = found.version;
}

function putAuth(json: JsonObject, { auth }: RobotConfig): void {
  each(json.handlers, auth?.handlers ?? [], (handler, { type }) => handler.type = CREDENTIALS[type]);
  const keys = auth?.externalAuthConfig?.jwks?.json;
  if (keys) json.external_auth_config = { jwks: keys as JsonObject };
  else delete json.external_auth_config;
}

function putSensor(json: JsonObject, { maintenance }: RobotConfig): void {
  const { namespace = "", type = "", subtype = "", name = "" } = maintenance?.sensorName ?? {};
  json.sensor_name = `${namespace}:${type}:${subtype}/${name}`;
}

function putFrame(entry: JsonObject, frame: Frame | undefined): void {
  if (!frame) return;
  const { parent, translation, orientation, geometry } = frame;
  entry.frame = {
    parent,
    ...(translation ? { translation: vector(translation) } : {}),
    ...(orientation ? { orientation: orientationJson(orientation) } : {}),
    ...(geometry ? { geometry: geometryJson(geometry) } : {}),
  };
}

function vector({ x, y, z }: { x: number; y: number; z: number }): JsonObject {
  return { x, y, z };
}

function orientationJson({ type }: Orientation): JsonObject {
  switch (type.case) {
    case "vectorRadians":
      return { type: "ov_radians", value: { ...vector(type.value), th: type.value.theta } };
    case "vectorDegrees":
      return { type: "ov_degrees", value: { ...vector(type.value), th: type.value.theta } };
    case "axisAngles":
      return { type: "axis_angles", value: { ...vector(type.value), th: type.value.theta } };
    case "eulerAngles": {
      const { roll, pitch, yaw } = type.value;
      return { type: "euler_angles", value: { roll, pitch, yaw } };
    }
    case "quaternion":
      return { type: "quaternion", value: { w: type.value.w, ...vector(type.value) } };
  }
  return { type: "" };
}

/** A shape without a form in files stays for the decoder, which refuses the one entry that contains it. */
function geometryJson(message: GeometryMessage): JsonObject {
  const { label, geometryType: { case: kind } } = message;
  if (kind === undefined || kind === "pointcloud") return { label };
  const { center, shape } = fromGeometryMessage(message);
  const place = {
    translation: vector(center),
    orientation: {
      type: "ov_degrees",
      value: { x: center.oX, y: center.oY, z: center.oZ, th: center.theta },
    },
    label,
  };
  switch (shape.type) {
    case "box":
      return { type: "box", ...vector(shape.dimsMm), ...place };
    case "sphere":
      return { type: "sphere", r: shape.radiusMm, ...place };
    case "capsule":
      return { type: "capsule", r: shape.radiusMm, l: shape.lengthMm, ...place };
    case "mesh":
      return {
        type: "mesh",
        mesh_data: shape.mesh.toBase64(),
        mesh_content_type: shape.contentType,
        ...place,
      };
    case "point_cloud":
      return { label };
  }
}
