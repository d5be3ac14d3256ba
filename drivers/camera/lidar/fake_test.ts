import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../../lib/base/error.ts";
import { readPcd } from "../../../lib/geometry/cloud/pcd.ts";
import { planePointOf } from "../../../lib/geometry/geo.ts";
import { decodeImage } from "../../../lib/geometry/image/image.ts";
import { construct } from "../../../tests/support/construct.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeBase } from "../../base/fake.ts";
import { FakeMovementSensor } from "../../movement_sensor/fake.ts";
import { FakeLidar } from "./fake.ts";
import { ReplayLidar } from "./replay.ts";

const NOISELESS = { noise_m: 0 };
const IN_HALL = { building: "hall", people: 0, start_x_m: 0, start_y_m: 0, wheel_slip: 0 };

Deno.test("a fake lidar and a fake movement sensor measure the drive of a fake base in a building", async () => {
  const clock = new FakeClock();
  const base = await construct(FakeBase, IN_HALL, { name: "rover", clock });
  const on = { dependencies: [base], clock };
  const lidar = await construct(FakeLidar, { base: "rover", ...NOISELESS }, on);
  const sensor = await construct(
    FakeMovementSensor,
    { base: "rover", gyro_noise_degs_per_sec: 0, acceleration_noise: 0, gyro_bias_degs_per_sec: 0.5 },
    on,
  );
  const ahead = async () => {
    const { x, y } = readPcd(await lidar.getPointCloud());
    const ranges = Array.from(x, (one, n) => Math.abs(y[n]) < 1e-3 && one > 0 ? one : Infinity);
    return Math.min(...ranges);
  };
  assertAlmostEquals(await ahead(), 5, 1e-3);
  const driving = base.moveStraight(2000, 500);
  await clock.advance(1000);
  assertEquals(await base.isMoving(), true);
  assertEquals(await sensor.getLinearVelocity(), { x: 0.5, y: 0, z: 0 });
  await clock.advance(3000);
  await driving;
  assertEquals(await base.isMoving(), false);
  assertAlmostEquals(await ahead(), 3, 0.02);
  assertAlmostEquals(planePointOf((await sensor.getPosition()).coordinate).eastM, 2, 0.02);
  await base.setVelocity({ x: 0, y: 0, z: 0 }, { x: 0, y: 0, z: 45 });
  await clock.advance(2000);
  assertAlmostEquals((await sensor.getAngularVelocity()).z, 45.5, 1e-6);
  await base.stop();
  assertAlmostEquals((await sensor.getOrientation()).theta, 90, 0.5);
  assertAlmostEquals(await ahead(), 4, 0.02);
  const { z } = await sensor.getLinearAcceleration();
  assertAlmostEquals(z, 9.81);
  assertEquals(Object.keys(await base.doCommand({ truth: true })), ["x_m", "y_m", "yaw_degs"]);
  assertEquals(clock.pending, 0);
});

Deno.test("a fake lidar that takes time to sweep tells on request when it measured each point", async () => {
  const clock = new FakeClock();
  const base = await construct(FakeBase, IN_HALL, { name: "rover", clock });
  const on = { dependencies: [base], clock };
  const lidar = await construct(FakeLidar, { base: "rover", ...NOISELESS, beams: 8, sweep_s: 0.4 }, on);
  assertEquals(readPcd(await lidar.getPointCloud()).time, undefined);
  const { x, time } = readPcd(await lidar.getPointCloud({ withTimes: true }));
  assertEquals([x.length, time!.length], [8, 8]);
  for (const [n, one] of time!.entries()) assertAlmostEquals(one, 0.05 * (n - 7), 1e-6);
  const quick = await construct(FakeLidar, { base: "rover", ...NOISELESS }, on);
  assertEquals(readPcd(await quick.getPointCloud({ withTimes: true })).time, undefined);
});

Deno.test("a fake lidar refuses a base without a building, and its picture shows the scan", async () => {
  const plain = await construct(FakeBase, {}, { name: "plain" });
  const at = { dependencies: [plain] };
  await assertRejects(
    () => construct(FakeLidar, { base: "plain" }, at),
    SvcError,
    'set "building" of a fake base',
  );
  await assertRejects(
    () => construct(FakeMovementSensor, { base: "plain" }, at),
    SvcError,
    'set "building" of a fake base',
  );
  const base = await construct(FakeBase, { building: "office" }, { name: "rover" });
  const lidar = await construct(FakeLidar, { base: "rover", beams: 90 }, { dependencies: [base] });
  const { images: [{ image }] } = await lidar.getImages();
  const decoded = decodeImage(image);
  assert(decoded.kind === "color" && decoded.image.width === 400);
});

Deno.test("a replay lidar returns the scans of a log with their times until the log ends", async () => {
  const lidar = await construct(ReplayLidar, { log: "tests/data/slam/office.clf" });
  const times: number[] = [];
  const taken = (timeMs: number) => void times.push(timeMs);
  assertEquals(readPcd(await lidar.getPointCloud({ taken })).x.length, 181);
  assertEquals(times, [1_000_000_000_010]);
  await lidar.getImages();
  for (let scan = 1; scan < 60; scan++) await lidar.getPointCloud({ taken });
  assertEquals(times.length, 60);
  const error = await assertRejects(() => lidar.getPointCloud(), SvcError, "reached end of dataset");
  assertEquals(error.code, "out_of_range");
  await assertRejects(
    () => construct(ReplayLidar, { log: "deno.json" }),
    SvcError,
    "has no scans (FLASER, RLASER, ROBOTLASER1)",
  );
});
