/**
 * Point clouds as columns: one typed array for each coordinate, no object for each point.
 *
 * Coordinates are in metres, as in PCD files. An organised cloud keeps the grid of its camera (row by row,
 * `height` above 1) and marks a missing point by a coordinate that is not finite.
 *
 * The room owns clouds of points: their files, and the objects found in them. Pure functions.
 */

import { assert } from "../../base/error.ts";
import { type RigidTransform, rotationMatrix, type Vec3 } from "../pose.ts";

const M_PER_MM = 1e-3;

export interface PointCloud {
  readonly width: number;
  readonly height: number;
  readonly x: Float32Array;
  readonly y: Float32Array;
  readonly z: Float32Array;
  /** 0x00RRGGBB. */
  readonly rgb?: Uint32Array;
  readonly label?: Uint32Array;
  /** When each point was measured, in seconds relative to the time of the reading. */
  readonly time?: Float32Array;
}

/** The smallest box along the axes around all existing points. */
export interface BoundingBox {
  readonly min: Vec3;
  readonly max: Vec3;
  readonly points: number;
}

/** A cloud of the given columns, which it keeps without copying; without a size it is a single row. */
export function createCloud(columns: Omit<PointCloud, "width" | "height"> & Partial<PointCloud>): PointCloud {
  const { x, y, z, rgb, label, time, width = x.length, height = 1 } = columns;
  for (const column of [x, y, z, rgb, label, time]) {
    assert(!column || column.length === width * height, `a cloud of ${width} x ${height} has other columns`);
  }
  return { width, height, x, y, z, rgb, label, ...(time ? { time } : {}) };
}

/**
 * The cloud in the frame in which its own frame has the pose `by`. Shares colours and labels; the points are
 * new.
 */
export function transformCloud(cloud: PointCloud, by: RigidTransform): PointCloud {
  const [a, b, c, d, e, f, g, h, i] = rotationMatrix(by.rotation);
  const { x: tx, y: ty, z: tz } = by.translation;
  const count = cloud.x.length;
  const [x, y, z] = [new Float32Array(count), new Float32Array(count), new Float32Array(count)];
  for (let n = 0; n < count; n++) {
    const px = cloud.x[n] ?? NaN, py = cloud.y[n] ?? NaN, pz = cloud.z[n] ?? NaN;
    x[n] = a * px + b * py + c * pz + tx * M_PER_MM;
    y[n] = d * px + e * py + f * pz + ty * M_PER_MM;
    z[n] = g * px + h * py + i * pz + tz * M_PER_MM;
  }
  return { ...cloud, x, y, z };
}

/** `undefined` if the cloud has no point. */
export function boundingBox(cloud: PointCloud): BoundingBox | undefined {
  const { x, y, z } = cloud;
  const min = { x: Infinity, y: Infinity, z: Infinity };
  const max = { x: -Infinity, y: -Infinity, z: -Infinity };
  let points = 0;
  for (let n = 0; n < x.length; n++) {
    const px = x[n] ?? NaN, py = y[n] ?? NaN, pz = z[n] ?? NaN;
    if (!Number.isFinite(px + py + pz)) continue;
    points++;
    if (px < min.x) min.x = px;
    if (py < min.y) min.y = py;
    if (pz < min.z) min.z = pz;
    if (px > max.x) max.x = px;
    if (py > max.y) max.y = py;
    if (pz > max.z) max.z = pz;
  }

  return points === 0 ? undefined : { min, max, points };
}

/** The existing points in one row, for clients, which do not know missing points. */
export function withoutMissing(cloud: PointCloud): PointCloud {
  const kept = new Uint32Array(cloud.x.length);
  let count = 0;
  for (let n = 0; n < kept.length; n++) if (isThere(cloud, n)) kept[count++] = n;
  if (count === kept.length && cloud.height === 1) return cloud;
  return pick(cloud, kept.subarray(0, count));
}

/** The points that are not missing, in one row: x, y, z, x, y, z, … */
export function finitePoints({ x, y, z }: PointCloud): Float32Array {
  const points = new Float32Array(3 * x.length);
  let to = 0;
  for (let n = 0; n < x.length; n++) {
    const px = x[n] ?? NaN, py = y[n] ?? NaN, pz = z[n] ?? NaN;
    if (!Number.isFinite(px + py + pz)) continue;
    points[to++] = px;
    points[to++] = py;
    points[to++] = pz;
  }
  return points.slice(0, to);
}

/** The points at the given indices, in one row. */
export function pick(cloud: PointCloud, indices: Uint32Array): PointCloud {
  const floats = (column: Float32Array) => Float32Array.from(indices, (index) => column[index] ?? NaN);
  const words = (column?: Uint32Array) => column && Uint32Array.from(indices, (index) => column[index] ?? 0);
  const { x, y, z, rgb, label, time } = cloud;
  return createCloud({
    x: floats(x),
    y: floats(y),
    z: floats(z),
    rgb: words(rgb),
    label: words(label),
    time: time && floats(time),
  });
}

function isThere({ x, y, z }: PointCloud, n: number): boolean {
  return Number.isFinite((x[n] ?? NaN) + (y[n] ?? NaN) + (z[n] ?? NaN));
}
