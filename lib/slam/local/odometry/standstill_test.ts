import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { compose2d, type Pose2d } from "../../pose2d.ts";
import { obstaclesAt, rangeTo } from "../../simulation/building.ts";
import { Standstill } from "./standstill.ts";

/** A room with a niche, and a corridor whose ends are too far to see. */
const ROOM = [[-2, -2], [6, -2], [6, 1], [4, 1], [4, 2.5], [-2, 2.5]];
const CORRIDOR = [[-60, -1.2], [60, -1.2], [60, 1.2], [-60, 1.2]];

function seenIn(corners: readonly (readonly number[])[], { x, y, yaw }: Pose2d): Float64Array {
  const walls = corners.map(([fromX, fromY], k) => {
    const [toX, toY] = corners[(k + 1) % corners.length];
    return { fromX, fromY, toX, toY };
  });
  const obstacles = obstaclesAt({ walls, doors: [], people: [] }, 0), points: number[] = [];
  for (let degree = -180; degree < 180; degree += 2) {
    const angle = degree * Math.PI / 180, range = rangeTo(obstacles, x, y, yaw + angle);
    if (range < 12) points.push(range * Math.cos(angle), range * Math.sin(angle));
  }
  return Float64Array.from(points);
}

const BEFORE = { x: 0, y: 0, yaw: 0 };
const STEP = { x: 0.1, y: 0, yaw: 0 };
const STOPPED = compose2d(BEFORE, STEP);

function standing(corners: readonly (readonly number[])[]): Standstill {
  const standstill = new Standstill();
  standstill.begin({ seen: seenIn(corners, BEFORE), timeS: 1, pose: BEFORE });
  standstill.begin({ seen: seenIn(corners, STOPPED), timeS: 1.2, pose: STOPPED });
  return standstill;
}

Deno.test("Standstill: scans see a robot that drives or turns on, and one that stands", () => {
  for (const pose of [STOPPED, { x: 0.5, y: 0.1, yaw: 0 }, { x: 0.1, y: 0, yaw: 0.3 }]) {
    const seen = standing(ROOM).seenAt(seenIn(ROOM, pose), STOPPED, [pose]);
    assert(typeof seen === "object");
    assertAlmostEquals(seen.x, pose.x, 0.03);
    assertAlmostEquals(seen.y, pose.y, 0.03);
    assertAlmostEquals(seen.yaw, pose.yaw, 0.02);
  }
  assertEquals(standing(CORRIDOR).seenAt(seenIn(CORRIDOR, { x: 1, y: 0, yaw: 0 }), STOPPED, []), undefined);
});

Deno.test("Standstill: a wall ahead shows a robot that drives on if odometry stopped at full speed", () => {
  const hall = [[-9, -9], [6, -9], [6, 9], [-9, 9]], onward = { x: 1, y: 0, yaw: 0 };
  const ahead = (pose: Pose2d) => {
    const seen = seenIn(hall, pose);
    return seen.filter((_, k) => Math.abs(Math.atan2(seen[k | 1], seen[k & ~1])) < 0.35);
  };
  const standstill = new Standstill();
  standstill.begin({ seen: ahead(BEFORE), timeS: 1, pose: BEFORE });
  standstill.begin({ seen: ahead(STOPPED), timeS: 1.2, pose: STOPPED });
  assertEquals(standstill.seenAt(ahead(onward), STOPPED, [onward]), undefined);
  const seen = standstill.seenAt(ahead(onward), STOPPED, [onward], true);
  assert(typeof seen === "object");
  assertAlmostEquals(seen.x, onward.x, 0.05);
  assertEquals(standstill.seenAt(ahead(STOPPED), STOPPED, [onward], true), undefined);
});

Deno.test("Standstill: walls that come nearer show a motion along a corridor if odometry stopped at full speed", () => {
  const nearer = { x: 1, y: 0.15, yaw: 0 }, onward = { x: 1, y: 0, yaw: 0 };
  const isElsewhere = (pose: Pose2d, isSudden: boolean) => {
    const seen = standing(CORRIDOR).seenAt(seenIn(CORRIDOR, pose), STOPPED, [onward], isSudden);
    return seen === "elsewhere" || (seen?.isElsewhere ?? false);
  };
  assertEquals(isElsewhere(nearer, true), true);
  assertEquals(isElsewhere(nearer, false), false);
  assertEquals(isElsewhere(onward, true), false);
  assertEquals(isElsewhere(STOPPED, true), false);
});

Deno.test("Standstill: a scan that shows nothing of what the robot saw was taken elsewhere", () => {
  const hall = [[-8, -9], [9, -9], [9, 8], [-8, 8]];
  assertEquals(standing(ROOM).seenAt(seenIn(hall, STOPPED), STOPPED, [STOPPED]), "elsewhere");
});

Deno.test("Standstill: a robot that stands in a crowd is not taken to be elsewhere", () => {
  const crowd = [[-0.6, -0.7], [0.8, -0.5], [0.7, 0.6], [-0.5, 0.8]];
  assertEquals(standing(ROOM).seenAt(seenIn(crowd, BEFORE), STOPPED, [STOPPED]), undefined);
});

Deno.test("Standstill: scans refute a jump of a robot that stood, and no catching up of one that drove", () => {
  const jumped = { x: 1.1, y: 0.4, yaw: 0 };
  assert(standing(ROOM).refutes(seenIn(ROOM, STOPPED), jumped, STOPPED));
  assert(!standing(ROOM).refutes(seenIn(ROOM, jumped), jumped, STOPPED));
  assert(
    !standing(CORRIDOR).refutes(seenIn(CORRIDOR, { x: 1, y: 0, yaw: 0 }), { x: 1, y: 0, yaw: 0 }, STOPPED),
  );
});

Deno.test("Standstill: along a corridor a turn refutes a jump, but no turn while odometry was frozen", () => {
  const turned = { x: 1, y: 0, yaw: 0.3 };
  assert(standing(CORRIDOR).refutes(seenIn(CORRIDOR, STOPPED), turned, STOPPED));
  assert(!standing(CORRIDOR).refutes(seenIn(CORRIDOR, turned), turned, STOPPED));
  // How far it drove they do not show.
  assert(!standing(CORRIDOR).refutes(seenIn(CORRIDOR, STOPPED), { ...turned, yaw: 0 }, STOPPED));
});

Deno.test("Standstill: a robot that goes by scans faster than ever before goes with people, until odometry changes", () => {
  const standstill = standing(CORRIDOR), at = (x: number) => ({ x, y: 0, yaw: 0 });
  // Half a metre a second, and a bit more.
  assertEquals(standstill.notePose(at(0.7), 2, 0.5), false);
  assertEquals(standstill.notePose(at(1.4), 3, 0.5), false);
  assertEquals(standstill.isTooFast, false);
  assertEquals(standstill.notePose(at(-2.2), 4, 0.5), true);
  // Only the first pose that is too fast says so.
  assertEquals(standstill.notePose(at(-3), 5, 0.5), false);
  assertEquals(standstill.isTooFast, true);
  standstill.begin({ seen: seenIn(CORRIDOR, at(1)), timeS: 6, pose: at(1) });
  assertEquals(standstill.isTooFast, false);
});

Deno.test("Standstill: without a scan before, scans tell nothing", () => {
  const standstill = standing(ROOM);
  standstill.restart();
  assertEquals(standstill.seenAt(seenIn(ROOM, STOPPED), STOPPED, []), undefined);
  assert(!standstill.refutes(seenIn(ROOM, STOPPED), { x: 2, y: 0, yaw: 0 }, STOPPED));
});

Deno.test("Standstill: a scan at which odometry had hung already is left out once that is known", () => {
  const standstill = standing(ROOM);
  standstill.begin({ seen: seenIn(ROOM, STOPPED), timeS: 1.4, pose: STOPPED });
  assertEquals(standstill.before!.timeS, 1.2);
  standstill.goBack(1.1);
  assertEquals(standstill.before!.timeS, 1);
  standstill.goBack(0.5);
  assertEquals(standstill.before!.timeS, 1, "the oldest one");
});
