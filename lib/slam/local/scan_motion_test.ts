import { assert, assertAlmostEquals, assertGreater, assertLess } from "@std/assert";
import { randomFrom } from "../../geometry/random.ts";
import { RING, viewFrom } from "../../../tests/support/floor_plan.ts";
import { between2d, IDENTITY_2D, type Pose2d } from "../pose2d.ts";
import { normal } from "../simulation/robot.ts";
import { ScanMotion } from "./scan_motion.ts";

function viewed(pose: Pose2d, seed: number): Float64Array {
  const view = viewFrom(RING, pose, { beams: 181, fieldRad: Math.PI, noiseM: 0.01, seed });
  const seen: number[] = [];
  for (let k = 0; k < view.length; k += 3) {
    if (Math.hypot(view[k], view[k + 1]) < 25) seen.push(view[k], view[k + 1]);
  }
  return Float64Array.from(seen);
}

Deno.test("ScanMotion: finds an unexpected step and turn", () => {
  const from = { x: 11, y: 3, yaw: 1.5 }, to = { x: 11, y: 3.2, yaw: 1.8 };
  const motion = new ScanMotion();
  motion.begin(viewed(from, 1));
  const { pose, share } = motion.match(viewed(to, 2), IDENTITY_2D);
  const off = between2d(between2d(from, to), pose);
  assertAlmostEquals(off.x, 0, 0.03);
  assertAlmostEquals(off.y, 0, 0.03);
  assertAlmostEquals(off.yaw, 0, 0.01);
  assertGreater(share, 0.8);
});

Deno.test("ScanMotion: keeps the guess along bare walls and corrects it across them", () => {
  const walls = (across: number) => {
    const points: number[] = [];
    for (let angle = -85; angle <= 85; angle++) {
      const yaw = angle * Math.PI / 180;
      if (Math.abs(angle) < 5) continue;
      const range = (Math.sign(angle) - across) / Math.sin(yaw);
      points.push(range * Math.cos(yaw), range * Math.sin(yaw));
    }
    return Float64Array.from(points);
  };
  const motion = new ScanMotion();
  motion.begin(walls(0));
  const { pose } = motion.match(walls(0.1), { x: 0.25, y: 0, yaw: 0 });
  assertAlmostEquals(pose.x, 0.25, 0.02);
  assertAlmostEquals(pose.y, 0.1, 0.01);
  assertAlmostEquals(pose.yaw, 0, 0.005);
});

Deno.test("ScanMotion: measures motion towards a far wall from a few noisy points", () => {
  const random = randomFrom(5);
  const room = (along: number) => {
    const points: number[] = [];
    for (let angle = -85; angle <= 85; angle++) {
      const yaw = angle * Math.PI / 180, cos = Math.cos(yaw), sin = Math.sin(yaw);
      const range = Math.min((20 - along) / cos, 4 / Math.abs(sin)) + 0.2 * (random() - 0.5);
      points.push(range * cos, range * sin);
    }
    return Float64Array.from(points);
  };
  const motion = new ScanMotion();
  motion.begin(room(0));
  const { pose, leastConstrained } = motion.match(room(0.2), IDENTITY_2D);
  assertAlmostEquals(pose.x, 0.2, 0.03);
  assertGreater(leastConstrained.points, 10);
  assertAlmostEquals(pose.y, 0, 0.03);
});

/** By how many points a scan of a wall 1.3 m ahead, and of another across it, knows the direction that it knows least. */
function leastKnown(noiseM: number, hasCorner: boolean): number {
  const random = randomFrom(7), points: number[] = [];
  for (let degree = -45; degree < 45; degree += 0.25) {
    const angle = degree * Math.PI / 180;
    const toWall = 1.3 / Math.cos(angle), toSide = hasCorner && angle > 0 ? 0.9 / Math.sin(angle) : Infinity;
    const range = Math.min(toWall, toSide) + noiseM * normal(random);
    points.push(range * Math.cos(angle), range * Math.sin(angle));
  }
  const motion = new ScanMotion();
  motion.begin(Float64Array.from(points));
  return motion.leastConstrainedOf(() => true).points;
}

Deno.test("ScanMotion: a straight wall says nothing along it, however noisy; a corner says something", () => {
  for (const noiseM of [0, 0.01, 0.02, 0.03, 0.05]) {
    assertLess(leastKnown(noiseM, false), 1.5, `${noiseM}`);
    assertGreater(leastKnown(noiseM, true), 9, `${noiseM}`);
  }
});

/** A corridor without ends in sight, seen from its middle, and boxes of 50 cm in it that are so far ahead. */
function corridorWith(aheadM: readonly number[]): Float64Array {
  const points: number[] = [];
  for (let degree = -85; degree < 85; degree += 0.5) {
    const angle = degree * Math.PI / 180, sin = Math.abs(Math.sin(angle));
    const toWall = sin > 0.06 ? 1.2 / sin : Infinity;
    const toBoxes = aheadM.map((ahead, k) => {
      const range = ahead / Math.cos(angle), side = range * Math.sin(angle) - 0.7 * (-1) ** k;
      return Math.abs(side) < 0.25 ? range : Infinity;
    });
    const range = Math.min(toWall, ...toBoxes);
    if (range < 20) points.push(range * Math.cos(angle), range * Math.sin(angle));
  }
  return Float64Array.from(points);
}

Deno.test("ScanMotion: one thing alone shows no motion, because it may be a person who walks", () => {
  const motion = new ScanMotion();
  for (const [things, least, most] of [[[2], 0, 1], [[3, 3.2, 4.5, 4.8], 4, Infinity]] as const) {
    motion.begin(corridorWith(things));
    const { pose, leastConstrained } = motion.match(
      corridorWith(things.map((one) => one - 0.2)),
      IDENTITY_2D,
    );
    assertAlmostEquals(pose.x, 0.2, 0.05);
    assertGreater(Math.abs(leastConstrained.x), 0.9);
    assert(leastConstrained.points >= least && leastConstrained.points <= most, `${leastConstrained.points}`);
  }
});

Deno.test("ScanMotion: a short piece of a wall shows a turn less exactly than a long one", () => {
  const random = randomFrom(4);
  const wall = (widthM: number) => {
    const half = Math.atan(widthM / 2), points: number[] = [];
    for (let k = 0; k < 100; k++) {
      const angle = half * (2 * k / 99 - 1), range = 1 / Math.cos(angle) + 0.01 * normal(random);
      points.push(range * Math.cos(angle), range * Math.sin(angle));
    }
    return Float64Array.from(points);
  };
  const deviationOf = (widthM: number) => {
    const motion = new ScanMotion();
    motion.begin(wall(widthM));
    return motion.match(wall(widthM), IDENTITY_2D).yawDeviation;
  };
  assertGreater(deviationOf(0.4), 3 * deviationOf(2));
});

Deno.test("ScanMotion: a guess weighs little, also against a short piece of a wall", () => {
  const wall = (widthM: number, yaw: number) => {
    const cos = Math.cos(yaw), sin = Math.sin(yaw), points: number[] = [];
    for (let k = 0; k < 100; k++) {
      const y = widthM * (k / 99 - 0.5);
      points.push(cos + sin * y, cos * y - sin);
    }
    return Float64Array.from(points);
  };
  for (const [widthM, share] of [[0.15, 0.9], [0.2, 0.95], [0.3, 0.98], [0.5, 0.99]]) {
    const motion = new ScanMotion();
    motion.begin(wall(widthM, 0));
    const { yaw } = motion.match(wall(widthM, 0.1), IDENTITY_2D).pose;
    assert(yaw >= 0.1 * share && yaw <= 0.1, `${yaw} by ${widthM} m`);
  }
});
