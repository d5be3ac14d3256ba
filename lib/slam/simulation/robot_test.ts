import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertGreater,
  assertLess,
  assertThrows,
} from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { randomFrom } from "../../geometry/random.ts";
import { building, clearance, obstaclesAt, rangeTo } from "./building.ts";
import { scanAt, SimulatedRobot, simulationOf } from "./robot.ts";

const HALL = building("hall", 0);
const ORIGIN = { x: 0, y: 0, yaw: 0 };

function robot(wheelSlip: number, seed = 1): SimulatedRobot {
  return new SimulatedRobot({ building: HALL, start: ORIGIN, wheelSlip, seed });
}

Deno.test("rangeTo: measures ranges in a hall of ten by eight metres", () => {
  const obstacles = obstaclesAt(HALL, 0);
  assertAlmostEquals(rangeTo(obstacles, 0, 0, 0), 5);
  assertAlmostEquals(rangeTo(obstacles, 1, 1, Math.PI / 2), 3);
  assertAlmostEquals(rangeTo(obstacles, 0, 0, Math.PI / 4), 4 * Math.SQRT2);
  assertEquals(rangeTo(obstacles, 20, 0, 0), Infinity);
  assertAlmostEquals(clearance(obstacles, 4, 0), 1);
});

Deno.test("obstaclesAt: doors and walking people block the lidar", () => {
  const office = building("office", 4);
  const ranges = (timeS: number) => {
    const obstacles = obstaclesAt(office, timeS);
    return Array.from({ length: 360 }, (_, degree) => rangeTo(obstacles, 0, 0.2, degree * Math.PI / 180));
  };
  assertEquals(ranges(3), ranges(3));
  assert(ranges(3).some((range, at) => Math.abs(range - ranges(23)[at]) > 0.5));
  const { segments, people } = obstaclesAt(office, 0);
  assertEquals([segments.length - office.walls.length, people.length], [3, 4]);
  const [first] = people;
  const towards = Math.atan2(first.y - 0.2, first.x);
  assertAlmostEquals(
    rangeTo({ segments: [], people: [first] }, 0, 0.2, towards),
    Math.hypot(first.x, first.y - 0.2) - 0.25,
    1e-9,
  );
});

Deno.test("SimulatedRobot: wheels slip by the same share for half a second, then by another", () => {
  const one = robot(0.2);
  one.drive(0, { linearMps: 0.5, angularRps: 0 });
  const speeds = Array.from({ length: 40 }, (_, k) => one.motion(0.05 * (k + 1)).linearMps);
  const changes = speeds.filter((speed, k) => k > 0 && speed !== speeds[k - 1]).length;
  assert(changes >= 3 && changes <= 4, `${changes} changes in two seconds`);
});

Deno.test("SimulatedRobot: odometry is exact without wheel slip and too long with slip", () => {
  for (const slip of [0, 0.2]) {
    const one = robot(slip);
    one.drive(0, { linearMps: 0.5, angularRps: 0.1 });
    const [truth, odometry] = [one.truth(6), one.odometry(6)];
    const apart = Math.hypot(truth.x - odometry.x, truth.y - odometry.y);
    if (slip === 0) assertLess(apart, 1e-9);
    else assertGreater(apart, 0.05);
    assertAlmostEquals(odometry.yaw, 0.6, 1e-9);
    assertEquals(one.truth(6), truth);
  }
});

Deno.test("SimulatedRobot: stops at a wall while its wheels turn, and can reverse", () => {
  const one = robot(0);
  one.drive(0, { linearMps: 1, angularRps: 0 });
  assertAlmostEquals(one.truth(30).x, 4.8, 0.03);
  assertAlmostEquals(one.odometry(30).x, 30, 1e-6);
  one.drive(30, { linearMps: -1, angularRps: 0 });
  assertAlmostEquals(one.truth(32).x, 2.8, 0.05);
  one.drive(32, { linearMps: 0, angularRps: 0 });
  // A long time of standing costs nothing.
  assertAlmostEquals(one.truth(1e9).x, 2.8, 0.05);
});

Deno.test("SimulatedRobot: the same seed gives the same drive and scan", () => {
  const drive = (seed: number) => {
    const one = robot(0.2, seed);
    one.drive(0, { linearMps: 0.4, angularRps: 0.2 });
    const at = one.truth(5);
    const scan = scanAt(HALL, { timeS: 5, at }, { beams: 36, maxRangeM: 6, noiseM: 0.01 }, randomFrom(seed));
    return { at, scan };
  };
  assertEquals(drive(1), drive(1));
  assert(drive(1).at.x !== drive(2).at.x);
  const simulation = robot(0);
  assertEquals(simulationOf({ simulation }, "rover"), simulation);
  const error = assertThrows(
    () => simulationOf({}, "rover"),
    SvcError,
    "rover drives in no simulated building",
  );
  assertEquals(error.code, "failed_precondition");
});

Deno.test("scanAt: returns points within range in the lidar's frame", () => {
  const settings = { beams: 4, maxRangeM: 4.5, noiseM: 0 };
  const at = { x: 0, y: 0, yaw: Math.PI / 2 };
  const { points } = scanAt(HALL, { timeS: 0, at }, settings, randomFrom(1));
  // Behind and ahead are the near walls; those at the sides are five metres away.
  assertEquals(Array.from(points, (one) => Math.round(one * 1000) / 1000 + 0), [-4, 0, 4, 0]);
});
