/**
 * Whether scans tell the place where they were taken from all others of a map: nobody can find a robot that stands in
 * one of two places that look alike. Judged by someone who knows the place, and how the robot moved.
 */

import { loadMap } from "../../lib/slam/global/map/loading.ts";
import type { MapNode } from "../../lib/slam/global/map/parts.ts";
import { PoseGraph } from "../../lib/slam/global/pose_graph.ts";
import {
  type Hypothesis,
  isBeside,
  NodePlacer,
  SEARCH_POINTS,
} from "../../lib/slam/global/relocalization/hypotheses.ts";
import { RelocalizationMap, SEARCH_REACH_M } from "../../lib/slam/global/relocalization/map.ts";
import { peaksOf } from "../../lib/slam/global/relocalization/peaks.ts";
import { LEVEL } from "../../lib/slam/local/gravity.ts";
import type { MapState } from "../../lib/slam/map_state.ts";
import { thinned } from "../../lib/slam/points.ts";
import type { Pose2d } from "../../lib/slam/pose2d.ts";

/**
 * By so much the quality of the true place must exceed that of any other: a twentieth of the points are on walls there,
 * and elsewhere in free space.
 */
const UNIQUE_LEAD = 0.05;
const PEAKS = { count: 15, minScore: 0.4, spread: 0.2 };

/** A scan in the robot's frame, x, y, …, and where in the map it was taken. */
export interface TakenScan {
  readonly points: Float64Array;
  readonly pose: Pose2d;
}

export class PlaceJudge {
  readonly #map: RelocalizationMap;
  readonly #placer: NodePlacer;

  constructor(state: MapState) {
    const graph = new PoseGraph(), { submaps } = loadMap(state, graph, true);
    const map = valueOf(RelocalizationMap.of(submaps, graph));
    if (!map) throw new RangeError("the map is empty");
    this.#map = map;
    this.#placer = new NodePlacer(map);
  }

  isUnique(scans: readonly TakenScan[]): boolean {
    const nodes = scans.map(nodeOf);
    return [nodes, nodes.toReversed()].every((from) => this.#leads(from));
  }

  /** Other places are searched for where the first of the scans fits. */
  #leads(nodes: readonly MapNode[]): boolean {
    const [first, ...others] = nodes;
    if (!first) return false;
    const traced = (pose: Pose2d) => this.#placer.traced(this.#placer.place(first, pose), others);
    const { quality = -Infinity } = traced(first.localPose) ?? {};
    const isRival = (other: Hypothesis | undefined) =>
      other && !isBeside(other.pose, first.localPose) && other.quality > quality - UNIQUE_LEAD;
    const points = thinned(near(first.points), SEARCH_POINTS);
    const peaks = valueOf(peaksOf(this.#map, points, PEAKS));
    return !peaks.some(({ pose }) => isRival(traced(this.#placer.place(first, pose).pose)));
  }
}

function valueOf<T>(work: Generator<void, T>): T {
  for (let next = work.next();; next = work.next()) if (next.done) return next.value;
}

function nodeOf({ points, pose }: TakenScan, index: number): MapNode {
  return {
    trajectory: 0,
    index,
    ticks: 0n,
    localPose: pose,
    gravityAlignment: LEVEL,
    points,
    variable: 0,
    pathM: 0,
    submaps: [],
  };
}

function near(points: Float64Array): Float64Array {
  const kept: number[] = [];
  for (let k = 0; k + 1 < points.length; k += 2) {
    const [x = NaN, y = NaN] = points.subarray(k, k + 2);
    if (Math.hypot(x, y) <= SEARCH_REACH_M) kept.push(x, y);
  }
  return Float64Array.from(kept);
}
