/**
 * A graph of poses and of measurements between them, and its optimisation: sparse damped Gauss-Newton from the current
 * poses. Robust edges lose weight as their residual grows.
 */

import { between2d, type Pose2d, wrapAngle } from "../pose2d.ts";
import { BlockCholesky, eliminating, withoutPause } from "./block_cholesky.ts";

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
    return this.#poses[id];
  }

  setPose(id: number, pose: Pose2d): void {
    this.#poses[id] = pose;
  }

  /** The residual of an edge, in its frame. */
  errorOf({ from, to, pose }: GraphEdge): Pose2d {
    return between2d(pose, between2d(this.#poses[from], this.#poses[to]));
  }

  /**
   * Optimises the poses in at most `stepsMax` steps and yields between pieces of the work. Poses and edges that are
   * added meanwhile take no part. All poses move together at the end; if some were removed meanwhile, none moves and
   * the result is `false`.
   */
  *optimizing(stepsMax: number, robustness: Robustness): Generator<void, boolean> {
    const removals = this.#removals;
    const problem = new Problem(this.#poses, this.#fixed, this.#edges, robustness);
    yield* problem.prepare();
    yield* problem.solve(stepsMax);
    if (removals !== this.#removals) return false;
    problem.poses().forEach((pose, id) => this.#poses[id] = pose);
    return true;
  }

  /** The same without a pause. */
  optimize(stepsMax: number, robustness: Robustness): void {
    withoutPause(this.optimizing(stepsMax, robustness));
  }
}

const ALL_ALIKE: DegenerateDirection = { yaw: 0, share: 1 };
/** Numbers of an edge in `#measured`. */
const MEASURED = 8;

/** One optimisation: everything in flat arrays. */
class Problem {
  readonly #x: Float64Array;
  /** The column of each pose; -1 if it is fixed or has no edge. */
  readonly #columns: Int32Array;
  readonly #count: number;
  /** from, to. */
  readonly #ends: Int32Array;
  /**
   * x, y, yaw; the weights of translation in a direction and across it, and of rotation; the cosine and sine of the
   * direction.
   */
  readonly #measured: Float64Array;
  readonly #robust: Uint8Array;
  /** Positions in the matrix: from-from, to-to, from-to; and whether `from` is the row of the last. */
  readonly #blocks: Int32Array;
  #factor!: BlockCholesky;
  readonly #edgeCount: number;

  constructor(
    poses: readonly Pose2d[],
    fixed: readonly boolean[],
    edges: readonly GraphEdge[],
    private readonly robustness: Robustness,
  ) {
    this.#x = new Float64Array(3 * poses.length);
    poses.forEach(({ x, y, yaw }, id) => this.#x.set([x, y, yaw], 3 * id));
    this.#edgeCount = edges.length;
    this.#ends = new Int32Array(2 * edges.length);
    this.#measured = new Float64Array(MEASURED * edges.length);
    this.#robust = new Uint8Array(edges.length);
    this.#columns = new Int32Array(poses.length).fill(-1);
    edges.forEach(({ from, to, pose, translationWeight, rotationWeight, degenerate, robust }, k) => {
      this.#ends[2 * k] = from;
      this.#ends[2 * k + 1] = to;
      const { yaw, share } = degenerate ?? ALL_ALIKE;
      const weights = [share * translationWeight, translationWeight, rotationWeight];
      this.#measured.set([pose.x, pose.y, pose.yaw, ...weights, Math.cos(yaw), Math.sin(yaw)], MEASURED * k);
      this.#robust[k] = robust ? 1 : 0;
      if (!fixed[from]) this.#columns[from] = 0;
      if (!fixed[to]) this.#columns[to] = 0;
    });
    let count = 0;
    for (let id = 0; id < poses.length; id++) if (this.#columns[id] === 0) this.#columns[id] = count++;
    this.#count = count;
    this.#blocks = new Int32Array(4 * edges.length).fill(-1);
  }

  *prepare(): Generator<void, void> {
    yield;
    const pairs = this.#pairs();
    this.#factor = new BlockCholesky(this.#count, yield* eliminating(this.#count, pairs));
    yield;
    this.#findBlocks();
  }

  poses(): Pose2d[] {
    const x = this.#x;
    return Array.from({ length: x.length / 3 }, (_, id) => {
      return { x: x[3 * id], y: x[3 * id + 1], yaw: wrapAngle(x[3 * id + 2]) };
    });
  }

  *solve(stepsMax: number): Generator<void, void> {
    const right = new Float64Array(3 * this.#count);
    let lambda = 1e-8, cost = this.#cost(this.#x);
    for (let step = 0; step < stepsMax && this.#count > 0; step++) {
      yield;
      this.#build(right, lambda);
      if (!(yield* this.#factor.factoring())) {
        lambda *= 100;
        continue;
      }
      this.#factor.solve(right);
      const moved = this.#moved(right);
      const next = this.#cost(moved);
      if (!(next <= cost)) {
        lambda = Math.max(lambda, 1e-6) * 10;
        if (lambda > 1e6) return;
        continue;
      }
      const largest = right.reduce((most, one) => Math.max(most, Math.abs(one)), 0);
      this.#x.set(moved);
      lambda = Math.max(1e-9, lambda / 10);
      const done = cost - next <= COST_DONE * cost || largest < STEP_DONE;
      cost = next;
      if (done) return;
    }
  }

  #pairs(): Int32Array {
    const pairs: number[] = [];
    for (let k = 0; k < this.#edgeCount; k++) {
      const a = this.#columns[this.#ends[2 * k]], b = this.#columns[this.#ends[2 * k + 1]];
      if (a >= 0 && b >= 0) pairs.push(a, b);
    }
    return Int32Array.from(pairs);
  }

  #findBlocks(): void {
    for (let k = 0; k < this.#edgeCount; k++) {
      const a = this.#columns[this.#ends[2 * k]], b = this.#columns[this.#ends[2 * k + 1]];
      if (a >= 0) this.#blocks[4 * k] = this.#factor.blockOf(a, a).at;
      if (b >= 0) this.#blocks[4 * k + 1] = this.#factor.blockOf(b, b).at;
      if (a < 0 || b < 0) continue;
      const { at, first } = this.#factor.blockOf(a, b);
      this.#blocks[4 * k + 2] = at;
      this.#blocks[4 * k + 3] = first === a ? 1 : 0;
    }
  }

  #moved(step: Float64Array): Float64Array {
    const moved = this.#x.slice();
    this.#columns.forEach((column, id) => {
      if (column < 0) return;
      for (let k = 0; k < 3; k++) moved[3 * id + k] += step[3 * column + k];
    });
    return moved;
  }

  #cost(x: Float64Array): number {
    const residual = new Float64Array(3);
    let cost = 0;
    for (let k = 0; k < this.#edgeCount; k++) {
      const square = this.#residual(x, k, residual);
      cost += this.#robust[k] === 0 ? 0.5 * square : this.#robustCost(square);
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

  /** Computes the weighted residual of an edge and returns its square. */
  #residual(x: Float64Array, k: number, into: Float64Array): number {
    const a = 3 * this.#ends[2 * k], b = 3 * this.#ends[2 * k + 1], m = MEASURED * k;
    const cos = Math.cos(x[a + 2]), sin = Math.sin(x[a + 2]);
    const dx = x[b] - x[a], dy = x[b + 1] - x[a + 1];
    const measured = this.#measured, along = measured[m + 6], across = measured[m + 7];
    const ex = cos * dx + sin * dy - measured[m], ey = cos * dy - sin * dx - measured[m + 1];
    into[0] = measured[m + 3] * (along * ex + across * ey);
    into[1] = measured[m + 4] * (along * ey - across * ex);
    into[2] = measured[m + 5] * wrapAngle(x[b + 2] - x[a + 2] - measured[m + 2]);
    return into[0] * into[0] + into[1] * into[1] + into[2] * into[2];
  }

  #build(right: Float64Array, lambda: number): void {
    const values = this.#factor.values, x = this.#x;
    values.fill(0);
    right.fill(0);
    const residual = new Float64Array(3), ja = new Float64Array(9), jb = new Float64Array(9);
    for (let k = 0; k < this.#edgeCount; k++) {
      const square = this.#residual(x, k, residual);
      const share = this.#robust[k] === 0 ? 1 : this.#shareOf(square);
      this.#jacobians(k, ja, jb);
      const a = this.#columns[this.#ends[2 * k]], b = this.#columns[this.#ends[2 * k + 1]];
      const blocks = this.#blocks, at = 4 * k;
      if (a >= 0) addTo(values, blocks[at], ja, ja, share);
      if (b >= 0) addTo(values, blocks[at + 1], jb, jb, share);
      if (a >= 0 && b >= 0) {
        if (blocks[at + 3] === 1) addTo(values, blocks[at + 2], ja, jb, share);
        else addTo(values, blocks[at + 2], jb, ja, share);
      }
      if (a >= 0) pull(right, 3 * a, ja, residual, share);
      if (b >= 0) pull(right, 3 * b, jb, residual, share);
    }
    for (let column = 0; column < this.#count; column++) {
      for (const k of [0, 4, 8]) values[9 * column + k] *= 1 + lambda;
    }
  }

  #jacobians(k: number, ja: Float64Array, jb: Float64Array): void {
    const x = this.#x, a = 3 * this.#ends[2 * k], b = 3 * this.#ends[2 * k + 1];
    const measured = this.#measured, m = MEASURED * k;
    const wa = measured[m + 3], wb = measured[m + 4], wr = measured[m + 5];
    // The directions of the first two residuals, in the frame of the map.
    const cosA = Math.cos(x[a + 2]),
      sinA = Math.sin(x[a + 2]),
      along = measured[m + 6],
      across = measured[m + 7];
    const cos = cosA * along - sinA * across, sin = sinA * along + cosA * across;
    const dx = x[b] - x[a], dy = x[b + 1] - x[a + 1];
    ja[0] = -wa * cos;
    ja[1] = -wa * sin;
    ja[2] = wa * (cos * dy - sin * dx);
    ja[3] = wb * sin;
    ja[4] = -wb * cos;
    ja[5] = wb * (-sin * dy - cos * dx);
    ja[8] = -wr;
    jb[0] = wa * cos;
    jb[1] = wa * sin;
    jb[3] = -wb * sin;
    jb[4] = wb * cos;
    jb[8] = wr;
  }
}

/** Adds share * a^T b to the block. */
function addTo(values: Float64Array, at: number, a: Float64Array, b: Float64Array, share: number): void {
  for (let row = 0; row < 3; row++) {
    const a0 = share * a[row], a1 = share * a[row + 3], a2 = share * a[row + 6];
    for (let column = 0; column < 3; column++) {
      values[at + 3 * row + column] += a0 * b[column] + a1 * b[column + 3] + a2 * b[column + 6];
    }
  }
}

/** Subtracts share * j^T residual. */
function pull(right: Float64Array, at: number, j: Float64Array, residual: Float64Array, share: number): void {
  for (let k = 0; k < 3; k++) {
    right[at + k] -= share * (j[k] * residual[0] + j[k + 3] * residual[1] + j[k + 6] * residual[2]);
  }
}
