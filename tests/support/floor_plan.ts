/**
 * A building of straight walls, and a laser's view in it: for tests of mapping.
 */

import { compose2d, type Pose2d } from "../../lib/slam/pose2d.ts";
import { randomFrom } from "../../lib/geometry/random.ts";

/** x1, y1, x2, y2. */
export type Wall = readonly [number, number, number, number];

/** A ring of corridors, 14 m by 10 m, with niches that make each part look different. */
export const RING: readonly Wall[] = [
  ...rectangle(-1.5, -1.5, 12.5, 8.5),
  ...rectangle(1.5, 1.5, 9.5, 5.5),
  [3, -1.5, 3, -1],
  [3.4, -1.5, 3.4, -0.7],
  [7, -1.5, 7.6, -0.9],
  [12.5, 1, 11.8, 1.4],
  [12.5, 4, 11.6, 4],
  [10, 8.5, 10.4, 7.6],
  [5, 8.5, 5, 7.8],
  [4, 8.5, 3.2, 7.9],
  [-1.5, 5, -0.8, 5.6],
  [-1.5, 2.2, -0.9, 2.2],
  [6, 1.5, 6.3, 1.1],
  [8, 5.5, 8.3, 6.1],
];

export function rectangle(x1: number, y1: number, x2: number, y2: number): Wall[] {
  return [[x1, y1, x2, y1], [x2, y1, x2, y2], [x2, y2, x1, y2], [x1, y2, x1, y1]];
}

export interface ViewOptions {
  readonly beams: number;
  readonly fieldRad: number;
  readonly noiseM: number;
  readonly seed: number;
}

/** The end points of the beams in the robot's frame: x, y, z, … */
export function viewFrom(walls: readonly Wall[], pose: Pose2d, options: ViewOptions): Float32Array {
  const { beams, fieldRad, noiseM, seed } = options;
  const random = randomFrom(seed);
  const points = new Float32Array(3 * beams);
  for (let beam = 0; beam < beams; beam++) {
    const angle = -fieldRad / 2 + fieldRad * beam / (beams - 1);
    const noise = noiseM * (random() + random() + random() - 1.5) * 2;
    const range = rangeAlong(walls, pose, pose.yaw + angle) + noise;
    points[3 * beam] = range * Math.cos(angle);
    points[3 * beam + 1] = range * Math.sin(angle);
  }
  return points;
}

const FAR_M = 100;

function rangeAlong(walls: readonly Wall[], { x, y }: Pose2d, angle: number): number {
  const dx = Math.cos(angle), dy = Math.sin(angle);
  let nearest = FAR_M;
  for (const [x1, y1, x2, y2] of walls) {
    const wx = x2 - x1, wy = y2 - y1;
    const turn = dx * wy - dy * wx;
    if (Math.abs(turn) < 1e-12) continue;
    const along = ((x1 - x) * wy - (y1 - y) * wx) / turn;
    const share = ((x1 - x) * dy - (y1 - y) * dx) / turn;
    if (along > 0 && along < nearest && share >= 0 && share <= 1) nearest = along;
  }
  return nearest;
}

/** Poses along a way through corners, a step apart; at a corner the robot turns on the spot. */
export function drive(
  corners: readonly (readonly [number, number])[],
  stepM: number,
  stepRad: number,
): Pose2d[] {
  const poses: Pose2d[] = [];
  let yaw = 0;
  corners.slice(1).forEach(([x, y], k) => {
    const [fromX, fromY] = corners[k];
    const heading = Math.atan2(y - fromY, x - fromX);
    const turn = Math.atan2(Math.sin(heading - yaw), Math.cos(heading - yaw));
    const turns = Math.ceil(Math.abs(turn) / stepRad);
    for (let n = 1; n <= turns; n++) poses.push({ x: fromX, y: fromY, yaw: yaw + turn * n / turns });
    yaw = heading;
    const steps = Math.ceil(Math.hypot(x - fromX, y - fromY) / stepM);
    for (let n = 1; n <= steps; n++) {
      poses.push({ x: fromX + (x - fromX) * n / steps, y: fromY + (y - fromY) * n / steps, yaw });
    }
  });
  return poses;
}

/** Odometry of the way, with errors of length and direction in each step. */
export function drifting(poses: readonly Pose2d[], share: number, turnRad: number): Pose2d[] {
  let at = poses[0];
  return poses.map((pose, k) => {
    if (k === 0) return at;
    const before = poses[k - 1];
    const cos = Math.cos(before.yaw), sin = Math.sin(before.yaw);
    const dx = pose.x - before.x, dy = pose.y - before.y;
    const moved = {
      x: (cos * dx + sin * dy) * (1 + share),
      y: cos * dy - sin * dx,
      yaw: pose.yaw - before.yaw,
    };
    at = compose2d(at, { ...moved, yaw: moved.yaw + turnRad });
    return at;
  });
}
