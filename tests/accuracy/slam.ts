/**
 * `deno task accuracy:slam [--defaults] [--no-odometry] [--repeat N] [FOLDER…]`: how well the mapper does on every
 * recording of a folder that has `NAME.log.gz` or `NAME.clf.gz` beside `NAME.relations.gz`, all with one configuration.
 *
 * Each recording is played in a process of its own, so that its memory is its own. `--defaults` takes the defaults of
 * the service's attributes, `--no-odometry` leaves odometry out, `--repeat N` plays each recording N times in a row,
 * forwards and backwards in turn, and prints a line after each time.
 */

import { Mapper } from "../../lib/slam/mapper.ts";
import { MAPPER_DEFAULTS } from "../../lib/slam/mapping.ts";
import { repeated, replay } from "../../lib/slam/evaluation/replay.ts";
import { scoreRelations, type Spread } from "../../lib/slam/evaluation/relations.ts";
import { readRecording, recordingNames, RECORDINGS } from "../support/recordings.ts";

/** What all recordings are mapped with unless `--defaults` says otherwise. */
const CONFIGURATION = MAPPER_DEFAULTS;

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

const flags = Deno.args.filter((one) => one.startsWith("--"));
const rest = Deno.args.filter((one) => !one.startsWith("--"));
const repeatAt = Deno.args.indexOf("--repeat");
const times = repeatAt < 0 ? 1 : Number(Deno.args[repeatAt + 1]);
const known = ["--defaults", "--no-odometry", "--repeat", "--one"];
const unknown = flags.find((flag) => !known.includes(flag));
if (unknown !== undefined || !Number.isInteger(times) || times < 1) {
  console.error(
    `accuracy:slam [--defaults] [--no-odometry] [--repeat N] [FOLDER...]: ${
      unknown ?? "--repeat wants a number"
    }`,
  );
  Deno.exit(2);
}
if (repeatAt >= 0) rest.splice(rest.indexOf(Deno.args[repeatAt + 1]), 1);

if (flags.includes("--one")) scoreOne(folderOf(rest[0]), rest[1]);
else await scoreAll(rest.length > 0 ? rest.map(folderOf) : [RECORDINGS]);

async function scoreAll(folders: readonly URL[]): Promise<void> {
  console.log(
    "recording, relations used | translation (m): mean ± std, median, p95, max | rotation (deg): mean ± std, median,",
    "p95, max | relations over 1 m | times real time | peak memory | ms a scan: p50, p99 |",
    "ms of one piece of work: p99, max",
  );
  for (const folder of folders) {
    const names = recordingNames(folder);
    if (names.length === 0) console.log(`${folder.pathname}: no recordings with relations`);
    for (const name of names) {
      const args = ["run", "-A", new URL(import.meta.url).pathname, "--one", folder.pathname, name];
      if (times > 1) args.push("--repeat", String(times));
      args.push(...flags.filter((flag) => flag !== "--repeat"));
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
  const { log, relations } = readRecording(folder, name);
  const options = flags.includes("--defaults") ? MAPPER_DEFAULTS : CONFIGURATION;
  const withOdometry = !flags.includes("--no-odometry");
  for (let round = 1; round <= times; round++) {
    const played = repeated(log, round);
    const mapper = new TimedMapper({ mode: "create", options });
    const scanMs: number[] = [];
    const began = performance.now();
    let before = began, peak = 0;
    const trajectory = replay(played, mapper, {
      withOdometry,
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
