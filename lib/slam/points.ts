/**
 * Points as flat lists of numbers: x, y, x, y, … in the plane, and x, y, z, … as lidars give them. A number that a list
 * does not have is a bug of the caller; an undefined one would become NaN and spread through the map.
 */

import type { Pose2d } from "./pose2d.ts";

/** x of the point `k` of x, y, … */
export function xOf(points: Float64Array, k: number): number {
  return points[2 * k] ?? missing(points, k);
}

/** y of the point `k` of x, y, … */
export function yOf(points: Float64Array, k: number): number {
  return points[2 * k + 1] ?? missing(points, k);
}

/** The number `k` of a list, such as one with a range for each point. */
export function doubleAt(values: Float64Array, k: number): number {
  return values[k] ?? missing(values, k);
}

/** The number `k` of a list of single precision, such as a lidar's points: x, y, z, … */
export function singleAt(values: Float32Array, k: number): number {
  return values[k] ?? missing(values, k);
}

/** The number `k` of a list of whole numbers, such as the indices of cells. */
export function indexAt(values: Int32Array, k: number): number {
  return values[k] ?? missing(values, k);
}

function missing(list: ArrayLike<number>, k: number): never {
  throw new Error(`Bug: number or point ${k} of a list of ${list.length} numbers`);
}

/** Points of a frame at a pose, outside that frame. */
export function pointsAt(points: Float64Array, { x, y, yaw }: Pose2d): Float64Array {
  const cos = Math.cos(yaw), sin = Math.sin(yaw);
  const out = new Float64Array(points.length);
  for (let k = 0; 2 * k < points.length; k++) {
    const px = xOf(points, k), py = yOf(points, k);
    out[2 * k] = x + cos * px - sin * py;
    out[2 * k + 1] = y + sin * px + cos * py;
  }
  return out;
}

/** The points of both lists. */
export function joinedPoints(a: Float64Array, b: Float64Array): Float64Array {
  const both = new Float64Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

/** At most `most` of the points, evenly spread; the list itself if it has no more. */
export function thinned(points: Float64Array, most: number): Float64Array {
  const count = points.length / 2;
  if (count <= most) return points;
  const out = new Float64Array(2 * most);
  for (let k = 0; k < most; k++) {
    const from = Math.floor(k * count / most);
    out[2 * k] = xOf(points, from);
    out[2 * k + 1] = yOf(points, from);
  }
  return out;
}

export interface PointsByAngle {
  readonly points: Float64Array;
  /** The angle of each point, in radians. */
  readonly angles: Float64Array;
  /** The median of the angles between neighbours; 0 if there are none. */
  readonly stepRad: number;
}

/** The points in the order of their angles, seen from a place. Most lidars give them so; then they are not copied. */
export function byAngle(points: Float64Array, from = { x: 0, y: 0 }): PointsByAngle {
  const count = points.length / 2, angles = new Float64Array(count);
  let isSorted = true;
  for (let k = 0; k < count; k++) {
    const angle = Math.atan2(yOf(points, k) - from.y, xOf(points, k) - from.x);
    if (k > 0 && angle < doubleAt(angles, k - 1)) isSorted = false;
    angles[k] = angle;
  }
  if (isSorted) return { points, angles, stepRad: usualStep(angles) };
  const order = Array.from(angles, (angle, k) => ({ angle, k })).sort((a, b) => a.angle - b.angle);
  const sorted = new Float64Array(2 * count);
  for (const [to, { angle, k }] of order.entries()) {
    angles[to] = angle;
    sorted[2 * to] = xOf(points, k);
    sorted[2 * to + 1] = yOf(points, k);
  }
  return { points: sorted, angles, stepRad: usualStep(angles) };
}

function usualStep(angles: Float64Array): number {
  return medianOf(angles.subarray(1).map((angle, k) => angle - doubleAt(angles, k)));
}

/** The median, the greater one of two; 0 of no numbers. Sorts the list. */
export function medianOf(values: Float64Array): number {
  return values.length === 0 ? 0 : doubleAt(values.sort(), values.length >> 1);
}
