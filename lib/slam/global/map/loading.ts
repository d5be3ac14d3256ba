/** Makes the parts of a map from its state, so that a mapper can continue it. */

import { ProbabilityGrid } from "../../local/probability_grid.ts";
import { Submap } from "../../local/submaps.ts";
import type { MapState, TrajectoryState } from "../../map_state.ts";
import { between2d } from "../../pose2d.ts";
import type { Closure, MapNode, MapSubmap } from "./parts.ts";
import type { PoseGraph } from "../pose_graph.ts";

export interface LoadedMap {
  readonly submaps: readonly MapSubmap[];
  readonly nodes: readonly MapNode[];
  readonly closures: readonly Closure[];
  readonly trajectories: readonly TrajectoryState[];
  /** The number for the next trajectory. */
  readonly nextTrajectory: number;
}

/** Puts the poses of a map into a graph, in the order of trajectories and indices; `fixed` poses never move. */
export function loadMap(state: MapState, graph: PoseGraph, fixed: boolean): LoadedMap {
  const key = ({ trajectory, index }: { readonly trajectory: number; readonly index: number }) =>
    `${trajectory} ${index}`;
  const sorted = <T extends { readonly trajectory: number; readonly index: number }>(all: readonly T[]) =>
    [...all].sort((a, b) => a.trajectory - b.trajectory || a.index - b.index);
  const submaps = new Map<string, MapSubmap>();
  const memberships = Map.groupBy(
    state.constraints.filter(({ kind }) => kind === "intra"),
    ({ node }) => key(node),
  );
  const paths = pathsOf(sorted(state.nodes));
  const firsts = new Map<string, number>();
  for (const { kind, node, submap } of state.constraints) {
    const pathM = paths.get(key(node));
    if (kind !== "intra" || pathM === undefined) continue;
    firsts.set(key(submap), Math.min(pathM, firsts.get(key(submap)) ?? Infinity));
  }
  for (const one of sorted(state.submaps)) {
    const submap = new Submap(one.localPose, ProbabilityGrid.of(one.grid), one.scanCount, true);
    submaps.set(key(one), {
      trajectory: one.trajectory,
      index: one.index,
      submap,
      variable: graph.addPose(one.globalPose, fixed || submaps.size === 0),
      pathM: firsts.get(key(one)) ?? 0,
      nodes: [],
    });
  }
  const nodes = new Map<string, MapNode>();
  for (const one of sorted(state.nodes)) {
    const own = (memberships.get(key(one)) ?? []).flatMap(({ submap }) => submaps.get(key(submap)) ?? []);
    const node: MapNode = {
      trajectory: one.trajectory,
      index: one.index,
      ticks: one.ticks,
      localPose: one.localPose,
      gravityAlignment: one.gravityAlignment,
      points: withoutZ(one.points),
      variable: graph.addPose(one.globalPose, fixed),
      pathM: paths.get(key(one)) ?? 0,
      submaps: own,
    };
    nodes.set(key(one), node);
    for (const submap of own) submap.nodes.push(node);
  }
  const closures = state.constraints.flatMap(({ kind, submap, node, pose }): Closure[] => {
    const known = submaps.get(key(submap)), seen = nodes.get(key(node));
    return kind === "inter" && known && seen ? [{ submap: known, node: seen, pose, score: 1 }] : [];
  });
  const numbers = [...state.trajectories, ...state.submaps, ...state.nodes].map((one) => one.trajectory);
  return {
    submaps: [...submaps.values()],
    nodes: [...nodes.values()],
    closures,
    trajectories: state.trajectories,
    nextTrajectory: numbers.reduce((most, one) => Math.max(most, one), -1) + 1,
  };
}

/** How far the robot had driven at each node of its trajectory. */
function pathsOf(nodes: MapState["nodes"]): ReadonlyMap<string, number> {
  const paths = new Map<string, number>();
  let pathM = 0;
  nodes.forEach((node, k) => {
    const before = nodes[k - 1];
    if (before?.trajectory === node.trajectory) {
      const moved = between2d(before.localPose, node.localPose);
      pathM += Math.hypot(moved.x, moved.y);
    } else pathM = 0;
    paths.set(`${node.trajectory} ${node.index}`, pathM);
  });
  return paths;
}

function withoutZ(points: Float32Array): Float64Array {
  const out = new Float64Array(2 * Math.floor(points.length / 3));
  for (let k = 0; k < out.length; k += 2) {
    out[k] = points[1.5 * k] ?? 0;
    out[k + 1] = points[1.5 * k + 1] ?? 0;
  }
  return out;
}
