/**
 * Readings of sensors: names with JSON values. A value without a JSON form becomes an object with a `_type`,
 * as the published libraries write and read it.
 */

import type { GetReadingsResponse } from "../../../proto/gen/common_pb.ts";
import type { Json, JsonObject } from "../../base/schema/schema.ts";
import type { OrientationVector, Vec3 } from "../../geometry/pose.ts";

/** The readings of a sensor: JSON values by name. */
export type Readings = JsonObject;

/** Degrees; south and west are negative. */
export interface GeoPoint {
  /** From -90 to 90. */
  readonly latitude: number;
  /** From -180 to 180. */
  readonly longitude: number;
}

export function vectorReading({ x, y, z }: Vec3): JsonObject {
  return { _type: "vector3", x, y, z };
}

/** Degrees per second about each axis. */
export function angularVelocityReading({ x, y, z }: Vec3): JsonObject {
  return { _type: "angular_velocity", x, y, z };
}

export function geoPointReading({ latitude, longitude }: GeoPoint): JsonObject {
  return { _type: "geopoint", lat: latitude, lng: longitude };
}

export function orientationReading({ oX, oY, oZ, theta }: OrientationVector): JsonObject {
  return { _type: "orientation_vector_degrees", ox: oX, oy: oY, oz: oZ, theta };
}

type ValueMessage = GetReadingsResponse["readings"][string];

export type ValueInit = {
  kind:
    | { case: "nullValue"; value: 0 }
    | { case: "boolValue"; value: boolean }
    | { case: "numberValue"; value: number }
    | { case: "stringValue"; value: string }
    | { case: "listValue"; value: { values: ValueInit[] } }
    | { case: "structValue"; value: { fields: { [key: string]: ValueInit } } };
};

/** Numbers keep NaN and infinity, which the protobuf runtime's own JSON conversion refuses. */
export function toReadingsMessage(readings: Readings): { readings: { [key: string]: ValueInit } } {
  return { readings: mapValues(readings, toValue) };
}

export function fromReadingsMessage(message: GetReadingsResponse): Readings {
  return mapValues(message.readings, fromValue);
}

function toValue(value: Json): ValueInit {
  if (value === null) return { kind: { case: "nullValue", value: 0 } };
  if (Array.isArray(value)) return { kind: { case: "listValue", value: { values: value.map(toValue) } } };
  switch (typeof value) {
    case "boolean":
      return { kind: { case: "boolValue", value } };
    case "number":
      return { kind: { case: "numberValue", value } };
    case "string":
      return { kind: { case: "stringValue", value } };
    case "object":
      return { kind: { case: "structValue", value: { fields: mapValues(value, toValue) } } };
  }
}

/** A value of no kind, as the Python library sends `None`, is null. */
function fromValue({ kind }: ValueMessage): Json {
  switch (kind.case) {
    case "boolValue":
    case "numberValue":
    case "stringValue":
      return kind.value;
    case "listValue":
      return kind.value.values.map(fromValue);
    case "structValue":
      return mapValues(kind.value.fields, fromValue);
    default:
      return null;
  }
}

function mapValues<A, B>(values: { [key: string]: A }, map: (value: A) => B): { [key: string]: B } {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, map(value)]));
}
