/**
 * Checks the contents of a map file. The same rules hold for reading and for writing.
 *
 * They are the rules of the published readers and of the mapper: finite poses with unit rotations, grids with the
 * declared number of cells, indices that exist and are unique, times that increase.
 */

import { SvcError } from "../../base/error.ts";
import { unpackCloud } from "./cloud.ts";
import {
  CONSTRAINT_TAGS,
  type ConstraintMessage,
  type GridMessage,
  MAP_LIMITS,
  type MapItem,
  type NodeMessage,
  type PoseGraphMessage,
  type SubmapMessage,
  type TrajectoryMessage,
} from "./messages.ts";
import { quaternionProblem, rigidProblem, type VectorMessage } from "./transforms.ts";

/** The greatest value of a cell; 0 is unknown. */
const CELL_MAX = 32_767;
const COST_MIN = 0.1;
const COST_MAX = 0.9;
const COST_TOLERANCE = 1e-3;
const DATA_KINDS = ["imuData", "odometryData", "fixedFramePoseData", "landmarkData"] as const;

/** The indices of one trajectory, each with whether its own message has been seen. */
interface Known {
  readonly submaps: Map<number, boolean>;
  readonly nodes: Map<number, boolean>;
}

export class MapCheck {
  readonly #trajectories = new Map<number, Known>();
  /** The time of the last item, by kind and trajectory. */
  readonly #times = new Map<string, bigint>();
  #constraints: readonly ConstraintMessage[] = [];
  #items = 0;

  /** Checks the next item. Throws `invalid_argument` if it breaks a rule. */
  add(item: MapItem): void {
    const count = this.#items++;
    if (count === 0 && item.kind !== "poseGraph") throw wrong(`${item.kind} first, wanted the pose graph`);
    if (count === 1 && item.kind !== "options") throw wrong(`${item.kind} second, wanted the options`);
    if (count > 0 && item.kind === "poseGraph") throw wrong("a second pose graph");
    if (count > 1 && item.kind === "options") throw wrong("options for a second time");
    if (item.kind === "poseGraph") this.#poseGraph(item.value);
    else if (item.kind === "options") this.#options(item.value.trajectories.length);
    else if (item.kind === "submap") this.#submap(item.value);
    else if (item.kind === "node") this.#node(item.value);
    else if (item.kind === "trajectoryData") this.#of(item.value.trajectoryId);
    else this.#data(item);
  }

  /** Checks the end of the file. Throws `invalid_argument` if something is missing. */
  finish(): void {
    if (this.#items < 2) {
      throw wrong(this.#items === 0 ? "no pose graph" : "no options of the trajectories");
    }
    for (const { submapId, nodeId } of this.#constraints) {
      const submap = this.#of(submapId!.trajectoryId).submaps.get(submapId!.submapIndex);
      const node = this.#of(nodeId!.trajectoryId).nodes.get(nodeId!.nodeIndex);
      if (submap && node) continue;
      const missing = submap ? `node ${idOf(nodeId)}` : `submap ${idOf(submapId)}`;
      throw wrong(`a constraint of ${missing}, which is not in the file`);
    }
  }

  #poseGraph({ trajectory, constraint, landmarkPoses }: PoseGraphMessage): void {
    for (const one of trajectory) {
      const id = one.trajectoryId;
      if (id < 0) throw wrong(`a trajectory ${id}`);
      if (this.#trajectories.has(id)) throw wrong(`trajectory ${id} twice`);
      this.#trajectories.set(id, knownOf(one));
    }
    const members = new Set<string>();
    for (const [index, one] of constraint.entries()) this.#constraint(index, one, members);
    for (const { landmarkId, globalPose } of landmarkPoses) {
      check(rigidProblem(globalPose), `landmark ${JSON.stringify(landmarkId.slice(0, 40))}`);
    }
    this.#constraints = constraint;
  }

  #constraint(index: number, one: ConstraintMessage, members: Set<string>): void {
    const where = `constraint ${index}`;
    const { submapId, nodeId, relativePose, tag, translationWeight, rotationWeight } = one;
    if (!submapId || !nodeId) throw wrong(`${where} without its submap or node`);
    check(rigidProblem(relativePose), where);
    if (tag !== CONSTRAINT_TAGS.intra && tag !== CONSTRAINT_TAGS.inter) {
      throw wrong(`${where} of the kind ${tag}`);
    }
    if (!(translationWeight >= 0 && rotationWeight >= 0 && translationWeight + rotationWeight < Infinity)) {
      throw wrong(`${where} with the weights ${translationWeight} and ${rotationWeight}`);
    }
    if (!this.#of(submapId.trajectoryId).submaps.has(submapId.submapIndex)) {
      throw wrong(`${where} of submap ${idOf(submapId)}, which has no pose`);
    }
    if (!this.#of(nodeId.trajectoryId).nodes.has(nodeId.nodeIndex)) {
      throw wrong(`${where} of node ${idOf(nodeId)}, which has no pose`);
    }
    if (tag === CONSTRAINT_TAGS.inter) return;
    const member = `${idOf(submapId)} ${idOf(nodeId)}`;
    if (members.has(member)) throw wrong(`node ${idOf(nodeId)} twice in submap ${idOf(submapId)}`);
    members.add(member);
  }

  #options(count: number): void {
    const wanted = this.#trajectories.size;
    if (count !== wanted) throw wrong(`options of ${count} trajectories, the pose graph has ${wanted}`);
  }

  #submap({ submapId, submap2d, submap3d }: SubmapMessage): void {
    if (submap3d) throw wrong("a submap in three dimensions, wanted a map in two");
    if (!submapId || !submap2d) throw wrong("a submap without content");
    const name = `submap ${idOf(submapId)}`;
    this.#once(this.#of(submapId.trajectoryId).submaps, submapId.submapIndex, name);
    check(rigidProblem(submap2d.localPose), name);
    if (submap2d.numRangeData < 0) throw wrong(`${name} of ${submap2d.numRangeData} scans`);
    if (!submap2d.grid) throw wrong(`${name} without a grid`);
    check(gridProblem(submap2d.grid), name);
  }

  #node({ nodeId, nodeData }: NodeMessage): void {
    if (!nodeId || !nodeData) throw wrong("a node without content");
    const name = `node ${idOf(nodeId)}`;
    this.#once(this.#of(nodeId.trajectoryId).nodes, nodeId.nodeIndex, name);
    check(rigidProblem(nodeData.localPose), name);
    check(quaternionProblem(nodeData.gravityAlignment), name);
    const cloud = nodeData.filteredGravityAlignedPointCloud;
    const points = cloud && unpackCloud(cloud);
    if (typeof points === "string") throw wrong(`${name}: found ${points}`);
  }

  #data(item: Extract<MapItem, { kind: typeof DATA_KINDS[number] }>): void {
    const { trajectoryId } = item.value;
    this.#of(trajectoryId);
    const timestamp = timeOf(item);
    const name = `${item.kind} of trajectory ${trajectoryId}`;
    if (timestamp === undefined) throw wrong(`${name} without content`);
    const last = this.#times.get(name);
    // Published writers sort sightings by landmark first.
    if (item.kind !== "landmarkData" && last !== undefined && timestamp <= last) {
      throw wrong(`${name} at ${timestamp} after ${last}`);
    }
    this.#times.set(name, timestamp);
    if (item.kind === "odometryData") check(rigidProblem(item.value.odometryData?.pose), name);
    if (item.kind === "imuData") {
      const { linearAcceleration, angularVelocity } = item.value.imuData!;
      check(vectorProblem(linearAcceleration) ?? vectorProblem(angularVelocity), name);
    }
  }

  #once(all: Map<number, boolean>, index: number, name: string): void {
    const come = all.get(index);
    if (come === undefined) throw wrong(`${name}, which has no pose in the pose graph`);
    if (come) throw wrong(`${name} twice`);
    all.set(index, true);
  }

  #of(trajectory: number): Known {
    const known = this.#trajectories.get(trajectory);
    if (!known) throw wrong(`something of trajectory ${trajectory}, which is not in the pose graph`);
    return known;
  }
}

function knownOf({ trajectoryId: id, node, submap }: TrajectoryMessage): Known {
  const known: Known = { submaps: new Map(), nodes: new Map() };
  for (const { pose, submapIndex: index } of submap) {
    if (index < 0 || known.submaps.has(index)) throw wrong(`submap (${id}, ${index}) twice or below 0`);
    check(rigidProblem(pose), `submap (${id}, ${index})`);
    known.submaps.set(index, false);
  }
  for (const { pose, nodeIndex: index } of node) {
    if (index < 0 || known.nodes.has(index)) throw wrong(`node (${id}, ${index}) twice or below 0`);
    check(rigidProblem(pose), `node (${id}, ${index})`);
    known.nodes.set(index, false);
  }
  return known;
}

function gridProblem(grid: GridMessage): string | undefined {
  if (grid.tsdf2d) return "a grid of distances, wanted one of probabilities";
  if (!grid.probabilityGrid2d) return "a grid of an unknown kind, wanted one of probabilities";
  const { resolution = 0, max, cellLimits } = grid.limits ?? {};
  if (!(resolution > 0 && resolution < Infinity)) return `a grid with cells of ${resolution} m`;
  if (!max || !Number.isFinite(max.x + max.y)) return "a grid without a place";
  const { numXCells: width = 0, numYCells: height = 0 } = cellLimits ?? {};
  if (width <= 0 || height <= 0 || width * height > MAP_LIMITS.cells) {
    return `a grid of ${width} x ${height} cells`;
  }
  if (grid.cells.length !== width * height) {
    return `a grid of ${width} x ${height} cells with ${grid.cells.length} values`;
  }
  for (let cell = 0; cell < grid.cells.length; cell++) {
    const value = grid.cells[cell] ?? 0;
    if (value < 0 || value > CELL_MAX) return `a cell of ${value}, wanted 0 to ${CELL_MAX}`;
  }
  return costProblem(grid) ?? boxProblem(grid, width, height);
}

/** Files of old writers leave out the cost bounds and mean these. */
function costProblem(
  { minCorrespondenceCost: min, maxCorrespondenceCost: max }: GridMessage,
): string | undefined {
  if (min === 0 && max === 0) return undefined;
  const near = (a: number, b: number) => Math.abs(a - b) <= COST_TOLERANCE;
  if (near(min, COST_MIN) && near(max, COST_MAX)) return undefined;
  return `a grid of costs from ${min} to ${max}, wanted ${COST_MIN} to ${COST_MAX}`;
}

function boxProblem({ knownCellsBox: box }: GridMessage, width: number, height: number): string | undefined {
  if (!box) return undefined;
  const inside = 0 <= box.minX && box.minX <= box.maxX && box.maxX < width &&
    0 <= box.minY && box.minY <= box.maxY && box.maxY < height;
  if (inside) return undefined;
  return `known cells from ${box.minX}, ${box.minY} to ${box.maxX}, ${box.maxY} in a grid of ${width} x ${height}`;
}

function vectorProblem(vector: VectorMessage | undefined): string | undefined {
  if (vector && Number.isFinite(vector.x + vector.y + vector.z)) return undefined;
  return "a vector that is missing or not finite";
}

function timeOf(item: Extract<MapItem, { kind: typeof DATA_KINDS[number] }>): bigint | undefined {
  if (item.kind === "imuData") return item.value.imuData?.timestamp;
  if (item.kind === "odometryData") return item.value.odometryData?.timestamp;
  if (item.kind === "fixedFramePoseData") return item.value.fixedFramePoseData?.timestamp;
  return item.value.landmarkData?.timestamp;
}

function idOf(
  id: { trajectoryId: number; submapIndex: number } | { trajectoryId: number; nodeIndex: number } | undefined,
): string {
  if (id === undefined) return "(none)";
  return `(${id.trajectoryId}, ${"nodeIndex" in id ? id.nodeIndex : id.submapIndex})`;
}

function check(problem: string | undefined, where: string): void {
  if (problem !== undefined) throw wrong(`${where}: found ${problem}`);
}

function wrong(found: string): SvcError {
  return new SvcError("invalid_argument", found);
}
