/**
 * `slam run` and `slam evaluate`: makes a map from a recording, and scores it against measured relations.
 */

import { dirname } from "node:path";
import { SystemClock } from "../../../lib/base/clock.ts";
import { messageOf, SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { readLogFile, readSensorFile, readText } from "../../../lib/slam/evaluation/log_file.ts";
import {
  readRelations,
  type Relation,
  type RelationScore,
  scoreRelations,
  type Spread,
  type TimedPose,
} from "../../../lib/slam/evaluation/relations.ts";
import { lidarPoseOf, type SensorFacts } from "../../../lib/slam/evaluation/sensor.ts";
import type { CarmenLog } from "../../../lib/slam/evaluation/carmen.ts";
import { MirrorCheck } from "../../../lib/slam/mirror_check.ts";
import { replay } from "../../../lib/slam/evaluation/replay.ts";
import { type MapState, secondsOf } from "../../../lib/slam/map_state.ts";
import { Mapper } from "../../../lib/slam/mapper.ts";
import { MAPPER_DEFAULTS } from "../../../lib/slam/mapping.ts";
import { mapFile, readMap } from "../../../lib/slam/pbstream/map_file.ts";
import type { Command } from "../../command.ts";
import { type Flag, UsageError, type Values } from "../../flags.ts";
import { withBar } from "../../progress/progress_bar.ts";
import { facts, lengthText, printResult } from "../../table.ts";
import { ofMap } from "./info.ts";
import type { SlamContext } from "./slam_context.ts";

const RUN_FLAGS = [
  { name: "map", type: "string", default: "", value: "FILE", help: "Write the map to this .pbstream file." },
  {
    name: "relations",
    type: "string",
    default: "",
    value: "FILE",
    help: "Score the trajectory by these relations.",
  },
  {
    name: "lidar-pose",
    type: "string",
    default: "",
    value: "X,Y,YAW_DEG",
    help: "The lidar on the robot, in metres and degrees, in place of what the recording says.",
  },
  {
    name: "sensor",
    type: "string",
    default: "",
    value: "FILE",
    help:
      "A file that says what the recording does not say of its lidar; the default is NAME.sensor.json beside it, if there is one.",
  },
  {
    name: "upside-down",
    type: "bool",
    default: false,
    help: "The lidar hangs upside down, and the recording does not say so.",
  },
  {
    name: "topic",
    type: "string",
    default: "",
    value: "TOPIC",
    help: "The scans of a ROS bag; the default is the topic with the most scans.",
  },
  {
    name: "odometry-topic",
    type: "string",
    default: "",
    value: "TOPIC",
    help: "The odometry of a ROS bag; the default is the topic with the most, else the transforms from odom.",
  },
  { name: "odometry", type: "bool", default: true, help: "Use the odometry of the recording." },
] as const satisfies readonly Flag[];
type RunValues = Values<typeof RUN_FLAGS>;

/** By an address worked out as it runs: it loads the libraries for recordings of ROS. */
const BAGS = new URL("../../../lib/slam/bags/bag_file.ts", import.meta.url).href;
const BAG = /\.(?:bag|bag\.active|mcap|db3)$/;

export const RUN: Command<SlamContext> = {
  words: "run",
  takes: ["RECORDING"],
  summary:
    "Builds a map from a recording: a log of CARMEN (.log, .clf, also .gz), a ROS bag (.bag, .mcap, .db3), or the " +
    "folder of a rosbag2.",
  flags: RUN_FLAGS,
  run: async ({ host }, [path]: readonly [recording: string], values: RunValues & { json: boolean }) => {
    if (values.map !== "" && !values.map.endsWith(".pbstream")) {
      throw new UsageError(`--map: found "${values.map}", wanted a .pbstream file`);
    }
    // A bad place fails now rather than after hours.
    if (values.map !== "") await requireParentFolder(values.map, host);
    const relations = values.relations === "" ? undefined : await relationsIn(host, values.relations);
    const sensor = await sensorOfRun(host, path, values);
    const { log, hasOdometry, notes } = await recordingAt(host, path, values);
    for (const note of notes) host.writeError(`${note}\n`);
    const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
    const clock = new SystemClock();
    const began = clock.monotonicMs();
    const mirrors = new MirrorCheck();
    const withOdometry = values.odometry && hasOdometry;
    const trajectory = await withBar({ host, clock }, { what: "scans mapped" }, (bar) => {
      let isDoubted = false;
      const onScan = (done: number, total: number) => {
        if (done === total) bar.note("all scans are in the map; optimizing it");
        else bar.show(done, total);
        const reason = mapper.odometryDoubt();
        if (reason !== undefined && !isDoubted) bar.note(`odometry does not count for now: ${reason}`);
        isDoubted = reason !== undefined;
      };
      return Promise.resolve(replay(log, mapper, { withOdometry, sensor, mirrors, onScan }));
    });
    const wallMs = clock.monotonicMs() - began;
    const correction = mapper.odometryCorrection();
    if (correction !== undefined) host.writeError(`odometry is corrected: ${correction}\n`);
    const isMirrored = mirrors.isMirrored === true;
    if (isMirrored) host.writeError(`${MIRRORED}\n`);
    const map = mapper.state();
    if (values.map !== "") await host.writePieces(values.map, mapFile(map, MAPPER_DEFAULTS));
    const result = {
      ...countsOf(log.scans.length, map),
      isMirrored,
      recordedS: (log.scans.at(-1)?.timeS ?? 0) - (log.scans[0]?.timeS ?? 0),
      wallS: wallMs / 1000,
      ...(relations ? { score: scoreRelations(trajectory, relations) } : {}),
    };
    printResult(host, values.json, result, linesOf(result, values.map));
  },
};

const MIRRORED =
  "the map is probably mirrored: the scans turn the other way than odometry says. If the lidar hangs upside " +
  "down, give --upside-down";

interface Recorded {
  readonly log: CarmenLog;
  readonly hasOdometry: boolean;
  readonly notes: readonly string[];
}

/** The recording, which has scans. */
async function recordingAt(host: Host, path: string, values: RunValues): Promise<Recorded> {
  const isBag = BAG.test(path) || (await host.stat(path))?.kind === "folder";
  if (!isBag && (values.topic !== "" || values.odometryTopic !== "")) {
    throw new UsageError(
      `--topic and --odometry-topic: "${path}" is no recording of ROS (.bag, .mcap, .db3, or a folder)`,
    );
  }
  if (isBag) {
    const { readBag }: typeof import("../../../lib/slam/bags/bag_file.ts") = await import(BAGS);
    const { topic, odometryTopic } = values;
    return await readBag(host, path, { scan: topic || undefined, odometry: odometryTopic || undefined });
  }
  const log = await readLogFile(host, path);
  if (log.scans.length > 0) return { log, hasOdometry: true, notes: [] };
  throw new SvcError("invalid_argument", `the log "${path}" has no scans (FLASER, RLASER, ROBOTLASER1)`);
}

/** What the flags and the file of the lidar say. */
async function sensorOfRun(host: Host, path: string, values: RunValues): Promise<SensorFacts> {
  const lidar = values.lidarPose === "" ? undefined : lidarPoseOf(values.lidarPose);
  if (values.lidarPose !== "" && !lidar) {
    throw new UsageError(`--lidar-pose: found "${values.lidarPose}", wanted X,Y,YAW_DEG such as 0.22,0,0`);
  }
  const facts = await readSensorFile(host, path, values.sensor);
  return { ...facts, lidar: lidar ?? facts?.lidar, isUpsideDown: values.upsideDown || facts?.isUpsideDown };
}

export const EVALUATE: Command<SlamContext> = {
  words: "evaluate",
  takes: ["MAP", "RELATIONS"],
  summary: "Scores the trajectories of a map by relations between poses that people have measured.",
  flags: [],
  run: async (
    { host },
    [path, relationsPath]: readonly [map: string, relations: string],
    { json }: { json: boolean },
  ) => {
    const relations = await relationsIn(host, relationsPath);
    const { nodes } = await ofMap(path, () => readMap(host.readPieces(path)));
    const trajectory = nodes.map(({ ticks, globalPose }): TimedPose => ({
      timeS: secondsOf(ticks),
      pose: globalPose,
    }))
      .sort((a, b) => a.timeS - b.timeS);
    const score = scoreRelations(trajectory, relations);
    if (score.used === 0) {
      throw new SvcError(
        "failed_precondition",
        `no relation of "${relationsPath}" is of the times of the map`,
      );
    }
    printResult(host, json, score, facts(scoreFacts(score)));
  },
};

async function relationsIn(host: Host, path: string): Promise<readonly Relation[]> {
  const text = await readText(host, path);
  try {
    return readRelations(text);
  } catch (cause) {
    throw new SvcError("invalid_argument", `the relations "${path}" cannot be read: ${messageOf(cause)}`, {
      cause,
    });
  }
}

async function requireParentFolder(path: string, host: Host): Promise<void> {
  const folder = dirname(path);
  if ((await host.stat(folder))?.kind === "folder") return;
  throw new SvcError("not_found", `--map: cannot write "${path}": there is no folder ${folder}`);
}

interface RunResult {
  readonly scans: number;
  readonly nodes: number;
  readonly submaps: number;
  readonly loopClosures: number;
  readonly recordedS: number;
  readonly wallS: number;
  readonly score?: RelationScore;
}

function countsOf(scans: number, { nodes, submaps, constraints }: MapState) {
  const loopClosures = constraints.filter(({ kind }) => kind === "inter").length;
  return { scans, nodes: nodes.length, submaps: submaps.length, loopClosures };
}

function linesOf(
  { scans, nodes, submaps, loopClosures, recordedS, wallS, score }: RunResult,
  map: string,
): string[] {
  return facts([
    ["scans", String(scans)],
    ["nodes", String(nodes)],
    ["submaps", String(submaps)],
    ["loop closures", String(loopClosures)],
    ["recorded", lengthText(recordedS * 1000)],
    ["mapped in", `${lengthText(wallS * 1000)}, ${(recordedS / wallS).toFixed(0)} times real time`],
    ["map", map],
    ...(score ? scoreFacts(score) : []),
  ]);
}

function scoreFacts({ used, translationM, rotationDeg, overMetre }: RelationScore): [string, string][] {
  return [
    ["relations", String(used)],
    ["translation", spreadText(translationM, "m", 4)],
    ["rotation", spreadText(rotationDeg, "deg", 3)],
    ["over 1 m", String(overMetre)],
  ];
}

function spreadText({ mean, deviation, median, p95, max }: Spread, unit: string, digits: number): string {
  const [m, d, h, p, x] = [mean, deviation, median, p95, max].map((one) => one.toFixed(digits));
  return `${m} ± ${d} ${unit}; median ${h}, 95 % below ${p}, greatest ${x}`;
}
