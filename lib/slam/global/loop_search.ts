/**
 * Loop closures: chooses nodes and submaps to compare, searches, and accepts a match if it is close to the prediction,
 * or if several nodes agree on it.
 */

import type { MapperOptions } from "../mapping.ts";
import { thinned } from "../points.ts";
import { ScanRefiner } from "../local/refinement.ts";
import { ScanMotion } from "../local/scan_motion.ts";
import { between2d, compose2d, type Pose2d } from "../pose2d.ts";
import { SearchGrid } from "./branch_and_bound.ts";
import type { Closure, MapNode, MapSubmap } from "./map/parts.ts";
import type { PoseGraph } from "./pose_graph.ts";
import { isPlausible } from "./plausible.ts";

const DEGREE = Math.PI / 180;

/** The possible error of a node's predicted place: a minimum, and a share of the path since. */
const DRIFT_M = 0.5;
const DRIFT_SHARE = 0.03;
const TURN_RAD = 2 * DEGREE;
const TURN_SHARE_RAD = 0.1 * DEGREE;
/** A node with at most this possible error is searched in that window, and its match is accepted at once. */
const NEAR_M = 1;
/** Other nodes are searched in a wider window. */
const FAR_M = 1;
const FAR_SHARE = 0.04;
const FAR_MAX_M = 8;
const FAR_TURN_RAD = 30 * DEGREE;
/** Up to this error, refinement finds the node without a search. */
const REFINED_M = 0.2;

/**
 * The minimum of the mean probability under the points. It is lower in a submap whose scans were so far apart that
 * they fitted each other worse than `USUAL_SCORE`.
 */
const SCORE_NEAR = 0.55;
const SCORE_FAR = 0.58;
const USUAL_SCORE = 0.55;
/** Largest distance of a node from the nearest node of a submap for a search there. */
const REACH_M = 4;
/** Limit of the searched submaps, the nearest ones of different visits. */
const NEAR_SUBMAPS = 2;
/** Distant searches are costly: only every third node, in this many of the submaps in turn. */
const FAR_EVERY = 3;
const FAR_SUBMAPS = 2;
/** Submaps this close to a node's own submaps show the same places, so a match there closes no loop. */
const NEIGHBOURS = 1;

/**
 * Points on walls across a direction: with `none` or fewer, a closure does not constrain the direction, with `all` or
 * more it does so fully. In a bare corridor, a scan fits everywhere along it.
 */
const DEGENERATE_POINTS = { none: 2, all: 12 };

/** Number of points in a search. */
const SEARCH_POINTS = 100;
const SEARCH_GRIDS_MAX = 100;

/** Number of agreeing closures that makes all of them accepted. */
const AGREEING = 4;
/**
 * Their required distance along the path, which must also be as long as the distance by which they move the node:
 * repeating doors and pillars look the same from the next one, but not all along the path.
 */
const AGREEING_PATH_M = 1;
/** Their required majority over closures that agree on another place. */
const RIVAL_FACTOR = 2;
/** Path length during which closures wait for others. */
const PENDING_PATH_M = 30;
const PENDING_MAX = 200;
const AGREE_M = 0.3;
const AGREE_SHARE = 0.02;
const AGREE_RAD = 3 * DEGREE;

/** A circle around the nodes of a finished submap. */
interface Extent {
  readonly centre: Pose2d;
  readonly radiusM: number;
  /** The graph's number of moves for which it holds. */
  readonly moves: number;
}

interface Pending extends Closure {
  /** Moves the node, and everything around it, to the closure's place. */
  readonly correctedPose: Pose2d;
}

export class LoopSearch {
  readonly #refiner = new ScanRefiner();
  readonly #shape = new ScanMotion();
  /** The submaps in which each node was found. */
  readonly #closed = new Map<MapNode, Set<MapSubmap>>();
  /** Search grids, in the order of their last use. */
  readonly #grids = new Map<MapSubmap, SearchGrid>();
  readonly #extents = new Map<MapSubmap, Extent>();
  #pending: Pending[] = [];
  #farTurn = 0;

  constructor(private readonly graph: PoseGraph, private readonly options: MapperOptions) {}

  forget(submap: MapSubmap): void {
    this.#grids.delete(submap);
    this.#extents.delete(submap);
    this.#pending = this.#pending.filter((one) => one.submap !== submap);
    for (const submaps of this.#closed.values()) submaps.delete(submap);
  }

  forgetNode(node: MapNode): void {
    this.#closed.delete(node);
    this.#pending = this.#pending.filter((one) => one.node !== node);
  }

  /** The accepted closures after a search for `node` in the submaps; `drift` is the path to each. */
  closuresOf(
    node: MapNode,
    submaps: readonly MapSubmap[],
    drift: ReadonlyMap<MapSubmap, number>,
    withFar: boolean,
  ): Closure[] {
    const near: { submap: MapSubmap; away: number; windowM: number; turnRad: number }[] = [];
    const far: typeof near = [];
    for (const submap of submaps) {
      if (!submap.submap.finished || isNeighbour(node, submap) || this.#known(node, submap)) continue;
      const way = drift.get(submap);
      if (way === undefined) continue;
      const driftM = DRIFT_M + DRIFT_SHARE * way;
      const isNear = driftM <= NEAR_M;
      const windowM = isNear ? driftM : Math.min(FAR_MAX_M, FAR_M + FAR_SHARE * way);
      const turnRad = isNear ? TURN_RAD + TURN_SHARE_RAD * way : FAR_TURN_RAD;
      if (this.#isBeyond(node, submap, REACH_M + windowM)) continue;
      const away = this.#away(node, submap);
      if (away > REACH_M + windowM) continue;
      (isNear ? near : far).push({ submap, away, windowM, turnRad });
    }
    const found: Closure[] = [];
    near.sort((a, b) => a.away - b.away || a.submap.index - b.submap.index);
    for (const { submap, windowM, turnRad } of spread(near, NEAR_SUBMAPS)) {
      const closure = this.near(node, submap, windowM, turnRad);
      if (closure) found.push(closure);
    }
    if (!withFar || far.length === 0 || node.index % FAR_EVERY !== 0) return found;
    far.sort((a, b) => a.submap.index - b.submap.index);
    for (let k = 0; k < Math.min(FAR_SUBMAPS, far.length); k++) {
      const next = far[this.#farTurn++ % far.length];
      if (next) found.push(...this.#far(node, next.submap, next.windowM, next.turnRad, submaps));
    }
    return found;
  }

  /** Records an accepted closure, so that the node is not searched there again. */
  close({ node, submap }: Closure): void {
    const submaps = this.#closed.get(node) ?? new Set();
    this.#closed.set(node, submaps.add(submap));
  }

  #known(node: MapNode, submap: MapSubmap): boolean {
    return this.#closed.get(node)?.has(submap) ?? false;
  }

  /** Whether the node is surely farther than this from all nodes of the submap: most submaps are, in a large map. */
  #isBeyond(node: MapNode, submap: MapSubmap, awayM: number): boolean {
    const { centre, radiusM } = this.#extentOf(submap), { x, y } = this.graph.pose(node.variable);
    return Math.hypot(x - centre.x, y - centre.y) > awayM + radiusM;
  }

  #extentOf(submap: MapSubmap): Extent {
    const known = this.#extents.get(submap);
    if (known?.moves === this.graph.moves) return known;
    const centre = this.graph.pose(submap.variable);
    let radiusM = 0;
    for (const { variable } of submap.nodes) {
      const { x, y } = this.graph.pose(variable);
      radiusM = Math.max(radiusM, Math.hypot(x - centre.x, y - centre.y));
    }
    const extent = { centre, radiusM, moves: this.graph.moves };
    this.#extents.set(submap, extent);
    return extent;
  }

  /** From the nearest node of the submap. */
  #away(node: MapNode, { nodes }: MapSubmap): number {
    const { x, y } = this.graph.pose(node.variable);
    let nearest = Infinity;
    for (let k = 0; k < nodes.length; k += 3) {
      const other = nodes[k];
      if (!other) break;
      const pose = this.graph.pose(other.variable);
      const away = (pose.x - x) ** 2 + (pose.y - y) ** 2;
      if (away < nearest) nearest = away;
    }
    return Math.sqrt(nearest);
  }

  /** Searches around the node's predicted place. */
  near(node: MapNode, submap: MapSubmap, windowM: number, turnRad: number): Closure | undefined {
    const predicted = this.#predicted(node, submap), leastScore = SCORE_NEAR * scoreShare(submap);
    let start = predicted;
    if (windowM > REFINED_M) {
      const window = { linearM: windowM, angularRad: turnRad };
      const match = this.#gridOf(submap).search(
        thinned(node.points, SEARCH_POINTS),
        start,
        window,
        leastScore,
      );
      if (!match) return undefined;
      start = match.pose;
    }
    const closure = this.#refined(node, submap, start);
    const moved = between2d(predicted, this.#inMap(submap, closure.pose));
    const inWindow = Math.hypot(moved.x, moved.y) <= 1.5 * windowM && Math.abs(moved.yaw) <= 1.5 * turnRad;
    return closure.score >= leastScore && inWindow ? closure : undefined;
  }

  /** The node's predicted place, in the frame of the submap's grid. */
  #predicted(node: MapNode, submap: MapSubmap): Pose2d {
    const inSubmap = between2d(this.graph.pose(submap.variable), this.graph.pose(node.variable));
    return compose2d(submap.submap.localPose, inSubmap);
  }

  #inMap({ submap }: MapSubmap, inSubmap: Pose2d): Pose2d {
    return compose2d(submap.localPose, inSubmap);
  }

  #refined(node: MapNode, submap: MapSubmap, start: Pose2d): Closure {
    const { occupiedSpaceWeight, translationWeight, rotationWeight } = this.options;
    const weights = {
      occupiedSpace: occupiedSpaceWeight,
      translation: translationWeight,
      rotation: rotationWeight,
    };
    const { pose, score } = this.#refiner.refine(submap.submap.grid, node.points, start, start, weights);
    return this.weighed({ submap, node, pose: between2d(submap.submap.localPose, pose), score });
  }

  /** The closure with its degenerate direction: only points on walls of the submap constrain the place. */
  weighed(closure: Closure): Closure {
    const { submap, node, pose } = closure;
    const { grid } = submap.submap, at = this.#inMap(submap, pose);
    const cos = Math.cos(at.yaw), sin = Math.sin(at.yaw);
    this.#shape.begin(node.points);
    const { x, y, points } = this.#shape.leastConstrainedOf((px, py) =>
      grid.isWall(at.x + cos * px - sin * py, at.y + sin * px + cos * py)
    );
    const share = (points - DEGENERATE_POINTS.none) / (DEGENERATE_POINTS.all - DEGENERATE_POINTS.none);
    if (share >= 1) return closure;
    return { ...closure, degenerate: { yaw: Math.atan2(y, x), share: Math.max(0, share) } };
  }

  /** Searches far around, and returns the closures on which several such searches agree. */
  #far(
    node: MapNode,
    submap: MapSubmap,
    windowM: number,
    turnRad: number,
    submaps: readonly MapSubmap[],
  ): Closure[] {
    const window = { linearM: windowM, angularRad: turnRad }, leastScore = SCORE_FAR * scoreShare(submap);
    const start = this.#predicted(node, submap);
    const match = this.#gridOf(submap).search(thinned(node.points, SEARCH_POINTS), start, window, leastScore);
    if (!match) return [];
    const closure = this.#refined(node, submap, match.pose);
    if (closure.score < leastScore) return [];
    const correctedPose = compose2d(this.graph.pose(submap.variable), closure.pose);
    if (!isPlausible(this.graph, closure, correctedPose, submaps)) return [];
    return this.#agreeing({ ...closure, correctedPose });
  }

  /** Keeps a closure until enough others agree with it, and not as many with another one. */
  #agreeing(closure: Pending): Closure[] {
    this.#pending = this.#pending.filter(({ node }) => closure.node.pathM - node.pathM < PENDING_PATH_M);
    this.#pending.push(closure);
    if (this.#pending.length > PENDING_MAX) this.#pending.shift();
    const agreeing = this.#pending.filter((other) => this.#agree(closure, other));
    const path = agreeing.map(({ node }) => node.pathM);
    const nodes = new Set(agreeing.map(({ node }) => node));
    const off = between2d(this.graph.pose(closure.node.variable), closure.correctedPose);
    const wayM = Math.max(AGREEING_PATH_M, Math.hypot(off.x, off.y));
    if (nodes.size < AGREEING || Math.max(...path) - Math.min(...path) < wayM) return [];
    // Closures that agree on another place: the two places look alike.
    const others = this.#pending.filter((other) => !agreeing.includes(other));
    const rivals = Math.max(
      0,
      ...others.map((one) => others.filter((other) => this.#agree(one, other)).length),
    );
    if (agreeing.length < RIVAL_FACTOR * rivals) return [];
    this.#pending = [];
    return agreeing;
  }

  #agree(a: Pending, b: Pending): boolean {
    const way = Math.abs(a.node.pathM - b.node.pathM);
    const moved = between2d(this.graph.pose(a.node.variable), this.graph.pose(b.node.variable));
    const off = between2d(b.correctedPose, compose2d(a.correctedPose, moved));
    return Math.hypot(off.x, off.y) <= AGREE_M + AGREE_SHARE * way && Math.abs(off.yaw) <= AGREE_RAD;
  }

  #gridOf(submap: MapSubmap): SearchGrid {
    const grid = this.#grids.get(submap) ?? new SearchGrid(submap.submap.grid);
    this.#grids.delete(submap);
    this.#grids.set(submap, grid);
    if (this.#grids.size > SEARCH_GRIDS_MAX) this.#grids.delete(this.#grids.keys().next().value!);
    return grid;
  }
}

/** The share of the usual scores that closures in a submap must reach. */
function scoreShare({ nodes }: MapSubmap): number {
  return Math.min(1, (nodes.at(-1)?.usualScore ?? USUAL_SCORE) / USUAL_SCORE);
}

function isNeighbour(node: MapNode, { trajectory, index }: MapSubmap): boolean {
  return node.submaps.some((own) =>
    own.trajectory === trajectory && Math.abs(own.index - index) <= NEIGHBOURS
  );
}

/** The first ones of different visits, up to a limit. */
function spread<T extends { readonly submap: MapSubmap }>(sorted: readonly T[], count: number): T[] {
  const chosen: T[] = [];
  for (const one of sorted) {
    if (chosen.length >= count) break;
    const close = chosen.some(({ submap }) =>
      submap.trajectory === one.submap.trajectory && Math.abs(submap.index - one.submap.index) <= 2
    );
    if (!close) chosen.push(one);
  }
  return chosen;
}
