/**
 * Where in a finished map the robot may be. A hypothesis follows the robot from node to node: each scan is refined in
 * the map by itself, because the poses of the first scans among each other are uncertain.
 */

import { thinned } from "../../points.ts";
import { ScanRefiner } from "../../local/refinement.ts";
import { between2d, compose2d, type Pose2d } from "../../pose2d.ts";
import type { MapNode } from "../map/parts.ts";
import { fitOf, likeliestAround } from "./fit.ts";
import type { RelocalizationMap } from "./map.ts";

/** Points of a scan in the search for a likely pose around a pose, and in its refinement. */
export const SEARCH_POINTS = 80;
const REFINED_POINTS = 400;
const WEIGHTS = { occupiedSpace: 20, translation: 1, rotation: 1 };
/** A hypothesis ends when its newest scans are so much worse than all those of the best one. */
const HOPELESS = 0.5;
/** Places closer than this are the same, or beside each other. */
const SAME = { metres: 0.5, rad: 0.2 };
const BESIDE = { metres: 1, rad: 0.3 };

/** Points of a scan: a few to search with, and those to refine. */
interface ScanPoints {
  readonly few: Float64Array;
  readonly many: Float64Array;
}

/** The scan of a node where a hypothesis has it. */
interface PlacedNode {
  readonly node: MapNode;
  readonly pose: Pose2d;
  /** See `PoseFit`. */
  readonly fit: number;
  /**
   * The fit plus the mean probability under the points: -0.5 (all wrong) to 1.9. The fit tells which walls a place is
   * between, the probability how exactly it is between them: that tells places apart that are alike.
   */
  readonly quality: number;
}

export class Hypothesis {
  /** Of the newest node. */
  readonly pose: Pose2d;
  /** Means over the nodes; see `PlacedNode`. */
  readonly fit: number;
  readonly quality: number;
  /** How far the map moves a scan from where the scan before it expects it, on average. */
  readonly movedM: number;

  /** `placed`: the newest node first. */
  constructor(private readonly placed: readonly [PlacedNode, ...PlacedNode[]]) {
    this.pose = placed[0].pose;
    this.fit = meanOf(placed, ({ fit }) => fit);
    this.quality = meanOf(placed, ({ quality }) => quality);
    let movedM = 0;
    placed.forEach((one, k) => {
      const before = placed[k + 1];
      if (!before) return;
      const { x, y } = moved(before, one.node);
      movedM += Math.hypot(one.pose.x - x, one.pose.y - y);
    });
    this.movedM = movedM / Math.max(1, placed.length - 1);
  }

  /** The quality of the newest node alone. */
  get newest(): number {
    return this.placed[0].quality;
  }

  /** With the nodes that have come since, and without those that are no longer among `nodes`, the newest first. */
  followed(placer: NodePlacer, nodes: readonly MapNode[]): Hypothesis {
    let [last] = this.placed;
    const added: PlacedNode[] = [];
    for (const node of nodes.toReversed()) {
      if (node.index <= last.node.index) continue;
      last = placer.place(node, moved(last, node));
      added.unshift(last);
    }
    const [, ...earlier] = [...added, ...this.placed].slice(0, nodes.length);
    return new Hypothesis([last, ...earlier]);
  }
}

/** Places the scans of nodes in a map. */
export class NodePlacer {
  readonly #refiner = new ScanRefiner();
  /** Of the nodes that have been placed. */
  readonly #points = new WeakMap<MapNode, ScanPoints>();

  constructor(private readonly map: RelocalizationMap) {}

  /** The scan of a node near a pose. */
  place(node: MapNode, near: Pose2d): PlacedNode {
    return { node, ...this.placePoints(this.#pointsOf(node), near) };
  }

  placePoints({ few, many }: ScanPoints, near: Pose2d): Omit<PlacedNode, "node"> {
    const { grid } = this.map;
    const start = likeliestAround(grid, few, near);
    const { pose, score } = this.#refiner.refine(grid, many, start, start, WEIGHTS);
    const { fit } = fitOf(grid, { points: many, pose });
    return { pose, fit, quality: fit + score };
  }

  /**
   * The hypothesis of a placed node, traced back through the nodes before it, the newest first; undefined if its newest
   * scans are hopeless beside the best hypothesis.
   */
  traced(newest: PlacedNode, before: readonly MapNode[], bestQuality = -Infinity): Hypothesis | undefined {
    let first = newest;
    const placed: [PlacedNode, ...PlacedNode[]] = [newest];
    for (const earlier of before) {
      if (meanOf(placed, ({ quality }) => quality) < bestQuality - HOPELESS) return undefined;
      first = this.place(earlier, moved(first, earlier));
      placed.push(first);
    }
    return new Hypothesis(placed);
  }

  #pointsOf(node: MapNode) {
    const known = this.#points.get(node);
    if (known) return known;
    const points = scanPointsOf(node.points);
    this.#points.set(node, points);
    return points;
  }
}

export function scanPointsOf(points: Float64Array): ScanPoints {
  return { few: thinned(points, SEARCH_POINTS), many: thinned(points, REFINED_POINTS) };
}

export function isSamePlace(a: Pose2d, b: Pose2d): boolean {
  return isWithin(SAME, a, b);
}

/** Whether places are the same or next to each other. */
export function isBeside(a: Pose2d, b: Pose2d): boolean {
  return isWithin(BESIDE, a, b);
}

function isWithin(limit: typeof SAME, a: Pose2d, b: Pose2d): boolean {
  const off = between2d(a, b);
  return Math.hypot(off.x, off.y) <= limit.metres && Math.abs(off.yaw) <= limit.rad;
}

/** The best of each group of equal places, the best first, up to a limit. */
export function distinct(hypotheses: readonly Hypothesis[], limit: number): Hypothesis[] {
  const kept: Hypothesis[] = [];
  for (const one of hypotheses.toSorted((a, b) => b.quality - a.quality)) {
    if (kept.length === limit) break;
    if (!kept.some(({ pose }) => isSamePlace(pose, one.pose))) kept.push(one);
  }
  return kept;
}

/** Where another node is, by the poses of local SLAM. */
export function moved({ node, pose }: Pick<PlacedNode, "node" | "pose">, other: MapNode): Pose2d {
  return compose2d(pose, between2d(node.localPose, other.localPose));
}

function meanOf(placed: readonly PlacedNode[], of: (one: PlacedNode) => number): number {
  return placed.reduce((sum, one) => sum + of(one), 0) / placed.length;
}
