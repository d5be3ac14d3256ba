/**
 * Inverse kinematics: finds joint positions that bring a part's end to a pose.
 *
 * Uses damped least squares, first from the present joint positions, then from repeatable random positions,
 * within the joint limits. The first answer within tolerance wins, so a reachable pose near the present one
 * needs only a small move. Deterministic: the same question gives the same answer.
 */

import { SvcError } from "../base/error.ts";
import { checkCount, type KinematicModel, placeFrames } from "./kinematics.ts";
import {
  axisAnglesFromQuaternion,
  conjugate,
  cross,
  degrees,
  distanceBetween,
  fromPose,
  IDENTITY,
  multiply,
  ORIGIN,
  type Pose,
  type RigidTransform,
  rotate,
  scale,
  subtract,
  type Vec3,
} from "./pose.ts";
import { randomFrom } from "./random.ts";

const TOLERANCE_MM = 0.01;
const TOLERANCE_DEG = 0.01;
/** Weight of one radian of rotation in millimetres of distance: about the reach of a table-top arm. */
const MM_PER_RAD = 300;
const MAX_STEPS = 200;
/** A try is stuck if its error has not fallen by a tenth within this many steps. */
const STUCK_STEPS = 30;
const MAX_DAMPING = 1e8;

export interface SearchOptions {
  readonly seed?: number;
  /** Number of random positions to try after the present one. */
  readonly restarts?: number;
}

interface Try {
  readonly positions: readonly number[];
  readonly places: readonly RigidTransform[];
  readonly distanceMm: number;
  readonly angleDeg: number;
  /** Distance and rotation combined, in millimetres. */
  readonly cost: number;
}

/**
 * Joint positions (degrees, millimetres) within the limits that bring the end to `goal`; the search starts at
 * `start`.
 *
 * @throws failed_precondition if none was found, with the best one's distance from the goal
 *
 * @throws invalid_argument if `start` does not fit this model
 */
export function inverseKinematics(
  model: KinematicModel,
  goal: Pose,
  start: readonly number[],
  { seed = 1, restarts = 40 }: SearchOptions = {},
): number[] {
  checkCount(model, start);
  const target = fromPose(goal);
  if (![...Object.values(target.translation), ...Object.values(target.rotation)].every(Number.isFinite)) {
    throw new SvcError("invalid_argument", `moving ${model.name} to a pose with a number that is not finite`);
  }

  const random = randomFrom(seed);
  let best: Try | undefined;
  for (let round = 0; round <= restarts; round++) {
    const from = round === 0 ? clamped(model, start) : randomPositions(model, random);
    const found = descend(model, target, from);
    if (reached(found)) return nearest(model, found.positions, start);
    if (!best || found.cost < best.cost) best = found;
    if (model.joints.length === 0) break;
  }

  const { distanceMm, angleDeg } = best!;
  const reach = `the closest found is ${distanceMm.toFixed(2)} mm and ${angleDeg.toFixed(2)} degrees from it`;
  const where = `(${[goal.x, goal.y, goal.z].map((mm) => mm.toFixed(1)).join(", ")}) mm`;
  throw new SvcError("failed_precondition", `moving ${model.name} to ${where}: out of reach, ${reach}`);
}

/** Steps downhill: takes larger steps after a good step and smaller ones after a bad step. */
function descend(model: KinematicModel, target: RigidTransform, from: readonly number[]): Try {
  let here = assess(model, target, from);
  let damping = 1e-2;
  let [stuckAt, stuckSteps] = [here.cost, 0];
  for (let step = 0; step < MAX_STEPS && !reached(here) && damping < MAX_DAMPING; step++) {
    const next = assess(
      model,
      target,
      moved(model, here.positions, dampedStep(model, target, here, damping)),
    );
    if (next.cost < here.cost) {
      here = next;
      damping = Math.max(damping / 4, 1e-9);
    } else {
      damping *= 4;
    }
    if (here.cost < 0.9 * stuckAt) [stuckAt, stuckSteps] = [here.cost, 0];
    else if (++stuckSteps > STUCK_STEPS) break;
  }

  return here;
}

function assess(model: KinematicModel, target: RigidTransform, positions: readonly number[]): Try {
  const places = placeFrames(model, positions);
  const { distanceMm, angleRad } = distanceBetween(places[model.end] ?? IDENTITY, target);
  const cost = Math.hypot(distanceMm, angleRad * MM_PER_RAD);
  return { positions, places, distanceMm, angleDeg: degrees(angleRad), cost };
}

function reached({ distanceMm, angleDeg }: Try): boolean {
  return distanceMm < TOLERANCE_MM && angleDeg < TOLERANCE_DEG;
}

/**
 * The change of each joint (radians, millimetres) that solves (JᵀJ + damping·diag JᵀJ)·change = Jᵀ·error. A
 * joint at a limit that would move beyond it stays in place, so that the other joints compensate.
 */
function dampedStep(model: KinematicModel, target: RigidTransform, here: Try, damping: number): number[] {
  const { rows, error } = linearize(model, target, here.places);
  const wanted = rows.map((row) => dot(row, error));
  const free = model.joints.map(({ min, max }, index) => {
    const position = here.positions[index] ?? 0;
    return (wanted[index] ?? 0) > 0 ? position < max : position > min;
  });
  const matrix = rows.map((row, i) =>
    rows.map((other, j) => {
      if (!free[i] || !free[j]) return i === j ? 1 : 0;
      return dot(row, other) * (i === j ? 1 + damping : 1) + (i === j ? 1e-9 : 0);
    })
  );
  return solved(matrix, wanted.map((value, index) => free[index] ? value : 0));
}

/**
 * The remaining error (distance in millimetres, then rotation scaled to millimetres), and its derivative for
 * each joint, per radian or millimetre; one row for each joint.
 */
function linearize(model: KinematicModel, target: RigidTransform, places: readonly RigidTransform[]) {
  const rows = model.joints.map(() => [0, 0, 0, 0, 0, 0]);
  const end = places[model.end];
  if (!end) return { rows, error: [0, 0, 0, 0, 0, 0] };

  const { theta, ...axis } = axisAnglesFromQuaternion(multiply(target.rotation, conjugate(end.rotation)));
  const error = six(subtract(target.translation, end.translation), scale(axis, theta));

  let place: RigidTransform | undefined = end;
  for (let frame = model.frames[model.end]; frame && place; frame = model.frames[frame.parent]) {
    const { drive } = frame;
    if (drive) {
      const direction = scale(rotate(place.rotation, drive.axis), drive.multiplier);
      const effect = drive.type === "prismatic"
        ? six(direction, ORIGIN)
        : six(cross(direction, subtract(end.translation, place.translation)), direction);
      rows[drive.index] = rows[drive.index]?.map((value, i) => value + (effect[i] ?? 0)) ?? effect;
    }
    place = places[frame.parent];
  }

  return { rows, error };
}

function six(way: Vec3, turn: Vec3): number[] {
  return [way.x, way.y, way.z, turn.x * MM_PER_RAD, turn.y * MM_PER_RAD, turn.z * MM_PER_RAD];
}

/** Joint positions after a change in radians and millimetres, kept within the limits. */
function moved(model: KinematicModel, positions: readonly number[], change: readonly number[]): number[] {
  return clamped(
    model,
    positions.map((position, index) => {
      const by = change[index] ?? 0;
      return position + (model.joints[index]?.type === "revolute" ? degrees(by) : by);
    }),
  );
}

function clamped(model: KinematicModel, positions: readonly number[]): number[] {
  return model.joints.map(({ min, max }, index) => Math.min(Math.max(positions[index] ?? 0, min), max));
}

/** Random positions within the limits, at most half a turn from 0 if the limits allow that. */
export function randomPositions(model: KinematicModel, random: () => number): number[] {
  return model.joints.map(({ type, min, max }) => {
    const half = type === "revolute" ? 180 : Infinity;
    const [from, to] = min < half && max > -half ? [Math.max(min, -half), Math.min(max, half)] : [min, max];
    return from + random() * (to - from);
  });
}

/** Turns each revolute joint by whole turns to be as close as possible to its start, within its limits. */
function nearest(model: KinematicModel, positions: readonly number[], start: readonly number[]): number[] {
  return model.joints.map(({ type, min, max }, index) => {
    const position = positions[index] ?? 0;
    const turned = position + 360 * Math.round(((start[index] ?? 0) - position) / 360);
    return type === "revolute" && turned >= min && turned <= max ? turned : position;
  });
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
}

/** Solves a symmetric positive definite system by elimination. */
function solved(matrix: readonly (readonly number[])[], right: readonly number[]): number[] {
  const rows = matrix.map((row, index) => [...row, right[index] ?? 0]);
  const n = rows.length;
  for (const [pivot, first] of rows.entries()) {
    for (const row of rows.slice(pivot + 1)) {
      const factor = (row[pivot] ?? 0) / (first[pivot] ?? 0);
      for (let column = pivot; column <= n; column++) {
        row[column] = (row[column] ?? 0) - factor * (first[column] ?? 0);
      }
    }
  }

  const solution = new Array<number>(n).fill(0);
  for (const [index, row] of [...rows.entries()].reverse()) {
    let rest = row[n] ?? 0;
    for (let column = index + 1; column < n; column++) rest -= (row[column] ?? 0) * (solution[column] ?? 0);
    solution[index] = rest / (row[index] ?? 0);
  }

  return solution;
}
