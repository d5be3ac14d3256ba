/**
 * The options in a map file: the settings that made each of its trajectories. They are for information only: a reader
 * uses its own settings.
 */

import type { MapperOptions } from "../mapping.ts";
import {
  boolField,
  type ContentOf,
  double,
  float,
  int32,
  int64,
  message,
  opaque,
  part,
  parts,
  textField,
} from "./fields.ts";
import { Rigid } from "./transforms.ts";

const SENSORS_MAX = 1_000;
const TRAJECTORIES_MAX = 1_000;

const AdaptiveVoxelFilter = message({ maxLength: float(1), minNumPoints: float(2), maxRange: float(3) });
const MotionFilter = message({
  maxTimeSeconds: double(1),
  maxDistanceMeters: double(2),
  maxAngleRadians: double(3),
});
const Solver = message({
  useNonmonotonicSteps: boolField(1),
  maxNumIterations: int32(2),
  numThreads: int32(3),
});

const Local = message({
  minZ: float(1),
  maxZ: float(2),
  voxelFilterSize: float(3),
  useOnlineCorrelativeScanMatching: boolField(5),
  adaptiveVoxelFilter: part(6, AdaptiveVoxelFilter),
  realTimeCorrelativeScanMatcher: part(
    7,
    message({
      linearSearchWindow: double(1),
      angularSearchWindow: double(2),
      translationDeltaCostWeight: double(3),
      rotationDeltaCostWeight: double(4),
    }),
  ),
  ceresScanMatcher: part(
    8,
    message({
      occupiedSpaceWeight: double(1),
      translationWeight: double(2),
      rotationWeight: double(3),
      ceresSolver: part(9, Solver),
    }),
  ),
  submaps: part(
    11,
    message({
      numRangeData: int32(1),
      grid: part(2, message({ gridType: int32(1), resolution: float(2) })),
      rangeDataInserter: part(
        3,
        message({
          rangeDataInserterType: int32(1),
          probabilityGrid: part(
            2,
            message({ hitProbability: double(1), missProbability: double(2), insertFreeSpace: boolField(3) }),
          ),
          tsdf: opaque(3),
        }),
      ),
    }),
  ),
  useImuData: boolField(12),
  motionFilter: part(13, MotionFilter),
  minRange: float(14),
  maxRange: float(15),
  missingDataRayLength: float(16),
  imuGravityTimeConstant: double(17),
  numAccumulatedRangeData: int32(19),
  loopClosureAdaptiveVoxelFilter: part(20, AdaptiveVoxelFilter),
  poseExtrapolator: part(
    21,
    message({
      useImuBased: boolField(1),
      constantVelocity: part(2, message({ imuGravityTimeConstant: double(1), poseQueueDuration: double(2) })),
      imuBased: opaque(3),
    }),
  ),
});

const Trajectory = message({
  local2d: part(1, Local),
  local3d: opaque(2),
  pureLocalization: boolField(3),
  initialTrajectoryPose: part(
    4,
    message({ relativePose: part(1, Rigid), toTrajectoryId: int32(2), timestamp: int64(3) }),
  ),
  pureLocalizationTrimmer: part(6, message({ maxSubmapsToKeep: int32(1) })),
  collateFixedFrame: boolField(7),
  collateLandmarks: boolField(8),
  poseGraphOdometryMotionFilter: part(9, MotionFilter),
});

const TrajectoryOptions = message({
  sensorId: parts(1, message({ type: int32(1), id: textField(2) }), SENSORS_MAX),
  trajectory: part(2, Trajectory),
});

export const BuilderOptions = message({ trajectories: parts(1, TrajectoryOptions, TRAJECTORIES_MAX) });

/** Kinds of sensors. */
const SENSORS = { range: 0, imu: 1, odometry: 2 } as const;
const PROBABILITY_GRID = 1;

/** The sensors and settings of a trajectory. */
export function trajectoryOptionsOf(
  options: MapperOptions,
  used: { readonly imu: boolean; readonly odometry: boolean; readonly submapsKept: number | undefined },
): ContentOf<typeof TrajectoryOptions> {
  const sensorId = [
    { type: SENSORS.range, id: "range" },
    ...(used.imu ? [{ type: SENSORS.imu, id: "imu" }] : []),
    ...(used.odometry ? [{ type: SENSORS.odometry, id: "odometry" }] : []),
  ];
  return {
    sensorId,
    trajectory: {
      ...Trajectory.empty(),
      local2d: localOf(options, used.imu),
      pureLocalizationTrimmer: used.submapsKept === undefined
        ? undefined
        : { maxSubmapsToKeep: used.submapsKept },
      collateFixedFrame: true,
      collateLandmarks: false,
    },
  };
}

/** The published defaults, overlaid with the mapper's settings. */
function localOf(options: MapperOptions, useImuData: boolean): ContentOf<typeof Local> {
  return {
    ...Local.empty(),
    minZ: Math.fround(-0.8),
    maxZ: 2,
    voxelFilterSize: Math.fround(0.025),
    useOnlineCorrelativeScanMatching: true,
    adaptiveVoxelFilter: { maxLength: 0.5, minNumPoints: 200, maxRange: 50 },
    loopClosureAdaptiveVoxelFilter: { maxLength: Math.fround(0.9), minNumPoints: 100, maxRange: 50 },
    realTimeCorrelativeScanMatcher: {
      linearSearchWindow: 0.1,
      angularSearchWindow: Math.PI / 9,
      translationDeltaCostWeight: 0.1,
      rotationDeltaCostWeight: 0.1,
    },
    ceresScanMatcher: {
      occupiedSpaceWeight: 1,
      translationWeight: 10,
      rotationWeight: 40,
      ceresSolver: { useNonmonotonicSteps: false, maxNumIterations: 20, numThreads: 1 },
    },
    submaps: {
      numRangeData: options.scansPerSubmap,
      grid: { gridType: PROBABILITY_GRID, resolution: Math.fround(0.05) },
      rangeDataInserter: {
        rangeDataInserterType: PROBABILITY_GRID,
        probabilityGrid: { hitProbability: 0.55, missProbability: 0.49, insertFreeSpace: true },
        tsdf: undefined,
      },
    },
    useImuData,
    motionFilter: { maxTimeSeconds: 5, maxDistanceMeters: 0.2, maxAngleRadians: Math.PI / 180 },
    minRange: Math.fround(options.minRangeM),
    maxRange: Math.fround(options.maxRangeM),
    missingDataRayLength: Math.fround(options.missingDataRayLengthM),
    imuGravityTimeConstant: 10,
    numAccumulatedRangeData: 1,
    poseExtrapolator: {
      useImuBased: false,
      constantVelocity: { imuGravityTimeConstant: 10, poseQueueDuration: 0.001 },
      imuBased: undefined,
    },
  };
}
