/**
 * The surface between neighbouring beams. A grid with the ends of beams alone shows the pattern of the beams: a scan
 * from a place nearby fits best where its beams meet the ends of earlier ones, as if the robot stood still.
 */

import { byAngle, doubleAt, xOf, yOf } from "../points.ts";

/** Neighbours lie on one surface if the angle between them is at most this many usual ones, */
const GAPS_MAX = 1.6;
/** and their distance at most this many times that of neighbours on a surface across the beams, and at most this. */
const ARCS_MAX = 2;
/** Beyond this, a surface must continue in the same direction; otherwise the two are the edges of two surfaces. */
const ARCS_SURE = 1.5;
const STRAIGHT_COS = 0.8;
const APART_MAX_M = 0.6;
/** One point is drawn in each cell. */
const SPACING_M = 0.05;

/** Points between neighbours by angle from the lidar on the same surface: x, y, … */
export function surfaceBetween(
  points: Float64Array,
  origin: { readonly x: number; readonly y: number },
): Float64Array {
  const count = points.length / 2;
  if (count < 3) return new Float64Array(0);
  const { points: sorted, angles, stepRad } = byAngle(points, origin);
  const out: number[] = [];
  for (let a = 0; a < count; a++) {
    const b = (a + 1) % count, turn = doubleAt(angles, b) - doubleAt(angles, a);
    if ((b > 0 ? turn : turn + 2 * Math.PI) > GAPS_MAX * stepRad) continue;
    const x = xOf(sorted, a), y = yOf(sorted, a), dx = xOf(sorted, b) - x, dy = yOf(sorted, b) - y;
    const apart = Math.hypot(dx, dy);
    if (apart <= SPACING_M || apart > APART_MAX_M) continue;
    const range = Math.min(
      Math.hypot(x - origin.x, y - origin.y),
      Math.hypot(xOf(sorted, b) - origin.x, yOf(sorted, b) - origin.y),
    );
    if (apart > ARCS_MAX * stepRad * range) continue;
    const isSure = apart <= ARCS_SURE * stepRad * range ||
      isAlong(sorted, (a + count - 1) % count, a, dx / apart, dy / apart) ||
      isAlong(sorted, b, (b + 1) % count, dx / apart, dy / apart);
    if (!isSure) continue;
    const pieces = Math.ceil(apart / SPACING_M);
    for (let piece = 1; piece < pieces; piece++) out.push(x + dx * piece / pieces, y + dy * piece / pieces);
  }
  return Float64Array.from(out);
}

/** Whether a point is from another about in a direction. */
function isAlong(points: Float64Array, from: number, to: number, x: number, y: number): boolean {
  const dx = xOf(points, to) - xOf(points, from), dy = yOf(points, to) - yOf(points, from);
  return dx * x + dy * y > STRAIGHT_COS * Math.hypot(dx, dy);
}
