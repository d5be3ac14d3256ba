/** A scene as a setting: the name of a built-in scene, or the bodies to show. */

import {
  bool,
  choice,
  ConfigField,
  integer,
  list,
  number,
  object,
  text,
} from "../../lib/base/schema/schema.ts";
import { type CameraScene, type SceneBody, SCENES, VIEW } from "./scene.ts";

const place = {
  xMm: number("distance to the right of the camera, in millimetres").default(0),
  yMm: number("height of the lowest point above the floor, in millimetres").default(0),
  zMm: number("distance from the camera along the floor, in millimetres").required(),
  color: text("colour such as #c83c32", { pattern: /^#[0-9a-fA-F]{6}$/, wanted: "a colour such as #c83c32" })
    .default("#c83c32").with((written) => parseInt(written.slice(1), 16)),
};

const boxField = object({
  ...place,
  widthMm: number("size from side to side, in millimetres", { above: 0 }).default(200),
  heightMm: number("size from bottom to top, in millimetres", { above: 0 }).default(200),
  depthMm: number("size from front to back, in millimetres", { above: 0 }).default(200),
  yawDegs: number("rotation around the vertical, in degrees").default(0),
}).with(({ xMm, yMm, zMm, color, widthMm, heightMm, depthMm, yawDegs }): SceneBody => ({
  type: "box",
  at: { x: xMm, y: yMm, z: zMm },
  sizeMm: { x: widthMm, y: heightMm, z: depthMm },
  yawDeg: yawDegs,
  color,
}));

const ballField = object({ ...place, radiusMm: number("its radius", { above: 0 }).default(100) })
  .with(({ xMm, yMm, zMm, color, radiusMm }): SceneBody => ({
    type: "ball",
    at: { x: xMm, y: yMm, z: zMm },
    radiusMm,
    color,
  }));

const wholeField = object({
  heightMm: number("height of the camera above the floor, in millimetres", { above: 0 }).default(
    VIEW.heightMm,
  ),
  pitchDegs: number("pitch of the camera in degrees, from straight ahead (0) to straight down (90)", {
    min: -90,
    max: 90,
  })
    .default(VIEW.pitchDeg),
  floor: bool("show a floor").default(true),
  boxes: list(boxField, "boxes on the floor").default([]),
  balls: list(ballField, "balls on the floor").default([]),
  noise: number("size of the depth errors: 0 means none, 1 the errors of a usual sensor", {
    min: 0,
    max: 100,
  }).default(0),
  dropout: number("share of pixels without a reading, 0 to 1", { min: 0, max: 1 }).default(0),
  seed: integer("seed of noise and dropout", { min: 0 }).default(1),
}).with(({ pitchDegs, boxes, balls, ...others }): CameraScene => (
  { ...others, pitchDeg: pitchDegs, bodies: [...boxes, ...balls] }
));

const namedField = choice("", Object.keys(SCENES) as (keyof typeof SCENES)[])
  .with((name): CameraScene => SCENES[name]);

/** The written form decides: a name or a whole scene. */
export const sceneField = new ConfigField<CameraScene | undefined>({
  doc: "the scene to show, in colours and depth: a scene's name, or the scene itself; without it " +
    'the picture is a gradient and the depth, a small picture, that of "boxes"',
  json: { anyOf: [namedField.jsonSchema(), wholeField.jsonSchema()] },
  wanted: "the name of a scene, or an object",
  read: (value, at) => (typeof value === "string" ? namedField : wholeField).decode(value, at),
});
