import { assert } from "@std/assert";
import { worldOf } from "./worlds/matrix.ts";
import { scoreWorld } from "./worlds/score.ts";

/** Asserts the rule of `accuracy:slam --worlds` for the world of a seed. */
function assertHolds(seed: number): void {
  const { score } = scoreWorld(worldOf(seed));
  const { oursM, odometryM, scansM, what } = score;
  assert(
    score.holds,
    `${what}: ours is off by ${oursM} m, odometry by ${odometryM} m, scans alone by ${scansM} m`,
  );
}

Deno.test("worlds: a corridor with niches, wheels that slip", () => assertHolds(8));

Deno.test("worlds: a room full of people, odometry that freezes and catches up", () => assertHolds(18));

Deno.test("worlds: a bare corridor, odometry that freezes in a turn", () => assertHolds(201));

Deno.test("worlds: a warehouse with people, late odometry, scans that seem to contradict it", () =>
  assertHolds(268));

Deno.test("worlds: a hall, late odometry", () => assertHolds(229));

Deno.test("worlds: a bare corridor full of people, wheels that slip", () => assertHolds(9045));

Deno.test("worlds: a narrow view in a room, wheels that always slip by the same share", () =>
  assertHolds(9042));

Deno.test("worlds: a warehouse, odometry that freezes for ten seconds and never makes up for it", () =>
  assertHolds(9058));

Deno.test("worlds: a hall, odometry that catches up while the robot turns quickly", () => assertHolds(50095));

Deno.test("worlds: a courtyard whose surfaces are out of range after a turn, perfect odometry", () =>
  assertHolds(61025));

Deno.test("worlds: a robot that stands in a bare corridor for two minutes", () => assertHolds(20019));

Deno.test("worlds: a room whose walls are near, right odometry that freezes and catches up", () =>
  assertHolds(66006));

Deno.test("worlds: a bare corridor in a narrow view, perfect odometry", () => assertHolds(66027));

Deno.test("worlds: a hall, wheels that always slip by the same share on a way of two metres", () =>
  assertHolds(61063));

Deno.test("worlds: a warehouse with far noisy walls, perfect odometry", () => assertHolds(61060));

Deno.test("worlds: a warehouse, a map that is made again at its end", () => assertHolds(61000));

Deno.test("worlds: a robot that stands at the end of a corridor among people, right odometry", () =>
  assertHolds(70076));

Deno.test("worlds: the same, late odometry", () => assertHolds(70070));

Deno.test("worlds: a bare corridor with people, scans that now and then fit elsewhere, right odometry", () =>
  assertHolds(70023));

Deno.test("worlds: a corridor with niches in a narrow view, odometry that freezes at full speed", () =>
  assertHolds(70148));

Deno.test("worlds: a room full of people, odometry that freezes for ten seconds and never makes up for it", () =>
  assertHolds(70398));

Deno.test("worlds: a bare corridor whose walls come nearer while odometry is frozen", () =>
  assertHolds(80049));

Deno.test("worlds: a courtyard in a narrow view, odometry that freezes in a turn and catches up", () =>
  assertHolds(91247));

Deno.test("worlds: a hall in a narrow view, odometry that jumps while the robot stands", () =>
  assertHolds(92041));

Deno.test("worlds: a bare corridor, odometry that jumps while the robot stands", () => assertHolds(90063));

Deno.test("worlds: a bare corridor full of people, odometry that freezes and never makes up for it", () =>
  assertHolds(91389));
