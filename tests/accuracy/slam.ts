/**
 * `deno task accuracy:slam [--no-odometry] [--every N] [--repeat N] [--sparse] [FOLDER…]`: how well the mapper does on
 * every recording of a folder that has `NAME.log.gz` or `NAME.clf.gz` beside `NAME.relations.gz`, all with the defaults
 * of the service's attributes.
 *
 * `NAME.sensor.json` beside them says what the log does not: `{"lidar": {"x": 0.22, "y": 0, "yaw_deg": 0},
 * "first_beam_deg": -90, "step_deg": 0.25}`, each key optional.
 *
 * Each recording is played in a process of its own, so that its memory is its own. `--no-odometry` leaves odometry out,
 * `--every N` plays one scan in so many and follows odometry between them, `--repeat N` plays each recording N times in
 * a row, forwards and backwards in turn, and prints a line after each time. `--sparse` takes the recordings with a scan
 * a metre, `NAME-corrected.log.gz`, and compares with the places that another mapper found.
 *
 * `--worlds [N]` scores N generated worlds instead (500 unless told otherwise), from the seed `--seed` on: for each, how
 * far from the truth the mapper, odometry alone and scans alone end. The worst ten are drawn into the folder `--drawings`.
 *
 * `--lifelong [N]` lets a robot update the map of one building for N sessions (100 unless told otherwise), while furniture
 * moves, and prints the size and the error of the map after each.
 */

import { describeFlags, describeProblem, parseFlags } from "../../cli/flags.ts";
import { Mapper } from "../../lib/slam/mapper.ts";
import { MAPPER_DEFAULTS } from "../../lib/slam/mapping.ts";
import { repeated, replay } from "../../lib/slam/evaluation/replay.ts";
import { scoreRelations, type Spread } from "../../lib/slam/evaluation/relations.ts";
import { scoreLifelong } from "./lifelong.ts";
import { scoreWorlds } from "./worlds/worlds.ts";
import { readRecording, readSparse, recordingNames, RECORDINGS, sparseNames } from "../support/recordings.ts";

/** Keeps how long each piece of its work took: so long a robot's sensors would wait for it. */
class TimedMapper extends Mapper {
  readonly piecesMs: number[] = [];

  override work(): boolean {
    const began = performance.now();
    const isWorking = super.work();
    this.piecesMs.push(performance.now() - began);
    return isWorking;
  }
}

const WORLDS = 500;
const SESSIONS = 100;

const FLAGS = [
  { name: "no-odometry", type: "bool", default: false, help: "Leave odometry out." },
  { name: "every", type: "int", default: 1, help: "Play one scan in so many." },
  { name: "repeat", type: "int", default: 1, help: "Play each recording so often." },
  { name: "sparse", type: "bool", default: false, help: "Take the recordings with a scan a metre." },
  { name: "worlds", type: "bool", default: false, help: "Score generated worlds: [N]." },
  { name: "lifelong", type: "bool", default: false, help: "Update one map for many sessions: [N]." },
  { name: "seed", type: "int", default: 0, help: "The seed of the first world." },
  {
    name: "drawings",
    type: "string",
    default: "slam_worlds",
    help: "The folder for pictures of the worst worlds.",
  },
  { name: "one", type: "bool", default: false, help: "Score one recording: FOLDER NAME." },
] as const;

const { values, rest, help, problems } = parseFlags(FLAGS, "gnu", Deno.args);
const { noOdometry, every, repeat: times, sparse } = values;
const worlds = Math.floor(Number(rest[0] ?? WORLDS));
const problem = problems.map(describeProblem)[0] ??
  (every < 1 || times < 1 ? "--every and --repeat want a number above 0" : undefined) ??
  ((values.worlds || values.lifelong) && !(worlds >= 1)
    ? `--worlds and --lifelong want a number above 0, got "${rest[0]}"`
    : undefined);
if (help || problem !== undefined) {
  console.error(
    `accuracy:slam [OPTIONS] [FOLDER...]${problem ? `: ${problem}` : `\n${describeFlags(FLAGS, "gnu")}`}`,
  );
  Deno.exit(help ? 0 : 2);
}

if (values.lifelong) await scoreLifelong(Math.floor(Number(rest[0] ?? SESSIONS)), values.seed);
else if (values.worlds) await scoreWorlds(worlds, values.seed, values.drawings);
else if (values.one) scoreOne(folderOf(rest[0]), rest[1]);
else await scoreAll(rest.length > 0 ? rest.map(folderOf) : [RECORDINGS]);

async function scoreAll(folders: readonly URL[]): Promise<void> {
  console.log(
    "recording, relations used | translation (m): mean ± std, median, p95, max | rotation (deg): mean ± std, median,",
    "p95, max | relations over 1 m | times real time | peak memory | ms a scan: p50, p99 |",
    "ms of one piece of work: p99, max",
  );
  for (const folder of folders) {
    const names = sparse ? sparseNames(folder) : recordingNames(folder);
    if (names.length === 0) console.log(`${folder.pathname}: no recordings with relations`);
    for (const name of names) {
      const args = ["run", "-A", new URL(import.meta.url).pathname, "--one", folder.pathname, name];
      args.push("--every", String(every), "--repeat", String(times));
      if (noOdometry) args.push("--no-odometry");
      if (sparse) args.push("--sparse");
      const { code } = await new Deno.Command(Deno.execPath(), { args, stdout: "inherit", stderr: "inherit" })
        .output();
      if (code !== 0) Deno.exitCode = 1;
    }
  }
}

function folderOf(path: string): URL {
  return new URL(`${Deno.realPathSync(path)}/`, "file://");
}

function scoreOne(folder: URL, name: string): void {
  const { log, relations, sensor } = sparse ? readSparse(folder, name) : readRecording(folder, name);
  for (let round = 1; round <= times; round++) {
    const played = repeated(log, round);
    const mapper = new TimedMapper({ mode: "create", options: MAPPER_DEFAULTS });
    const scanMs: number[] = [];
    const began = performance.now();
    let before = began, peak = 0;
    const trajectory = replay(played, mapper, {
      withOdometry: !noOdometry,
      sensor,
      every,
      onScan(done) {
        const now = performance.now();
        scanMs.push(now - before);
        before = now;
        if (done % 200 === 0) peak = Math.max(peak, Deno.memoryUsage().rss);
      },
    });
    const wallS = (performance.now() - began) / 1000;
    peak = Math.max(peak, Deno.memoryUsage().rss);
    const lastS = played.scans.reduce((last, { timeS }) => Math.max(last, timeS), -Infinity);
    const score = scoreRelations(trajectory, relations);
    console.log(
      `${name}${times > 1 ? ` x ${round}` : ""}, ${score.used} | ${textOf(score.translationM, 4)} |`,
      `${textOf(score.rotationDeg, 3)} | ${score.overMetre} | ${
        ((lastS - played.scans[0].timeS) / wallS).toFixed(0)
      } |`,
      `${(peak / 2 ** 20).toFixed(0)} MiB | ${at(scanMs, 0.5).toFixed(2)}, ${at(scanMs, 0.99).toFixed(2)} |`,
      `${at(mapper.piecesMs, 0.99).toFixed(1)}, ${at(mapper.piecesMs, 1).toFixed(1)}`,
    );
  }
}

/** The value at a share of the way from the least to the greatest. */
function at(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

function textOf({ mean, deviation, median, p95, max }: Spread, digits: number): string {
  const [m, d, h, p, x] = [mean, deviation, median, p95, max].map((one) => one.toFixed(digits));
  return `${m} ± ${d}, ${h}, ${p}, ${x}`;
}
