/**
 * The map as a picture: all submaps painted over each other in the order of their indices, as the published viewer
 * paints them, and the point cloud that clients get of it.
 *
 * Each pixel has an intensity from 0 (occupied) to 255 (free) that begins at 128, and is known once a submap covers
 * it. Known cells of a submap change it: free cells lighten a pixel, occupied ones darken it.
 */

import { SvcError } from "../base/error.ts";
import { writePcd } from "../geometry/cloud/pcd.ts";
import { createCloud } from "../geometry/cloud/point_cloud.ts";
import { cellAt } from "./local/probability_grid.ts";
import type { GridState, SubmapState } from "./map_state.ts";
import { compose2d, inverse2d, type Pose2d } from "./pose2d.ts";

/** The size of a pixel. */
export const PIXEL_M = 0.05;
const PADDING_PX = 5;
/** A square of 400 m. */
const PIXELS_MAX = 64_000_000;
const UNKNOWN_INTENSITY = 128;
const COST_MIN = 0.1;
const COST_RANGE = 0.8;
const CELL_STEPS = 32_766;
const LIGHT = 128;

export interface MapPicture {
  readonly width: number;
  readonly height: number;
  /** The pixel of the map's origin; x runs to the right and y up. */
  readonly originX: number;
  readonly originY: number;
  readonly intensity: Uint8Array;
  /** 0 where nothing is known. */
  readonly known: Uint8Array;
}

/** The intensity of a pixel of the picture, by its index. */
export function intensityOf({ intensity }: MapPicture, pixel: number): number {
  return byteAt(intensity, pixel);
}

function byteAt(bytes: Uint8Array, at: number): number {
  return bytes[at] ?? outside(bytes, at);
}

function outside({ length }: Uint8Array, at: number): never {
  throw new Error(`Bug: byte ${at} of ${length}`);
}

/** Where the pixels of a picture are, and how many there are. */
export type PictureFrame = Pick<MapPicture, "width" | "height" | "originX" | "originY">;

/** Paints the submaps. Throws `resource_exhausted` for a map that is too large. */
export function paintMap(submaps: readonly SubmapState[]): MapPicture {
  const inOrder = [...submaps].sort((a, b) => a.trajectory - b.trajectory || a.index - b.index)
    .filter(({ grid }) => grid.known !== undefined);
  const frame = frameOf(inOrder);
  const pixels = frame.width * frame.height;
  const intensity = new Uint8Array(pixels).fill(UNKNOWN_INTENSITY);
  const known = new Uint8Array(pixels);
  const shades = shadesOf();
  for (const submap of inOrder) paintSubmap(submap, { ...frame, intensity, known }, shades);
  return { ...frame, intensity, known };
}

/** The point cloud of a map as a PCD file: a point a known pixel, with its probability from 1 to 100 as its colour. */
export function mapCloud(picture: MapPicture): Uint8Array<ArrayBuffer> {
  const { width, originX, originY, known } = picture;
  const probability = (pixel: number) => Math.trunc((255 - intensityOf(picture, pixel)) * 100 / 255);
  let count = 0;
  for (let pixel = 0; pixel < known.length; pixel++) {
    if (known[pixel] !== 0 && probability(pixel) > 0) count++;
  }
  const [x, y, rgb] = [new Float32Array(count), new Float32Array(count), new Uint32Array(count)];
  let to = 0;
  for (let pixel = 0; pixel < known.length; pixel++) {
    if (known[pixel] === 0 || probability(pixel) === 0) continue;
    x[to] = (pixel % width - originX) * PIXEL_M;
    y[to] = (originY - Math.floor(pixel / width)) * PIXEL_M;
    rgb[to++] = probability(pixel);
  }
  return writePcd(createCloud({ x, y, z: new Float32Array(count), rgb }));
}

/** The pose of the local frame in which a submap's grid lies, in the map. */
function gridPose({ globalPose, localPose }: SubmapState): Pose2d {
  return compose2d(globalPose, inverse2d(localPose));
}

/** The known cells of a grid as a rectangle in its frame. */
function extentOf({ known, resolution, maxX, maxY }: GridState) {
  const { minI, minJ, maxI, maxJ } = known!;
  return {
    minX: maxX - (maxJ + 1) * resolution,
    maxX: maxX - minJ * resolution,
    minY: maxY - (maxI + 1) * resolution,
    maxY: maxY - minI * resolution,
  };
}

/** The pixels that a submap covers, as a rectangle along the axes of the map. */
function pixelsOf(submap: SubmapState) {
  const { minX, minY, maxX, maxY } = extentOf(submap.grid);
  const pose = gridPose(submap);
  const corners = [minX, maxX].flatMap((x) => [minY, maxY].map((y) => compose2d(pose, { x, y, yaw: 0 })));
  const [xs, ys] = [corners.map(({ x }) => x / PIXEL_M), corners.map(({ y }) => y / PIXEL_M)];
  return {
    left: Math.floor(Math.min(...xs)),
    right: Math.ceil(Math.max(...xs)),
    bottom: Math.floor(Math.min(...ys)),
    top: Math.ceil(Math.max(...ys)),
  };
}

function frameOf(submaps: readonly SubmapState[]): PictureFrame {
  if (submaps.length === 0) return { width: 0, height: 0, originX: 0, originY: 0 };
  let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const submap of submaps) {
    const covered = pixelsOf(submap);
    left = Math.min(left, covered.left);
    right = Math.max(right, covered.right);
    bottom = Math.min(bottom, covered.bottom);
    top = Math.max(top, covered.top);
  }
  const width = right - left + 1 + 2 * PADDING_PX;
  const height = top - bottom + 1 + 2 * PADDING_PX;
  if (!(width * height <= PIXELS_MAX)) {
    const size = `${(width * PIXEL_M).toFixed(0)} by ${(height * PIXEL_M).toFixed(0)} m`;
    throw new SvcError("resource_exhausted", `a map of ${size} is too large to be painted`);
  }
  return { width, height, originX: PADDING_PX - left, originY: PADDING_PX + top };
}

/** By a cell's value: what it adds to a pixel, and how much of the former shade it covers. */
interface Shades {
  readonly value: Uint8Array;
  readonly alpha: Uint8Array;
}

function shadesOf(): Shades {
  const value = new Uint8Array(CELL_STEPS + 2);
  const alpha = new Uint8Array(CELL_STEPS + 2);
  const logit = (p: number) => Math.log(p / (1 - p));
  const [low, high] = [logit(COST_MIN), logit(COST_MIN + COST_RANGE)];
  for (let cell = 1; cell < value.length; cell++) {
    const probability = 1 - (COST_MIN + (cell - 1) * COST_RANGE / CELL_STEPS);
    const delta = LIGHT - (Math.round((logit(probability) - low) * 254 / (high - low)) + 1);
    value[cell] = Math.max(0, delta);
    alpha[cell] = delta > 0 ? 0 : Math.max(1, -delta);
  }
  return { value, alpha };
}

function paintSubmap(submap: SubmapState, picture: MapPicture, shades: Shades): void {
  const { grid } = submap;
  const { resolution, maxX, maxY } = grid;
  const { left, right, bottom, top } = pixelsOf(submap);
  const { width, originX, originY, intensity, known } = picture;
  const toGrid = inverse2d(gridPose(submap));
  const cos = Math.cos(toGrid.yaw), sin = Math.sin(toGrid.yaw);
  const sample = sampler(grid, shades);
  for (let py = bottom; py <= top; py++) {
    for (let px = left; px <= right; px++) {
      const worldX = px * PIXEL_M, worldY = py * PIXEL_M;
      const x = toGrid.x + cos * worldX - sin * worldY;
      const y = toGrid.y + sin * worldX + cos * worldY;
      const found = sample((maxY - y) / resolution - 0.5, (maxX - x) / resolution - 0.5);
      if (found.known === 0) continue;
      const pixel = (originY - py) * width + px + originX;
      const left = 1 - found.alpha / 255;
      intensity[pixel] = Math.min(255, Math.round(found.value + byteAt(intensity, pixel) * left));
      known[pixel] = Math.min(255, Math.ceil(found.known + byteAt(known, pixel) * left));
    }
  }
}

/** Interpolates a grid between its cells: each of the four around a place counts by its distance. */
function sampler({ cells, cellsX, cellsY }: GridState, { value, alpha }: Shades) {
  const found = { value: 0, alpha: 0, known: 0 };
  const add = (i: number, j: number, weight: number) => {
    if (weight === 0 || i < 0 || j < 0 || i >= cellsX || j >= cellsY) return;
    const cell = cellAt(cells, cellsX * j + i);
    if (cell === 0) return;
    found.value += weight * byteAt(value, cell);
    found.alpha += weight * byteAt(alpha, cell);
    found.known += weight * 255;
  };
  return (i: number, j: number) => {
    found.value = found.alpha = found.known = 0;
    const i0 = Math.floor(i), j0 = Math.floor(j);
    const di = i - i0, dj = j - j0;
    add(i0, j0, (1 - di) * (1 - dj));
    add(i0 + 1, j0, di * (1 - dj));
    add(i0, j0 + 1, (1 - di) * dj);
    add(i0 + 1, j0 + 1, di * dj);
    return found;
  };
}
