/**
 * `deno task accuracy:localization [--starts N] [FOLDER…]`: whether a robot finds itself in a map of each recording of
 * a folder, without a hint.
 *
 * Every other scan of a recording makes the map, and the robot sees the scans between them: it never sees a scan that
 * is in the map. N robots (200 by default) start at random scans; the table counts those that know their place within
 * ten scans. Every fourth of them is then carried to another random place, without a hint; the table counts those that
 * know their place within fifty scans, and the scans that they needed.
 */

import { randomFrom } from "../../lib/geometry/random.ts";
import { type CarmenLog, type CarmenScan, pointsOf } from "../../lib/slam/evaluation/carmen.ts";
import { replay } from "../../lib/slam/evaluation/replay.ts";
import { Mapper } from "../../lib/slam/mapper.ts";
import { MAPPER_DEFAULTS } from "../../lib/slam/mapping.ts";
import {
  between2d,
  compose2d,
  IDENTITY_2D,
  interpolate2d,
  inverse2d,
  type Pose2d,
} from "../../lib/slam/pose2d.ts";
import { readRecording, recordingNames, RECORDINGS } from "../support/recordings.ts";

const SCANS_TO_FIND = 10;
/** One in this many robots is carried away. */
const KIDNAPPED_EVERY = 4;
const SCANS_BEFORE_CARRYING = 20;
const SCANS_AFTER_CARRYING = 50;
/** So many right scans in a row are no accident. */
const RIGHT_IN_A_ROW = 10;
const RIGHT_M = 0.5;
const RIGHT_RAD = 0.2;
/** The robot is carried away after the recording has ended. */
const LATER_S = 1e6;

/** A scan that is not in the map, and where in the map it was taken. */
interface Unseen {
  readonly scan: CarmenScan;
  readonly pose: Pose2d;
}

const startsAt = Deno.args.indexOf("--starts");
const starts = startsAt < 0 ? 200 : Number(Deno.args[startsAt + 1]);
const folders = Deno.args.filter((one, at) => !one.startsWith("--") && (startsAt < 0 || at !== startsAt + 1));
if (!Number.isInteger(starts) || starts < 1) {
  console.error("accuracy:localization [--starts N] [FOLDER...]: --starts wants a number");
  Deno.exit(2);
}

console.log(
  "recording, starts | found within 10 scans, scans until found: median, p95, max | wrong at the 10th scan |",
  "carried away | found again within 50 scans, scans until found: median, p95, max |",
  "ms of one piece of work: p50, p99, max",
);
for (const folder of folders.length > 0 ? folders.map(folderOf) : [RECORDINGS]) {
  for (const name of recordingNames(folder)) localize(name, readRecording(folder, name).log);
}

function folderOf(path: string): URL {
  return new URL(`${Deno.realPathSync(path)}/`, "file://");
}

function localize(name: string, log: CarmenLog): void {
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  const kept = log.scans.filter((_, k) => k % 2 === 0);
  const poses = new Map(
    replay({ scans: kept, odometry: [] }, mapper, { withOdometry: true }).map((
      { timeS, pose },
    ) => [timeS, pose]),
  );
  const map = mapper.state();
  const unseen = log.scans.flatMap((scan, k): Unseen[] => {
    const pose = k % 2 === 1 ? poseBetween(log.scans[k - 1], scan, log.scans[k + 1], poses) : undefined;
    return pose ? [{ scan, pose }] : [];
  });
  const random = randomFrom(1);
  const anywhere = (scans: number) => {
    const first = Math.floor(random() * (unseen.length - scans));
    return unseen.slice(first, first + scans);
  };
  const found: number[] = [], again: number[] = [], pieces: number[] = [];
  let wrong = 0, carried = 0;
  for (let k = 0; k < starts; k++) {
    const robot = new Mapper({ mode: "localize", options: MAPPER_DEFAULTS, map });
    const way = anywhere(SCANS_BEFORE_CARRYING);
    const isKidnapped = k % KIDNAPPED_EVERY === 0;
    const seen = isKidnapped ? way : way.slice(0, SCANS_TO_FIND);
    const before = drive(robot, seen, { offsetS: 0, moved: IDENTITY_2D }, pieces);
    const first = before.findIndex((one) => one === "right") + 1;
    if (first > 0 && first <= SCANS_TO_FIND) found.push(first);
    if (before[SCANS_TO_FIND - 1] === "wrong") wrong++;
    if (!isKidnapped || before.at(-1) !== "right") continue;
    carried++;
    // Its wheels did not turn meanwhile.
    const elsewhere = anywhere(SCANS_AFTER_CARRYING);
    const moved = compose2d(way.at(-1)!.scan.odometry, inverse2d(elsewhere[0].scan.odometry));
    const after = drive(robot, elsewhere, { offsetS: LATER_S, moved }, pieces);
    const since = after.findIndex((_, from) => {
      const row = after.slice(from, from + RIGHT_IN_A_ROW);
      return row.length === RIGHT_IN_A_ROW && row.every((one) => one === "right");
    });
    if (since >= 0) again.push(since + 1);
  }
  const share = (part: number, whole: number) => `${part} of ${whole} (${(100 * part / whole).toFixed(1)} %)`;
  console.log(
    `${name}, ${starts} | ${share(found.length, starts)}, ${spread(found)} | ${wrong} | ${carried} |`,
    `${share(again.length, carried)}, ${spread(again)} |`,
    [0.5, 0.99, 1].map((part) => at(pieces, part).toFixed(1)).join(", "),
  );
}

/** By odometry from the scans before and after, which are in the map. */
function poseBetween(
  before: CarmenScan,
  scan: CarmenScan,
  after: CarmenScan | undefined,
  poses: ReadonlyMap<number, Pose2d>,
): Pose2d | undefined {
  const from = poses.get(before.timeS), to = after && poses.get(after.timeS);
  if (!from || !to || !(before.timeS < scan.timeS && scan.timeS < after.timeS)) return undefined;
  const forwards = compose2d(from, between2d(before.odometry, scan.odometry));
  const backwards = compose2d(to, between2d(after.odometry, scan.odometry));
  return interpolate2d(forwards, backwards, 0.5);
}

/** The robot's belief after each scan; collects the milliseconds of each piece of its work. */
function drive(
  robot: Mapper,
  way: readonly Unseen[],
  { offsetS, moved }: { readonly offsetS: number; readonly moved: Pose2d },
  pieces: number[],
) {
  return way.map(({ scan, pose }): "right" | "wrong" | "unknown" => {
    const timeS = offsetS + scan.timeS;
    robot.addOdometry({ timeS, pose: compose2d(moved, scan.odometry) });
    robot.addScan({ timeS, points: pointsOf(scan.ranges, scan.sensor), origin: scan.sensor?.lidar });
    for (let isWorking = true; isWorking;) {
      const began = performance.now();
      isWorking = robot.work();
      pieces.push(performance.now() - began);
    }
    const found = robot.pose();
    if (!found) return "unknown";
    return isNear(found, pose) ? "right" : "wrong";
  });
}

function isNear(a: Pose2d, b: Pose2d): boolean {
  const off = between2d(a, b);
  return Math.hypot(off.x, off.y) <= RIGHT_M && Math.abs(off.yaw) <= RIGHT_RAD;
}

function spread(values: number[]): string {
  return values.length === 0 ? "none" : [0.5, 0.95, 1].map((part) => at(values, part)).join(", ");
}

/** The value at a share of the way from the least to the greatest. */
function at(values: number[], share: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}
