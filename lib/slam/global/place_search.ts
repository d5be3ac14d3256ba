/**
 * Finds where in a finished map the robot is, when nobody knows: the latest scans, put together, are looked for in all
 * submaps, and several nodes must agree on the place.
 */

import { thinned } from "../local/filters.ts";
import { placed } from "../local/local_mapper.ts";
import { ScanRefiner } from "../local/refinement.ts";
import { between2d, compose2d, type Pose2d } from "../pose2d.ts";
import { SearchGrid } from "./branch_and_bound.ts";
import type { Closure, MapNode, MapSubmap } from "./map_parts.ts";
import type { PoseGraph } from "./pose_graph.ts";

const NODES_TOGETHER = 6;
const SEARCH_POINTS = 150;
const SCORE_SEARCHED = 0.5;
const SCORE_REFINED = 0.55;
const WEIGHTS = { occupiedSpace: 20, translation: 1, rotation: 1 };
/** The robot may be so far beside the way that it took when the submap was made. */
const BESIDE_M = 3;
const AGREEING = 2;
const AGREE_M = 0.4;
const AGREE_RAD = 0.1;
const FOUND_MAX = 20;

export class PlaceSearch {
  readonly #refiner = new ScanRefiner();
  readonly #grids = new Map<MapSubmap, SearchGrid>();
  #recent: MapNode[] = [];
  #found: Closure[] = [];

  constructor(private readonly graph: PoseGraph) {}

  /** Begins anew: the robot has been moved. */
  reset(): void {
    this.#recent = [];
    this.#found = [];
  }

  /** Looks for a node in the submaps; returns what nodes agree on, once they do. */
  look(node: MapNode, submaps: readonly MapSubmap[]): Closure[] {
    this.#recent.push(node);
    if (this.#recent.length > NODES_TOGETHER) this.#recent.shift();
    const closure = this.#best(node, submaps);
    if (!closure) return [];
    this.#found.push(closure);
    if (this.#found.length > FOUND_MAX) this.#found.shift();
    const agreeing = this.#found.filter((other) => this.#agree(closure, other));
    const others = this.#found.filter((other) => !agreeing.includes(other));
    const rivals = Math.max(
      0,
      ...others.map((one) => others.filter((other) => this.#agree(one, other)).length),
    );
    return agreeing.length >= AGREEING && agreeing.length > rivals ? agreeing : [];
  }

  #best(node: MapNode, submaps: readonly MapSubmap[]): Closure | undefined {
    const cloud = together(this.#recent, node);
    const few = thinned(cloud, SEARCH_POINTS);
    let best: { readonly submap: MapSubmap; readonly pose: Pose2d } | undefined;
    let score = SCORE_SEARCHED;
    for (const submap of submaps) {
      if (submap.nodes.length === 0) continue;
      const { centre, reachM } = this.#extent(submap);
      const window = { linearM: reachM, angularRad: Math.PI };
      const match = this.#gridOf(submap).search(few, centre, window, score);
      if (!match) continue;
      score = match.score;
      best = { submap, pose: match.pose };
    }
    if (!best) return undefined;
    const { submap, pose } = best;
    const refined = this.#refiner.refine(submap.submap.grid, cloud, pose, pose, WEIGHTS);
    if (refined.score < SCORE_REFINED) return undefined;
    return { submap, node, pose: between2d(submap.submap.localPose, refined.pose), score: refined.score };
  }

  /** The middle of the way along which a submap was made, and how far from it the robot may be. */
  #extent({ nodes }: MapSubmap): { readonly centre: Pose2d; readonly reachM: number } {
    const xs = nodes.map(({ localPose }) => localPose.x), ys = nodes.map(({ localPose }) => localPose.y);
    const minX = Math.min(...xs), maxX = Math.max(...xs), minY = Math.min(...ys), maxY = Math.max(...ys);
    const centre = { x: (minX + maxX) / 2, y: (minY + maxY) / 2, yaw: 0 };
    return { centre, reachM: Math.max(maxX - minX, maxY - minY) / 2 + BESIDE_M };
  }

  #agree(a: Closure, b: Closure): boolean {
    const inMap = ({ submap, pose }: Closure) => compose2d(this.graph.pose(submap.variable), pose);
    const moved = between2d(a.node.localPose, b.node.localPose);
    const off = between2d(inMap(b), compose2d(inMap(a), moved));
    return Math.hypot(off.x, off.y) <= AGREE_M && Math.abs(off.yaw) <= AGREE_RAD;
  }

  #gridOf(submap: MapSubmap): SearchGrid {
    const grid = this.#grids.get(submap) ?? new SearchGrid(submap.submap.grid);
    this.#grids.set(submap, grid);
    return grid;
  }
}

/** The points of several nodes in the frame of one. */
function together(nodes: readonly MapNode[], last: MapNode): Float64Array {
  const clouds = nodes.map(({ localPose, points }) => placed(points, between2d(last.localPose, localPose)));
  const all = new Float64Array(clouds.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const cloud of clouds) {
    all.set(cloud, at);
    at += cloud.length;
  }
  return all;
}
