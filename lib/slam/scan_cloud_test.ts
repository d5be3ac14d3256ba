import { assert, assertAlmostEquals, assertEquals, assertLess } from "@std/assert";
import { readPcd, writePcd } from "../geometry/cloud/pcd.ts";
import { createCloud } from "../geometry/cloud/point_cloud.ts";
import { quaternionFromEuler } from "../geometry/pose.ts";
import { randomFrom } from "../geometry/random.ts";
import { Mapper } from "./mapper.ts";
import { MAPPER_DEFAULTS } from "./mapping.ts";
import { wrapAngle } from "./pose2d.ts";
import { readScanCloud } from "./scan_cloud.ts";
import { building, STARTS } from "./simulation/building.ts";
import { scanAt, SimulatedRobot } from "./simulation/robot.ts";

const STEP_S = 0.1;

/** How wrong the heading is after two turns on the spot with a lidar that takes 0.18 s for one of its own. */
function headingErrorDeg(isRead: (file: Uint8Array) => ReturnType<typeof readScanCloud>): number {
  const office = building("office", 0), start = { ...STARTS.office, yaw: 0 };
  const robot = new SimulatedRobot({ building: office, start, wheelSlip: 0, seed: 1 });
  const lidar = { beams: 360, maxRangeM: 12, noiseM: 0.01, sweepS: 0.18 }, random = randomFrom(3);
  const mapper = new Mapper({ mode: "create", options: MAPPER_DEFAULTS });
  let timeS = 0;
  for (const [seconds, angularRps] of [[1, 0], [21, 0.6], [1, 0]]) {
    robot.drive(timeS, { linearMps: 0, angularRps });
    for (const endS = timeS + seconds; timeS < endS - 1e-9;) {
      timeS += STEP_S;
      mapper.addOdometry({ timeS, pose: robot.odometry(timeS) });
      const seen = { timeS, at: robot.truth(timeS), motion: robot.motion(timeS) };
      const { points, offsetsS: time } = scanAt(office, seen, lidar, random);
      const [x, y] = [0, 1].map((from) => points.filter((_, index) => index % 2 === from));
      mapper.addScan({
        timeS,
        ...isRead(writePcd(createCloud({ x, y, z: new Float32Array(x.length), time }))),
      });
      while (mapper.work());
    }
  }
  return Math.abs(wrapAngle(mapper.pose()!.yaw - robot.truth(timeS).yaw)) * 180 / Math.PI;
}

Deno.test("the times in a point cloud keep the heading of a robot that turns while its lidar sweeps", () => {
  const withTimes = headingErrorDeg((file) => readScanCloud(file));
  assertLess(withTimes, 2);
  const without = headingErrorDeg((file) => ({ points: readScanCloud(file).points }));
  assertLess(withTimes, without / 2);
});

Deno.test("a point cloud's times go through every encoding, and those of missing points are left out", () => {
  const cloud = createCloud({
    x: Float32Array.of(1, NaN, 3),
    y: Float32Array.of(0, 1, 2),
    z: new Float32Array(3),
    time: Float32Array.of(-0.25, -0.125, 0),
  });
  for (const encoding of ["ascii", "binary", "binary_compressed"] as const) {
    const file = writePcd(cloud, encoding);
    assertEquals(readPcd(file).time, cloud.time);
    const { points, offsetsS } = readScanCloud(file);
    assertEquals([Array.from(points), Array.from(offsetsS!)], [[1, 0, 0, 3, 2, 0], [-0.25, 0]]);
  }
  for (const wrong of [NaN, Infinity, 1e9, -11]) {
    const time = Float32Array.of(-0.25, 0, wrong);
    assertEquals(readScanCloud(writePcd({ ...cloud, time })).offsetsS, undefined);
  }
  // Nanoseconds of another program.
  const other = new TextDecoder().decode(writePcd(cloud, "ascii")).replace("TYPE F F F F", "TYPE F F F U")
    .replaceAll(/-0\.\d+$/gm, "7");
  assertEquals(readPcd(new TextEncoder().encode(other)).time, undefined);
});

Deno.test("a lidar's place on the robot moves its points; upside down, left is right again", () => {
  const file = writePcd(createCloud({
    x: Float32Array.of(1),
    y: Float32Array.of(0.5),
    z: Float32Array.of(0),
  }));
  const placed = (roll: number, yaw: number) => {
    const rotation = quaternionFromEuler({ roll, pitch: 0, yaw });
    return readScanCloud(file, { translation: { x: 200, y: -100, z: 900 }, rotation });
  };
  const near = ([x, y, z]: Float32Array, wanted: readonly number[]) => {
    [x, y, z].forEach((one, n) => assertAlmostEquals(one, wanted[n], 1e-6));
  };
  near(placed(0, 0).points, [1.2, 0.4, 0]);
  near(placed(0, Math.PI / 2).points, [-0.3, 0.9, 0]);
  near(placed(Math.PI, 0).points, [1.2, -0.6, 0]);
  assertEquals(placed(0, 0).origin, { x: 0.2, y: -0.1 });
  assert(readScanCloud(file).origin === undefined);
});
