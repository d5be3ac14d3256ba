/**
 * How well scans fit a place in a map: their points should lie on walls, and their rays should cross none.
 */

import { COST_VALUES, type ProbabilityGrid } from "../local/probability_grid.ts";
import type { Pose2d } from "../pose2d.ts";

/** A cell with this value or less is a wall; with the other value or more, it is free. */
const WALL = valueOf(0.58);
const FREE = valueOf(0.495);
/** The score of a point: on a wall, beside one, in unknown space, and in free space. */
const ON_WALL = 1;
const BESIDE_WALL = 0.7;
const UNKNOWN = 0.25;
/** Sampling step along a ray, and the distance from its end that is left out. */
const RAY_STEP_M = 0.25;
const RAY_END_M = 0.35;
/** The penalty of a point whose ray crosses a wall. */
const THROUGH_WALL = 0.6;

export interface PlacedScan {
  /** As seen from the robot: x, y, … */
  readonly points: Float64Array;
  readonly pose: Pose2d;
}

/** Fits are from -`THROUGH_WALL` (all wrong) to 1 (all points on walls). */
export interface PlaceFit {
  readonly fit: number;
  /** The share of points in known space, and the fit of these points alone. */
  readonly known: number;
  readonly knownFit: number;
}

export function fitOf(grid: ProbabilityGrid, { points, pose }: PlacedScan): PlaceFit {
  const { cells, cellsX, cellsY, maxX, maxY, resolution } = grid;
  const cos = Math.cos(pose.yaw), sin = Math.sin(pose.yaw);
  const valueAt = (x: number, y: number): number => {
    const i = Math.floor((maxY - y) / resolution), j = Math.floor((maxX - x) / resolution);
    return i < 1 || j < 1 || i >= cellsX - 1 || j >= cellsY - 1 ? 0 : cells[cellsX * j + i];
  };
  const count = Math.max(1, points.length / 2);
  let sum = 0, unknown = 0;
  for (let k = 0; k < points.length; k += 2) {
    const dx = cos * points[k] - sin * points[k + 1], dy = sin * points[k] + cos * points[k + 1];
    const worth = pointWorth(grid, pose.x + dx, pose.y + dy);
    sum += worth;
    if (worth === UNKNOWN) unknown++;
    const range = Math.hypot(dx, dy);
    for (let at = RAY_STEP_M; at < range - RAY_END_M; at += RAY_STEP_M) {
      const value = valueAt(pose.x + dx * at / range, pose.y + dy * at / range);
      if (value === 0 || value > WALL) continue;
      sum -= THROUGH_WALL;
      break;
    }
  }
  const known = count - unknown;
  const knownFit = (sum - UNKNOWN * unknown) / Math.max(1, known);
  return { fit: sum / count, known: known / count, knownFit };
}

function pointWorth(
  { cells, cellsX, cellsY, maxX, maxY, resolution }: ProbabilityGrid,
  x: number,
  y: number,
) {
  const i = Math.floor((maxY - y) / resolution), j = Math.floor((maxX - x) / resolution);
  if (i < 2 || j < 2 || i >= cellsX - 2 || j >= cellsY - 2) return UNKNOWN;
  const at = cellsX * j + i;
  const isWall = (value: number) => value !== 0 && value <= WALL;
  if (isWall(cells[at])) return ON_WALL;
  for (let b = -1; b <= 1; b++) {
    for (let a = -1; a <= 1; a++) if (isWall(cells[at + b * cellsX + a])) return BESIDE_WALL;
  }
  return cells[at] === 0 || cells[at] < FREE ? UNKNOWN : 0;
}

function valueOf(probability: number): number {
  return Math.round((0.9 - probability) / 0.8 * (COST_VALUES - 1)) + 1;
}
