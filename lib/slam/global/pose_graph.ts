/**
 * A graph of poses and of measurements between them, and its optimisation: sparse damped Gauss-Newton from the current
 * poses. Robust edges lose weight as their residual grows.
 */

import { between2d, type Pose2d, wrapAngle } from "../pose2d.ts";
import { BlockCholesky, withoutPause } from "./block_cholesky.ts";
import { addProduct, blocksFor, scaleDiagonal, subtractTransposed, triplesFor } from "./blocks.ts";
import { eliminating } from "./elimination.ts";

export interface GraphEdge {
  readonly from: number;
  readonly to: number;
  /** `to` in the frame of `from`. */
  readonly pose: Pose2d;
  /** Inverse standard deviations: 1/m and 1/rad. */
  readonly translationWeight: number;
  readonly rotationWeight: number;
  /** A direction, in the frame of `from`, in which translation has a share of that weight only. */
  readonly degenerate?: DegenerateDirection;
  /** Whether the edge may be an outlier. */
  readonly robust: boolean;
}

export interface DegenerateDirection {
  readonly yaw: number;
  readonly share: number;
}

/** Residual, in standard deviations, beyond which a firm edge pulls no stronger. */
const FIRM_DEVIATIONS = 1;
/** Residual, in standard deviations, at which a yielding edge keeps a quarter of its weight. */
const YIELDING_DEVIATIONS = 3;
const COST_DONE = 1e-4;
const STEP_DONE = 1e-4;

/**
 * The loss of robust edges. Firm edges keep their pull, so that loops close from far away. Yielding edges lose it, for
 * use when the poses are about right.
 */
export type Robustness = "firm" | "yielding";

export class PoseGraph {
  readonly #poses: Pose2d[] = [];
  readonly #fixed: boolean[] = [];
  /** Free slots of removed poses. */
  readonly #free: number[] = [];
  #edges: GraphEdge[] = [];
  #removals = 0;
  #moves = 0;

  /** A number that changes when poses move. */
  get moves(): number {
    return this.#moves;
  }

  get edges(): readonly GraphEdge[] {
    return this.#edges;
  }

  addPose(pose: Pose2d, fixed: boolean): number {
    const id = this.#free.pop() ?? this.#poses.length;
    this.#poses[id] = pose;
    this.#fixed[id] = fixed;
    return id;
  }

  fix(id: number): void {
    this.#fixed[id] = true;
  }

  /** Removes poses and their edges. */
  removePoses(ids: ReadonlySet<number>): void {
    this.dropEdges(({ from, to }) => ids.has(from) || ids.has(to));
    for (const id of ids) this.#free.push(id);
    this.#removals++;
  }

  addEdge(edge: GraphEdge): void {
    this.#edges.push(edge);
  }

  /** Removes the edges for which `wrong` holds. */
  dropEdges(wrong: (edge: GraphEdge) => boolean): void {
    this.#edges = this.#edges.filter((edge) => !wrong(edge));
  }

  pose(id: number): Pose2d {
    const pose = this.#poses[id];
    if (!pose) throw new Error(`Bug: the graph has no pose ${id}`);
    return pose;
  }

  setPose(id: number, pose: Pose2d): void {
    this.#poses[id] = pose;
    this.#moves++;
  }

  /** The residual of an edge, in its frame. */
  errorOf({ from, to, pose }: GraphEdge): Pose2d {
    return between2d(pose, between2d(this.pose(from), this.pose(to)));
  }

  /**
   * Optimises the poses in at most `stepsMax` steps and yields between pieces of the work. Poses and edges that are
   * added meanwhile take no part. All poses move together at the end; if some were removed meanwhile, none moves and
   * the result is `false`.
   */
  *optimizing(stepsMax: number, robustness: Robustness): Generator<void, boolean> {
    const removals = this.#removals;
    const problem = new Problem(this.#poses, this.#fixed, this.#edges, robustness);
    yield* problem.solving(stepsMax);
    if (removals !== this.#removals) return false;
    problem.poses().forEach((pose, id) => this.#poses[id] = pose);
    this.#moves++;
    return true;
  }

  /** The same without a pause. */
  optimize(stepsMax: number, robustness: Robustness): void {
    withoutPause(this.optimizing(stepsMax, robustness));
  }
}

const ALL_ALIKE: DegenerateDirection = { yaw: 0, share: 1 };
/** Numbers of a pose: x, y, yaw (not wrapped), and the cosine and sine of yaw. */
const POSE = 5;
/**
 * Numbers of an edge: x, y, yaw; the weights of translation in a direction and across it, and of rotation; the cosine
 * and sine of the direction.
 */
const EDGE = 8;

/** Poses in a flat array. */
class FlatPoses {
  private constructor(readonly numbers: Float64Array) {}

  static of(poses: readonly Pose2d[]): FlatPoses {
    const flat = new FlatPoses(new Float64Array(POSE * poses.length));
    for (const [id, { x, y, yaw }] of poses.entries()) flat.#set(id, x, y, yaw);
    return flat;
  }

  /** The poses after a step, which has a triple for each column; poses in column -1 stay. */
  moved(columns: Int32Array, step: Float64Array): FlatPoses {
    const before = this.numbers, moved = new FlatPoses(before.slice());
    for (const [id, column] of columns.entries()) {
      if (column < 0) continue;
      const at = POSE * id, by = 3 * column;
      const x = (before[at] ?? 0) + (step[by] ?? 0), y = (before[at + 1] ?? 0) + (step[by + 1] ?? 0);
      moved.#set(id, x, y, (before[at + 2] ?? 0) + (step[by + 2] ?? 0));
    }
    return moved;
  }

  poses(): Pose2d[] {
    return Array.from({ length: this.numbers.length / POSE }, (_, id) => {
      const [x = 0, y = 0, yaw = 0] = this.numbers.subarray(POSE * id, POSE * id + 3);
      return { x, y, yaw: wrapAngle(yaw) };
    });
  }

  #set(id: number, x: number, y: number, yaw: number): void {
    const { numbers } = this, at = POSE * id;
    numbers[at] = x;
    numbers[at + 1] = y;
    numbers[at + 2] = yaw;
    numbers[at + 3] = Math.cos(yaw);
    numbers[at + 4] = Math.sin(yaw);
  }
}

/** Edges in flat arrays. */
class FlatEdges {
  readonly #ends: Int32Array;
  readonly #numbers: Float64Array;
  readonly #robust: Uint8Array;

  constructor(edges: readonly GraphEdge[]) {
    this.#ends = Int32Array.from(edges.flatMap(({ from, to }) => [from, to]));
    this.#robust = Uint8Array.from(edges, ({ robust }) => robust ? 1 : 0);
    this.#numbers = new Float64Array(EDGE * edges.length);
    for (const [k, { pose, translationWeight, rotationWeight, degenerate }] of edges.entries()) {
      const { yaw, share } = degenerate ?? ALL_ALIKE;
      const weights = [share * translationWeight, translationWeight, rotationWeight];
      this.#numbers.set([pose.x, pose.y, pose.yaw, ...weights, Math.cos(yaw), Math.sin(yaw)], EDGE * k);
    }
  }

  get count(): number {
    return this.#robust.length;
  }

  from(k: number): number {
    return this.#ends[2 * k] ?? 0;
  }

  to(k: number): number {
    return this.#ends[2 * k + 1] ?? 0;
  }

  isRobust(k: number): boolean {
    return this.#robust[k] === 1;
  }

  /** Computes the weighted residual of an edge, a triple, and returns its square. */
  residual(k: number, { numbers: p }: FlatPoses, into: Float64Array): number {
    const a = POSE * this.from(k), b = POSE * this.to(k), m = EDGE * k, n = this.#numbers;
    const wa = n[m + 3] ?? 0, wb = n[m + 4] ?? 0, wr = n[m + 5] ?? 0;
    const along = n[m + 6] ?? 0, across = n[m + 7] ?? 0;
    const cos = p[a + 3] ?? 0, sin = p[a + 4] ?? 0;
    const dx = (p[b] ?? 0) - (p[a] ?? 0), dy = (p[b + 1] ?? 0) - (p[a + 1] ?? 0);
    const turn = (p[b + 2] ?? 0) - (p[a + 2] ?? 0);
    const ex = cos * dx + sin * dy - (n[m] ?? 0), ey = cos * dy - sin * dx - (n[m + 1] ?? 0);
    const x = wa * (along * ex + across * ey), y = wb * (along * ey - across * ex);
    const yaw = wr * wrapAngle(turn - (n[m + 2] ?? 0));
    into[0] = x;
    into[1] = y;
    into[2] = yaw;
    return x * x + y * y + yaw * yaw;
  }

  /** Computes the derivatives of the residual by both poses, a block each. Their other numbers stay 0. */
  jacobians(k: number, { numbers: p }: FlatPoses, ofFrom: Float64Array, ofTo: Float64Array): void {
    const a = POSE * this.from(k), b = POSE * this.to(k), m = EDGE * k, n = this.#numbers;
    const wa = n[m + 3] ?? 0, wb = n[m + 4] ?? 0, wr = n[m + 5] ?? 0;
    const along = n[m + 6] ?? 0, across = n[m + 7] ?? 0;
    const cosFrom = p[a + 3] ?? 0, sinFrom = p[a + 4] ?? 0;
    const dx = (p[b] ?? 0) - (p[a] ?? 0), dy = (p[b + 1] ?? 0) - (p[a + 1] ?? 0);
    // The directions of the first two residuals, in the frame of the map.
    const cos = cosFrom * along - sinFrom * across, sin = sinFrom * along + cosFrom * across;
    ofFrom[0] = -wa * cos;
    ofFrom[1] = -wa * sin;
    ofFrom[2] = wa * (cos * dy - sin * dx);
    ofFrom[3] = wb * sin;
    ofFrom[4] = -wb * cos;
    ofFrom[5] = wb * (-sin * dy - cos * dx);
    ofFrom[8] = -wr;
    ofTo[0] = wa * cos;
    ofTo[1] = wa * sin;
    ofTo[3] = -wb * sin;
    ofTo[4] = wb * cos;
    ofTo[8] = wr;
  }
}

/** One optimisation. */
class Problem {
  #poses: FlatPoses;
  readonly #edges: FlatEdges;
  /** The column of each pose; -1 if it is fixed or has no edge. */
  readonly #columns: Int32Array;
  readonly #count: number;
  /** The block of each column on the diagonal. */
  readonly #diagonal: Int32Array;
  /** The block of both ends of each edge, and whether `from` has its rows; -1 if an end has no column. */
  readonly #blocks: Int32Array;
  readonly #fromHasRows: Uint8Array;

  constructor(
    poses: readonly Pose2d[],
    fixed: readonly boolean[],
    edges: readonly GraphEdge[],
    private readonly robustness: Robustness,
  ) {
    this.#poses = FlatPoses.of(poses);
    this.#edges = new FlatEdges(edges);
    const used = new Set(edges.flatMap(({ from, to }) => [from, to]));
    let count = 0;
    this.#columns = Int32Array.from(poses, (_, id) => used.has(id) && !fixed[id] ? count++ : -1);
    this.#count = count;
    this.#diagonal = new Int32Array(count);
    this.#blocks = new Int32Array(edges.length).fill(-1);
    this.#fromHasRows = new Uint8Array(edges.length);
  }

  poses(): Pose2d[] {
    return this.#poses.poses();
  }

  *solving(stepsMax: number): Generator<void, void> {
    yield;
    const factor = new BlockCholesky(this.#count, yield* eliminating(this.#count, this.#pairs()));
    yield;
    this.#findBlocks(factor);
    const right = triplesFor(this.#count);
    let lambda = 1e-8, cost = this.#cost(this.#poses);
    for (let step = 0; step < stepsMax && this.#count > 0; step++) {
      yield;
      this.#build(factor.values, right, lambda);
      if (!(yield* factor.factoring())) {
        lambda *= 100;
        continue;
      }
      factor.solve(right);
      const moved = this.#poses.moved(this.#columns, right);
      const next = this.#cost(moved);
      if (!(next <= cost)) {
        lambda = Math.max(lambda, 1e-6) * 10;
        if (lambda > 1e6) return;
        continue;
      }
      const largest = right.reduce((most, one) => Math.max(most, Math.abs(one)), 0);
      this.#poses = moved;
      lambda = Math.max(1e-9, lambda / 10);
      const done = cost - next <= COST_DONE * cost || largest < STEP_DONE;
      cost = next;
      if (done) return;
    }
  }

  /** The columns of both ends of an edge. */
  #fromColumn(k: number): number {
    return this.#columns[this.#edges.from(k)] ?? -1;
  }

  #toColumn(k: number): number {
    return this.#columns[this.#edges.to(k)] ?? -1;
  }

  /** The columns that edges connect: a, b, a, b, … */
  #pairs(): Int32Array {
    const pairs: number[] = [];
    for (let k = 0; k < this.#edges.count; k++) {
      const from = this.#fromColumn(k), to = this.#toColumn(k);
      if (from >= 0 && to >= 0) pairs.push(from, to);
    }
    return Int32Array.from(pairs);
  }

  #findBlocks(factor: BlockCholesky): void {
    for (let column = 0; column < this.#count; column++) {
      this.#diagonal[column] = factor.blockOf(column, column).block;
    }
    for (let k = 0; k < this.#edges.count; k++) {
      const from = this.#fromColumn(k), to = this.#toColumn(k);
      if (from < 0 || to < 0) continue;
      const { block, first } = factor.blockOf(from, to);
      this.#blocks[k] = block;
      this.#fromHasRows[k] = first === from ? 1 : 0;
    }
  }

  #cost(poses: FlatPoses): number {
    const residual = triplesFor(1), edges = this.#edges;
    let cost = 0;
    for (let k = 0; k < edges.count; k++) {
      const square = edges.residual(k, poses, residual);
      cost += edges.isRobust(k) ? this.#robustCost(square) : 0.5 * square;
    }
    return cost;
  }

  #robustCost(square: number): number {
    if (this.robustness === "yielding") {
      const limit = YIELDING_DEVIATIONS * YIELDING_DEVIATIONS;
      return 0.5 * limit * square / (limit + square);
    }
    const off = Math.sqrt(square);
    return off <= FIRM_DEVIATIONS ? 0.5 * square : FIRM_DEVIATIONS * (off - 0.5 * FIRM_DEVIATIONS);
  }

  /** The share of its weight that a robust edge keeps. */
  #shareOf(square: number): number {
    if (this.robustness === "yielding") {
      const limit = YIELDING_DEVIATIONS * YIELDING_DEVIATIONS;
      return (limit / (limit + square)) ** 2;
    }
    const off = Math.sqrt(square);
    return off <= FIRM_DEVIATIONS ? 1 : FIRM_DEVIATIONS / off;
  }

  #build(values: Float64Array, right: Float64Array, lambda: number): void {
    values.fill(0);
    right.fill(0);
    const residual = triplesFor(1), ofFrom = blocksFor(1), ofTo = blocksFor(1);
    const edges = this.#edges, poses = this.#poses, diagonal = this.#diagonal;
    for (let k = 0; k < edges.count; k++) {
      const square = edges.residual(k, poses, residual);
      const share = edges.isRobust(k) ? this.#shareOf(square) : 1;
      edges.jacobians(k, poses, ofFrom, ofTo);
      const from = this.#fromColumn(k), to = this.#toColumn(k), block = this.#blocks[k] ?? -1;
      if (from >= 0) addProduct(values, diagonal[from] ?? 0, ofFrom, ofFrom, share);
      if (to >= 0) addProduct(values, diagonal[to] ?? 0, ofTo, ofTo, share);
      if (block >= 0) {
        if (this.#fromHasRows[k] === 1) addProduct(values, block, ofFrom, ofTo, share);
        else addProduct(values, block, ofTo, ofFrom, share);
      }
      if (from >= 0) subtractTransposed(right, from, ofFrom, residual, share);
      if (to >= 0) subtractTransposed(right, to, ofTo, residual, share);
    }
    for (const block of diagonal) scaleDiagonal(values, block, 1 + lambda);
  }
}
