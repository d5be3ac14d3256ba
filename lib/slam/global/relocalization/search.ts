/**
 * Finds the place of a robot in a finished map. Each search of the whole map returns the few places where the latest
 * scans fit best. Candidates are kept from node to node, and one is accepted once it fits clearly better than all
 * others. The longer the search has lasted, the smaller this lead may be.
 *
 * The room owns the search for places: the whole map in one grid, the search over it, and the fit of scans at a place.
 */

import { thinned } from "../../local/filters.ts";
import { pointsAt } from "../../local/local_mapper.ts";
import { ScanRefiner } from "../../local/refinement.ts";
import { between2d, compose2d, type Pose2d } from "../../pose2d.ts";
import type { MapNode, MapSubmap } from "../map/parts.ts";
import { fitOf, likeliestAround, type PoseFit } from "./fit.ts";
import { RelocalizationMap, SEARCH_REACH_M } from "./map.ts";
import { peaksOf } from "./peaks.ts";
import type { PoseGraph } from "../pose_graph.ts";

/** Number of latest nodes that are searched together. */
const NODES_TOGETHER = 10;
const SEARCH_POINTS = 80;
const REFINED_POINTS = 400;
const PEAKS = { count: 30, minScore: 0.4, spread: 0.25 };
const WEIGHTS = { occupiedSpace: 20, translation: 1, rotation: 1 };
const CANDIDATES_MAX = 30;
/** Places closer than this are the same. */
const SAME_M = 0.5;
const SAME_RAD = 0.2;
/**
 * A place is accepted if one of these rows holds: after this many scans, this fit and this lead over all other places.
 * In a wrong building the best place has a fit of at most 0.63, hardly better than the next one.
 */
const ACCEPTED = [
  { scans: 9, fit: 0.7, betterBy: 0.015 },
  { scans: 6, fit: 0.65, betterBy: 0.03 },
  { scans: 3, fit: 0.6, betterBy: 0.06 },
  { scans: 3, fit: 0.5, betterBy: 0.15 },
];
/**
 * The same, counted in nodes, for a place that is never corrected later, because the scans of a standing robot add no
 * information.
 */
const ACCEPTED_FOR_GOOD = [
  { nodes: 6, fit: 0.65, betterBy: 0.03 },
  { nodes: 3, fit: 0.6, betterBy: 0.05 },
  { nodes: 3, fit: 0.5, betterBy: 0.15 },
  { nodes: 1, fit: 0.7, betterBy: 0.1 },
];
/** What a place needs to replace an assumed place: a minimum fit and a lead. */
const INSTEAD = { scans: 3, fit: 0.5, betterBy: 0.05, betterThanPredicted: 0.1, known: 0.5, contradicted: 0 };
/**
 * A localized robot is searched for elsewhere after this many nodes, then after twice as many each time, unless these
 * nodes fit well at the assumed place.
 */
const RECONSIDERED = { nodes: 5, nodesMax: 40, fit: 0.7 };
/** After this many searches in a row without a result, only every `LOOKS_EVERY`th node is searched. */
const LOOKS_EAGER = 15;
const LOOKS_EVERY = 5;

/** A possible place of the newest node in the map. */
interface Candidate {
  readonly pose: Pose2d;
  readonly fit: number;
}

export interface Relocalized {
  readonly node: MapNode;
  readonly pose: Pose2d;
  readonly fit: number;
}

export class RelocalizationSearch {
  readonly #refiner = new ScanRefiner();
  #map: RelocalizationMap | undefined;
  #isReady = false;
  #making: ReturnType<typeof RelocalizationMap.of> | undefined;
  #seen: MapNode[] = [];
  #scans = 0;
  #candidates: readonly Candidate[] = [];
  /** The node to which `#candidates` belong. */
  #candidatesOf: MapNode | undefined;
  #looks = 0;
  #sinceLook = 0;
  #look: Generator<void, void> | undefined;
  /** The number of nodes until a localized robot is searched for elsewhere. */
  #reconsiderAfter = RECONSIDERED.nodes;
  /** The assumed place of the node of that search. */
  #predicted: Pose2d | undefined;

  /** `isFinal`: a wrong place is never corrected. */
  constructor(private readonly graph: PoseGraph, private readonly isFinal: boolean) {}

  /** Starts again, because the robot has been moved. */
  reset(): void {
    this.#seen = [];
    this.#scans = 0;
    this.#candidates = [];
    this.#candidatesOf = undefined;
    this.#look = undefined;
    this.#looks = 0;
    this.#sinceLook = 0;
    this.#reconsiderAfter = RECONSIDERED.nodes;
    this.#predicted = undefined;
  }

  /** Forgets the map as well: it may change from now on. */
  forget(): void {
    this.reset();
    this.#map = undefined;
    this.#isReady = false;
  }

  /** Counts a scan, even if it made no node. */
  countScan(): void {
    this.#scans++;
  }

  add(node: MapNode): void {
    this.#sinceLook++;
    this.#seen.push(node);
    if (this.#seen.length > NODES_TOGETHER) this.#seen.shift();
  }

  /**
   * Prepares the map, piece by piece; returns false when it is ready. `submaps` are the submaps of the map, the same at
   * every call.
   */
  prepare(submaps: readonly MapSubmap[]): boolean {
    if (this.#isReady) return false;
    this.#making ??= RelocalizationMap.of(submaps, this.graph);
    const { done, value } = this.#making.next();
    if (!done) return true;
    [this.#map, this.#isReady, this.#making] = [value, true, undefined];
    return true;
  }

  /** Does a piece of the work, some milliseconds long; false if there is nothing to do before the next scan. */
  work(submaps: readonly MapSubmap[]): boolean {
    if (this.prepare(submaps)) return true;
    if (!this.#map) return false;
    if (!this.#look) {
      const newest = this.#seen.at(-1);
      if (!newest || newest === this.#candidatesOf) return false;
      if (this.#looks >= LOOKS_EAGER && this.#sinceLook < LOOKS_EVERY) return false;
      this.#looks++;
      this.#sinceLook = 0;
      this.#look = this.#lookFor(this.#map, newest);
    }
    if (this.#look.next().done) this.#look = undefined;
    return true;
  }

  /** The accepted place, if there is one. During a search, its node is an earlier one. */
  found(): Relocalized | undefined {
    if (this.#look) return undefined;
    const [best, second] = this.#candidates;
    const node = this.#candidatesOf;
    if (!node || !best) return undefined;
    const lead = best.fit - (second?.fit ?? -Infinity);
    const isClear = (least: { fit: number; betterBy: number }) =>
      best.fit >= least.fit && lead >= least.betterBy;
    const isAccepted = this.isFinal
      ? ACCEPTED_FOR_GOOD.some((least) => this.#seen.length >= least.nodes && isClear(least))
      : ACCEPTED.some((least) => this.#scans >= least.scans && isClear(least));
    if (!isAccepted) return undefined;
    return { node, pose: best.pose, fit: best.fit };
  }

  /** The accepted place, if the graph holds the assumed pose of the newest node. */
  foundInstead(): Relocalized | undefined {
    const found = this.found();
    if (!found || !this.#map || this.#scans < INSTEAD.scans) return undefined;
    const { node, pose, fit } = found;
    const predicted = this.graph.pose(node.variable);
    if (isSame(predicted, pose)) return found;
    const second = this.#candidates[1]?.fit ?? -1;
    if (fit < INSTEAD.fit || fit - second < INSTEAD.betterBy) return undefined;
    return this.#isBetter(this.#map, fit, node, predicted) ? found : undefined;
  }

  /**
   * Searches elsewhere for a localized robot, piece by piece, because a similar spot in a corridor may have been
   * accepted too early. False if there is nothing to do before the next node.
   */
  reconsider(): boolean {
    if (!this.#map) return false;
    if (!this.#look) {
      const newest = this.#seen.at(-1);
      if (!newest || this.#sinceLook < this.#reconsiderAfter) return false;
      this.#sinceLook = 0;
      const predicted = this.graph.pose(newest.variable);
      if (this.#fit(this.#map, this.#seen, newest, predicted).fit >= RECONSIDERED.fit) return false;
      this.#reconsiderAfter = Math.min(RECONSIDERED.nodesMax, 2 * this.#reconsiderAfter);
      this.#predicted = predicted;
      this.#look = this.#lookFor(this.#map, newest);
    }
    if (this.#look.next().done) this.#look = undefined;
    return true;
  }

  /**
   * Whether the last search by `reconsider` found a place that explains the nodes clearly better. True only once per
   * search.
   */
  isElsewhere(): boolean {
    const [best, second] = this.#candidates, node = this.#candidatesOf, predicted = this.#predicted;
    if (!this.#map || this.#look || !node || !predicted) return false;
    this.#predicted = undefined;
    if (!best || best.fit < INSTEAD.fit || isSame(best.pose, predicted)) return false;
    if (second && best.fit - second.fit < INSTEAD.betterBy) return false;
    return this.#isBetter(this.#map, best.fit, node, predicted);
  }

  /** Continues with the scans of a robot that is probably elsewhere. */
  lookAgain(): void {
    this.#scans = 0;
    this.#looks = 0;
  }

  /** Whether a place with this fit is clearly better than the node's assumed place. */
  #isBetter(map: RelocalizationMap, fit: number, node: MapNode, predicted: Pose2d): boolean {
    const there = this.#fit(map, this.#seen, node, predicted);
    // If the map knows little there, the robot has left the map rather than been kidnapped.
    return there.known >= INSTEAD.known
      ? fit - there.fit >= INSTEAD.betterThanPredicted
      : there.knownFit < INSTEAD.contradicted;
  }

  /** The fit of a node near its assumed place; undefined until the map is ready. */
  fitOf(node: MapNode): PoseFit | undefined {
    if (!this.#map) return undefined;
    const predicted = this.graph.pose(node.variable);
    const { pose } = this.#refiner.refine(this.#map.grid, node.points, predicted, predicted, WEIGHTS);
    return this.#fit(this.#map, [node], node, isSame(pose, predicted) ? pose : predicted);
  }

  *#lookFor(map: RelocalizationMap, node: MapNode): Generator<void, void> {
    const seen = this.#seen.slice();
    const cloud = together(seen, node);
    const fewest = thinned(within(cloud, SEARCH_REACH_M), SEARCH_POINTS);
    const peaks = yield* peaksOf(map, fewest, PEAKS);
    const few = thinned(cloud, REFINED_POINTS);
    const likeliest = peaks.map(({ pose }) => likeliestAround(map.grid, fewest, pose));
    const poses = [...this.#moved(node), ...likeliest];
    const places: Candidate[] = [];
    for (const pose of poses) {
      const refined = this.#refiner.refine(map.grid, few, pose, pose, WEIGHTS).pose;
      places.push({ pose: refined, fit: this.#fit(map, seen, node, refined).fit });
      yield;
    }
    this.#candidates = distinct(places.sort((a, b) => b.fit - a.fit));
    this.#candidatesOf = node;
  }

  /** The present poses of the earlier candidates. */
  #moved(node: MapNode): Pose2d[] {
    const before = this.#candidatesOf;
    if (!before) return [];
    const moved = between2d(before.localPose, node.localPose);
    return this.#candidates.map(({ pose }) => compose2d(pose, moved));
  }

  /** The fit of the nodes if the last one is at this pose. */
  #fit(map: RelocalizationMap, nodes: readonly MapNode[], last: MapNode, pose: Pose2d): PoseFit {
    const fits = nodes.map(({ points, localPose }) => {
      return fitOf(map.grid, { points, pose: compose2d(pose, between2d(last.localPose, localPose)) });
    });
    const mean = (of: (one: PoseFit) => number) => fits.reduce((sum, one) => sum + of(one), 0) / fits.length;
    return {
      fit: mean(({ fit }) => fit),
      known: mean(({ known }) => known),
      knownFit: mean(({ knownFit }) => knownFit),
    };
  }
}

/** The points of several nodes in the frame of one. */
function together(nodes: readonly MapNode[], last: MapNode): Float64Array {
  const clouds = nodes.map(({ localPose, points }) => pointsAt(points, between2d(last.localPose, localPose)));
  const all = new Float64Array(clouds.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const cloud of clouds) {
    all.set(cloud, at);
    at += cloud.length;
  }
  return all;
}

/** The points that are not farther away. */
function within(points: Float64Array, reachM: number): Float64Array {
  const out = new Float64Array(points.length);
  let to = 0;
  for (let k = 0; k < points.length; k += 2) {
    if (Math.hypot(points[k], points[k + 1]) > reachM) continue;
    out[to++] = points[k];
    out[to++] = points[k + 1];
  }
  return out.slice(0, to);
}

/** The first of each group of equal places, up to a limit. */
function distinct(places: readonly Candidate[]): Candidate[] {
  const kept: Candidate[] = [];
  for (const place of places) {
    if (kept.length === CANDIDATES_MAX) break;
    if (!kept.some((other) => isSame(other.pose, place.pose))) kept.push(place);
  }
  return kept;
}

function isSame(a: Pose2d, b: Pose2d): boolean {
  const off = between2d(a, b);
  return Math.hypot(off.x, off.y) <= SAME_M && Math.abs(off.yaw) <= SAME_RAD;
}
