/**
 * The written form of poses, shapes and frames as settings: one field each, for machine configurations and
 * kinematics files alike. No other file of this folder knows the published names.
 *
 * Fields report every problem with its path and convert to the types of `pose.ts` and `geometry.ts`.
 */

import {
  any,
  choice,
  type ConfigField,
  type DecodeContext,
  number,
  object,
  text,
} from "../base/schema/schema.ts";
import { capsule, type Geometry, type GeometryShape } from "./geometry.ts";
import {
  degrees,
  NO_ROTATION,
  normalized,
  ORIGIN,
  type Pose,
  type Quaternion,
  quaternionFromAxisAngles,
  quaternionFromEuler,
  quaternionFromVector,
  toPose,
  type Vec3,
} from "./pose.ts";

/** Millimetres, or without unit for an axis; an absent coordinate is 0. */
export const vectorField: ConfigField<Vec3 | undefined> = object({
  x: number().aka("X").default(0),
  y: number().aka("Y").default(0),
  z: number().aka("Z").default(0),
});

const thetaVector = {
  x: number().default(0),
  y: number().default(0),
  z: number().default(0),
  th: number("turn about the direction (or axis)").default(0),
};

const orientationVector = object(thetaVector, "direction of the Z axis and the turn about it")
  .with((value, at) => pointing(value, at) ? value : undefined);

const ORIENTATIONS: { readonly [type: string]: ConfigField<Quaternion | undefined> } = {
  ov_degrees: orientationVector.with(({ x, y, z, th }) =>
    quaternionFromVector({ oX: x, oY: y, oZ: z, theta: th })
  ),
  ov_radians: orientationVector.with(({ x, y, z, th }) =>
    quaternionFromVector({ oX: x, oY: y, oZ: z, theta: degrees(th) })
  ),
  euler_angles: object({
    roll: number("radians about X").default(0),
    pitch: number("radians about Y").default(0),
    yaw: number("radians about Z").default(0),
  }).with(quaternionFromEuler),
  axis_angles: object(thetaVector, "axis and the turn about it in radians")
    .with(({ th, ...axis }) => quaternionFromAxisAngles({ ...axis, theta: th })),
  quaternion: object({
    w: number().aka("W").default(0),
    x: number().aka("X").default(0),
    y: number().aka("Y").default(0),
    z: number().aka("Z").default(0),
  }).with((value, at) =>
    Math.hypot(value.w, value.x, value.y, value.z) > 0
      ? normalized(value)
      : at.error("w, x, y and z are all 0, wanted a rotation")
  ),
};

/** `{type, value}`; without a type there is no rotation. */
export const orientationField: ConfigField<Quaternion | undefined> = object({
  type: choice("form of the value", ["", ...Object.keys(ORIENTATIONS)]).default(""),
  value: any("numbers in the form given by type"),
}).with(({ type, value }, at) => {
  const form = ORIENTATIONS[type];
  return form ? form.required().decode(value, at.at("value")) : NO_ROTATION;
});

const placed = {
  translation: vectorField,
  orientation: orientationField,
};

/** The place of a frame, link or geometry in its parent frame, from the settings that they share. */
export function poseOf(settings: { translation?: Vec3; orientation?: Quaternion }): Pose {
  return toPose({
    translation: settings.translation ?? ORIGIN,
    rotation: settings.orientation ?? NO_ROTATION,
  });
}

const sizeField = number("millimetres", { min: 0 }).default(0);

/** A shape and the place of its centre; without a type, the sizes decide the shape. */
export const geometryField: ConfigField<Geometry | undefined> = object({
  type: choice("shape", ["", "box", "sphere", "capsule", "mesh", "point"]).default(""),
  x: sizeField,
  y: sizeField,
  z: sizeField,
  r: sizeField,
  l: sizeField,
  meshData: text("the mesh file in base64"),
  meshContentType: text('"ply" or "stl"').default("ply"),
  ...placed,
  label: text("name of the shape in pictures and errors").aka("Label").default(""),
}).with((settings, at) => {
  const shape = shapeOf(settings, at);
  return shape && { center: poseOf(settings), label: settings.label, shape };
});

/** The place of a component relative to its parent frame, with the body that represents it. */
export const frameField: ConfigField<FrameSettings | undefined> = object({
  id: text("name of the frame; absent means the component's name"),
  parent: text('frame that this one is relative to: a component\'s name or "world"').default(""),
  ...placed,
  geometry: geometryField,
}).with(({ id, parent, geometry, ...settings }) => ({ id, parent, pose: poseOf(settings), geometry }));

export interface FrameSettings {
  readonly id?: string;
  /** Empty if the user named no parent. */
  readonly parent: string;
  readonly pose: Pose;
  readonly geometry?: Geometry;
}

interface ShapeSettings extends Vec3 {
  readonly type: string;
  readonly r: number;
  readonly l: number;
  readonly meshData?: string;
  readonly meshContentType: string;
}

function shapeOf(settings: ShapeSettings, at: DecodeContext): GeometryShape | undefined {
  const { x, y, z, r, l } = settings;
  switch (settings.type || inferred(settings)) {
    case "box":
      if (x > 0 && y > 0 && z > 0) return { type: "box", dimsMm: { x, y, z } };
      return at.error(`a box of ${x} x ${y} x ${z} mm, wanted x, y and z greater than 0`);
    case "sphere":
      return { type: "sphere", radiusMm: r };
    case "capsule":
      return capsule(r, l) ?? at.error(`a capsule of r ${r} and l ${l} mm, wanted l of at least twice r`);
    case "point":
      return { type: "sphere", radiusMm: 0 };
    case "mesh":
      return meshOf(settings, at);
  }
  return at.error("neither a type nor a size, wanted type box (x, y, z), sphere (r), capsule (r, l) or mesh");
}

function inferred({ x, y, z, r, l }: ShapeSettings): string {
  if (x + y + z > 0) return "box";
  if (l > 0) return "capsule";
  return r > 0 ? "sphere" : "";
}

function meshOf({ meshData, meshContentType }: ShapeSettings, at: DecodeContext): GeometryShape | undefined {
  try {
    if (meshData) {
      return { type: "mesh", contentType: meshContentType, mesh: Uint8Array.fromBase64(meshData) };
    }
  } catch {
    return at.at("mesh_data").error("not base64, wanted the mesh file in base64");
  }
  return at.at("mesh_data").error("found nothing, wanted the mesh file in base64");
}

function pointing({ x, y, z }: Vec3, at: DecodeContext): boolean {
  if (x !== 0 || y !== 0 || z !== 0) return true;
  at.error("x, y and z are all 0, wanted the direction in which the Z axis points");
  return false;
}
