/**
 * Scenes for a camera without hardware: boxes and balls on a floor, drawn as colours and as exact depth,
 * optionally with the noise of a depth sensor.
 *
 * The camera looks at the floor from above, pitched down; its own frame has x to the right, y down and z
 * forward. Bodies are given in the floor's frame: x to the right, y up, z away from the camera, with the
 * camera above the origin. The same scene always gives the same picture.
 */

import type { DepthMap } from "../../lib/geometry/image/depth.ts";
import type { ColorImage } from "../../lib/geometry/image/image.ts";
import type { Intrinsics } from "../../lib/geometry/image/lens.ts";
import { radians, type Vec3 } from "../../lib/geometry/pose.ts";
import { randomFrom } from "../../lib/geometry/random.ts";

export interface CameraScene {
  /** Height of the camera above the floor. */
  readonly heightMm: number;
  /** Pitch of the camera, from straight ahead (0) to straight down (90). */
  readonly pitchDeg: number;
  /** The scene has a floor unless this is false. */
  readonly floor?: boolean;
  readonly bodies: readonly SceneBody[];
  /**
   * Size of the depth errors: 0 means none, 1 the errors of a usual sensor, which grow with the square of the
   * distance.
   */
  readonly noise?: number;
  /** The share of pixels without a reading. */
  readonly dropout?: number;
  /** Seed of noise and dropout. */
  readonly seed?: number;
}

export type SceneBody = Cuboid | Ball;

interface Cuboid {
  readonly type: "box";
  /** The middle of the base. */
  readonly at: Vec3;
  readonly sizeMm: Vec3;
  /** Rotation around the vertical. */
  readonly yawDeg?: number;
  /** 0xRRGGBB */
  readonly color: number;
}

interface Ball {
  readonly type: "ball";
  /** The lowest point. */
  readonly at: Vec3;
  readonly radiusMm: number;
  /** 0xRRGGBB */
  readonly color: number;
}

export interface Drawing {
  readonly color: ColorImage;
  readonly depth: DepthMap;
  /** The body that each pixel shows, by its index in the scene, or `FLOOR` or `NOTHING`. */
  readonly shown: Int16Array;
}

export const FLOOR = -1;
export const NOTHING = -2;

/** The sensor measures nothing beyond this distance. */
const RANGE_MM = 10_000;
/** Focal length as a fraction of the picture's width: about 60 degrees from side to side. */
const FOCAL = 0.87;
/**
 * Standard error of a usual depth sensor: at the lens, plus a part that grows with the square of the
 * distance.
 */
const ERROR_MM = 0.5;
const ERROR_PER_MM = 1.5e-6;
const FLOOR_COLOR = 0x8c8c80;
const SKY_COLOR = 0xb4d2f0;
/** The viewpoint of a scene that does not give its own. */
export const VIEW = { heightMm: 600, pitchDeg: 20 };

/** Scenes by their names in the configuration. */
export const SCENES = {
  floor: { ...VIEW, bodies: [] },
  boxes: {
    ...VIEW,
    bodies: [
      { type: "box", at: { x: -450, y: 0, z: 1500 }, sizeMm: { x: 200, y: 300, z: 200 }, color: 0xc83c32 },
      { type: "box", at: { x: 0, y: 0, z: 1800 }, sizeMm: { x: 250, y: 200, z: 250 }, color: 0x3ca04b },
      { type: "box", at: { x: 500, y: 0, z: 1600 }, sizeMm: { x: 150, y: 400, z: 150 }, color: 0x3264c8 },
    ],
  },
} as const satisfies { readonly [name: string]: CameraScene };

/** A lens without distortion for a picture of this size. */
export function sceneLens(widthPx: number, heightPx: number): Intrinsics {
  const focal = FOCAL * widthPx;
  const [centerXPx, centerYPx] = [(widthPx - 1) / 2, (heightPx - 1) / 2];
  return { widthPx, heightPx, focalXPx: focal, focalYPx: focal, centerXPx, centerYPx };
}

/** Draws the camera's view: for every pixel the nearest surface. */
export function drawScene(scene: CameraScene, lens: Intrinsics): Drawing {
  const { widthPx: width, heightPx: height } = lens;
  const data = new Uint16Array(width * height);
  const shown = new Int16Array(width * height).fill(NOTHING);
  const entries = scene.bodies.map((body) => entryOf(body, scene.heightMm));
  const [cos, sin] = [Math.cos(radians(scene.pitchDeg)), Math.sin(radians(scene.pitchDeg))];
  for (let v = 0, pixel = 0; v < height; v++) {
    const down = (v - lens.centerYPx) / lens.focalYPx;
    // The ray of depth 1, in the floor's frame.
    const [rayY, rayZ] = [-cos * down - sin, cos - sin * down];
    const toFloor = scene.floor !== false && rayY < 0 ? -scene.heightMm / rayY : Infinity;
    for (let u = 0; u < width; u++, pixel++) {
      const rayX = (u - lens.centerXPx) / lens.focalXPx;
      let nearest = toFloor, body = FLOOR;
      for (let n = 0; n < entries.length; n++) {
        const depth = entries[n]?.(rayX, rayY, rayZ) ?? Infinity;
        if (depth < nearest) [nearest, body] = [depth, n];
      }
      if (nearest > RANGE_MM) continue;
      data[pixel] = Math.round(nearest);
      shown[pixel] = body;
    }
  }

  const color = { width, height, rgba: painted(scene, data, shown) };
  disturb(scene, data);
  return { color, depth: { width, height, data }, shown };
}

/** Colours the picture, darker with the distance. */
function painted(scene: CameraScene, data: Uint16Array, shown: Int16Array): Uint8Array {
  const rgba = new Uint8Array(data.length * 4).fill(255);
  const colors = new Map([[NOTHING, SKY_COLOR], [FLOOR, FLOOR_COLOR]]);
  for (let pixel = 0; pixel < data.length; pixel++) {
    const body = shown[pixel] ?? NOTHING;
    const color = colors.get(body) ?? scene.bodies[body]?.color ?? SKY_COLOR;
    const light = body === NOTHING ? 1 : Math.max(0.3, 1 - (data[pixel] ?? 0) / RANGE_MM);
    for (let part = 0; part < 3; part++) rgba[pixel * 4 + part] = (color >> (16 - 8 * part) & 255) * light;
  }
  return rgba;
}

function disturb({ noise = 0, dropout = 0, seed = 1 }: CameraScene, data: Uint16Array): void {
  if (noise === 0 && dropout === 0) return;
  const random = randomFrom(seed);
  for (let pixel = 0; pixel < data.length; pixel++) {
    const exact = data[pixel] ?? 0;
    if (exact === 0) continue;
    // The Box-Muller transform makes normal numbers from uniform numbers.
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const error = noise * (ERROR_MM + ERROR_PER_MM * exact * exact) * normal;
    data[pixel] = random() < dropout ? 0 : Math.max(1, Math.round(exact + error));
  }
}

/** The depth at which a ray (in the floor's frame) from the camera enters a body; infinite if it misses. */
type Entry = (rayX: number, rayY: number, rayZ: number) => number;

function entryOf(body: SceneBody, heightMm: number): Entry {
  return body.type === "box" ? boxEntry(body, heightMm) : ballEntry(body, heightMm);
}

/** The ray hits the box where it is between all three pairs of faces. */
function boxEntry({ at, sizeMm, yawDeg = 0 }: Cuboid, heightMm: number): Entry {
  const [cos, sin] = [Math.cos(radians(yawDeg)), Math.sin(radians(yawDeg))];
  const [middleX, middleZ] = [cos * at.x - sin * at.z, sin * at.x + cos * at.z];
  const [lowX, highX] = [middleX - sizeMm.x / 2, middleX + sizeMm.x / 2];
  const [lowY, highY] = [at.y - heightMm, at.y - heightMm + sizeMm.y];
  const [lowZ, highZ] = [middleZ - sizeMm.z / 2, middleZ + sizeMm.z / 2];
  return (rayX, rayY, rayZ) => {
    const [alongX, alongZ] = [cos * rayX - sin * rayZ, sin * rayX + cos * rayZ];
    const [ax, bx, ay, by] = [lowX / alongX, highX / alongX, lowY / rayY, highY / rayY];
    const [az, bz] = [lowZ / alongZ, highZ / alongZ];
    const enter = Math.max(Math.min(ax, bx), Math.min(ay, by), Math.min(az, bz));
    const leave = Math.min(Math.max(ax, bx), Math.max(ay, by), Math.max(az, bz));
    return enter > 0 && enter <= leave ? enter : Infinity;
  };
}

function ballEntry({ at, radiusMm }: Ball, heightMm: number): Entry {
  const [x, y, z] = [at.x, at.y + radiusMm - heightMm, at.z];
  const beyond = x * x + y * y + z * z - radiusMm * radiusMm;
  return (rayX, rayY, rayZ) => {
    const along = rayX * x + rayY * y + rayZ * z;
    const square = rayX * rayX + rayY * rayY + rayZ * rayZ;
    const inside = along * along - square * beyond;
    const enter = inside < 0 ? Infinity : (along - Math.sqrt(inside)) / square;
    return enter > 0 ? enter : Infinity;
  };
}
