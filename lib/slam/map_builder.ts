/**
 * One pass over the readings: local SLAM gives each scan its pose, global SLAM closes loops and keeps the map straight.
 */

import { assert } from "../base/error.ts";
import {
  type ImuState,
  type MapState,
  type OdometryState,
  ticksOf,
  type TrajectoryState,
} from "./map_state.ts";
import type {
  ImuReading,
  Localization,
  MapperStart,
  Mapping,
  OdometryReading,
  RangeScan,
} from "./mapping.ts";
import { Drift } from "./global/drift.ts";
import { loadMap } from "./global/map/loading.ts";
import { LoopSearch } from "./global/loop_search.ts";
import type { Closure, MapNode, MapSubmap } from "./global/map/parts.ts";
import { stateOf } from "./global/map/saving.ts";
import type { PoseFit } from "./global/relocalization/fit.ts";
import { RelocalizationSearch, type Relocalized } from "./global/relocalization/search.ts";
import { PlaceWatch } from "./global/relocalization/watch.ts";
import { type DegenerateDirection, type GraphEdge, PoseGraph, type Robustness } from "./global/pose_graph.ts";
import { outdated, withoutOldReadings } from "./global/trimming.ts";
import { type Insertion, LocalMapper, type LocalResult } from "./local/local_mapper.ts";
import type { OdometryBeliefs } from "./local/odometry/beliefs.ts";
import { describeScale } from "./local/odometry/scale.ts";
import { isRight, type OdometryVerdict, type OdometryVerdicts, REFUTED } from "./local/odometry/proof.ts";
import type { LeastConstrained } from "./local/line_equations.ts";
import type { Submap } from "./local/submaps.ts";
import { between2d, compose2d, IDENTITY_2D, inverse2d, type Pose2d } from "./pose2d.ts";
import { ReadingHistory } from "./reading_history.ts";
import { isTime, isUsableImu, isUsableOdometry } from "./usable.ts";

/** One over the standard deviations (metres, radians) of the constraints between poses. */
const CHAIN = { translationWeight: 1 / 0.01, rotationWeight: 1 / 0.003 };
const INTRA = { translationWeight: 1 / 0.3, rotationWeight: 1 / 0.06 };
const INTER = { translationWeight: 1 / 0.03, rotationWeight: 1 / 0.006 };
/**
 * By the verdict on odometry: how much more certain the motion between two nodes is. Loop closures in a narrow view, or
 * among people, are often wrong together, and bend a chain that could have been known to be straight.
 */
const CHAIN_FACTORS: Record<OdometryVerdict, number> = { refuted: 1, open: 3, proven: 10 };
const CHAIN_FACTOR_RIGHT = 40;
/** If fewer points than these constrain a direction, poses are less certain in it, down to a share. */
const DEGENERATE_POINTS = 30;
const DEGENERATE_SHARE_MIN = 0.1;

/** A closure with an error of this size moves the map, and justifies an optimisation at once. */
const OFF_M = 0.15;
const OFF_RAD = Math.PI / 180;
/** The cost of an optimisation grows with the map, so it waits until the new nodes are this share of all. */
const NEW_SHARE = 0.01;
/** This many new closures justify an optimisation, too. */
const CLOSURES_MANY = 100;
const STEPS = 4;
const STEPS_FINAL = 30;
/** A scan with a score below this counts as uncertain as after a path of this length. */
const POOR_SCORE = 0.4;
const POOR_PATH_M = 3;
/** Weight of a new score in the running average of scores. */
const USUAL_SHARE = 0.01;
/**
 * A scan that fits the latest scans this badly is distorted, or the robot has been kidnapped, perhaps while it stood still
 * and made no nodes.
 */
const DISTORTED_SCORE = 0.3;
/** The uncertainty of its place is then that of a path of this length. */
const LOST_PATH_M = 1000;
/**
 * After this many consecutive scans that are older than the newest one but in order, assume that the newest time stamp
 * was wrong.
 */
const OLDER_MAX = 10;
/** The robot is assumed to have driven for about this long meanwhile. */
const UNSEEN_S = 1.5;
/** At the end all nodes are searched again, at most this often, until that adds little. */
const ROUNDS_FINAL = 2;
const ROUND_ADDS = 0.02;

/** Where a scan lies: as seen from a node, with which it moves when the map is optimised. */
export interface ScanPlace {
  readonly timeS: number;
  readonly node: number;
  readonly offset: Pose2d;
}

export class MapBuilder implements Mapping {
  readonly #local: LocalMapper;
  readonly #graph = new PoseGraph();
  readonly #search: LoopSearch;
  readonly #drift = new Drift();
  readonly #relocalization: RelocalizationSearch;
  #submaps: MapSubmap[] = [];
  #nodes: MapNode[] = [];
  #closures: Closure[] = [];
  readonly #bySubmap = new Map<Submap, MapSubmap>();
  #loaded: readonly TrajectoryState[] = [];
  readonly #odometry = new ReadingHistory<OdometryState>();
  readonly #imu = new ReadingHistory<ImuState>();
  /** The number of the trajectory that grows, and of its parts so far. */
  readonly #trajectory: number;
  #nodeCount = 0;
  #submapCount = 0;
  /** The last node since the robot's last placement. */
  #previous: MapNode | undefined;
  /** The first node without a certain place in the given map; undefined if the robot is localized. */
  #unplaced: number | undefined;
  /** Whether a robot that is not localized still has an assumed place. */
  #isDoubted = false;
  readonly #watch = new PlaceWatch();
  /** A scan of a localized robot that made no node, to be compared with the map. */
  #unwatched: LocalResult | undefined;
  #usualScore: number | undefined;
  #submapsAtTrim = 0;
  #driftFrom: { readonly submap: MapSubmap; readonly pathsM: ReadonlyMap<MapSubmap, number> } | undefined;
  #waiting: MapNode[] = [];
  #last: LocalResult | undefined;
  /** Consecutive scans that are older than the newest one: the time of the latest, and their number. */
  #older = { timeS: -Infinity, count: 0 };
  #odometryS = -Infinity;
  #imuS = -Infinity;
  #pathM = 0;
  #nodesSince = 0;
  #closuresSince = 0;
  #isOff = false;
  /** An optimisation that has begun, piece by piece. */
  #optimizing: Generator<void, void> | undefined;
  #isFinishing = false;

  /** `beliefs`: what is known about odometry from the start. */
  constructor(private readonly start: MapperStart, beliefs?: OdometryBeliefs) {
    const { mode, map, options } = start;
    if ((mode === "create") !== (map === undefined)) {
      throw new RangeError(
        mode === "create" ? "a new map begins with no other" : `no map is given to ${mode}`,
      );
    }
    this.#local = new LocalMapper(options, beliefs);
    this.#search = new LoopSearch(this.#graph, options);
    this.#relocalization = new RelocalizationSearch(this.#graph, mode !== "localize");
    this.#trajectory = map ? this.#load(map) : 0;
    if (map && !start.pose) this.#unplaced = 0;
  }

  #load(map: MapState): number {
    const isFixed = this.start.mode === "localize";
    const { submaps, nodes, closures, trajectories, nextTrajectory } = loadMap(map, this.#graph, isFixed);
    this.#loaded = trajectories;
    this.#submaps = [...submaps];
    this.#nodes = [...nodes];
    for (const closure of closures) this.#constrain(isFixed ? closure : this.#search.weighed(closure));
    if (!isFixed) nodes.forEach((node, k) => this.#constrainNode(node, nodes[k - 1]));
    this.#submapsAtTrim = submaps.length;
    return nextTrajectory;
  }

  addOdometry(reading: OdometryReading): boolean {
    if (!isUsableOdometry(reading) || reading.timeS <= this.#odometryS) return false;
    this.#odometryS = reading.timeS;
    this.#local.addOdometry(reading);
    this.#odometry.add({ ticks: ticksOf(reading.timeS), pose: reading.pose });
    return true;
  }

  addImu(reading: ImuReading): boolean {
    if (!isUsableImu(reading) || reading.timeS <= this.#imuS) return false;
    this.#imuS = reading.timeS;
    this.#local.addImu(reading);
    const { timeS, linearAcceleration, angularVelocity } = reading;
    this.#imu.add({ ticks: ticksOf(timeS), linearAcceleration, angularVelocity });
    return true;
  }

  /** `isNode`: whether the scan becomes a node; undefined: if the robot has moved. */
  addScan(scan: RangeScan, isNode?: boolean): boolean {
    if (!isTime(scan.timeS) || this.#isOlder(scan.timeS)) return false;
    const result = this.#local.addScan(scan, isNode);
    if (!result) return false;
    this.#last = result;
    if (result.isBlind) return false;
    if (this.#unplaced !== undefined) this.#relocalization.countScan();
    else if (this.start.mode === "localize" && result.score < DISTORTED_SCORE) {
      // The scan lies among those before it, where the robot no longer is, so it makes no node.
      this.#doubt("kidnapped");
      return true;
    }
    if (result.insertion) this.#addNode(result, result.insertion);
    else if (this.#unplaced === undefined && this.start.mode === "localize") this.#unwatched = result;
    return true;
  }

  /** Whether a scan is not later than the last one. After `OLDER_MAX` such scans in order, their time counts. */
  #isOlder(timeS: number): boolean {
    if (!this.#last || timeS > this.#last.timeS) {
      this.#older = { timeS: -Infinity, count: 0 };
      return false;
    }
    if (timeS === this.#last.timeS) return true;
    const count = timeS > this.#older.timeS ? this.#older.count + 1 : 1;
    this.#older = { timeS, count };
    if (count < OLDER_MAX) return true;
    this.#older = { timeS: -Infinity, count: 0 };
    this.#local.moveTime(timeS - UNSEEN_S);
    this.#odometryS = this.#imuS = -Infinity;
    return false;
  }

  /** `atS`: of a later time than the last scan, by odometry. */
  pose(atS?: number): Pose2d | undefined {
    const isKnown = this.#unplaced === undefined || this.#isDoubted, local = this.#localPose(atS);
    return local && isKnown ? this.#toMap(local) : undefined;
  }

  localization(): Localization {
    if (!this.#last) return { place: "not localized", confidence: 0 };
    if (this.#unplaced !== undefined) {
      return { place: this.#isDoubted ? "lost" : "not localized", confidence: 0 };
    }
    const fit = this.start.mode === "localize"
      ? this.#watch.usualFit
      : shareOf(this.#usualScore ?? this.#last.score);
    return { place: "localized", confidence: Math.max(0, Math.min(1, fit)) };
  }

  odometryDoubt(): string | undefined {
    return this.#local.odometryDoubt;
  }

  odometryCorrection(): string | undefined {
    return describeScale(this.odometryBeliefs.scale);
  }

  /** What the scans have shown about odometry so far. */
  get odometryBeliefs(): OdometryBeliefs {
    return this.#local.odometryBeliefs;
  }

  /** The number of nodes that it has made. */
  get nodeCount(): number {
    return this.#nodeCount;
  }

  lastScan(): ScanPlace | undefined {
    const node = this.#nodes.at(-1), last = this.#last;
    return node && last &&
      { timeS: last.timeS, node: this.#nodes.length - 1, offset: between2d(node.localPose, last.pose) };
  }

  /** The pose of the last scan, or of a later time, among the latest scans. */
  #localPose(atS: number | undefined): Pose2d | undefined {
    return this.#last && atS !== undefined ? this.#local.predict(atS) : this.#last?.pose;
  }

  /** The present pose of a node in the map. */
  nodePose(node: number): Pose2d {
    const found = this.#nodes[node];
    assert(found, `node ${node} of ${this.#nodes.length}`);
    return this.#graph.pose(found.variable);
  }

  /** A pose of the local frame, as the last node sees it. */
  #toMap(local: Pose2d): Pose2d {
    const node = this.#previous;
    if (!node) return compose2d(this.start.pose ?? IDENTITY_2D, local);
    return compose2d(this.#graph.pose(node.variable), between2d(node.localPose, local));
  }

  #addNode(
    { timeS, pose, score, leastConstrained, verdicts, caughtUpFromS, points }: LocalResult,
    { submaps, gravityAlignment }: Insertion,
  ): void {
    const previous = this.#previous;
    const globalPose = this.#toMap(pose);
    if (previous) {
      const moved = between2d(previous.localPose, pose);
      this.#pathM += Math.hypot(moved.x, moved.y);
      if (score < POOR_SCORE) this.#pathM += POOR_PATH_M;
      const share = Math.max(USUAL_SHARE, 1 / this.#nodeCount), usual = this.#usualScore ?? score;
      this.#usualScore = usual + share * (score - usual);
    }
    const into = submaps.map((submap) => this.#bySubmap.get(submap) ?? this.#addSubmap(submap));
    const node: MapNode = {
      trajectory: this.#trajectory,
      index: this.#nodeCount++,
      ticks: ticksOf(timeS),
      localPose: pose,
      gravityAlignment,
      points,
      variable: this.#graph.addPose(globalPose, false),
      pathM: this.#pathM,
      usualScore: this.#usualScore,
      degenerate: leastConstrained && degenerateOf(leastConstrained, pose),
      verdicts,
      submaps: into,
    };
    this.#nodes.push(node);
    this.#previous = node;
    for (const submap of into) submap.nodes.push(node);
    // The robot may have been kidnapped between the two.
    const isFirstUnplaced = node.index === this.#unplaced;
    this.#constrainNode(node, isFirstUnplaced ? undefined : previous);
    if (caughtUpFromS !== undefined) this.#constrainCaughtUp(node, ticksOf(caughtUpFromS));
    const isPlaced = this.#unplaced === undefined;
    if (this.start.options.optimizeEveryNodes > 0 || this.start.mode === "localize" || !isPlaced) {
      this.#waiting.push(node);
    }
    this.#nodesSince++;
    if (this.start.mode === "localize") this.#trimOwn();
  }

  /** Adds the constraints between a node and its submaps, and the node before. */
  #constrainNode(node: MapNode, before: MapNode | undefined): void {
    for (const { variable, submap } of node.submaps) {
      const pose = between2d(submap.localPose, node.localPose);
      this.#graph.addEdge({ from: variable, to: node.variable, pose, ...INTRA, robust: false });
    }
    if (before?.trajectory !== node.trajectory) return;
    const pose = between2d(before.localPose, node.localPose);
    const degenerate = degenerateFrom(pose, node.degenerate);
    this.#graph.addEdge({
      from: before.variable,
      to: node.variable,
      pose,
      ...chainWeightsOf(node.verdicts ?? REFUTED),
      degenerate,
      robust: false,
    });
  }

  /** Odometry knows the motion since a time before, although it stood still meanwhile. */
  #constrainCaughtUp(node: MapNode, fromTicks: bigint): void {
    const from = this.#nodes.findLast(({ trajectory, ticks }) => {
      return trajectory === this.#trajectory && ticks <= fromTicks;
    });
    if (!from) return;
    this.#graph.addEdge({
      from: from.variable,
      to: node.variable,
      pose: between2d(from.localPose, node.localPose),
      ...chainWeightsOf(this.#local.odometryBeliefs.verdicts),
      robust: false,
    });
  }

  #addSubmap(submap: Submap): MapSubmap {
    const isFirst = this.#submaps.length === 0;
    const added: MapSubmap = {
      trajectory: this.#trajectory,
      index: this.#submapCount++,
      submap,
      variable: this.#graph.addPose(this.#toMap(submap.localPose), isFirst),
      pathM: this.#pathM,
      nodes: [],
    };
    if (this.start.pose && this.start.map && added.index === 0) {
      const nearest = this.#nearest(this.start.pose, this.#submaps);
      if (nearest) this.#drift.connect(added, nearest);
    }
    this.#submaps.push(added);
    this.#bySubmap.set(submap, added);
    return added;
  }

  /** The submap whose path comes nearest to a pose. */
  #nearest({ x, y }: Pose2d, submaps: readonly MapSubmap[]): MapSubmap | undefined {
    let nearest: MapSubmap | undefined, least = Infinity;
    for (const submap of submaps) {
      for (const { variable } of [submap, ...submap.nodes]) {
        const pose = this.#graph.pose(variable);
        const away = Math.hypot(pose.x - x, pose.y - y);
        if (away < least) [nearest, least] = [submap, away];
      }
    }
    return nearest;
  }

  work(): boolean {
    if (this.#optimizing) {
      if (this.#optimizing.next().done) this.#optimizing = undefined;
      return true;
    }
    if (this.#workWaiting()) return true;
    if (!this.#isFinishing) return false;
    this.#isFinishing = false;
    this.#optimizing = this.#finishing();
    return true;
  }

  #workWaiting(): boolean {
    if (this.#unplaced !== undefined) return this.#findPlace();
    if (this.start.mode === "localize" && this.#relocalization.prepare(this.#given())) return true;
    const node = this.#waiting.shift();
    if (node) {
      this.#lookFor(node);
      return true;
    }
    const scan = this.#unwatched;
    if (scan) {
      this.#unwatched = undefined;
      const add = (fit: PoseFit) => this.#watch.addScan(scan.timeS, fit);
      if (this.#watch.wantsScan(scan.timeS)) this.#compare(scan.points, this.#toMap(scan.pose), add);
      return true;
    }
    if (this.start.mode === "localize" && this.#relocalization.reconsider()) {
      if (this.#relocalization.isElsewhere()) this.#doubt("elsewhere");
      return true;
    }
    const { optimizeEveryNodes } = this.start.options;
    const due = optimizeEveryNodes > 0 && this.#unplaced === undefined &&
      this.#nodesSince >= Math.max(optimizeEveryNodes, NEW_SHARE * this.#nodes.length);
    if (!due) return false;
    // If nothing is off, submaps can be removed without an optimisation before.
    if (!this.#isOff && this.#closuresSince < CLOSURES_MANY) return this.#trimOutdated();
    this.#optimizing = this.#optimizeNow();
    return true;
  }

  *#optimizeNow(): Generator<void, void> {
    yield* this.#optimize(STEPS, "firm");
    this.#trimOutdated();
  }

  #pathLengthsFrom(submap: MapSubmap): ReadonlyMap<MapSubmap, number> {
    if (this.#driftFrom?.submap !== submap) {
      this.#driftFrom = { submap, pathsM: this.#drift.from(submap, this.#submaps) };
    }
    return this.#driftFrom.pathsM;
  }

  #accept(closures: readonly Closure[]): void {
    // A map that is only used for localization never bends, so the robot may be tied to all of it.
    const isFixed = this.start.mode === "localize";
    for (const closure of closures.map((one) => isFixed ? { ...one, degenerate: undefined } : one)) {
      const off = this.#graph.errorOf(this.#constrain(closure));
      if (offM(off, closure) > OFF_M || Math.abs(off.yaw) > OFF_RAD) {
        this.#isOff = true;
        this.#driftFrom = undefined;
      }
      this.#closuresSince++;
    }
  }

  #constrain(closure: Closure): GraphEdge {
    const { submap, node, pose } = closure;
    const degenerate = degenerateFrom(pose, closure.degenerate);
    const edge = { from: submap.variable, to: node.variable, pose, ...INTER, degenerate, robust: true };
    this.#closures.push(closure);
    this.#search.close(closure);
    this.#graph.addEdge(edge);
    // A closure that leaves a direction unconstrained does not end the drift.
    const [own] = node.submaps;
    if (own && (degenerate?.share ?? 1) > 0) this.#drift.connect(submap, own);
    return edge;
  }

  /** Moves the map's poses to their optimum; later nodes move with the node before them. */
  *#optimize(steps: number, robustness: Robustness): Generator<void, void> {
    this.#nodesSince = 0;
    this.#closuresSince = 0;
    this.#isOff = false;
    const last = this.#previous, before = last && this.#graph.pose(last.variable);
    const known = new Set<MapNode | MapSubmap>([...this.#nodes, ...this.#submaps]);
    if (!(yield* this.#graph.optimizing(steps, robustness))) {
      // The graph has lost poses in the meantime, so the optimisation starts again.
      this.#isOff = true;
      return;
    }
    if (last && before) {
      const shift = compose2d(this.#graph.pose(last.variable), inverse2d(before));
      this.#shift([...this.#nodes, ...this.#submaps].filter((one) => !known.has(one)), shift);
    }
  }

  #shift(parts: Iterable<MapNode | MapSubmap>, shift: Pose2d): void {
    for (const { variable } of parts) {
      this.#graph.setPose(variable, compose2d(shift, this.#graph.pose(variable)));
    }
  }

  finish(): void {
    this.finishLater();
    while (this.work());
  }

  finishLater(): void {
    this.#isFinishing = true;
  }

  /** Searches loop closures for all nodes again, and optimises until convergence. */
  *#finishing(): Generator<void, void> {
    if (this.start.options.optimizeEveryNodes === 0 || this.start.mode === "localize") return;
    yield* this.#optimize(STEPS_FINAL, "firm");
    for (let round = 0; round < ROUNDS_FINAL; round++) {
      const before = this.#closures.length;
      for (const node of [...this.#nodes]) {
        this.#lookFor(node);
        yield;
      }
      yield* this.#optimize(STEPS_FINAL, "firm");
      if (this.#closures.length - before < ROUND_ADDS * before) break;
    }
    yield* this.#optimize(STEPS_FINAL, "yielding");
  }

  #lookFor(node: MapNode): void {
    const [own] = node.submaps;
    if (!own) return;
    this.#accept(this.#search.closuresOf(node, this.#submaps, this.#pathLengthsFrom(own), true));
    if (this.start.mode !== "localize") return;
    this.#relocalization.add(node);
    this.#compare(node.points, this.#graph.pose(node.variable), (fit) => this.#watch.addNode(fit));
  }

  /** Compares a scan with the map, where it should be. */
  #compare(points: Float64Array, pose: Pose2d, add: (fit: PoseFit) => boolean): void {
    const fit = this.#relocalization.fitOf(points, pose);
    if (fit && add(fit)) this.#doubt("kidnapped");
  }

  /**
   * Searches for the robot anywhere, besides its assumed place. If it may have been kidnapped, earlier scans do not
   * count.
   */
  #doubt(why: "kidnapped" | "elsewhere"): void {
    this.#watch.reset();
    this.#unwatched = undefined;
    this.#isDoubted = true;
    this.#unplaced = this.#nodeCount;
    this.#local.restart();
    if (why === "kidnapped") this.#relocalization.reset();
    else this.#relocalization.lookAgain();
    this.#waiting = [];
    this.#pathM += LOST_PATH_M;
  }

  /** Searches for the robot in the whole given map; false if there is nothing to do before the next scan. */
  #findPlace(): boolean {
    for (const node of this.#waiting.splice(0)) this.#relocalization.add(node);
    const isWorking = this.#relocalization.work(this.#given());
    const found = this.#isDoubted ? this.#relocalization.foundInstead() : this.#relocalization.found();
    if (found) this.#place(found);
    return isWorking;
  }

  #given(): MapSubmap[] {
    return this.#submaps.filter(({ trajectory }) => trajectory !== this.#trajectory);
  }

  /**
   * Moves everything that was mapped while the robot was not localized to the found place, and adds a constraint to the
   * map there.
   */
  #place({ node, pose, fit }: Relocalized): void {
    const shift = compose2d(pose, inverse2d(this.#graph.pose(node.variable)));
    const moved = this.#nodes.filter(({ trajectory, index }) => {
      return trajectory === this.#trajectory && index >= this.#unplaced!;
    });
    this.#shift(new Set([...moved, ...moved.flatMap(({ submaps }) => submaps)]), shift);
    this.#unplaced = undefined;
    this.#isDoubted = false;
    this.#watch.reset(fit);
    this.#driftFrom = undefined;
    const submap = this.#nearest(pose, this.#given());
    if (submap) {
      const inSubmap = between2d(this.#graph.pose(submap.variable), pose);
      this.#accept([{ submap, node, pose: inSubmap, score: fit }]);
    }
    if (this.start.mode === "localize") this.#relocalization.reset();
    else this.#relocalization.forget();
  }

  /** Keeps the latest submaps of the trajectory that localizes. */
  #trimOwn(): void {
    const own = this.#submaps.filter(({ trajectory }) => trajectory === this.#trajectory);
    if (own.length > this.#submapsKept) this.#remove(own.slice(0, own.length - this.#submapsKept));
  }

  get #submapsKept(): number {
    return Math.max(2, this.start.options.maxSubmapsToKeep);
  }

  /** False if the map has not grown since the last time, or is not updated. */
  #trimOutdated(): boolean {
    const added = this.#submaps.length - this.#submapsAtTrim;
    if (this.start.mode !== "update" || added <= this.start.options.minAddedSubmapsCount) return false;
    this.#remove(outdated(this.#submaps, this.#graph, this.start.options));
    this.#submapsAtTrim = this.#submaps.length;
    const [first] = this.#submaps;
    if (first) this.#graph.fix(first.variable);
    return true;
  }

  /** Removes submaps, and the nodes that are in no other. */
  #remove(submaps: readonly MapSubmap[]): void {
    if (submaps.length === 0) return;
    const gone = new Set(submaps);
    this.#submaps = this.#submaps.filter((one) => !gone.has(one));
    // The submaps of a node may go one after the other, also in different sessions.
    const left = new Set(this.#submaps);
    const nodes = new Set(this.#nodes.filter((node) => !node.submaps.some((one) => left.has(one))));
    if (this.#previous) nodes.delete(this.#previous);
    this.#nodes = this.#nodes.filter((one) => !nodes.has(one));
    this.#waiting = this.#waiting.filter((one) => !nodes.has(one));
    this.#closures = this.#closures.filter(({ submap, node }) => !gone.has(submap) && !nodes.has(node));
    this.#graph.removePoses(new Set([...submaps, ...nodes].map(({ variable }) => variable)));
    for (const submap of submaps) {
      this.#search.forget(submap);
      this.#drift.forget(submap);
      this.#bySubmap.delete(submap.submap);
    }
    for (const node of nodes) this.#search.forgetNode(node);
    this.#driftFrom = undefined;
  }

  state(): MapState {
    const own = {
      trajectory: this.#trajectory,
      odometry: [...this.#odometry.kept],
      imu: [...this.#imu.kept],
      submapsKept: this.start.mode === "localize" ? this.#submapsKept : undefined,
    };
    const isUpdated = this.start.mode === "update";
    const loaded = isUpdated ? withoutOldReadings(this.#loaded, this.#nodes) : this.#loaded;
    const trajectories = [...loaded, own];
    const { landmarks } = this.start.map ?? {};
    const state = stateOf(
      trajectories,
      this.#submaps,
      this.#nodes,
      this.#closures,
      this.#graph,
      INTRA,
      INTER,
    );
    return landmarks ? { ...state, landmarks } : state;
  }
}

function chainWeightsOf(verdicts: OdometryVerdicts) {
  const factorOf = (verdict: OdometryVerdict) =>
    isRight(verdicts) ? CHAIN_FACTOR_RIGHT : CHAIN_FACTORS[verdict];
  return {
    translationWeight: CHAIN.translationWeight * factorOf(verdicts.translation),
    rotationWeight: CHAIN.rotationWeight * factorOf(verdicts.rotation),
  };
}

/** A score of local SLAM, 0.1 to 0.9, as a share. */
function shareOf(score: number): number {
  return (score - 0.1) / 0.8;
}

/** The direction in which a pose is uncertain, because only a few points constrain it. */
function degenerateOf({ x, y, points }: LeastConstrained, pose: Pose2d): DegenerateDirection {
  return {
    yaw: Math.atan2(y, x) - pose.yaw,
    share: Math.max(DEGENERATE_SHARE_MIN, Math.min(1, Math.sqrt(points / DEGENERATE_POINTS))),
  };
}

/** The error of a closure in metres, less in its degenerate direction. */
function offM({ x, y }: Pose2d, { degenerate }: Closure): number {
  const { yaw, share } = degenerate ?? { yaw: 0, share: 1 };
  const cos = Math.cos(yaw), sin = Math.sin(yaw);
  return Math.hypot(share * (cos * x + sin * y), cos * y - sin * x);
}

/** A degenerate direction in the frame of a node, in the frame of the node's pose. */
function degenerateFrom(
  { yaw }: Pose2d,
  degenerate: DegenerateDirection | undefined,
): DegenerateDirection | undefined {
  return degenerate && { ...degenerate, yaw: degenerate.yaw + yaw };
}
