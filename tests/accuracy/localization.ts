/**
 * `deno task accuracy:localization [--starts N] [--foreign N] [FOLDER…]`: whether a robot finds itself in a map of each
 * recording of a folder, without a hint, and whether it claims no place on the map of another building.
 *
 * Every other scan of a recording makes the map, and the robot sees the scans between them: it never sees a scan that
 * is in the map. N robots (200 by default) start at random scans; the table counts those that know their place within
 * ten scans, of all and of those whose place these scans tell from all others (`unique_place.ts`). Every fourth of them is then carried to another random place, without a hint; the table counts those that
 * know their place within fifty scans, and the scans that they needed.
 *
 * Then N robots (17 by default) of each recording are put on the map of each other one, and the table counts those that
 * claim a place within a hundred scans. How far the command has come is printed to the standard error.
 */

import { describeFlags, describeProblem, parseFlags } from "../../cli/flags.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { type CarmenLog, type CarmenScan, pointsOf } from "../../lib/slam/evaluation/carmen.ts";
import { replay } from "../../lib/slam/evaluation/replay.ts";
import type { MapState } from "../../lib/slam/map_state.ts";
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
import { PlaceJudge, type TakenScan } from "./unique_place.ts";

const SCANS_TO_FIND = 10;
/** One in this many robots is carried away. */
const KIDNAPPED_EVERY = 4;
const SCANS_BEFORE_CARRYING = 20;
const SCANS_AFTER_CARRYING = 50;
/** A robot in another building must claim no place for so long. */
const SCANS_ELSEWHERE = 100;
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

/** One in so many robots is reported as progress. */
const REPORTED_EVERY = 10;

const FLAGS = [
  { name: "starts", type: "int", default: 200, help: "Robots on the map of their recording." },
  { name: "foreign", type: "int", default: 17, help: "Robots of each recording on each other map; 0: none." },
] as const;

const { values: { starts, foreign }, rest, help, problems } = parseFlags(FLAGS, "gnu", Deno.args);
const problem = problems.map(describeProblem)[0] ??
  (starts < 1 || foreign < 0 ? "--starts wants a number above 0, --foreign one from 0 on" : undefined);
if (help || problem !== undefined) {
  console.error(
    `accuracy:localization [OPTIONS] [FOLDER...]${
      problem ? `: ${problem}` : `\n${describeFlags(FLAGS, "gnu")}`
    }`,
  );
  Deno.exit(help ? 0 : 2);
}

/** A recording with the map that every other of its scans makes. */
interface Mapped {
  readonly name: string;
  readonly map: MapState;
  readonly unseen: readonly Unseen[];
}

const mapped = (rest.length > 0 ? rest.map(folderOf) : [RECORDINGS]).flatMap((folder) =>
  recordingNames(folder).map((name) => mapOf(name, readRecording(folder, name).log))
);
console.log(
  "recording, starts | found within 10 scans, scans until found: median, p95, max | the same of unique places |",
  "wrong at the 10th scan |",
  "carried away | found again within 50 scans, scans until found: median, p95, max |",
  "ms of one piece of work: p50, p99, max",
);
for (const one of mapped) localize(one);
if (foreign > 0 && mapped.length > 1) judgeForeign();

function folderOf(path: string): URL {
  return new URL(`${Deno.realPathSync(path)}/`, "file://");
}

function mapOf(name: string, log: CarmenLog): Mapped {
  console.error(`${name}: making the map`);
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  const kept = log.scans.filter((_, k) => k % 2 === 0);
  const trajectory = replay({ scans: kept, odometry: [] }, mapper, { withOdometry: true });
  const poses = new Map(trajectory.map(({ timeS, pose }) => [timeS, pose]));
  const unseen = log.scans.flatMap((scan, k): Unseen[] => {
    const pose = k % 2 === 1 ? poseBetween(log.scans[k - 1], scan, log.scans[k + 1], poses) : undefined;
    return pose ? [{ scan, pose }] : [];
  });
  return { name, map: mapper.state(), unseen };
}

/** So many scans in a row, from anywhere in a recording. */
function anywhere({ unseen }: Mapped, scans: number, random: () => number): readonly Unseen[] {
  const first = Math.floor(random() * (unseen.length - scans));
  return unseen.slice(first, first + scans);
}

function localize(one: Mapped): void {
  const { name, map } = one, random = randomFrom(1);
  const found: number[] = [], again: number[] = [], pieces: number[] = [];
  const judge = new PlaceJudge(map);
  let wrong = 0, carried = 0, unique = 0, foundUnique = 0;
  for (let k = 0; k < starts; k++) {
    if (k % REPORTED_EVERY === 0) console.error(`${name}: ${k} of ${starts} robots`);
    const robot = new Mapper({ mode: "localize", options: MAPPER_DEFAULTS, map });
    const way = anywhere(one, SCANS_BEFORE_CARRYING, random);
    const isKidnapped = k % KIDNAPPED_EVERY === 0;
    const seen = isKidnapped ? way : way.slice(0, SCANS_TO_FIND);
    const before = drive(robot, seen, { offsetS: 0, moved: IDENTITY_2D }, pieces);
    const first = before.findIndex((one) => one === "right") + 1;
    const isFound = first > 0 && first <= SCANS_TO_FIND;
    if (isFound) found.push(first);
    if (judge.isUnique(way.slice(0, SCANS_TO_FIND).map(takenScan))) {
      unique++;
      if (isFound) foundUnique++;
    }
    if (before[SCANS_TO_FIND - 1] === "wrong") wrong++;
    if (!isKidnapped || before.at(-1) !== "right") continue;
    carried++;
    // Its wheels did not turn meanwhile.
    const elsewhere = anywhere(one, SCANS_AFTER_CARRYING, random);
    const moved = compose2d(way.at(-1)!.scan.odometry, inverse2d(elsewhere[0].scan.odometry));
    const after = drive(robot, elsewhere, { offsetS: LATER_S, moved }, pieces);
    const since = after.findIndex((_, from) => {
      const row = after.slice(from, from + RIGHT_IN_A_ROW);
      return row.length === RIGHT_IN_A_ROW && row.every((one) => one === "right");
    });
    if (since >= 0) again.push(since + 1);
  }
  console.log(
    `${name}, ${starts} | ${share(found.length, starts)}, ${spread(found)} | ${share(foundUnique, unique)} |`,
    `${wrong} | ${carried} |`,
    `${share(again.length, carried)}, ${spread(again)} |`,
    [0.5, 0.99, 1].map((part) => at(pieces, part).toFixed(1)).join(", "),
  );
}

/** Puts robots on the maps of other buildings. */
function judgeForeign(): void {
  console.log("\nrobots of, on the map of | claim a place within 100 scans, after: median, p95, max");
  let claimed = 0, all = 0;
  for (const robots of mapped) {
    for (const other of mapped) {
      if (other === robots) continue;
      const after = foreignClaims(robots, other);
      console.log(`${robots.name}, ${other.name} | ${share(after.length, foreign)}, ${spread(after)}`);
      claimed += after.length;
      all += foreign;
    }
  }
  console.log(`all | ${share(claimed, all)}`);
}

/** The number of scans after which each robot that claims a place does so. */
function foreignClaims(robots: Mapped, { name, map }: Mapped): number[] {
  const random = randomFrom(2), after: number[] = [];
  for (let k = 0; k < foreign; k++) {
    if (k % REPORTED_EVERY === 0) console.error(`${robots.name} on ${name}: ${k} of ${foreign} robots`);
    const robot = new Mapper({ mode: "localize", options: MAPPER_DEFAULTS, map });
    const way = anywhere(robots, SCANS_ELSEWHERE, random);
    const beliefs = drive(robot, way, { offsetS: 0, moved: IDENTITY_2D }, []);
    const first = beliefs.findIndex((one) => one !== "unknown") + 1;
    if (first > 0) after.push(first);
  }
  return after;
}

function share(part: number, whole: number): string {
  return `${part} of ${whole} (${(100 * part / whole).toFixed(1)} %)`;
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

/**
 * The robot's belief after each scan; collects the milliseconds of each piece of its work. A robot that calls itself lost
 * claims no place.
 */
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
    if (!found || robot.localization().place !== "localized") return "unknown";
    return isNear(found, pose) ? "right" : "wrong";
  });
}

/** The returns within the range of the mapper. */
function takenScan({ scan, pose }: Unseen): TakenScan {
  const { minRangeM, maxRangeM } = MAPPER_DEFAULTS, all = pointsOf(scan.ranges, scan.sensor);
  const kept: number[] = [];
  for (let k = 0; k < all.length; k += 3) {
    const range = Math.hypot(all[k], all[k + 1]);
    if (range >= minRangeM && range <= maxRangeM) kept.push(all[k], all[k + 1]);
  }
  return { points: Float64Array.from(kept), pose };
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
