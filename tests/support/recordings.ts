/**
 * Recordings of robots with relations between their poses: `NAME.log.gz` or `NAME.clf.gz` beside
 * `NAME.relations.gz` in one folder. Sparse ones, `NAME-corrected.log.gz`, have their relations in them.
 */

import { gunzipSync } from "node:zlib";
import { type CarmenLog, readCarmenLog } from "../../lib/slam/evaluation/carmen.ts";
import { readRelations, type Relation } from "../../lib/slam/evaluation/relations.ts";
import { readSensorFacts, type SensorFacts } from "../../lib/slam/evaluation/sensor.ts";
import { between2d } from "../../lib/slam/pose2d.ts";

export const RECORDINGS = new URL("../../../shared/data/slam/", import.meta.url);

export interface Recording {
  readonly name: string;
  readonly log: CarmenLog;
  readonly relations: readonly Relation[];
  /** Of the file `NAME.sensor.json` beside the log, if there is one. */
  readonly sensor?: SensorFacts;
}

const LOG_NAME = /^(.+)\.(?:log|clf)\.gz$/;

/** Names of the logs in a folder that have relations, in order; empty if there is no folder. */
export function recordingNames(folder: URL): string[] {
  const names = fileNames(folder);
  return names.flatMap((file) => {
    const name = LOG_NAME.exec(file)?.[1];
    return name !== undefined && relationsFile(names, name) !== undefined ? [name] : [];
  }).sort();
}

export function readRecording(folder: URL, name: string): Recording {
  const names = fileNames(folder);
  const log = names.find((file) => LOG_NAME.exec(file)?.[1] === name);
  const relations = relationsFile(names, name);
  if (!log || !relations) throw new Error(`${folder.pathname} has no recording ${name} with relations`);
  const facts = `${name}.sensor.json`;
  return {
    name,
    log: readCarmenLog(textOf(folder, log)),
    relations: readRelations(textOf(folder, relations)),
    sensor: names.includes(facts) ? sensorIn(folder, facts) : undefined,
  };
}

const KILLIAN = { log: "mit-killian-notime.log.gz", relations: "mit-killian.relations.gz" };
/**
 * The log of MIT Killian Court counts its scans in place of their times. These come from comparing the odometry with
 * the relations of neighbouring scans: all through its two hours they agree within about a scan.
 */
const KILLIAN_TIMES = { firstS: 1031745825.103, stepS: 0.43921 };

export function hasKillian(): boolean {
  const names = fileNames(RECORDINGS);
  return names.includes(KILLIAN.log) && names.includes(KILLIAN.relations);
}

/** The first seconds of MIT Killian Court, and the relations between them. */
export function readKillian(seconds: number): Recording {
  const { firstS, stepS } = KILLIAN_TIMES;
  const { scans } = readCarmenLog(textOf(RECORDINGS, KILLIAN.log));
  const relations = readRelations(textOf(RECORDINGS, KILLIAN.relations));
  const timed = scans.map((scan, at) => ({ ...scan, timeS: firstS + stepS * at }));
  const isIn = (timeS: number) => timeS < firstS + seconds;
  return {
    name: "mit-killian",
    log: { scans: timed.filter(({ timeS }) => isIn(timeS)), odometry: [] },
    relations: relations.filter((one) => isIn(one.firstS) && isIn(one.secondS)),
  };
}

const SPARSE_NAME = /^(.+)-corrected\.log\.gz$/;
/** Scans between two visits of a place, and how near to each other they are there. */
const VISIT_SCANS = 60;
const VISIT_M = 1.5;

/** Names of the recordings with a scan a metre or so, in order; empty if there is no folder. */
export function sparseNames(folder: URL): string[] {
  return fileNames(folder).flatMap((file) => SPARSE_NAME.exec(file)?.[1] ?? []).sort();
}

/**
 * A recording with a scan a metre or so, one a second, and odometry without errors: another mapper has corrected it.
 * Its relations tie the places to which the robot came back, as that mapper has them.
 */
export function readSparse(folder: URL, name: string): Recording {
  const read = readCarmenLog(textOf(folder, `${name}-corrected.log.gz`)).scans;
  const scans = read.map((scan, at) => ({ ...scan, timeS: at, odometry: scan.laser }));
  const relations = scans.flatMap((first, at) =>
    scans.slice(at + VISIT_SCANS).flatMap((second): Relation[] => {
      const pose = between2d(first.laser, second.laser);
      return Math.hypot(pose.x, pose.y) < VISIT_M
        ? [{ firstS: first.timeS, secondS: second.timeS, pose }]
        : [];
    })
  );
  return { name: `${name}, sparse`, log: { scans, odometry: [] }, relations };
}

function relationsFile(names: readonly string[], name: string): string | undefined {
  return names.find((file) => file === `${name}.relations.gz`);
}

function fileNames(folder: URL): string[] {
  try {
    return [...Deno.readDirSync(folder)].map((entry) => entry.name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

function sensorIn(folder: URL, file: string): SensorFacts {
  try {
    return readSensorFacts(Deno.readTextFileSync(new URL(file, folder)));
  } catch (error) {
    if (error instanceof RangeError) error.message = `${folder.pathname}${file}: ${error.message}`;
    throw error;
  }
}

function textOf(folder: URL, file: string): string {
  return new TextDecoder().decode(gunzipSync(Deno.readFileSync(new URL(file, folder))));
}
