import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { type Motor, MotorApi } from "../../lib/api/actuators/motor.ts";
import { type Encoder, EncoderApi } from "../../lib/api/sensors/encoder.ts";
import { countsBy, hasUnseenResets } from "../../lib/api/shared/zero_resets.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import type { Api } from "../../lib/resource/registry.ts";
import type { Resource } from "../../lib/resource/resource.ts";
import { memoryChannel } from "../../lib/wire/rpc/memory.ts";
import { ServiceTable } from "../../lib/wire/rpc/service.ts";
import { construct, namedBy, problemsOf } from "../../tests/support/construct.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { WheeledBase } from "../base/wheeled.ts";
import { FakeEncoder } from "../encoder/fake.ts";
import { FakeMotor } from "../motor/fake.ts";
import { Odometer, WheeledOdometry } from "./wheeled_odometry.ts";

const ATTRIBUTES: JsonObject = { base: "base", left_motors: ["left"], right_motors: ["right"] };
const EDGES = { left: ["left"], right: ["right"], width_mm: 400, wheel_circumference_mm: 200 };

/** With `far`, the sensor sees the motors as those of a module. */
async function bench(attributes: JsonObject = {}, far?: "far") {
  const clock = new FakeClock();
  const motors: Motor[] = [];
  const encoders: Encoder[] = [];
  for (const name of ["left", "right"]) {
    const encoder = await construct(FakeEncoder, { update_rate_msec: 1 }, { name: `${name}-e`, clock });
    encoders.push(encoder);
    const settings = { max_rpm: 600, encoder: `${name}-e`, ticks_per_rotation: 100_000 };
    motors.push(await construct(FakeMotor, settings, { name, dependencies: [encoder], clock }));
  }
  const seen = far ? motors.map((motor) => clientOf(MotorApi, motor, clock)) : motors;
  const base = await construct(WheeledBase, EDGES, { name: "base", dependencies: motors });
  const dependencies = [base, ...seen];
  const sensor = await construct(WheeledOdometry, { ...ATTRIBUTES, ...attributes }, { dependencies, clock });
  return { clock, motors, encoders, base, sensor };
}

Deno.test("Odometer: straight ways, turns on the spot and arcs lead to the place where the base is", () => {
  const odometer = new Odometer({ widthMeters: 0.5, wheelCircumferenceMeters: 1, turningRadiusMeters: 0 });
  odometer.start([100, -7]);
  assertEquals(odometer.moved([102, -5]), { distanceM: 2, angleRad: 0 });
  assertAlmostEquals(odometer.northM, 2, 1e-12);
  odometer.moved([102 - Math.PI / 8, -5 + Math.PI / 8]);
  assertAlmostEquals(odometer.yawRad, Math.PI / 2, 1e-12);
  odometer.moved([102 - Math.PI / 8 - 1, -5 + Math.PI / 8 - 1]);
  assertAlmostEquals(odometer.eastM, 1, 1e-12);
  assertAlmostEquals(odometer.northM, 2, 1e-12);

  // A full circle in a few steps ends where it began.
  const circling = new Odometer({ widthMeters: 0.5, wheelCircumferenceMeters: 1, turningRadiusMeters: 0 });
  for (let step = 1; step <= 8; step++) {
    circling.moved([0.75 * 2 * Math.PI * step / 8, 1.25 * 2 * Math.PI * step / 8]);
  }
  assertAlmostEquals(circling.eastM, 0, 1e-9);
  assertAlmostEquals(circling.northM, 0, 1e-9);
});

Deno.test("wheeled-odometry: it follows a base that drives, turns and stops", async () => {
  const { clock, base, sensor } = await bench({ time_interval_msecs: 50 });
  await base.setVelocity({ x: 0, y: 500, z: 0 }, { x: 0, y: 0, z: 0 });
  await clock.advance(2000);
  assertAlmostEquals((await sensor.getLinearVelocity()).y, 0.5, 0.01);
  const relative = { extra: { return_relative_pos_m: true } };
  assertAlmostEquals((await sensor.getPosition(relative)).coordinate.latitude, 1, 0.05);
  const { coordinate } = await sensor.getPosition();
  assertAlmostEquals(coordinate.latitude * 111_195, 1, 0.05);
  await base.setVelocity({ x: 0, y: 0, z: 0 }, { x: 0, y: 0, z: 45 });
  await clock.advance(1000);
  assertAlmostEquals((await sensor.getAngularVelocity()).z, 45, 1);
  assertAlmostEquals((await sensor.getOrientation()).theta, 45, 3);
  await base.stop();
  await clock.advance(200);
  const readings = await sensor.getReadings();
  assertEquals((readings.linear_velocity as { y: number }).y, 0);
  assertAlmostEquals(readings.position_meters_Y as number, 1, 0.05);
  await sensor.close();
  assertEquals(clock.pending, 0);
});

Deno.test("wheeled-odometry: commands give a compass heading, reset, place and shift the position", async () => {
  const { clock, base, sensor } = await bench({ time_interval_msecs: 50 });
  await base.setVelocity({ x: 0, y: 0, z: 0 }, { x: 0, y: 0, z: 45 });
  await clock.advance(1000);
  await base.stop();
  await clock.advance(100);
  const error = await assertRejects(() => sensor.getCompassHeading(), SvcError);
  assertEquals(error.code, "unimplemented");
  await sensor.doCommand({ use_compass: true });
  assertEquals((await sensor.getProperties()).compassHeadingSupported, true);
  assertAlmostEquals(await sensor.getCompassHeading(), 315, 3);
  await sensor.doCommand({ setLat: 40.7, setLong: -73.98, moveY: 10 });
  const { coordinate } = await sensor.getPosition();
  assertAlmostEquals(coordinate.latitude, 40.7 + 10 / 111_195, 1e-6);
  assertAlmostEquals(coordinate.longitude, -73.98, 1e-6);
  assert("bad shift" in await sensor.doCommand({ setLat: 1 }));
  await assertRejects(() => sensor.doCommand({ setLat: 100, setLong: 0 }), SvcError, "a place on the Earth");
  await sensor.doCommand({ reset: true });
  assertEquals((await sensor.getPosition()).coordinate, { latitude: 0, longitude: 0 });
  assertEquals((await sensor.getOrientation()).theta, 0);
  await sensor.close();
});

Deno.test("wheeled-odometry: a motor that does not answer makes the sensor unavailable, not wrong", async () => {
  const { clock, motors, sensor } = await bench();
  const answer = motors[0].getPosition;
  motors[0].getPosition = () => Promise.reject(new SvcError("unavailable", "the encoder is gone"));
  await clock.advance(500);
  const error = await assertRejects(() => sensor.getPosition(), SvcError, "the encoder is gone");
  assertEquals(error.code, "unavailable");
  motors[0].getPosition = () => Promise.resolve(NaN);
  await clock.advance(500);
  await assertRejects(() => sensor.getPosition(), SvcError, "says that it is at NaN");
  motors[0].getPosition = answer;
  await clock.advance(500);
  assertEquals((await sensor.getPosition()).coordinate, { latitude: 0, longitude: 0 });
  await sensor.close();
});

/** Calls a machine's services for these resources, as a client does. */
function clientOf<R extends Resource>(api: Api<R>, resource: R, clock: FakeClock): R {
  const table = new ServiceTable(clock);
  table.add(api.serve(() => resource));
  return api.client(resource.name, memoryChannel(table));
}

const RELATIVE = { extra: { return_relative_pos_m: true } };

for (const what of ["a motor's zero position", "a motor's encoder"] as const) {
  Deno.test(`wheeled-odometry: a reset of ${what} is no movement`, async () => {
    const { clock, motors: [left], encoders: [encoder], base, sensor } = await bench();
    await base.setVelocity({ x: 0, y: 500, z: 0 }, { x: 0, y: 0, z: 0 });
    await clock.advance(4000);
    await base.stop();
    await clock.advance(1000);
    const before = await sensor.getPosition(RELATIVE);
    assertAlmostEquals(before.coordinate.latitude, 2, 0.05);
    if (what === "a motor's encoder") await clientOf(EncoderApi, encoder, clock).resetPosition();
    else await clientOf(MotorApi, left, clock).resetZeroPosition(3);
    await clock.advance(1000);
    assertEquals(await sensor.getPosition(RELATIVE), before);
    assertAlmostEquals((await sensor.getOrientation()).theta, 0, 1e-6);
    assertEquals((await sensor.getLinearVelocity()).y, 0);

    // It counts on from there.
    await base.setVelocity({ x: 0, y: 500, z: 0 }, { x: 0, y: 0, z: 0 });
    await clock.advance(2000);
    assertAlmostEquals((await sensor.getPosition(RELATIVE)).coordinate.latitude, 3, 0.05);
    await sensor.close();
  });
}

Deno.test("wheeled-odometry: positions that are read during a reset are not used, also if the reset fails", async () => {
  const { clock, motors: [left], base, sensor } = await bench();
  await base.setVelocity({ x: 0, y: 500, z: 0 }, { x: 0, y: 0, z: 0 });
  await clock.advance(4000);
  await base.stop();
  await clock.advance(500);
  const before = await sensor.getPosition(RELATIVE);
  const reset = left.resetZeroPosition.bind(left);
  const held = Promise.withResolvers<void>();
  left.resetZeroPosition = async (offset) => {
    await reset(offset);
    await held.promise;
  };
  const resetting = clientOf(MotorApi, left, clock).resetZeroPosition(0);
  await clock.advance(1000);
  assertEquals(await sensor.getPosition(RELATIVE), before);
  held.reject(new SvcError("unavailable", "the board has gone"));
  await assertRejects(() => resetting, SvcError, "the board has gone");
  await clock.advance(1000);
  assertEquals(await sensor.getPosition(RELATIVE), before);
  await sensor.close();
});

Deno.test("wheeled-odometry: a motor that a module gives another zero position has not moved", async () => {
  const { clock, motors: [left], base, sensor } = await bench({ time_interval_msecs: 100 }, "far");
  const ahead = { x: 0, y: 500, z: 0 }, still = { x: 0, y: 0, z: 0 };
  await base.setVelocity(ahead, still);
  await clock.advance(4000);
  await base.stop();
  await clock.advance(1000);
  const before = await sensor.getPosition(RELATIVE);
  await left.resetZeroPosition(0);
  await clock.advance(1000);
  assertEquals(await sensor.getPosition(RELATIVE), before);
  assertAlmostEquals((await sensor.getOrientation()).theta, 0, 1e-6);

  // While it drives, it loses the way of one interval.
  await base.setVelocity(ahead, still);
  await clock.advance(4030);
  await left.resetZeroPosition(0);
  await clock.advance(1970);
  assertAlmostEquals((await sensor.getPosition(RELATIVE)).coordinate.latitude, 5, 0.15);
  assertAlmostEquals((await sensor.getOrientation()).theta, 0, 1e-6);
  assertAlmostEquals((await sensor.getLinearVelocity()).y, 0.5, 0.01);
  await sensor.close();
});

Deno.test("hasUnseenResets: a module's motor, and one of this machine that counts by a module's encoder", async () => {
  const { clock, motors: [left, right], encoders: [encoder], sensor } = await bench();
  assertEquals([left, encoder].map(hasUnseenResets), [false, false]);
  const far = clientOf(EncoderApi, encoder, clock);
  countsBy(right, far);
  assertEquals([far, clientOf(MotorApi, left, clock), right].map(hasUnseenResets), [true, true, true]);
  await sensor.close();
});

Deno.test("wheeled-odometry: a module that is started again counts from 0, and the base stays where it is", async () => {
  const { clock, motors, base, sensor } = await bench({}, "far");
  await base.setVelocity({ x: 0, y: -500, z: 0 }, { x: 0, y: 0, z: 0 });
  await clock.advance(4000);
  await base.stop();
  await clock.advance(1000);
  const before = await sensor.getPosition(RELATIVE);
  const answers = motors.map((motor) => motor.getPosition);
  for (const motor of motors) {
    motor.getPosition = () => Promise.reject(new SvcError("unavailable", "the module starts"));
  }
  await clock.advance(1500);
  for (const [at, motor] of motors.entries()) {
    motor.getPosition = answers[at];
    await motor.resetZeroPosition(0);
  }
  await clock.advance(1000);
  assertEquals(await sensor.getPosition(RELATIVE), before);
  await sensor.close();
});

Deno.test("wheeled-odometry: ways of a module's motors to their zero position and through it are ways", async () => {
  const { clock, base, sensor } = await bench({}, "far");
  const latitude = async () => (await sensor.getPosition(RELATIVE)).coordinate.latitude;
  for (const [speed, ms, wanted] of [[500, 4000, 2], [-1000, 2000, 0], [1000, 500, 0.5], [-1500, 1000, -1]]) {
    await base.setVelocity({ x: 0, y: speed, z: 0 }, { x: 0, y: 0, z: 0 });
    await clock.advance(ms);
    await base.stop();
    await clock.advance(1000);
    assertAlmostEquals(await latitude(), wanted, 0.06);
  }
  await sensor.close();
});

Deno.test("wheeled-odometry: impossible attributes and parts, each with its reason", async () => {
  assertEquals(namedBy(WheeledOdometry, ATTRIBUTES), ["base", "left", "right"]);
  assertEquals(problemsOf(WheeledOdometry, { ...ATTRIBUTES, left_motors: [], right_motors: ["a", "b"] }), [
    "left_motors: found an empty array, wanted one motor on the left",
    "right_motors: found an array, wanted one motor on the right",
  ]);
  assertEquals(problemsOf(WheeledOdometry, {}).length, 3);
  const blind = await construct(FakeMotor, {}, { name: "left" });
  const { base, motors, sensor } = await bench();
  const dependencies = [base, blind, motors[1]];
  await assertRejects(
    () => construct(WheeledOdometry, ATTRIBUTES, { dependencies }),
    SvcError,
    "report its position",
  );
  base.getProperties = () =>
    Promise.resolve({ widthMeters: 0.5, wheelCircumferenceMeters: 0, turningRadiusMeters: 0 });
  await assertRejects(
    () => construct(WheeledOdometry, ATTRIBUTES, { dependencies: [base, ...motors] }),
    SvcError,
    "wanted both above 0",
  );
  await sensor.close();
});
