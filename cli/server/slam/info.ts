/**
 * `slam pbstream info`: describes a map file. It reads message by message, so that a map of any size needs little
 * memory.
 */

import { messageOf, SvcError } from "../../../lib/base/error.ts";
import { FileError } from "../../../lib/base/files/files.ts";
import { secondsOf } from "../../../lib/slam/map_state.ts";
import { CONSTRAINT_TAGS, type MapItem } from "../../../lib/slam/pbstream/messages.ts";
import { openPbstream } from "../../../lib/slam/pbstream/pbstream.ts";
import type { Command } from "../../command.ts";
import { facts, lengthText, printResult } from "../../table.ts";
import type { SlamContext } from "./slam_context.ts";

/** The content of one trajectory of a file. */
interface TrajectoryInfo {
  readonly trajectory: number;
  readonly sensors: readonly string[];
  submaps: number;
  unfinishedSubmaps: number;
  nodes: number;
  points: number;
  odometry: number;
  imu: number;
  firstNodeS?: number;
  lastNodeS?: number;
}

interface MapInfo {
  readonly formatVersion: number;
  readonly intraConstraints: number;
  readonly interConstraints: number;
  readonly landmarks: number;
  readonly knownCells: number;
  readonly resolutionM?: number;
  readonly trajectories: readonly TrajectoryInfo[];
}

const SENSOR_TYPES = ["range", "imu", "odometry", "fixed frame pose", "landmark", "local result"];

export const INFO: Command<SlamContext> = {
  words: "pbstream info",
  takes: ["MAP"],
  summary: "Checks a .pbstream file and describes its content.",
  flags: [],
  run: async ({ host }, [path]: readonly [map: string], { json }: { json: boolean }) => {
    const warn = (message: string) => host.writeError(`${message}\n`);
    const info = await ofMap(path, async () => {
      const { formatVersion, items } = await openPbstream(host.readPieces(path), { warn });
      return await readMapInfo(formatVersion, items);
    });
    printResult(host, json, info, linesOf(info));
  },
};

/** Reads the map at `path`; an error of its content names it. */
export async function ofMap<T>(path: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    if (cause instanceof FileError) throw cause;
    throw new SvcError(SvcError.from(cause).code, `the map "${path}" cannot be read: ${messageOf(cause)}`, {
      cause,
    });
  }
}

async function readMapInfo(formatVersion: number, items: AsyncIterable<MapItem>): Promise<MapInfo> {
  const trajectories = new Map<number, TrajectoryInfo>();
  let ids: readonly number[] = [];
  let [intraConstraints, interConstraints, landmarks, knownCells] = [0, 0, 0, 0];
  let resolutionM: number | undefined;
  for await (const item of items) {
    if (item.kind === "poseGraph") {
      ids = item.value.trajectory.map(({ trajectoryId }) => trajectoryId);
      intraConstraints = item.value.constraint.filter(({ tag }) => tag === CONSTRAINT_TAGS.intra).length;
      interConstraints = item.value.constraint.length - intraConstraints;
      landmarks = item.value.landmarkPoses.length;
    } else if (item.kind === "options") {
      for (const [index, { sensorId }] of item.value.trajectories.entries()) {
        const id = ids[index];
        if (id === undefined) continue;
        const sensors = sensorId.map(({ type, id }) => `${id} (${SENSOR_TYPES[type] ?? `kind ${type}`})`);
        trajectories.set(id, emptyInfo(id, sensors));
      }
    } else if (item.kind === "submap") {
      const { submapId, submap2d } = item.value;
      const info = trajectories.get(submapId!.trajectoryId)!;
      info.submaps++;
      if (!submap2d!.finished) info.unfinishedSubmaps++;
      for (const cell of submap2d!.grid!.cells) if (cell !== 0) knownCells++;
      resolutionM ??= submap2d!.grid!.limits!.resolution;
    } else count(item, trajectories);
  }
  const all = [...trajectories.values()];
  return {
    formatVersion,
    intraConstraints,
    interConstraints,
    landmarks,
    knownCells,
    resolutionM,
    trajectories: all,
  };
}

function emptyInfo(trajectory: number, sensors: readonly string[]): TrajectoryInfo {
  return { trajectory, sensors, submaps: 0, unfinishedSubmaps: 0, nodes: 0, points: 0, odometry: 0, imu: 0 };
}

function count(item: MapItem, trajectories: ReadonlyMap<number, TrajectoryInfo>): void {
  if (item.kind === "node") {
    const info = trajectories.get(item.value.nodeId!.trajectoryId)!;
    const { timestamp, filteredGravityAlignedPointCloud: cloud } = item.value.nodeData!;
    info.nodes++;
    info.points += cloud?.numPoints ?? 0;
    info.firstNodeS = Math.min(info.firstNodeS ?? Infinity, secondsOf(timestamp));
    info.lastNodeS = Math.max(info.lastNodeS ?? -Infinity, secondsOf(timestamp));
  } else if (item.kind === "odometryData") trajectories.get(item.value.trajectoryId)!.odometry++;
  else if (item.kind === "imuData") trajectories.get(item.value.trajectoryId)!.imu++;
}

function linesOf(info: MapInfo): string[] {
  const { formatVersion, intraConstraints, interConstraints, landmarks, knownCells, resolutionM } = info;
  const areaM2 = knownCells * (resolutionM ?? 0) ** 2;
  return [
    ...facts([
      ["format version", String(formatVersion)],
      ["constraints", `${intraConstraints} within submaps, ${interConstraints} loop closures`],
      ["known cells", `${knownCells}, ${areaM2.toFixed(1)} m2 over all submaps`],
      ["resolution", resolutionM === undefined ? "" : `${resolutionM.toFixed(3)} m`],
      ["landmarks", landmarks === 0 ? "" : String(landmarks)],
    ]),
    ...info.trajectories.flatMap((one) => ["", `trajectory ${one.trajectory}`, ...trajectoryLines(one)]),
  ];
}

function trajectoryLines(one: TrajectoryInfo): string[] {
  const { firstNodeS, lastNodeS, unfinishedSubmaps } = one;
  const unfinished = unfinishedSubmaps === 0 ? "" : `, ${unfinishedSubmaps} of them unfinished`;
  const duration = firstNodeS === undefined ? "" : `over ${lengthText((lastNodeS! - firstNodeS) * 1000)}`;
  return facts([
    ["  sensors", one.sensors.join(", ")],
    ["  submaps", `${one.submaps}${unfinished}`],
    ["  nodes", `${one.nodes} ${duration}`.trim()],
    ["  points", String(one.points)],
    ["  odometry", String(one.odometry)],
    ["  IMU readings", String(one.imu)],
  ]);
}
