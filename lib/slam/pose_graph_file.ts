/**
 * The pose graph of a map in the text format of g2o, which pose graph optimizers read: submaps and nodes as `VERTEX_SE2`,
 * submaps first, constraints as `EDGE_SE2` with their information matrix.
 */

import type { ConstraintState, MapState } from "./map_state.ts";
import type { Pose2d } from "./pose2d.ts";

/** The first submap does not move. */
export function g2oText({ submaps, nodes, constraints }: MapState): string {
  const ids = new Map<string, number>();
  const lines: string[] = [];
  const vertex = (kind: "submap" | "node", part: Part, pose: Pose2d) => {
    ids.set(keyOf(kind, part), ids.size);
    lines.push(`VERTEX_SE2 ${ids.size - 1} ${numbers(pose)}`);
  };
  for (const one of submaps) vertex("submap", one, one.globalPose);
  for (const one of nodes) vertex("node", one, one.globalPose);
  if (ids.size > 0) lines.push("FIX 0");
  for (const one of constraints) {
    const from = ids.get(keyOf("submap", one.submap)), to = ids.get(keyOf("node", one.node));
    if (from === undefined || to === undefined) continue;
    lines.push(`EDGE_SE2 ${from} ${to} ${numbers(one.pose)} ${informationOf(one)}`);
  }
  return lines.map((line) => `${line}\n`).join("");
}

interface Part {
  readonly trajectory: number;
  readonly index: number;
}

function keyOf(kind: "submap" | "node", { trajectory, index }: Part): string {
  return `${kind} ${trajectory} ${index}`;
}

/** The upper triangle; weights are one over the standard deviations. */
function informationOf({ translationWeight, rotationWeight }: ConstraintState): string {
  const along = translationWeight ** 2;
  return `${along} 0 0 ${along} 0 ${rotationWeight ** 2}`;
}

function numbers({ x, y, yaw }: Pose2d): string {
  return `${x} ${y} ${yaw}`;
}
