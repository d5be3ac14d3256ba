/** A small map with all that a map can have: gaps, an unfinished submap, two trajectories, odometry, IMU, landmarks and tilt. */

import { packCloud, unpackCloud } from "../../lib/slam/pbstream/cloud.ts";
import type { CarriedState, MapState, RigidState } from "../../lib/slam/map_state.ts";
import { randomFrom } from "../../lib/geometry/random.ts";

const START_TICKS = 637_704_118_881_554_255n;
const TICKS = 2_000_000n;

export function sampleMap(seed = 1): MapState {
  const random = randomFrom(seed);
  const pose = () => ({ x: 10 * random() - 5, y: 10 * random() - 5, yaw: 6 * random() - 3 });
  const grid = (cellsX: number, cellsY: number) => ({
    resolution: 0.05,
    maxX: 3 + random(),
    maxY: 2 + random(),
    cellsX,
    cellsY,
    cells: Uint16Array.from({ length: cellsX * cellsY }, () => random() < 0.5 ? 0 : 1 + 32_766 * random()),
    known: { minI: 0, minJ: 0, maxI: cellsX - 1, maxJ: cellsY - 1 },
  });
  const submap = (trajectory: number, index: number, finished = true) => ({
    trajectory,
    index,
    localPose: pose(),
    globalPose: pose(),
    scanCount: 60,
    finished,
    grid: grid(20 + index, 30),
  });
  const node = (trajectory: number, index: number) => ({
    trajectory,
    index,
    ticks: START_TICKS + BigInt(index) * TICKS,
    localPose: pose(),
    globalPose: pose(),
    gravityAlignment: tilt(0.1 * random()),
    points: packedPoints(random),
  });
  const constraint = (submap: number, node: number, kind: "intra" | "inter") => ({
    submap: { trajectory: 0, index: submap },
    node: { trajectory: kind === "intra" ? 0 : 2, index: node },
    pose: pose(),
    translationWeight: kind === "intra" ? 500 : 1.1e4,
    rotationWeight: kind === "intra" ? 1600 : 1e5,
    kind,
  });
  const ticks = (index: number) => START_TICKS + BigInt(index) * TICKS;
  const triple = () => [random(), random(), 9.8] as const;
  return {
    trajectories: [
      {
        trajectory: 0,
        odometry: [0, 1, 2].map((index) => ({ ticks: ticks(index), pose: pose() })),
        imu: [0, 1].map((index) => ({
          ticks: ticks(index),
          linearAcceleration: triple(),
          angularVelocity: triple(),
        })),
        submapsKept: undefined,
      },
      { trajectory: 2, odometry: [], imu: [], submapsKept: 3, carried: carried(ticks) },
    ],
    submaps: [submap(0, 0), submap(0, 3), submap(2, 1, false)],
    nodes: [node(0, 0), node(0, 1), node(0, 7), node(2, 2)],
    constraints: [
      constraint(0, 0, "intra"),
      constraint(0, 1, "intra"),
      constraint(3, 7, "intra"),
      constraint(3, 2, "inter"),
    ],
    landmarks: [{ id: "door", pose: rigid(4) }],
  };
}

function rigid(x: number): RigidState {
  return { translation: { x, y: -1, z: 0.5 }, rotation: { x: 0, y: 0, z: 0.6, w: 0.8 } };
}

/** Two landmarks, the second seen before the first: published writers sort by landmark. */
function carried(ticks: (index: number) => bigint): CarriedState {
  const seen = (name: string) => ({
    id: new TextEncoder().encode(name),
    translationWeight: 1e4,
    rotationWeight: 1e5,
    pose: rigid(2),
  });
  return {
    gravityMPerS2: 9.81,
    imuCalibration: { x: 0, y: 0, z: 0.6, w: 0.8 },
    fixedFrameOrigin: rigid(7),
    fixedFramePoses: [{ ticks: ticks(0), pose: rigid(1) }, { ticks: ticks(1), pose: undefined }],
    sightings: [
      { ticks: ticks(3), landmarks: [seen("door")] },
      { ticks: ticks(2), landmarks: [seen("window")] },
    ],
  };
}

/** A rotation by an angle about the x axis. */
function tilt(angle: number): readonly [number, number, number, number] {
  return [Math.sin(angle / 2), 0, 0, Math.cos(angle / 2)];
}

/** Points as they come out of a file: in whole millimetres, in the order of their blocks. */
function packedPoints(random: () => number): Float32Array {
  const points = Float32Array.from({ length: 3 * 50 }, (_, n) => n % 3 === 2 ? 0 : 9 * random() - 4.5);
  return unpackCloud(packCloud(points)) as Float32Array;
}
