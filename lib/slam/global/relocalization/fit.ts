/**
 * How well scans fit a place in a map: their points should lie on walls, and their rays should cross none.
 */

import { COST_VALUES, type ProbabilityGrid } from "../../local/probability_grid.ts";
import type { Pose2d } from "../../pose2d.ts";

/** Values of cells: up to this one a cell is a wall, from the other one on it is free. */
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

/** Radius of the search for a better pose around a pose. */
const AROUND_CELLS = 3;
const AROUND_TURNS = 2;
const TURN_STEP_RAD = 0.5 * Math.PI / 180;

export interface PosedScan {
  /** As seen from the robot: x, y, … */
  readonly points: Float64Array;
  readonly pose: Pose2d;
}

/** Fits are from -`THROUGH_WALL` (all wrong) to 1 (all points on walls). */
export interface PoseFit {
  readonly fit: number;
  /** The share of points in known space, and the fit of these points alone. */
  readonly known: number;
  readonly knownFit: number;
  /** The share of points whose rays cross walls. */
  readonly through: number;
}

export function fitOf(grid: ProbabilityGrid, { points, pose }: PosedScan): PoseFit {
  const { cells, cellsX, cellsY, maxX, maxY, resolution } = grid;
  const cos = Math.cos(pose.yaw), sin = Math.sin(pose.yaw);
  const valueAt = (x: number, y: number): number => {
    const i = Math.floor((maxY - y) / resolution), j = Math.floor((maxX - x) / resolution);
    return i < 1 || j < 1 || i >= cellsX - 1 || j >= cellsY - 1 ? 0 : cells[cellsX * j + i] ?? 0;
  };
  const count = Math.max(1, points.length / 2);
  let sum = 0, unknown = 0, through = 0;
  for (let k = 0; k < points.length; k += 2) {
    const x = points[k] ?? 0, y = points[k + 1] ?? 0;
    const dx = cos * x - sin * y, dy = sin * x + cos * y;
    const worth = pointWorth(grid, pose.x + dx, pose.y + dy);
    sum += worth;
    if (worth === UNKNOWN) unknown++;
    const range = Math.hypot(dx, dy);
    for (let at = RAY_STEP_M; at < range - RAY_END_M; at += RAY_STEP_M) {
      const value = valueAt(pose.x + dx * at / range, pose.y + dy * at / range);
      if (value === 0 || value > WALL) continue;
      sum -= THROUGH_WALL;
      through++;
      break;
    }
  }
  const known = count - unknown;
  const knownFit = (sum - UNKNOWN * unknown) / Math.max(1, known);
  return { fit: sum / count, known: known / count, knownFit, through: through / count };
}

/**
 * The pose nearby, in steps of a cell and half a degree, whose points lie on the likeliest cells. Refinement finds a
 * wall only from a cell away; from farther, it slides along the wall's free side and ends at a worse place.
 */
export function likeliestAround(grid: ProbabilityGrid, points: Float64Array, pose: Pose2d): Pose2d {
  const { cells, cellsX, cellsY, maxX, maxY, resolution } = grid;
  const count = points.length / 2;
  const cellsI = new Int32Array(count), cellsJ = new Int32Array(count);
  let least = Infinity, best = pose;
  for (let turn = -AROUND_TURNS; turn <= AROUND_TURNS; turn++) {
    const yaw = pose.yaw + turn * TURN_STEP_RAD, cos = Math.cos(yaw), sin = Math.sin(yaw);
    for (let k = 0; k < count; k++) {
      const px = points[2 * k] ?? 0, py = points[2 * k + 1] ?? 0;
      const x = pose.x + cos * px - sin * py, y = pose.y + sin * px + cos * py;
      cellsI[k] = Math.floor((maxY - y) / resolution);
      cellsJ[k] = Math.floor((maxX - x) / resolution);
    }
    for (let dj = -AROUND_CELLS; dj <= AROUND_CELLS; dj++) {
      for (let di = -AROUND_CELLS; di <= AROUND_CELLS; di++) {
        let cost = 0;
        for (let k = 0; k < count; k++) {
          const i = (cellsI[k] ?? 0) + di, j = (cellsJ[k] ?? 0) + dj;
          const isInside = i >= 0 && j >= 0 && i < cellsX && j < cellsY;
          cost += (isInside && cells[cellsX * j + i]) || COST_VALUES;
        }
        if (cost >= least) continue;
        least = cost;
        best = { x: pose.x - dj * resolution, y: pose.y - di * resolution, yaw };
      }
    }
  }
  return best;
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
  const value = cells[at] ?? 0;
  if (isWall(value)) return ON_WALL;
  for (let b = -1; b <= 1; b++) {
    for (let a = -1; a <= 1; a++) if (isWall(cells[at + b * cellsX + a] ?? 0)) return BESIDE_WALL;
  }
  return value < FREE ? UNKNOWN : 0;
}

function valueOf(probability: number): number {
  return Math.round((0.9 - probability) / 0.8 * (COST_VALUES - 1)) + 1;
}
