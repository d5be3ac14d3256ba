/**
 * Decides whether a robot can have drifted as far as a loop closure implies. If aisles look alike, a scan fits in the
 * next aisle, too. But a robot that drifts sideways also turns, so a closure with one of these and not the other is a
 * similar place.
 */

import { type Pose2d, wrapAngle } from "../pose2d.ts";
import type { Closure, MapSubmap } from "./map/parts.ts";
import type { PoseGraph } from "./pose_graph.ts";

const DEGREE = Math.PI / 180;
/** Standard deviations of a metre of path: its turn and its step. Different metres are independent. */
const TURN_RAD = 0.4 * DEGREE;
const STEP_M = 0.03;
/** The deviation of the length of the path between two submaps, as a share of it. */
const LENGTH_SHARE = 0.03;
/** The deviations of a match. */
const MATCH_M = 0.3;
const MATCH_RAD = 2 * DEGREE;
/** Largest error in standard deviations. */
const DEVIATIONS_MAX = 3;

/** x, y and yaw: xx, xy, xt, yy, yt, tt. */
type Covariance = readonly [number, number, number, number, number, number];

/** `corrected` is the node's pose in the map by the closure. Between trajectories everything is plausible. */
export function isPlausible(
  graph: PoseGraph,
  { submap, node }: Closure,
  corrected: Pose2d,
  submaps: readonly MapSubmap[],
): boolean {
  const [own] = node.submaps;
  if (!own || submap.trajectory !== node.trajectory) return true;
  const first = Math.min(submap.index, own.index), last = Math.max(submap.index, own.index);
  const way = submaps.filter(({ trajectory, index }) => {
    return trajectory === submap.trajectory && index >= first && index <= last;
  });
  const end = graph.pose(node.variable);
  const off = [corrected.x - end.x, corrected.y - end.y, wrapAngle(corrected.yaw - end.yaw)] as const;
  return squareOf(off, driftOn(way, end, graph)) <= DEVIATIONS_MAX ** 2;
}

/** The covariance of a pose at the end of a path along submaps. */
function driftOn(way: readonly MapSubmap[], end: Pose2d, graph: PoseGraph): Covariance {
  let xx = MATCH_M ** 2, xy = 0, xt = 0, yy = MATCH_M ** 2, yt = 0, tt = MATCH_RAD ** 2;
  for (const [k, submap] of way.entries()) {
    const next = way[k + 1];
    if (!next) break;
    const a = graph.pose(submap.variable), b = graph.pose(next.variable);
    const pathM = Math.abs(next.pathM - submap.pathM);
    const turn = TURN_RAD ** 2 * pathM, step = STEP_M ** 2 * pathM;
    // A turn here moves the end by this much for each radian.
    const leverX = (a.y + b.y) / 2 - end.y, leverY = end.x - (a.x + b.x) / 2;
    xx += turn * leverX ** 2 + step + (LENGTH_SHARE * (b.x - a.x)) ** 2;
    xy += turn * leverX * leverY;
    xt += turn * leverX;
    yy += turn * leverY ** 2 + step + (LENGTH_SHARE * (b.y - a.y)) ** 2;
    yt += turn * leverY;
    tt += turn;
  }
  return [xx, xy, xt, yy, yt, tt];
}

/** The square of an error in standard deviations. */
function squareOf([x, y, t]: readonly [number, number, number], covariance: Covariance): number {
  const [xx, xy, xt, yy, yt, tt] = covariance;
  const a = yy * tt - yt * yt, b = xt * yt - xy * tt, c = xy * yt - xt * yy;
  const d = xx * tt - xt * xt, e = xy * xt - xx * yt, f = xx * yy - xy * xy;
  return (a * x * x + d * y * y + f * t * t + 2 * (b * x * y + c * x * t + e * y * t)) /
    (xx * a + xy * b + xt * c);
}
