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
import { lidarPoseOf } from "../../../lib/slam/evaluation/sensor.ts";
import { replay } from "../../../lib/slam/evaluation/replay.ts";
import { type MapState, secondsOf } from "../../../lib/slam/map_state.ts";
import { Mapper } from "../../../lib/slam/mapper.ts";
import { MAPPER_DEFAULTS } from "../../../lib/slam/mapping.ts";
import { mapFile, readMap } from "../../../lib/slam/pbstream/map_file.ts";
import type { Command } from "../../command.ts";
import { type Flag, UsageError, type Values } from "../../flags.ts";
import { facts, lengthText, printResult } from "../../table.ts";
import { ofMap } from "./info.ts";
import type { SlamWorld } from "./program.ts";

/** Interval of the progress: on a terminal, and elsewhere. */
const DRAWN_MS = 200;
const TOLD_MS = 10_000;

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
    help: "The lidar on the robot, in metres and degrees, in place of what the log says.",
  },
  {
    name: "sensor",
    type: "string",
    default: "",
    value: "FILE",
    help:
      "A file with the lidar's place and the angles of its beams; the default is LOG's NAME.sensor.json, if there is one.",
  },
  { name: "odometry", type: "bool", default: true, help: "Use the odometry of the recording." },
] as const satisfies readonly Flag[];

export const RUN: Command<SlamWorld> = {
  words: "run",
  takes: ["LOG"],
  summary: "Builds a map from a recording in the text format of CARMEN (.log, .clf, also .gz).",
  flags: RUN_FLAGS,
  run: async ({ host }, [path], values: Values<typeof RUN_FLAGS> & { json: boolean }) => {
    if (values.map !== "" && !values.map.endsWith(".pbstream")) {
      throw new UsageError(`--map: found "${values.map}", wanted a .pbstream file`);
    }
    // A bad place fails now rather than after hours.
    if (values.map !== "") await requireFolderOf(values.map, host);
    const relations = values.relations === "" ? undefined : await relationsIn(host, values.relations);
    const lidar = values.lidarPose === "" ? undefined : lidarPoseOf(values.lidarPose);
    if (values.lidarPose !== "" && !lidar) {
      throw new UsageError(`--lidar-pose: found "${values.lidarPose}", wanted X,Y,YAW_DEG such as 0.22,0,0`);
    }
    const facts = await readSensorFile(host, path, values.sensor);
    const log = await readLogFile(host, path);
    const firstS = log.scans[0]?.timeS;
    if (firstS === undefined) {
      throw new SvcError("invalid_argument", `the log "${path}" has no scans (FLASER, RLASER, ROBOTLASER1)`);
    }
    const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
    const clock = new SystemClock();
    const began = clock.monotonicMs();
    const tell = progress(host, clock);
    let isDoubted = false;
    const onScan = (done: number, total: number) => {
      tell(done, total);
      const reason = mapper.odometryDoubt();
      if (reason !== undefined && !isDoubted) host.writeError(`odometry does not count for now: ${reason}\n`);
      isDoubted = reason !== undefined;
    };
    const trajectory = replay(log, mapper, {
      withOdometry: values.odometry,
      sensor: { ...facts, lidar: lidar ?? facts?.lidar },
      onScan,
    });
    const wallMs = clock.monotonicMs() - began;
    const map = mapper.state();
    if (values.map !== "") await host.writePieces(values.map, mapFile(map, MAPPER_DEFAULTS));
    const result = {
      ...countsOf(log.scans.length, map),
      recordedS: log.scans[log.scans.length - 1].timeS - firstS,
      wallS: wallMs / 1000,
      ...(relations ? { score: scoreRelations(trajectory, relations) } : {}),
    };
    printResult(host, values.json, result, linesOf(result, values.map));
  },
};

export const EVALUATE: Command<SlamWorld> = {
  words: "evaluate",
  takes: ["MAP", "RELATIONS"],
  summary: "Scores the trajectories of a map by relations between poses that people have measured.",
  flags: [],
  run: async ({ host }, [path, relationsPath], { json }: { json: boolean }) => {
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

async function requireFolderOf(path: string, host: Host): Promise<void> {
  const folder = dirname(path);
  if ((await host.stat(folder))?.kind === "folder") return;
  throw new SvcError("not_found", `--map: cannot write "${path}": there is no folder ${folder}`);
}

/** Shows the progress of a run and its remaining time. */
function progress(host: Host, clock: SystemClock): (done: number, total: number) => void {
  const began = clock.monotonicMs();
  const everyMs = host.coloured() ? DRAWN_MS : TOLD_MS;
  let toldMs = began;
  return (done, total) => {
    const nowMs = clock.monotonicMs();
    if (nowMs - toldMs < everyMs && done < total) return;
    toldMs = nowMs;
    const left = (nowMs - began) * (total - done) / done;
    const text = done === total
      ? "all scans are in the map; optimizing it"
      : `${done} of ${total} scans, ${lengthText(left)} left`;
    if (host.coloured()) host.draw(`\r\x1b[2K${text}${done === total ? "\n" : ""}`);
    else host.writeError(`${text}\n`);
  };
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
