/**
 * `deno task accuracy:localization [--starts N] [FOLDER…]`: maps each recording of a folder, then puts the robot to N
 * random places of it (200 unless told otherwise), and counts how often the mapper finds the right place within ten
 * scans; and how often it finds itself again after it has been carried away, within a hundred scans.
 */

import { randomFrom } from "../../lib/geometry/random.ts";
import { type CarmenScan, pointsOf } from "../../lib/slam/evaluation/carmen.ts";
import type { TimedPose } from "../../lib/slam/evaluation/relations.ts";
import { replay } from "../../lib/slam/evaluation/replay.ts";
import { Mapper } from "../../lib/slam/mapper.ts";
import { MAPPER_DEFAULTS } from "../../lib/slam/mapping.ts";
import { between2d, IDENTITY_2D, type Pose2d } from "../../lib/slam/pose2d.ts";
import { readRecording, recordingNames, RECORDINGS } from "../support/recordings.ts";

const SCANS_TO_FIND = 10;
const SCANS_AFTER_CARRYING = 100;
const RIGHT_M = 0.5;
const RIGHT_RAD = 0.2;

const startsAt = Deno.args.indexOf("--starts");
const starts = startsAt < 0 ? 200 : Number(Deno.args[startsAt + 1]);
const folders = Deno.args.filter((one, at) => !one.startsWith("--") && (startsAt < 0 || at !== startsAt + 1));

for (const folder of folders.length > 0 ? folders.map(folderOf) : [RECORDINGS]) {
  for (const name of recordingNames(folder)) localize(folder, name);
}

function folderOf(path: string): URL {
  return new URL(`${Deno.realPathSync(path)}/`, "file://");
}

function localize(folder: URL, name: string): void {
  const { log } = readRecording(folder, name);
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  const trajectory = replay(log, mapper, { withOdometry: true });
  const map = mapper.state();
  const scans = new Map(log.scans.map((scan) => [scan.timeS, scan]));
  const random = randomFrom(1);
  const anywhere = () => Math.floor(random() * (trajectory.length - SCANS_AFTER_CARRYING));
  let right = 0, wrong = 0, again = 0, carried = 0;
  for (let k = 0; k < starts; k++) {
    const robot = new Mapper({ mode: "localize", options: MAPPER_DEFAULTS, map });
    const first = anywhere();
    const found = drive(robot, trajectory.slice(first, first + SCANS_TO_FIND), scans, 0);
    if (found === undefined) continue;
    if (!found) {
      wrong++;
      continue;
    }
    right++;
    if (k % 4 !== 0) continue;
    carried++;
    const second = anywhere();
    if (drive(robot, trajectory.slice(second, second + SCANS_AFTER_CARRYING), scans, 1e6)) again++;
  }
  console.log(
    `${name}: ${right} of ${starts} starts found within ${SCANS_TO_FIND} scans, ${wrong} at a wrong place;`,
    `after being carried away, ${again} of ${carried} found within ${SCANS_AFTER_CARRYING} scans`,
  );
}

/** Whether the robot ends where it should; undefined if it does not know where it is. */
function drive(
  robot: Mapper,
  way: readonly TimedPose[],
  scans: ReadonlyMap<number, CarmenScan>,
  offsetS: number,
): boolean | undefined {
  let isRight: boolean | undefined;
  for (const { timeS, pose } of way) {
    const scan = scans.get(timeS)!;
    robot.addOdometry({ timeS: offsetS + timeS, pose: scan.odometry });
    robot.addScan({ timeS: offsetS + timeS, points: pointsOf(scan.ranges, IDENTITY_2D) });
    while (robot.work());
    const found = robot.pose();
    isRight = found && isNear(found, pose);
    if (isRight && offsetS === 0) return true;
  }
  return isRight;
}

function isNear(a: Pose2d, b: Pose2d): boolean {
  const off = between2d(a, b);
  return Math.hypot(off.x, off.y) <= RIGHT_M && Math.abs(off.yaw) <= RIGHT_RAD;
}
