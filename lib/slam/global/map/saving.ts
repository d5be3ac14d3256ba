/** Makes the state of a map from its parts. */

import type { ConstraintState, MapState, NodeState, SubmapState, TrajectoryState } from "../../map_state.ts";
import { between2d } from "../../pose2d.ts";
import type { Closure, MapNode, MapSubmap } from "./parts.ts";
import type { GraphEdge, PoseGraph } from "../pose_graph.ts";

type Weights = Pick<GraphEdge, "translationWeight" | "rotationWeight">;

/** `trajectories` are the saved ones; `intra` and `inter` weigh the constraints. */
export function stateOf(
  trajectories: readonly TrajectoryState[],
  submaps: readonly MapSubmap[],
  nodes: readonly MapNode[],
  closures: readonly Closure[],
  graph: PoseGraph,
  intra: Weights,
  inter: Weights,
): Omit<MapState, "landmarks"> {
  const kept = new Set(submaps);
  const there = new Set([...submaps, ...nodes].map(({ trajectory }) => trajectory));
  return {
    trajectories: trajectories.filter(({ trajectory }) => there.has(trajectory)),
    submaps: submaps.map((one): SubmapState => ({
      trajectory: one.trajectory,
      index: one.index,
      localPose: one.submap.localPose,
      globalPose: graph.pose(one.variable),
      scanCount: one.submap.scanCount,
      finished: one.submap.finished,
      grid: one.submap.grid.state(one.submap.finished),
    })),
    nodes: nodes.map((one): NodeState => ({
      trajectory: one.trajectory,
      index: one.index,
      ticks: one.ticks,
      localPose: one.localPose,
      globalPose: graph.pose(one.variable),
      gravityAlignment: one.gravityAlignment,
      points: pointsWithZ(one.points),
    })),
    constraints: [
      ...nodes.flatMap((node) =>
        node.submaps.filter((one) => kept.has(one)).map((submap) => constraint(submap, node, intra))
      ),
      ...closures.map(({ submap, node, pose }) => constraint(submap, node, inter, pose)),
    ],
  };
}

function constraint(
  submap: MapSubmap,
  node: MapNode,
  weights: Weights,
  found?: Closure["pose"],
): ConstraintState {
  return {
    submap: { trajectory: submap.trajectory, index: submap.index },
    node: { trajectory: node.trajectory, index: node.index },
    pose: found ?? between2d(submap.submap.localPose, node.localPose),
    ...weights,
    kind: found ? "inter" : "intra",
  };
}

function pointsWithZ(points: Float64Array): Float32Array {
  const out = new Float32Array(1.5 * points.length);
  for (let k = 0; k < points.length; k += 2) {
    out[1.5 * k] = points[k] ?? 0;
    out[1.5 * k + 1] = points[k + 1] ?? 0;
  }
  return out;
}
