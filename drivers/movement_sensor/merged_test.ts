import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { construct, namedBy, problemsOf } from "../../tests/support/construct.ts";
import { FakeMovementSensor } from "./fake.ts";
import { MergedMovementSensor } from "./merged.ts";
import { ReplayOdometry } from "./replay.ts";

const LOG = { log: "tests/data/slam/office.clf" };

Deno.test("merged: each quantity comes from its first supporting sensor, others are unsupported", async () => {
  const imu = await construct(FakeMovementSensor, {}, { name: "imu" });
  const wheels = await construct(ReplayOdometry, LOG, { name: "wheels" });
  const merged = await construct(MergedMovementSensor, {
    position: ["wheels"],
    orientation: ["wheels", "imu"],
    linear_acceleration: ["wheels", "imu"],
    angular_velocity: ["imu"],
  }, { dependencies: [imu, wheels] });
  assertEquals((await merged.getPosition()).coordinate, { latitude: 0, longitude: 0 });
  assertEquals(await merged.getLinearAcceleration(), { x: 2.2, y: 4.5, z: 2 });
  assertEquals(await merged.getAngularVelocity(), { x: 0, y: 0, z: 1 });
  assertEquals(await merged.getProperties(), {
    positionSupported: true,
    orientationSupported: true,
    linearAccelerationSupported: true,
    angularVelocitySupported: true,
    linearVelocitySupported: false,
    compassHeadingSupported: false,
  });
  const error = await assertRejects(() => merged.getCompassHeading(), SvcError, "GetCompassHeading");
  assertEquals(error.code, "unimplemented");
  assertEquals(Object.keys(await merged.getReadings()), [
    "position",
    "altitude",
    "linear_acceleration",
    "angular_velocity",
    "orientation",
  ]);
  assertEquals((await merged.getAccuracy()).accuracy, {});
});

Deno.test("merged: of a sensor that does not tell its accuracy, none is told", async () => {
  const imu = await construct(FakeMovementSensor, {}, { name: "imu" });
  const gps = await construct(FakeMovementSensor, {}, { name: "gps" });
  gps.getAccuracy = () => Promise.reject(new SvcError("unimplemented", "no accuracy"));
  imu.getAccuracy = () =>
    Promise.resolve({ accuracy: { tilt: 0.5 }, positionHdop: 3, compassDegreesError: 2 });
  const both = { position: ["gps"], compass_heading: ["imu"] };
  const merged = await construct(MergedMovementSensor, both, { dependencies: [imu, gps] });
  assertEquals(await merged.getAccuracy(), { accuracy: { imu_tilt: 0.5 }, compassDegreesError: 2 });
});

Deno.test("merged: a quantity without a supporting sensor and an empty list of sensors are refused", async () => {
  const wheels = await construct(ReplayOdometry, LOG, { name: "wheels" });
  await assertRejects(
    () => construct(MergedMovementSensor, { compass_heading: ["wheels"] }, { dependencies: [wheels] }),
    SvcError,
    "has no sensor for compassHeading: rdk:component:movement_sensor/wheels does not support it",
  );
  assertEquals(problemsOf(MergedMovementSensor, {}), [
    ": found no movement sensor, wanted one for a quantity at least",
  ]);
  assertEquals(namedBy(MergedMovementSensor, { position: ["a"], linear_velocity: ["b", "c"] }), [
    "a",
    "b",
    "c",
  ]);
});

Deno.test("replay odometry: poses come one by one with their times until the log ends", async () => {
  const wheels = await construct(ReplayOdometry, LOG);
  const times: number[] = [];
  const taken = (timeMs: number) => void times.push(timeMs);
  await wheels.getPosition({ taken });
  const { theta } = await wheels.getOrientation({ taken });
  assertEquals([theta, times], [0, [1e12, 1e12]]);
  let count = 1;
  const error = await assertRejects(
    async () => {
      for (;; count++) await wheels.getPosition({ taken });
    },
    SvcError,
    "reached end of dataset",
  );
  assertEquals([error.code, count], ["out_of_range", 180]);
  assertEquals(times, times.toSorted((a, b) => a - b));
  await assertRejects(() => construct(ReplayOdometry, { log: "deno.json" }), SvcError, "no odometry");
});
