/**
 * The surface between neighbouring beams. A grid with the ends of beams alone shows the pattern of the beams: a scan
 * from a place nearby fits best where its beams meet the ends of earlier ones, as if the robot stood still.
 */

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

export class SurfaceFilter {
  #angles = new Float64Array(0);
  #order: number[] = [];

  /** Points between neighbours by angle from the lidar on the same surface: x, y, … */
  between(points: Float64Array, origin: { readonly x: number; readonly y: number }): Float64Array {
    const count = points.length / 2;
    if (count < 3) return new Float64Array(0);
    if (this.#angles.length < count) this.#angles = new Float64Array(2 * count);
    const angles = this.#angles.subarray(0, count);
    for (let k = 0; k < count; k++) {
      angles[k] = Math.atan2(points[2 * k + 1] - origin.y, points[2 * k] - origin.x);
    }
    const order = this.#sorted(angles), gap = usualStep(angles, order);
    const out: number[] = [];
    for (let k = 0; k < count; k++) {
      const a = order[k], b = order[(k + 1) % count];
      const turn = k + 1 < count ? angles[b] - angles[a] : angles[b] - angles[a] + 2 * Math.PI;
      if (turn > GAPS_MAX * gap) continue;
      const x = points[2 * a], y = points[2 * a + 1], dx = points[2 * b] - x, dy = points[2 * b + 1] - y;
      const apart = Math.hypot(dx, dy);
      if (apart <= SPACING_M || apart > APART_MAX_M) continue;
      const range = Math.min(
        Math.hypot(x - origin.x, y - origin.y),
        Math.hypot(points[2 * b] - origin.x, points[2 * b + 1] - origin.y),
      );
      if (apart > ARCS_MAX * gap * range) continue;
      const isSure = apart <= ARCS_SURE * gap * range ||
        isAlong(points, order[(k + count - 1) % count], a, dx / apart, dy / apart) ||
        isAlong(points, b, order[(k + 2) % count], dx / apart, dy / apart);
      if (!isSure) continue;
      const pieces = Math.ceil(apart / SPACING_M);
      for (let piece = 1; piece < pieces; piece++) out.push(x + dx * piece / pieces, y + dy * piece / pieces);
    }
    return Float64Array.from(out);
  }

  /** The places of the points by angle. Most lidars give them in this order. */
  #sorted(angles: Float64Array): number[] {
    const order = this.#order;
    order.length = angles.length;
    let isSorted = true;
    for (let k = 0; k < angles.length; k++) {
      order[k] = k;
      if (k > 0 && angles[k] < angles[k - 1]) isSorted = false;
    }
    return isSorted ? order : order.sort((a, b) => angles[a] - angles[b]);
  }
}

/** Whether a point is from another about in a direction. */
function isAlong(points: Float64Array, from: number, to: number, x: number, y: number): boolean {
  const dx = points[2 * to] - points[2 * from], dy = points[2 * to + 1] - points[2 * from + 1];
  return dx * x + dy * y > STRAIGHT_COS * Math.hypot(dx, dy);
}

/** The median of the angles between neighbours. */
function usualStep(angles: Float64Array, order: readonly number[]): number {
  const steps = new Float64Array(order.length - 1);
  for (let k = 0; k + 1 < order.length; k++) steps[k] = angles[order[k + 1]] - angles[order[k]];
  steps.sort();
  return steps[steps.length >> 1];
}
