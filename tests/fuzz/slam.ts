/**
 * Damaged map files and logs, and scans of nonsense: readers take each or refuse it with an error for the caller, and
 * nothing else; the mapper takes whatever a lidar may send.
 *
 * `deno task fuzz:slam [seeds]` tries 100,000 seeds unless told otherwise. A seed is one of these: a map file that is
 * damaged as it is, one that is damaged in a message before that is packed, so that the damage gets past the checksum,
 * a log, or a few scans.
 */

import { gunzipSync, gzipSync } from "node:zlib";
import { nextTurn } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { pointsOf } from "../../lib/slam/evaluation/carmen.ts";
import { readLogFile } from "../../lib/slam/evaluation/log_file.ts";
import { Mapper } from "../../lib/slam/mapper.ts";
import { MAPPER_DEFAULTS } from "../../lib/slam/mapping.ts";
import { mapFile, readMap } from "../../lib/slam/pbstream/map_file.ts";
import { sampleMap } from "../support/map_states.ts";
import { bytesIn, pieces } from "../support/pieces.ts";
import { damaged, joined } from "./damage.ts";

const SEEDS = 100_000;
/** The runtime frees the memory of a gunzip that failed only between two turns of its event loop. */
const SEEDS_A_TURN = 50;
/** Seeds between two lines about the progress. */
const SEEDS_A_LINE = 10_000;
const REFUSALS = ["invalid_argument", "resource_exhausted"];
const MAGIC_BYTES = 8;
const LENGTH_BYTES = 8;
const SCANS = 4;
const POINTS = 60;
/** What no lidar should send. */
const NONSENSE = [NaN, Infinity, -Infinity, 0, -0, 1e-30, 1e9, -1e30, 3.4e38];

export interface Samples {
  readonly map: Uint8Array;
  readonly log: Uint8Array;
}

/** A small map and a small log. */
export async function samples(): Promise<Samples> {
  const map = await bytesIn(mapFile(sampleMap(), MAPPER_DEFAULTS));
  const whole = await Deno.readTextFile(new URL("../data/slam/office.clf", import.meta.url));
  return { map, log: new TextEncoder().encode(whole.slice(0, 6000)) };
}

/** What went wrong with that seed: `undefined` is nothing. */
export async function attempt(seed: number, { map, log }: Samples): Promise<unknown> {
  try {
    if (seed % 4 === 0) await readMap(pieces(damaged(map, seed)));
    else if (seed % 4 === 1) await readMap(pieces(withDamagedMessage(map, seed)));
    else if (seed % 4 === 2) await readDamagedLog(damaged(log, seed));
    else addNonsense(seed);
  } catch (error) {
    if (!(error instanceof SvcError) || !REFUSALS.includes(error.code)) return error;
  }
  return undefined;
}

async function readDamagedLog(bytes: Uint8Array): Promise<void> {
  const file = {
    readFile: () => Promise.resolve(new Uint8Array(bytes)),
    fileSize: () => Promise.resolve(bytes.length),
  };
  const { scans } = await readLogFile(file, "damaged.clf");
  for (const { ranges, sensor } of scans) pointsOf(ranges, sensor);
}

/** Scans, odometry and IMU readings with times and numbers of any kind. */
function addNonsense(seed: number): void {
  const random = randomFrom(seed);
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  const number = (scale: number) =>
    random() < 0.05 ? NONSENSE[Math.floor(NONSENSE.length * random())] : scale * (2 * random() - 1);
  for (let scan = 0; scan < SCANS; scan++) {
    const timeS = random() < 0.2 ? number(10) : 1e9 + scan * 0.2;
    const pose = { x: number(3), y: number(3), yaw: number(3) };
    mapper.addOdometry({ timeS, pose });
    mapper.addImu({
      timeS,
      linearAcceleration: [number(1), number(1), 9.8],
      angularVelocity: [number(1), number(1), number(1)],
    });
    mapper.addScan({ timeS, points: Float32Array.from({ length: 3 * POINTS }, () => number(10)) });
    while (mapper.work());
  }
  mapper.finish();
  mapper.state();
}

function withDamagedMessage(file: Uint8Array, seed: number): Uint8Array {
  const starts: number[] = [];
  const view = new DataView(file.buffer);
  const lengthAt = (at: number) => Number(view.getBigUint64(at, true));
  for (let at = MAGIC_BYTES; at < file.length; at += LENGTH_BYTES + lengthAt(at)) starts.push(at);
  const start = starts[Math.floor(starts.length * randomFrom(seed)())];
  const end = start + LENGTH_BYTES + lengthAt(start);
  const content = gzipSync(damaged(gunzipSync(file.subarray(start + LENGTH_BYTES, end)), seed));
  const length = new Uint8Array(LENGTH_BYTES);
  new DataView(length.buffer).setBigUint64(0, BigInt(content.length), true);
  return joined(file.subarray(0, start), length, content, file.subarray(end));
}

if (import.meta.main) {
  const seeds = Number(Deno.args[0] ?? SEEDS);
  const all = await samples();
  let failed = 0;
  for (let seed = 1; seed <= seeds; seed++) {
    if (seed % SEEDS_A_TURN === 0) await new Promise<void>((resolve) => nextTurn(resolve));
    if (seed % SEEDS_A_LINE === 0) console.log(`seed ${seed}: ${residentMb()} MB resident`);
    const error = await attempt(seed, all);
    if (error === undefined) continue;
    console.error(`seed ${seed}:`, error);
    if (++failed === 10) break;
  }
  console.log(`${seeds} damaged maps, logs and scans, ${failed} wrong, ${residentMb()} MB resident`);
  if (failed > 0) Deno.exit(1);
}

function residentMb(): string {
  return (Deno.memoryUsage().rss / 1e6).toFixed(0);
}
