/**
 * Converts a map's state from and to the messages of a `.pbstream` file.
 *
 * In a file, the pose of a node or a constraint contains the node's gravity alignment. The state keeps the alignment
 * apart. A submap is flat in both. Landmarks and poses of fixed frames pass through the state unchanged.
 */

import type { MapperOptions } from "../mapping.ts";
import type { CarriedState, CellRange, GridState, MapState, NodeState, SubmapState } from "../map_state.ts";
import { packCloud, unpackCloud } from "./cloud.ts";
import {
  CONSTRAINT_TAGS,
  type ConstraintMessage,
  type GridMessage,
  type MapItem,
  type NodeMessage,
  type OptionsMessage,
  type PoseGraphMessage,
  type SubmapMessage,
  type TrajectoryMessage,
} from "./messages.ts";
import { trajectoryOptionsOf } from "./options.ts";
import { openPbstream, type ReadMapOptions, writePbstream } from "./pbstream.ts";
import {
  pose2dOf,
  type QuaternionMessage,
  type RigidMessage,
  rigidOf,
  type VectorMessage,
} from "./transforms.ts";

/** The bounds of a cell's cost, rounded like the published writer's. */
const COST_MIN = Math.fround(1 - Math.fround(0.9));
const COST_MAX = Math.fround(0.9);
const GRAVITY_M_PER_S2 = 9.8;
const NO_ROTATION: QuaternionMessage = { x: 0, y: 0, z: 0, w: 1 };

type Quaternion = readonly [number, number, number, number];

const NO_TILT: Quaternion = [0, 0, 0, 1];

/** Reads a whole map. Throws `invalid_argument` if the file is not a map. */
export async function readMap(
  chunks: AsyncIterable<Uint8Array>,
  options: ReadMapOptions = {},
): Promise<MapState> {
  const { items } = await openPbstream(chunks, options);
  let graph: PoseGraphMessage | undefined;
  const poses = { submaps: new Map<string, RigidMessage>(), nodes: new Map<string, RigidMessage>() };
  const map = emptyMap();
  for await (const item of items) {
    if (item.kind === "options") addOptions(item.value, graph!, map.trajectories);
    else if (item.kind === "poseGraph") {
      graph = item.value;
      for (const one of graph.trajectory) addTrajectory(one, map, poses);
    } else if (item.kind === "submap") map.submaps.push(submapOf(item.value, poses.submaps));
    else if (item.kind === "node") map.nodes.push(nodeOf(item.value, poses.nodes));
    else addData(item, map.trajectories);
  }
  const tilts = tiltsOf(map.nodes);
  const constraints = graph!.constraint.map((one) => constraintOf(one, tilts));
  const trajectories = [...map.trajectories.values()].map(({ carried, ...one }) => {
    return carried.isAny ? { ...one, carried: carried.state() } : one;
  });
  const landmarks = graph!.landmarkPoses.map(({ landmarkId, globalPose }) => ({
    id: landmarkId,
    pose: globalPose!,
  }));
  return { ...map, trajectories, constraints, ...(landmarks.length > 0 ? { landmarks } : {}) };
}

/** Writes the map as a file, in pieces. `options` holds the settings of its trajectories. */
export function mapFile(map: MapState, options: MapperOptions): AsyncIterable<Uint8Array> {
  return writePbstream(itemsOf(map, options));
}

function emptyMap() {
  const trajectories = new Map<number, Trajectory>();
  return { trajectories, submaps: [] as SubmapState[], nodes: [] as NodeState[] };
}

interface Trajectory {
  readonly trajectory: number;
  readonly odometry: MapState["trajectories"][number]["odometry"][number][];
  readonly imu: MapState["trajectories"][number]["imu"][number][];
  submapsKept: number | undefined;
  readonly carried: Carried;
}

/** The data of a trajectory that a mapper passes on unchanged. */
class Carried {
  readonly #fixedFramePoses: CarriedState["fixedFramePoses"][number][] = [];
  readonly #sightings: CarriedState["sightings"][number][] = [];
  #data: Extract<MapItem, { kind: "trajectoryData" }>["value"] | undefined;

  add(item: MapItem): void {
    if (item.kind === "trajectoryData") this.#data = item.value;
    else if (item.kind === "fixedFramePoseData") {
      const { timestamp, pose } = item.value.fixedFramePoseData!;
      this.#fixedFramePoses.push({ ticks: timestamp, pose });
    } else if (item.kind === "landmarkData") {
      const { timestamp, landmarkObservations } = item.value.landmarkData!;
      const landmarks = landmarkObservations.map(({ landmarkToTrackingTransform: pose, ...one }) => ({
        ...one,
        pose,
      }));
      this.#sightings.push({ ticks: timestamp, landmarks });
    }
  }

  get isAny(): boolean {
    const data = this.#data;
    const isUsual = data === undefined ||
      (data.gravityConstant === GRAVITY_M_PER_S2 && data.imuCalibration?.w === 1 &&
        !data.fixedFrameOriginInMap);
    return !isUsual || this.#fixedFramePoses.length > 0 || this.#sightings.length > 0;
  }

  state(): CarriedState {
    return {
      gravityMPerS2: this.#data?.gravityConstant ?? GRAVITY_M_PER_S2,
      imuCalibration: this.#data?.imuCalibration ?? NO_ROTATION,
      fixedFrameOrigin: this.#data?.fixedFrameOriginInMap,
      fixedFramePoses: this.#fixedFramePoses,
      sightings: this.#sightings,
    };
  }
}

function addTrajectory(
  { trajectoryId, submap, node }: TrajectoryMessage,
  { trajectories }: { readonly trajectories: Map<number, Trajectory> },
  { submaps, nodes }: { submaps: Map<string, RigidMessage>; nodes: Map<string, RigidMessage> },
): void {
  trajectories.set(trajectoryId, {
    trajectory: trajectoryId,
    odometry: [],
    imu: [],
    submapsKept: undefined,
    carried: new Carried(),
  });
  for (const { pose, submapIndex } of submap) submaps.set(`${trajectoryId} ${submapIndex}`, pose!);
  for (const { pose, nodeIndex } of node) nodes.set(`${trajectoryId} ${nodeIndex}`, pose!);
}

/** Options stand in the order of the trajectories of the pose graph. */
function addOptions(
  { trajectories: options }: OptionsMessage,
  graph: PoseGraphMessage,
  trajectories: ReadonlyMap<number, Trajectory>,
): void {
  graph.trajectory.forEach(({ trajectoryId }, k) => {
    const kept = options[k]?.trajectory?.pureLocalizationTrimmer?.maxSubmapsToKeep;
    trajectories.get(trajectoryId)!.submapsKept = kept;
  });
}

function addData(item: MapItem, trajectories: ReadonlyMap<number, Trajectory>): void {
  if (item.kind === "odometryData") {
    const { timestamp, pose } = item.value.odometryData!;
    trajectories.get(item.value.trajectoryId)!.odometry.push({ ticks: timestamp, pose: pose2dOf(pose!) });
  } else if (item.kind === "imuData") {
    const { timestamp, linearAcceleration, angularVelocity } = item.value.imuData!;
    trajectories.get(item.value.trajectoryId)!.imu.push({
      ticks: timestamp,
      linearAcceleration: tripleOf(linearAcceleration!),
      angularVelocity: tripleOf(angularVelocity!),
    });
  } else if ("trajectoryId" in item.value) trajectories.get(item.value.trajectoryId)!.carried.add(item);
}

function submapOf(
  { submapId, submap2d }: SubmapMessage,
  poses: ReadonlyMap<string, RigidMessage>,
): SubmapState {
  const { trajectoryId, submapIndex } = submapId!;
  const { localPose, numRangeData, finished, grid } = submap2d!;
  return {
    trajectory: trajectoryId,
    index: submapIndex,
    localPose: pose2dOf(localPose!),
    globalPose: pose2dOf(poses.get(`${trajectoryId} ${submapIndex}`)!),
    scanCount: numRangeData,
    finished,
    grid: gridOf(grid!),
  };
}

function gridOf({ limits, cells, knownCellsBox: box }: GridMessage): GridState {
  const { resolution, max, cellLimits } = limits!;
  return {
    resolution,
    maxX: max!.x,
    maxY: max!.y,
    cellsX: cellLimits!.numXCells,
    cellsY: cellLimits!.numYCells,
    cells: new Uint16Array(cells),
    known: box && { minI: box.minX, minJ: box.minY, maxI: box.maxX, maxJ: box.maxY },
  };
}

function nodeOf({ nodeId, nodeData }: NodeMessage, poses: ReadonlyMap<string, RigidMessage>): NodeState {
  const { trajectoryId, nodeIndex } = nodeId!;
  const { timestamp, gravityAlignment, filteredGravityAlignedPointCloud: cloud, localPose } = nodeData!;
  const points = cloud ? unpackCloud(cloud) : new Float32Array();
  const { x, y, z, w } = gravityAlignment!;
  const gravity: Quaternion = [x, y, z, w];
  return {
    trajectory: trajectoryId,
    index: nodeIndex,
    ticks: timestamp,
    localPose: pose2dOf(turned(localPose!, conjugate(gravity))),
    globalPose: pose2dOf(turned(poses.get(`${trajectoryId} ${nodeIndex}`)!, conjugate(gravity))),
    gravityAlignment: gravity,
    // The reader has checked the cloud, so it is not an error text.
    points: typeof points === "string" ? new Float32Array() : points,
  };
}

function constraintOf(
  { submapId, nodeId, relativePose, translationWeight, rotationWeight, tag }: ConstraintMessage,
  tilts: ReadonlyMap<string, Quaternion>,
): MapState["constraints"][number] {
  const tilt = tilts.get(`${nodeId!.trajectoryId} ${nodeId!.nodeIndex}`)!;
  return {
    submap: { trajectory: submapId!.trajectoryId, index: submapId!.submapIndex },
    node: { trajectory: nodeId!.trajectoryId, index: nodeId!.nodeIndex },
    pose: pose2dOf(turned(relativePose!, conjugate(tilt))),
    translationWeight,
    rotationWeight,
    kind: tag === CONSTRAINT_TAGS.intra ? "intra" : "inter",
  };
}

function* itemsOf(map: MapState, options: MapperOptions): Generator<MapItem> {
  const trajectories = [...map.trajectories].sort((a, b) => a.trajectory - b.trajectory);
  yield { kind: "poseGraph", value: graphOf(map, trajectories.map(({ trajectory }) => trajectory)) };
  yield {
    kind: "options",
    value: {
      trajectories: trajectories.map(({ imu, odometry, submapsKept }) =>
        trajectoryOptionsOf(options, { imu: imu.length > 0, odometry: odometry.length > 0, submapsKept })
      ),
    },
  };
  for (const one of sorted(map.submaps)) yield { kind: "submap", value: submapMessage(one) };
  for (const one of sorted(map.nodes)) yield { kind: "node", value: nodeMessage(one) };
  for (const { trajectory, carried } of trajectories) {
    const value = {
      trajectoryId: trajectory,
      gravityConstant: carried?.gravityMPerS2 ?? GRAVITY_M_PER_S2,
      imuCalibration: carried?.imuCalibration ?? NO_ROTATION,
      fixedFrameOriginInMap: carried?.fixedFrameOrigin,
    };
    yield { kind: "trajectoryData", value };
  }
  yield* readingsOf(trajectories);
  yield* carriedOf(trajectories);
}

function* readingsOf(trajectories: MapState["trajectories"]): Generator<MapItem> {
  for (const { trajectory: trajectoryId, imu } of trajectories) {
    for (const { ticks: timestamp, linearAcceleration, angularVelocity } of imu) {
      const imuData = {
        timestamp,
        linearAcceleration: vectorOf(linearAcceleration),
        angularVelocity: vectorOf(angularVelocity),
      };
      yield { kind: "imuData", value: { trajectoryId, imuData } };
    }
  }
  for (const { trajectory: trajectoryId, odometry } of trajectories) {
    for (const { ticks: timestamp, pose } of odometry) {
      const odometryData = { timestamp, pose: rigidOf(pose) };
      yield { kind: "odometryData", value: { trajectoryId, odometryData } };
    }
  }
}

function* carriedOf(trajectories: MapState["trajectories"]): Generator<MapItem> {
  for (const { trajectory: trajectoryId, carried } of trajectories) {
    for (const { ticks: timestamp, pose } of carried?.fixedFramePoses ?? []) {
      yield { kind: "fixedFramePoseData", value: { trajectoryId, fixedFramePoseData: { timestamp, pose } } };
    }
  }
  for (const { trajectory: trajectoryId, carried } of trajectories) {
    for (const { ticks: timestamp, landmarks } of carried?.sightings ?? []) {
      const landmarkObservations = landmarks.map(({ pose, ...one }) => ({
        ...one,
        landmarkToTrackingTransform: pose,
      }));
      yield {
        kind: "landmarkData",
        value: { trajectoryId, landmarkData: { timestamp, landmarkObservations } },
      };
    }
  }
}

function graphOf(map: MapState, trajectories: readonly number[]): PoseGraphMessage {
  const submaps = Map.groupBy(sorted(map.submaps), ({ trajectory }) => trajectory);
  const nodes = Map.groupBy(sorted(map.nodes), ({ trajectory }) => trajectory);
  const tilts = tiltsOf(map.nodes);
  return {
    trajectory: trajectories.map((trajectoryId) => ({
      trajectoryId,
      node: (nodes.get(trajectoryId) ?? []).map(({ index, ticks, globalPose, gravityAlignment }) => ({
        timestamp: ticks,
        pose: turned(rigidOf(globalPose), gravityAlignment),
        nodeIndex: index,
      })),
      submap: (submaps.get(trajectoryId) ?? []).map(({ index, globalPose }) => ({
        pose: rigidOf(globalPose),
        submapIndex: index,
      })),
    })),
    constraint: map.constraints.map(({ submap, node, pose, translationWeight, rotationWeight, kind }) => ({
      submapId: { trajectoryId: submap.trajectory, submapIndex: submap.index },
      nodeId: { trajectoryId: node.trajectory, nodeIndex: node.index },
      relativePose: turned(rigidOf(pose), tilts.get(`${node.trajectory} ${node.index}`) ?? NO_TILT),
      tag: CONSTRAINT_TAGS[kind],
      translationWeight,
      rotationWeight,
    })),
    landmarkPoses: (map.landmarks ?? []).map(({ id, pose }) => ({ landmarkId: id, globalPose: pose })),
  };
}

function tiltsOf(nodes: readonly NodeState[]): ReadonlyMap<string, Quaternion> {
  return new Map(
    nodes.map(({ trajectory, index, gravityAlignment: tilt }) => [`${trajectory} ${index}`, tilt]),
  );
}

function submapMessage(
  { trajectory, index, localPose, scanCount, finished, grid }: SubmapState,
): SubmapMessage {
  const submap2d = {
    localPose: rigidOf(localPose),
    numRangeData: scanCount,
    finished,
    grid: gridMessage(grid),
  };
  return { submapId: { trajectoryId: trajectory, submapIndex: index }, submap2d, submap3d: undefined };
}

function gridMessage({ resolution, maxX, maxY, cellsX, cellsY, cells, known }: GridState): GridMessage {
  const box = ({ minI, minJ, maxI, maxJ }: CellRange) => ({ minX: minI, minY: minJ, maxX: maxI, maxY: maxJ });
  return {
    limits: { resolution, max: { x: maxX, y: maxY }, cellLimits: { numXCells: cellsX, numYCells: cellsY } },
    cells: new Int32Array(cells),
    knownCellsBox: known && box(known),
    probabilityGrid2d: {},
    tsdf2d: undefined,
    minCorrespondenceCost: COST_MIN,
    maxCorrespondenceCost: COST_MAX,
  };
}

function nodeMessage(
  { trajectory, index, ticks, localPose, gravityAlignment, points }: NodeState,
): NodeMessage {
  const [x, y, z, w] = gravityAlignment;
  const empty = packCloud(new Float32Array());
  return {
    nodeId: { trajectoryId: trajectory, nodeIndex: index },
    nodeData: {
      timestamp: ticks,
      gravityAlignment: { x, y, z, w },
      filteredGravityAlignedPointCloud: packCloud(points),
      highResolutionPointCloud: empty,
      lowResolutionPointCloud: empty,
      rotationalScanMatcherHistogram: undefined,
      localPose: turned(rigidOf(localPose), gravityAlignment),
    },
  };
}

function sorted<T extends { readonly trajectory: number; readonly index: number }>(all: readonly T[]): T[] {
  return [...all].sort((a, b) => a.trajectory - b.trajectory || a.index - b.index);
}

/** The pose, followed by a rotation. */
function turned({ translation, rotation }: RigidMessage, [x, y, z, w]: Quaternion): RigidMessage {
  const q = rotation ?? NO_ROTATION;
  return {
    translation,
    rotation: {
      x: q.w * x + q.x * w + q.y * z - q.z * y,
      y: q.w * y - q.x * z + q.y * w + q.z * x,
      z: q.w * z + q.x * y - q.y * x + q.z * w,
      w: q.w * w - q.x * x - q.y * y - q.z * z,
    },
  };
}

function conjugate([x, y, z, w]: Quaternion): Quaternion {
  return [-x, -y, -z, w];
}

function tripleOf({ x, y, z }: VectorMessage): [number, number, number] {
  return [x, y, z];
}

function vectorOf([x, y, z]: readonly [number, number, number]): VectorMessage {
  return { x, y, z };
}
