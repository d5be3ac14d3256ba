import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import type { Motor } from "../../lib/api/actuators/motor.ts";
import { settle } from "../../lib/base/clock.ts";
import { FakeClock, passing } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { construct, namedBy, problemsOf } from "../../tests/support/construct.ts";
import { FakeEncoder } from "../encoder/fake.ts";
import { FakeMotor } from "../motor/fake.ts";
import { FakeBase } from "./fake.ts";
import { spinning, straight, WheeledBase, wheelPowers, wheelSpeeds } from "./wheeled.ts";

const SIZES = { widthMm: 100, wheelCircumferenceMm: 1000, spinSlipFactor: 1 };
const ATTRIBUTES: JsonObject = {
  left: ["fl", "bl"],
  right: ["fr", "br"],
  width_mm: 100,
  wheel_circumference_mm: 1000,
};
const NONE = { x: 0, y: 0, z: 0 };

async function bench() {
  const clock = new FakeClock();
  const motors: Motor[] = [];
  for (const name of ["fl", "bl", "fr", "br"]) {
    const encoder = await construct(FakeEncoder, {}, { name: `${name}-e`, clock });
    const attributes = { max_rpm: 60, encoder: `${name}-e`, ticks_per_rotation: 1000 };
    motors.push(await construct(FakeMotor, attributes, { name, dependencies: [encoder], clock }));
  }
  const base = await construct(WheeledBase, ATTRIBUTES, { dependencies: motors });
  const powers = async () =>
    (await Promise.all(motors.map((motor) => motor.isPowered()))).map((one) => one.powerPct);
  const positions = () => Promise.all(motors.map((motor) => motor.getPosition()));
  return { clock, motors, base, powers, positions };
}

Deno.test("straight() gives rpm and rotations of the wheels for a distance and a speed", () => {
  assertEquals(straight(1000, 1000, SIZES), { rpm: 60, rotations: 1 });
  assertEquals(straight(-1000, 1000, SIZES), { rpm: 60, rotations: -1 });
  assertEquals(straight(1000, -1000, SIZES), { rpm: -60, rotations: 1 });
  assertEquals(straight(-1000, -1000, SIZES), { rpm: -60, rotations: -1 });
});

Deno.test("spinning() gives rpm and rotations of the wheels for an angle and a speed", () => {
  for (
    const [angle, speed, rpm, rotations] of [
      [90, 10, 0.523, 0.0785],
      [-90, 10, -0.523, 0.0785],
      [90, -10, -0.523, 0.0785],
      [-90, -10, 0.523, 0.0785],
      [60, 10, 0.523, 0.0523],
      [30, 10, 0.523, 0.0261],
    ]
  ) {
    const found = spinning(angle, speed, SIZES);
    assertAlmostEquals(found.rpm, rpm, 0.001);
    assertAlmostEquals(found.rotations, rotations, 0.001);
  }
  assertAlmostEquals(spinning(90, 10, { ...SIZES, spinSlipFactor: 2 }).rotations, 0.157, 0.001);
});

Deno.test("wheelSpeeds() gives the rpm of both sides for a linear and an angular velocity", () => {
  for (
    const [mmPerSec, degPerSec, left, right] of [
      [1000, 10, 59.476, 60.523],
      [-1000, -10, -59.476, -60.523],
      [1000, -10, 60.523, 59.476],
      [-1000, 10, -60.523, -59.476],
      [1000, 0, 60, 60],
      [-1000, 0, -60, -60],
    ]
  ) {
    const found = wheelSpeeds(mmPerSec, degPerSec, SIZES);
    assertAlmostEquals(found.left, left, 0.01);
    assertAlmostEquals(found.right, right, 0.01);
  }
});

Deno.test("wheelPowers() gives the powers of both sides for a linear and an angular power", () => {
  assertEquals(wheelPowers(1, 0), { left: 1, right: 1 });
  assertEquals(wheelPowers(0.5, 0.25), { left: 0.25, right: 0.75 });
  assertEquals(wheelPowers(-0.5, 0.25), { left: -0.25, right: -0.75 });
  assertEquals(wheelPowers(0.5, -0.25), { left: 0.75, right: 0.25 });
  assertEquals(wheelPowers(0, 0.5), { left: -0.5, right: 0.5 });
  assertEquals(wheelPowers(0, -0.5), { left: 0.5, right: -0.5 });
  assertEquals(wheelPowers(1, 1), { left: 0, right: 1 });
  assertEquals(wheelPowers(-1, 1), { left: 0, right: -1 });
});

Deno.test("wheeled base: moveStraight and spin turn the wheels, then the base stops", async () => {
  const { base, clock, powers, positions } = await bench();
  const driving = base.moveStraight(500, 250);
  await settle();
  assertEquals(await powers(), [0.25, 0.25, 0.25, 0.25]);
  assertEquals(await base.isMoving(), true);
  await clock.advance(2000);
  await driving;
  assertEquals([await base.isMoving(), await positions()], [false, [0.5, 0.5, 0.5, 0.5]]);
  const turning = base.spin(-90, 90);
  await clock.advance(1000);
  await turning;
  for (const [index, position] of (await positions()).entries()) {
    assertAlmostEquals(position, index < 2 ? 0.5785 : 0.4215, 0.001);
  }
});

Deno.test("wheeled base: setPower and setVelocity set the powers of the wheels", async () => {
  const { base, powers } = await bench();
  await base.setPower({ x: 0, y: 0.5, z: 0 }, { x: 0, y: 0, z: 0.25 });
  assertEquals(await powers(), [0.25, 0.25, 0.75, 0.75]);
  await base.setPower(NONE, NONE);
  assertEquals([await base.isMoving(), await powers()], [false, [0, 0, 0, 0]]);
  await base.setVelocity({ x: 0, y: 500, z: 0 }, NONE);
  assertEquals(await powers(), [0.5, 0.5, 0.5, 0.5]);
  // The base turns around its left wheels, which stand still: 500 mm/s at 50 mm from them.
  await base.setVelocity({ x: 0, y: 500, z: 0 }, { x: 0, y: 0, z: 500 / 50 * 180 / Math.PI });
  const [left, , right] = await powers();
  assertAlmostEquals(left, 0);
  assertAlmostEquals(right, 1);
  await base.setVelocity(NONE, NONE);
  assertEquals(await base.isMoving(), false);
});

Deno.test("wheeled base: a movement with zero distance, angle or speed stops the base", async () => {
  const { base } = await bench();
  for (
    const stand of [
      () => base.moveStraight(0, 1000),
      () => base.moveStraight(1000, 0),
      () => base.spin(0, 10),
      () => base.spin(10, 0),
      () => base.stop(),
    ]
  ) {
    await base.setPower({ x: 0, y: 1, z: 0 }, NONE);
    assertEquals(await base.isMoving(), true);
    await stand();
    assertEquals(await base.isMoving(), false);
  }
});

Deno.test("wheeled base: stop, a new command or an aborted call ends a movement", async () => {
  const { base, clock, powers } = await bench();
  let moving = base.moveStraight(10_000, 1000);
  await clock.advance(10);
  await base.stop();
  await moving;
  assertEquals(await base.isMoving(), false);
  moving = base.spin(360, 5);
  await clock.advance(10);
  await base.setPower({ x: 0, y: 0.5, z: 0 }, NONE);
  await moving;
  assertEquals(await powers(), [0.5, 0.5, 0.5, 0.5]);
  const caller = new AbortController();
  const abandoned = assertRejects(
    () => base.moveStraight(10_000, 1000, { signal: caller.signal }),
    Error,
    "gone",
  );
  await clock.advance(10);
  caller.abort(new Error("gone"));
  await abandoned;
  assertEquals([await powers(), clock.pending], [[0, 0, 0, 0], 0]);
});

Deno.test("wheeled base: a failing motor stops all motors", async () => {
  const { base, motors, clock, powers } = await bench();
  motors[3].goFor = () => Promise.reject(new SvcError("unavailable", "lost the motor"));
  await assertRejects(() => base.moveStraight(10_000, 1000), SvcError, "lost the motor");
  assertEquals([await powers(), clock.pending], [[0, 0, 0, 0], 0]);
  motors[1].stop = () => Promise.reject(new SvcError("unavailable", "no answer"));
  await assertRejects(
    () => base.stop(),
    SvcError,
    "cannot stop every motor of rdk:component:base/test: no answer",
  );
});

Deno.test("wheeled base: properties come from the attributes, and bad attributes are refused", async () => {
  const { base } = await bench();
  assertEquals(await base.getProperties(), {
    widthMeters: 0.1,
    turningRadiusMeters: 0,
    wheelCircumferenceMeters: 1,
  });
  await base.close();
  assertEquals(namedBy(WheeledBase, ATTRIBUTES), ["fl", "bl", "fr", "br"]);
  assertEquals(problemsOf(WheeledBase, {}).map((one) => one.split(":")[0]), [
    "left",
    "right",
    "width_mm",
    "wheel_circumference_mm",
  ]);
  assertEquals(problemsOf(WheeledBase, { ...ATTRIBUTES, left: ["fl"] }), [
    ": left and right need to have the same number of motors, not 1 vs 2",
  ]);
  const empty = problemsOf(WheeledBase, { ...ATTRIBUTES, right: [], width_mm: 0 });
  assert(empty[0].startsWith("right: ") && empty[1].startsWith("width_mm: "), empty.join("\n"));
});

Deno.test("fake base: every movement ends at once", async () => {
  const base = await construct(FakeBase);
  await base.moveStraight(1e6, 1);
  await base.spin(1e6, 1);
  await base.setPower({ x: 0, y: 1, z: 0 }, NONE);
  await base.setVelocity({ x: 0, y: 1, z: 0 }, NONE);
  assertEquals(await base.isMoving(), false);
  await base.stop();
  assertEquals(await base.getProperties(), {
    widthMeters: 0.6,
    turningRadiusMeters: 0,
    wheelCircumferenceMeters: 0,
  });
});

Deno.test("fake in a building: an impossible command or a time of day set back does not stop it for ever", async () => {
  const clock = new FakeClock();
  const base = await construct(FakeBase, { building: "hall", people: 0, wheel_slip: 0 }, { clock });
  const place = async () => {
    const { x_m, y_m, yaw_degs } = await base.doCommand({ truth: true });
    return [x_m, y_m, yaw_degs].map((one) => Math.round(Number(one) * 100) / 100 + 0);
  };
  const start = await place();
  for (const bad of [NaN, Infinity, -Infinity]) {
    const commands = [
      () => base.setVelocity({ x: 0, y: bad, z: 0 }, NONE),
      () => base.setVelocity(NONE, { x: 0, y: 0, z: bad }),
      () => base.setPower({ x: 0, y: bad, z: 0 }, NONE),
      () => base.moveStraight(bad, 100),
      () => base.moveStraight(100, bad),
      () => base.spin(bad, 90),
      () => base.spin(90, bad),
    ];
    for (const command of commands) await assertRejects(command, SvcError, "wanted finite numbers");
  }
  clock.setOn(-3_600_000);
  await passing(clock, 1000, base.spin(360, -1e308));
  await passing(clock, 1000, base.moveStraight(-500, -1e308));
  const [x, y, yaw] = start;
  assertEquals(await place(), [x + 0.5, y, yaw]);
  await base.close();
});
