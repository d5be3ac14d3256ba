/**
 * Scenes for a camera without hardware: boxes on a floor, drawn as colours and as exact depth.
 *
 * The camera looks down at the floor from `HEIGHT_MM`, pitched by `PITCH_RAD`; its own frame has x to the right, y
 * down and z forward. Bodies are given in the floor's frame: x to the right, y up, z away from the camera.
 */

import type { DepthMap, Intrinsics } from "../../lib/geometry/depth.ts";
import type { ColorImage } from "../../lib/geometry/image.ts";
import type { Vec3 } from "../../lib/geometry/pose.ts";

const HEIGHT_MM = 600;
const PITCH_RAD = 20 * Math.PI / 180;
/** Farther away nothing is measured. */
const RANGE_MM = 10_000;
/** Focal length as a fraction of the picture's width: about 60 degrees from side to side. */
const FOCAL = 0.87;

interface Body {
  /** Middle of its base. */
  readonly at: Vec3;
  readonly sizeMm: Vec3;
  /** 0xRRGGBB */
  readonly color: number;
}

const FLOOR_COLOR = 0x8c8c80;
const SKY_COLOR = 0xb4d2f0;

/** Each scene by its published name: the bodies on the floor. */
export const SCENES = {
  floor: [],
  boxes: [
    { at: { x: -450, y: 0, z: 1500 }, sizeMm: { x: 200, y: 300, z: 200 }, color: 0xc83c32 },
    { at: { x: 0, y: 0, z: 1800 }, sizeMm: { x: 250, y: 200, z: 250 }, color: 0x3ca04b },
    { at: { x: 500, y: 0, z: 1600 }, sizeMm: { x: 150, y: 400, z: 150 }, color: 0x3264c8 },
  ],
} as const satisfies { readonly [name: string]: readonly Body[] };

export type SceneName = keyof typeof SCENES;

/** A lens for a picture of that size, without distortion. */
export function sceneLens(widthPx: number, heightPx: number): Intrinsics {
  const focal = FOCAL * widthPx;
  const [centerXPx, centerYPx] = [(widthPx - 1) / 2, (heightPx - 1) / 2];
  return { widthPx, heightPx, focalXPx: focal, focalYPx: focal, centerXPx, centerYPx };
}

/** What the camera sees: for every pixel the nearest surface. */
export function drawScene(name: SceneName, lens: Intrinsics): { color: ColorImage; depth: DepthMap } {
  const { widthPx: width, heightPx: height } = lens;
  const rgba = new Uint8Array(width * height * 4).fill(255);
  const data = new Uint16Array(width * height);
  const boxes = SCENES[name].map(boxOf);
  const [cos, sin] = [Math.cos(PITCH_RAD), Math.sin(PITCH_RAD)];
  for (let v = 0, pixel = 0; v < height; v++) {
    const down = (v - lens.centerYPx) / lens.focalYPx;
    for (let u = 0; u < width; u++, pixel++) {
      // The ray of depth 1 in the floor's frame.
      const ray = { x: (u - lens.centerXPx) / lens.focalXPx, y: -cos * down - sin, z: cos - sin * down };
      const { depth, color } = nearest(boxes, ray);
      data[pixel] = Math.round(depth);
      const light = depth === 0 ? 1 : Math.max(0.3, 1 - depth / RANGE_MM);
      for (let part = 0; part < 3; part++) rgba[pixel * 4 + part] = (color >> (16 - 8 * part) & 255) * light;
    }
  }
  return { color: { width, height, rgba }, depth: { width, height, data } };
}

/** A body from the camera's place: its least and its greatest coordinates. */
interface Box {
  readonly low: Vec3;
  readonly high: Vec3;
  readonly color: number;
}

function boxOf({ at, sizeMm, color }: Body): Box {
  const base = at.y - HEIGHT_MM;
  return {
    low: { x: at.x - sizeMm.x / 2, y: base, z: at.z - sizeMm.z / 2 },
    high: { x: at.x + sizeMm.x / 2, y: base + sizeMm.y, z: at.z + sizeMm.z / 2 },
    color,
  };
}

/** Where the ray from the camera first meets something; the depth is 0 where it does not. */
function nearest(boxes: readonly Box[], ray: Vec3): { depth: number; color: number } {
  let depth = ray.y < 0 ? -HEIGHT_MM / ray.y : Infinity;
  let color = FLOOR_COLOR;
  for (const box of boxes) {
    const hit = entry(box, ray);
    if (hit < depth) [depth, color] = [hit, box.color];
  }
  return depth <= RANGE_MM ? { depth, color } : { depth: 0, color: SKY_COLOR };
}

/** The depth at which the ray enters a box: where it is between all three pairs of faces. */
function entry({ low, high }: Box, ray: Vec3): number {
  const [ax, bx, ay, by] = [low.x / ray.x, high.x / ray.x, low.y / ray.y, high.y / ray.y];
  const [az, bz] = [low.z / ray.z, high.z / ray.z];
  const enter = Math.max(Math.min(ax, bx), Math.min(ay, by), Math.min(az, bz));
  const leave = Math.min(Math.max(ax, bx), Math.max(ay, by), Math.max(az, bz));
  return enter > 0 && enter <= leave ? enter : Infinity;
}
