/**
 * The mapper: local SLAM gives each scan its pose, global SLAM closes loops and keeps the map straight.
 */

import { ticksOf } from "./map_state.ts";
import type { ConstraintState, MapState, NodeState, SubmapState } from "./map_state.ts";
import type { ImuReading, MapperStart, Mapping, OdometryReading, RangeScan } from "./mapping.ts";
import { Drift } from "./global/drift.ts";
import { LoopSearch } from "./global/loop_search.ts";
import type { Closure, MapNode, MapSubmap } from "./global/map_parts.ts";
import { PoseGraph, type Robustness } from "./global/pose_graph.ts";
import { type Insertion, LocalMapper, type LocalResult } from "./local/local_mapper.ts";
import type { Submap } from "./local/submaps.ts";
import { isTime, isUsableImu, isUsableOdometry } from "./usable.ts";
import { between2d, compose2d, IDENTITY_2D, type Pose2d } from "./pose2d.ts";

/** One over the standard deviations (metres, radians) of what ties poses. */
const CHAIN = { translationWeight: 1 / 0.01, rotationWeight: 1 / 0.003 };
const INTRA = { translationWeight: 1 / 0.3, rotationWeight: 1 / 0.06 };
const INTER = { translationWeight: 1 / 0.03, rotationWeight: 1 / 0.006 };

/** A closure so far off moves the map, and is worth an optimisation at once. */
const OFF_M = 0.15;
const OFF_RAD = Math.PI / 180;
/** So many closures are worth one, too. */
const CLOSURES_MANY = 100;
const STEPS = 4;
const STEPS_FINAL = 30;
/** A scan that fits so badly may be as far off as after so long a way. */
const POOR_SCORE = 0.4;
const POOR_PATH_M = 3;
/** At the end all nodes are looked for again, until this adds little. */
const ROUNDS_FINAL = 2;
const ROUND_ADDS = 0.02;

export class Mapper implements Mapping {
  readonly #local: LocalMapper;
  readonly #graph = new PoseGraph();
  readonly #search: LoopSearch;
  readonly #drift = new Drift();
  readonly #submaps: MapSubmap[] = [];
  readonly #nodes: MapNode[] = [];
  readonly #bySubmap = new Map<Submap, MapSubmap>();
  #closures: Closure[] = [];
  #driftFrom: { readonly submap: MapSubmap; readonly ways: ReadonlyMap<MapSubmap, number> } | undefined;
  #waiting: MapNode[] = [];
  #last: LocalResult | undefined;
  #pathM = 0;
  #nodesSince = 0;
  #closuresSince = 0;
  #isOff = false;

  constructor(private readonly start: MapperStart) {
    if (start.mode !== "create") throw new RangeError(`a mapper cannot ${start.mode} a map`);
    this.#local = new LocalMapper(start.options);
    this.#search = new LoopSearch(this.#graph, start.options);
  }

  addOdometry(reading: OdometryReading): boolean {
    if (!isUsableOdometry(reading)) return false;
    this.#local.addOdometry(reading);
    return true;
  }

  addImu(reading: ImuReading): boolean {
    if (!isUsableImu(reading)) return false;
    this.#local.addImu(reading);
    return true;
  }

  addScan(scan: RangeScan): boolean {
    if (!isTime(scan.timeS)) return false;
    if (this.#last && scan.timeS <= this.#last.timeS) return false;
    const result = this.#local.addScan(scan);
    if (!result) return false;
    if (result.insertion) this.#addNode(result, result.insertion);
    this.#last = result;
    return true;
  }

  pose(): Pose2d | undefined {
    return this.#last && this.#toMap(this.#last.pose);
  }

  /** The last scan as seen from the last node: it moves with that node when the map is optimised. */
  lastScan(): { readonly node: number; readonly offset: Pose2d } | undefined {
    const node = this.#nodes.at(-1);
    return node && this.#last &&
      { node: this.#nodes.length - 1, offset: between2d(node.localPose, this.#last.pose) };
  }

  /** Where a node is in the map by now. */
  nodePose(node: number): Pose2d {
    return this.#graph.pose(this.#nodes[node].variable);
  }

  /** A pose of the local frame, as the last node sees it. */
  #toMap(local: Pose2d): Pose2d {
    const node = this.#nodes.at(-1);
    if (!node) return compose2d(this.start.pose ?? IDENTITY_2D, local);
    return compose2d(this.#graph.pose(node.variable), between2d(node.localPose, local));
  }

  #addNode({ timeS, pose, score }: LocalResult, { submaps, gravityAlignment, points }: Insertion): void {
    const previous = this.#nodes.at(-1);
    const globalPose = this.#toMap(pose);
    if (previous) {
      const moved = between2d(previous.localPose, pose);
      this.#pathM += Math.hypot(moved.x, moved.y);
      if (score < POOR_SCORE) this.#pathM += POOR_PATH_M;
    }
    const into = submaps.map((submap) => this.#bySubmap.get(submap) ?? this.#addSubmap(submap));
    const node: MapNode = {
      trajectory: 0,
      index: this.#nodes.length,
      ticks: ticksOf(timeS),
      localPose: pose,
      gravityAlignment,
      points,
      variable: this.#graph.addPose(globalPose, false),
      pathM: this.#pathM,
      submaps: into,
    };
    this.#nodes.push(node);
    for (const submap of into) {
      submap.nodes.push(node);
      const relative = between2d(submap.submap.localPose, pose);
      this.#graph.addEdge({
        from: submap.variable,
        to: node.variable,
        pose: relative,
        ...INTRA,
        robust: false,
      });
    }
    if (previous) {
      const moved = between2d(previous.localPose, pose);
      this.#graph.addEdge({
        from: previous.variable,
        to: node.variable,
        pose: moved,
        ...CHAIN,
        robust: false,
      });
    }
    if (this.start.options.optimizeEveryNodes > 0) this.#waiting.push(node);
    this.#nodesSince++;
  }

  #addSubmap(submap: Submap): MapSubmap {
    const added: MapSubmap = {
      trajectory: 0,
      index: this.#submaps.length,
      submap,
      variable: this.#graph.addPose(this.#toMap(submap.localPose), this.#submaps.length === 0),
      pathM: this.#pathM,
      nodes: [],
    };
    this.#submaps.push(added);
    this.#bySubmap.set(submap, added);
    return added;
  }

  work(): boolean {
    const node = this.#waiting.shift();
    if (node) {
      this.#lookFor(node);
      return true;
    }
    const { optimizeEveryNodes } = this.start.options;
    const due = optimizeEveryNodes > 0 && this.#nodesSince >= optimizeEveryNodes;
    if (!due || (!this.#isOff && this.#closuresSince < CLOSURES_MANY)) return false;
    this.#optimize(STEPS, "firm");
    return true;
  }

  #waysFrom(submap: MapSubmap): ReadonlyMap<MapSubmap, number> {
    if (this.#driftFrom?.submap !== submap) {
      this.#driftFrom = { submap, ways: this.#drift.from(submap, this.#submaps) };
    }
    return this.#driftFrom.ways;
  }

  #believe(closures: readonly Closure[]): void {
    for (const closure of closures) {
      const { submap, node, pose } = closure;
      this.#closures.push(closure);
      this.#search.close(closure);
      const edge = { from: submap.variable, to: node.variable, pose, ...INTER, robust: true };
      this.#graph.addEdge(edge);
      this.#drift.tie(submap, node.submaps[0]);
      const off = this.#graph.errorOf(edge);
      if (Math.hypot(off.x, off.y) > OFF_M || Math.abs(off.yaw) > OFF_RAD) {
        this.#isOff = true;
        this.#driftFrom = undefined;
      }
      this.#closuresSince++;
    }
  }

  #optimize(steps: number, robustness: Robustness): void {
    this.#graph.optimize(steps, robustness);
    this.#nodesSince = 0;
    this.#closuresSince = 0;
    this.#isOff = false;
  }

  finish(): void {
    while (this.work());
    if (this.start.options.optimizeEveryNodes === 0) return;
    this.#optimize(STEPS_FINAL, "firm");
    for (let round = 0; round < ROUNDS_FINAL; round++) {
      const before = this.#closures.length;
      for (const node of this.#nodes) this.#lookFor(node);
      this.#optimize(STEPS_FINAL, "firm");
      if (this.#closures.length - before < ROUND_ADDS * before) break;
    }
    this.#optimize(STEPS_FINAL, "yielding");
  }

  #lookFor(node: MapNode): void {
    this.#believe(this.#search.closuresOf(node, this.#submaps, this.#waysFrom(node.submaps[0]), true));
  }

  state(): MapState {
    const submaps = this.#submaps.map((one): SubmapState => ({
      trajectory: one.trajectory,
      index: one.index,
      localPose: one.submap.localPose,
      globalPose: this.#graph.pose(one.variable),
      scanCount: one.submap.scanCount,
      finished: one.submap.finished,
      grid: one.submap.grid.state(one.submap.finished),
    }));
    const nodes = this.#nodes.map((one): NodeState => ({
      trajectory: one.trajectory,
      index: one.index,
      ticks: one.ticks,
      localPose: one.localPose,
      globalPose: this.#graph.pose(one.variable),
      gravityAlignment: one.gravityAlignment,
      points: pointsWithZ(one.points),
    }));
    return {
      trajectories: [{ trajectory: 0, odometry: [], imu: [] }],
      submaps,
      nodes,
      constraints: this.#constraints(),
    };
  }

  #constraints(): ConstraintState[] {
    const intra = this.#nodes.flatMap((node) =>
      node.submaps.map((submap): ConstraintState => ({
        submap: { trajectory: submap.trajectory, index: submap.index },
        node: { trajectory: node.trajectory, index: node.index },
        pose: between2d(submap.submap.localPose, node.localPose),
        ...INTRA,
        kind: "intra",
      }))
    );
    const inter = this.#closures.map(({ submap, node, pose }): ConstraintState => ({
      submap: { trajectory: submap.trajectory, index: submap.index },
      node: { trajectory: node.trajectory, index: node.index },
      pose,
      ...INTER,
      kind: "inter",
    }));
    return [...intra, ...inter];
  }
}

function pointsWithZ(points: Float64Array): Float32Array {
  const out = new Float32Array(1.5 * points.length);
  for (let k = 0; k < points.length; k += 2) {
    out[1.5 * k] = points[k];
    out[1.5 * k + 1] = points[k + 1];
  }
  return out;
}
