/**
 * The messages of a map file, as tables: names and numbers are the published ones (packages `cartographer.mapping.proto`,
 * `cartographer.sensor.proto` and `cartographer.transform.proto`).
 *
 * Poses are three-dimensional; lengths are metres. Times are units of 100 ns since 0001-01-01 UTC.
 */

import {
  boolField,
  bytes,
  type ContentOf,
  double,
  float,
  int32,
  int32s,
  int64,
  message,
  opaque,
  part,
  parts,
  textField,
} from "./fields.ts";
import { BuilderOptions } from "./options.ts";
import { QuaternionMessage, Rigid, Vector2, Vector3 } from "./transforms.ts";

/** Limits of one file, each far above the map of a day's drive. */
export const MAP_LIMITS = {
  trajectories: 1_000,
  submaps: 100_000,
  nodes: 1_000_000,
  constraints: 1_000_000,
  landmarks: 100_000,
  /** A submap of 280 by 280 metres at 5 cm. */
  cells: 32_000_000,
  /** Numbers of a compressed cloud. */
  cloudNumbers: 4_000_000,
  sensors: 1_000,
} as const;

export const HeaderMessage = message({ formatVersion: int32(1) });

const SubmapId = message({ trajectoryId: int32(1), submapIndex: int32(2) });
const NodeId = message({ trajectoryId: int32(1), nodeIndex: int32(2) });

/** Tags of constraints. */
export const CONSTRAINT_TAGS = { intra: 0, inter: 1 } as const;

const Constraint = message({
  submapId: part(1, SubmapId),
  nodeId: part(2, NodeId),
  relativePose: part(3, Rigid),
  tag: int32(5),
  translationWeight: double(6),
  rotationWeight: double(7),
});

const Trajectory = message({
  node: parts(
    1,
    message({ timestamp: int64(1), pose: part(5, Rigid), nodeIndex: int32(7) }),
    MAP_LIMITS.nodes,
  ),
  submap: parts(2, message({ pose: part(1, Rigid), submapIndex: int32(2) }), MAP_LIMITS.submaps),
  trajectoryId: int32(3),
});

const PoseGraph = message({
  constraint: parts(2, Constraint, MAP_LIMITS.constraints),
  trajectory: parts(4, Trajectory, MAP_LIMITS.trajectories),
  landmarkPoses: parts(
    5,
    message({ landmarkId: textField(1), globalPose: part(2, Rigid) }),
    MAP_LIMITS.landmarks,
  ),
});

const MapLimits = message({
  resolution: double(1),
  max: part(2, Vector2),
  cellLimits: part(3, message({ numXCells: int32(1), numYCells: int32(2) })),
});

const Grid = message({
  limits: part(1, MapLimits),
  cells: int32s(2, MAP_LIMITS.cells),
  knownCellsBox: part(3, message({ maxX: int32(1), maxY: int32(2), minX: int32(3), minY: int32(4) })),
  probabilityGrid2d: part(4, message({})),
  tsdf2d: opaque(5),
  minCorrespondenceCost: float(6),
  maxCorrespondenceCost: float(7),
});

const Submap = message({
  submapId: part(1, SubmapId),
  submap2d: part(
    2,
    message({
      localPose: part(1, Rigid),
      numRangeData: int32(2),
      finished: boolField(3),
      grid: part(4, Grid),
    }),
  ),
  submap3d: opaque(3),
});

const Cloud = message({ numPoints: int32(1), pointData: int32s(3, MAP_LIMITS.cloudNumbers) });

const Node = message({
  nodeId: part(1, NodeId),
  nodeData: part(
    5,
    message({
      timestamp: int64(1),
      gravityAlignment: part(2, QuaternionMessage),
      filteredGravityAlignedPointCloud: part(3, Cloud),
      highResolutionPointCloud: part(4, Cloud),
      lowResolutionPointCloud: part(5, Cloud),
      rotationalScanMatcherHistogram: opaque(6),
      localPose: part(7, Rigid),
    }),
  ),
});

const TrajectoryData = message({
  trajectoryId: int32(1),
  gravityConstant: double(2),
  imuCalibration: part(3, QuaternionMessage),
  fixedFrameOriginInMap: part(4, Rigid),
});

const ImuData = message({
  trajectoryId: int32(1),
  imuData: part(
    2,
    message({
      timestamp: int64(1),
      linearAcceleration: part(2, Vector3),
      angularVelocity: part(3, Vector3),
    }),
  ),
});

const timedPose = message({ timestamp: int64(1), pose: part(2, Rigid) });
const OdometryData = message({ trajectoryId: int32(1), odometryData: part(2, timedPose) });
const FixedFramePoseData = message({ trajectoryId: int32(1), fixedFramePoseData: part(2, timedPose) });

const LandmarkData = message({
  trajectoryId: int32(1),
  landmarkData: part(
    2,
    message({
      timestamp: int64(1),
      landmarkObservations: parts(
        2,
        message({
          id: bytes(1),
          landmarkToTrackingTransform: part(2, Rigid),
          translationWeight: double(3),
          rotationWeight: double(4),
        }),
        MAP_LIMITS.landmarks,
      ),
    }),
  ),
});

/** Every message but the first one of a file has one of these fields. */
export const Serialized = message({
  poseGraph: part(1, PoseGraph),
  options: part(2, BuilderOptions),
  submap: part(3, Submap),
  node: part(4, Node),
  trajectoryData: part(5, TrajectoryData),
  imuData: part(6, ImuData),
  odometryData: part(7, OdometryData),
  fixedFramePoseData: part(8, FixedFramePoseData),
  landmarkData: part(9, LandmarkData),
});

type Parts = { [K in keyof ContentOf<typeof Serialized>]-?: NonNullable<ContentOf<typeof Serialized>[K]> };
export type ItemKind = keyof Parts;
/** Any message of a file after the first. */
export type MapItem = { [K in ItemKind]: { readonly kind: K; readonly value: Parts[K] } }[ItemKind];

export type PoseGraphMessage = Parts["poseGraph"];
export type TrajectoryMessage = ContentOf<typeof Trajectory>;
export type ConstraintMessage = ContentOf<typeof Constraint>;
export type OptionsMessage = Parts["options"];
export type SubmapMessage = Parts["submap"];
export type GridMessage = ContentOf<typeof Grid>;
export type NodeMessage = Parts["node"];
export type CloudMessage = ContentOf<typeof Cloud>;
