/**
 * Finds the place of a robot in a finished map. The first scans, and later some of them, are searched in the whole map
 * for the few places where they fit best. These hypotheses follow the robot from node to node, and one is accepted once
 * it is clearly better than all others. The longer the search has lasted, the smaller this lead may be.
 *
 * The room owns the search for places: the whole map in one grid, the search over it, and the fit of scans at a place.
 */

import { thinned } from "../../points.ts";
import type { Pose2d } from "../../pose2d.ts";
import type { MapNode, MapSubmap } from "../map/parts.ts";
import { fitOf, type PoseFit } from "./fit.ts";
import {
  distinct,
  type Hypothesis,
  isBeside,
  isSamePlace,
  moved,
  NodePlacer,
  scanPointsOf,
  SEARCH_POINTS,
} from "./hypotheses.ts";
import { RelocalizationMap, SEARCH_REACH_M } from "./map.ts";
import { peaksOf } from "./peaks.ts";
import type { PoseGraph } from "../pose_graph.ts";

/** Number of latest nodes that count. */
const NODES_TOGETHER = 10;
const PEAKS = { count: 15, minScore: 0.4, spread: 0.2 };
const HYPOTHESES_MAX = 20;
/** A place beside a hypothesis is another one if the newest scan is so much better there. */
const BETTER = 0.02;
/**
 * A hypothesis is accepted if one of these rows holds: after this many scans, this quality and this lead over all others.
 * In a wrong building the best one leads by up to 0.33 within sixty scans if its quality is low, by up to 0.25 at 1.6,
 * and by up to 0.11 if it is high, because corridors are alike; its fit was never above 0.88. There the map also moves
 * scans from where the scans before them expect them. On a map of a few scans all qualities are low. A small lead counts
 * only after some nodes: a standing robot sees the same again and again, and a person may hide what tells two places
 * apart.
 */
const ACCEPTED: readonly (Clear & { readonly scans: number; readonly nodes?: number })[] = [
  { scans: 3, quality: 1.05, lead: 0.35 },
  { scans: 3, quality: 1.45, lead: 0.26 },
  { scans: 3, quality: 1.62, lead: 0.14 },
  { scans: 3, quality: 1.7, lead: 0.06 },
  { scans: 5, quality: 1.4, lead: 0.2, movedM: 0.05 },
  { scans: 6, nodes: 3, quality: 1.4, lead: 0.14, movedM: 0.04 },
  { scans: 6, quality: 1.5, lead: 0.04, fit: 0.92 },
  { scans: 6, quality: 1.7, lead: 0.04 },
  { scans: 6, nodes: 3, quality: 1.7, lead: 0.03 },
  { scans: 8, nodes: 3, quality: 1.7, lead: 0.022 },
];
/**
 * The same, counted in nodes, for a place that is never corrected later, because the scans of a standing robot add no
 * information.
 */
const ACCEPTED_FOR_GOOD: readonly (Clear & { readonly nodes: number })[] = [
  { nodes: 1, quality: 1.6, lead: 0.4 },
  { nodes: 3, quality: 1.2, lead: 0.35 },
  { nodes: 3, quality: 1.5, lead: 0.18 },
  { nodes: 6, quality: 1.7, lead: 0.06 },
];
/** The lead over a hypothesis beside the best one counts so many times, because it is hardly another place. */
const BESIDE_COUNTS = 3;
/**
 * Below this lead, the fit must lead by so much, and by a share of the lead: the probabilities are also higher where the
 * map has been seen more often. They may be worse by a share of the lead of the fit.
 */
const CLOSE = { lead: 0.14, fit: 0.008, fitShare: 0.25, worse: 0.25 };
/** What a place needs to replace an assumed place: a minimum quality and a lead. */
const INSTEAD = { scans: 3, quality: 1.05, lead: 0.13, known: 0.5, contradicted: 0 };
/**
 * Where the map knows little of the assumed place, the robot may have left the map rather than been kidnapped. A corridor
 * beyond the map resembles one in the map, but not with this quality.
 */
const INSTEAD_OF_UNKNOWN = 1.7;
/**
 * A localized robot is searched for elsewhere after this many nodes, then after twice as many each time, unless these
 * nodes fit well at the assumed place.
 */
const RECONSIDERED = { nodes: 5, nodesMax: 40, fit: 0.7 };
/** So many nodes are searched in the whole map, then every `LOOKS_EVERY`th one; between them hypotheses only follow. */
const LOOKS_EAGER = 4;
const LOOKS_EVERY = 5;

/** What the best hypothesis must have at least. */
interface Clear {
  readonly quality: number;
  readonly fit?: number;
  readonly lead: number;
  /** And at most; see `Hypothesis`. */
  readonly movedM?: number;
}

export interface Relocalized {
  readonly node: MapNode;
  readonly pose: Pose2d;
  readonly fit: number;
}

export class RelocalizationSearch {
  #map: { readonly grid: RelocalizationMap; readonly placer: NodePlacer } | undefined;
  #isReady = false;
  #making: ReturnType<typeof RelocalizationMap.of> | undefined;
  /** The latest nodes, the newest first. */
  #seen: MapNode[] = [];
  #scans = 0;
  /** Of the node `#hypothesesOf`, the best first. */
  #hypotheses: readonly Hypothesis[] = [];
  #hypothesesOf: MapNode | undefined;
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
    this.#hypotheses = [];
    this.#hypothesesOf = undefined;
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
    this.#seen.unshift(node);
    if (this.#seen.length > NODES_TOGETHER) this.#seen.pop();
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
    this.#map = value && { grid: value, placer: new NodePlacer(value) };
    [this.#isReady, this.#making] = [true, undefined];
    return true;
  }

  /** Does a piece of the work, some milliseconds long; false if there is nothing to do before the next scan. */
  work(submaps: readonly MapSubmap[]): boolean {
    if (this.prepare(submaps)) return true;
    if (!this.#map) return false;
    if (!this.#look) {
      const [newest] = this.#seen;
      if (!newest || newest === this.#hypothesesOf) return false;
      const isDue = this.#looks < LOOKS_EAGER || this.#sinceLook >= LOOKS_EVERY;
      this.#look = isDue ? this.#lookFor(newest) : this.#follow(newest);
    }
    if (this.#look.next().done) this.#look = undefined;
    return true;
  }

  /** The accepted place, if there is one. During a search, its node is an earlier one. */
  found(): Relocalized | undefined {
    const [best] = this.#hypotheses, node = this.#hypothesesOf;
    if (this.#look || !best || !node) return undefined;
    const lead = this.#lead();
    const isClear = ({ quality, fit = -Infinity, lead: leastLead, movedM = Infinity }: Clear) =>
      best.quality >= quality && best.fit >= fit && lead >= leastLead && best.movedM <= movedM;
    const hasNodes = ({ nodes = 0 }) => this.#seen.length >= nodes;
    const isAccepted = this.isFinal
      ? ACCEPTED_FOR_GOOD.some((least) => hasNodes(least) && isClear(least))
      : ACCEPTED.some((least) => this.#scans >= least.scans && hasNodes(least) && isClear(least));
    return isAccepted ? { node, pose: best.pose, fit: best.fit } : undefined;
  }

  /** How much better the best hypothesis is than the others; `Infinity` if there are none. */
  #lead(): number {
    const [best, ...others] = this.#hypotheses;
    return best ? Math.min(...others.map((other) => leadOver(best, other))) : 0;
  }

  /** The accepted place, if the graph holds the assumed pose of the newest node. */
  foundInstead(): Relocalized | undefined {
    const found = this.found(), [best] = this.#hypotheses;
    if (!found || !best || this.#scans < INSTEAD.scans) return undefined;
    const predicted = this.graph.pose(found.node.variable);
    const isThere = isSamePlace(predicted, found.pose) || this.#isBetter(best, found.node, predicted);
    return isThere ? found : undefined;
  }

  /**
   * Searches elsewhere for a localized robot, piece by piece, because a similar spot in a corridor may have been
   * accepted too early. False if there is nothing to do before the next node.
   */
  reconsider(): boolean {
    if (!this.#map) return false;
    if (!this.#look) {
      const [newest] = this.#seen;
      if (!newest || this.#sinceLook < this.#reconsiderAfter) return false;
      this.#sinceLook = 0;
      const predicted = this.graph.pose(newest.variable);
      if (this.#fit(this.#map.grid, this.#seen, newest, predicted).fit >= RECONSIDERED.fit) return false;
      this.#reconsiderAfter = Math.min(RECONSIDERED.nodesMax, 2 * this.#reconsiderAfter);
      this.#predicted = predicted;
      this.#look = this.#lookFor(newest);
    }
    if (this.#look.next().done) this.#look = undefined;
    return true;
  }

  /**
   * Whether the last search by `reconsider` found a place that explains the nodes clearly better. True only once per
   * search.
   */
  isElsewhere(): boolean {
    const [best] = this.#hypotheses, node = this.#hypothesesOf, predicted = this.#predicted;
    if (this.#look || !node || !predicted) return false;
    this.#predicted = undefined;
    if (!best || isSamePlace(best.pose, predicted)) return false;
    return this.#isBetter(best, node, predicted);
  }

  /** Continues with the scans of a robot that is probably elsewhere. */
  lookAgain(): void {
    this.#scans = 0;
    this.#looks = 0;
  }

  /** Whether the best place is clearly better than all others, and than the node's assumed place. */
  #isBetter(best: Hypothesis, node: MapNode, predicted: Pose2d): boolean {
    if (!this.#map || best.quality < INSTEAD.quality || this.#lead() < INSTEAD.lead) return false;
    const { known, knownFit } = this.#fit(this.#map.grid, this.#seen, node, predicted);
    if (known < INSTEAD.known) {
      return best.quality >= INSTEAD_OF_UNKNOWN || knownFit < INSTEAD.contradicted;
    }
    // From a wrong place beside the best one, refinement may lead to the best one.
    const { placer } = this.#map;
    const there = placer.traced(placer.place(node, predicted), this.#before(node));
    return !there || isSamePlace(there.pose, best.pose) || best.quality - there.quality >= INSTEAD.lead;
  }

  /** The fit of a scan near its assumed place; undefined until the map is ready. */
  fitOf(points: Float64Array, predicted: Pose2d): PoseFit | undefined {
    if (!this.#map) return undefined;
    const { grid, placer } = this.#map;
    const { pose } = placer.placePoints(scanPointsOf(points), predicted);
    return fitOf(grid.grid, { points, pose: isSamePlace(pose, predicted) ? pose : predicted });
  }

  /** Searches the whole map for a node, beside what the hypotheses expect. */
  *#lookFor(node: MapNode): Generator<void, void> {
    if (!this.#map) return;
    const { grid, placer } = this.#map;
    this.#looks++;
    this.#sinceLook = 0;
    const seen = this.#seen.slice(), before = this.#before(node);
    const points = thinned(within(node.points, SEARCH_REACH_M), SEARCH_POINTS);
    const peaks = yield* peaksOf(grid, points, PEAKS);
    const found = yield* this.#followed(placer, seen);
    for (const { pose } of peaks) {
      const { pose: near, quality: newest } = placer.place(node, pose);
      // Along a corridor a hypothesis may have slipped from a better place beside it.
      if (found.some((one) => isSamePlace(one.pose, near) && newest < one.newest + BETTER)) continue;
      const best = Math.max(...found.map(({ quality }) => quality));
      // A second time, because from the coarse pose of a peak the first does not always arrive.
      const traced = placer.traced(placer.place(node, near), before, best);
      if (traced) found.push(traced);
      yield;
    }
    this.#take(found, node);
  }

  *#follow(node: MapNode): Generator<void, void> {
    if (!this.#map) return;
    this.#take(yield* this.#followed(this.#map.placer, this.#seen.slice()), node);
  }

  *#followed(placer: NodePlacer, seen: readonly MapNode[]): Generator<void, Hypothesis[]> {
    const followed: Hypothesis[] = [];
    for (const hypothesis of this.#hypotheses) {
      followed.push(hypothesis.followed(placer, seen));
      yield;
    }
    return followed;
  }

  /** The seen nodes before one of them, the newest first. */
  #before(node: MapNode): MapNode[] {
    return this.#seen.slice(this.#seen.indexOf(node) + 1);
  }

  #take(hypotheses: readonly Hypothesis[], node: MapNode): void {
    this.#hypotheses = distinct(hypotheses, HYPOTHESES_MAX);
    this.#hypothesesOf = node;
  }

  /** The mean fit of the nodes if the last one is at this pose, and the others where local SLAM has them. */
  #fit(map: RelocalizationMap, nodes: readonly MapNode[], last: MapNode, pose: Pose2d): PoseFit {
    const fits = nodes.map((node) => {
      return fitOf(map.grid, { points: node.points, pose: moved({ node: last, pose }, node) });
    });
    const mean = (of: (one: PoseFit) => number) => fits.reduce((sum, one) => sum + of(one), 0) / fits.length;
    return {
      fit: mean(({ fit }) => fit),
      known: mean(({ known }) => known),
      knownFit: mean(({ knownFit }) => knownFit),
      through: mean(({ through }) => through),
    };
  }
}

function leadOver(best: Hypothesis, other: Hypothesis): number {
  const lead = best.quality - other.quality, fitLead = best.fit - other.fit;
  if (isBeside(best.pose, other.pose)) return BESIDE_COUNTS * lead;
  const isByFit = fitLead >= Math.max(CLOSE.fit, CLOSE.fitShare * lead) &&
    lead >= (1 - CLOSE.worse) * fitLead;
  return lead < CLOSE.lead && !isByFit ? 0 : lead;
}

/** The points that are not farther away. */
function within(points: Float64Array, reachM: number): Float64Array {
  const out = new Float64Array(points.length);
  let to = 0;
  for (let k = 0; k < points.length; k += 2) {
    const x = points[k] ?? 0, y = points[k + 1] ?? 0;
    if (Math.hypot(x, y) > reachM) continue;
    out[to++] = x;
    out[to++] = y;
  }
  return out.slice(0, to);
}
