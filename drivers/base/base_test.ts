import { assert, assertAlmostEquals, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import type { Motor } from "../../lib/api/actuators/motor.ts";
import { settle } from "../../lib/base/clock.ts";
import { FakeClock, passing } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
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
  const logged: LogRecord[] = [];
  const base = await construct(WheeledBase, ATTRIBUTES, { dependencies: motors, clock, logged });
  const powers = async () =>
    (await Promise.all(motors.map((motor) => motor.isPowered()))).map((one) => one.powerPct);
  const positions = () => Promise.all(motors.map((motor) => motor.getPosition()));
  return { clock, motors, base, powers, positions, logged: () => logged.map(({ message }) => message) };
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

const FORWARDS = { x: 0, y: 0.5, z: 0 };
const unanswered = () => new Promise<never>(() => {});
const FAILING: { [how: string]: [fail: (motor: Motor) => unknown, logged: string] } = {
  "ends its movement by itself": [(motor) => motor.stop(), "it stands"],
  "is lost with its module": [
    (motor) => motor.isPowered = () => Promise.reject(new SvcError("unavailable", "the module has ended")),
    "the module has ended",
  ],
  "no longer answers": [(motor) => motor.isPowered = unanswered, "gave no reading within 1 s"],
};
for (const [how, [fail, reason]] of Object.entries(FAILING)) {
  Deno.test(`wheeled base: all wheels stop if the motor of one ${how} after its command`, async () => {
    const { base, motors, clock, powers, logged } = await bench();
    await base.setVelocity({ x: 0, y: 500, z: 0 }, NONE);
    await clock.advance(1000);
    assertEquals(await powers(), [0.5, 0.5, 0.5, 0.5]);
    await fail(motors[2]);
    await clock.advance(3000);
    const others = await Promise.all([0, 1, 3].map((index) => motors[index].isMoving()));
    assertEquals([others, clock.pending], [[false, false, false], 0]);
    const [warning, ...more] = logged();
    assertEquals(more, []);
    assert(warning.startsWith("base test was stopped with all of its wheels: "), warning);
    assert(warning.includes("motor/fr no longer turns") && warning.includes(reason), warning);
  });
}

for (const [how, [fail, reason]] of Object.entries(FAILING)) {
  Deno.test(`wheeled base: the same under commands ten times a second, if one ${how}`, async () => {
    const { base, motors, clock, logged } = await bench();
    // As a stick that is not held quite still.
    const drive = (at: number) => base.setPower({ x: 0, y: 0.5 - at % 3 / 100, z: 0 }, NONE);
    for (let at = 0; at < 10; at++) {
      await drive(at);
      await clock.advance(100);
    }
    const { setPower } = motors[2];
    await fail(motors[2]);
    motors[2].setPower = () => Promise.resolve();
    let refused = 0;
    for (let at = 0; at < 50; at++) {
      await drive(at).catch((error) => {
        refused++;
        assertStringIncludes(error.message, "the base stands because rdk:component:motor/fr no longer turns");
      });
      await clock.advance(100);
    }
    const others = () => Promise.all([0, 1, 3].map((index) => motors[index].isMoving()));
    assertEquals([await others(), clock.pending], [[false, false, false], 0]);
    assert(refused >= 25, `${refused} commands were refused`);
    assertEquals(logged().length, 1);
    assertStringIncludes(logged()[0], reason);

    // A stop says that somebody knows it, and so does a pause.
    motors[2].setPower = setPower;
    await base.stop();
    await drive(0);
    assertEquals(await others(), [true, true, true]);
    await base.close();
    assertEquals(clock.pending, 0);
  });
}

Deno.test("wheeled base: after a failure a command is taken again when none has come for a second", async () => {
  const { base, motors, clock, powers } = await bench();
  const drive = () => base.setPower({ x: 0, y: 0.01, z: 0 }, NONE);
  await drive();
  await clock.advance(1000);
  await motors[0].stop();
  await clock.advance(600);
  await assertRejects(drive, SvcError, "fl no longer turns: it stands; stop, and try again");
  await clock.advance(900);
  await assertRejects(drive, SvcError, "fl no longer turns");
  await clock.advance(1100);
  await drive();
  assertEquals(await powers(), [0.01, 0.01, 0.01, 0.01]);
  await base.close();
});

Deno.test("wheeled base: a wheel that turns round, or stands for a while on command, has not failed", async () => {
  const { base, motors, clock, logged } = await bench();
  const seen = { isOn: true, powerPct: 0.5 };
  let isOn = true;
  motors[0].isPowered = () => Promise.resolve({ ...seen, isOn });
  motors[0].isMoving = () => Promise.resolve(isOn);
  await base.setPower(FORWARDS, NONE);
  await clock.advance(1000);
  isOn = false;
  // It comes to rest before it goes back, and the base has no say in how long that takes.
  await base.setPower({ x: 0, y: -0.5, z: 0 }, NONE);
  await clock.advance(2000);
  await base.setPower(FORWARDS, { x: 0, y: 0, z: 0.5 });
  await clock.advance(2000);
  assertEquals([await motors[2].isMoving(), logged()], [true, []]);
  await base.close();
});

Deno.test("wheeled base: a wheel that stands on command, or is not seen for a moment, stops no other", async () => {
  const { base, motors, clock, powers, logged } = await bench();
  await base.setPower(FORWARDS, { x: 0, y: 0, z: 0.5 });
  await clock.advance(2000);
  assertEquals(await powers(), [0, 0, 1, 1]);

  await base.setPower(FORWARDS, NONE);
  await clock.advance(400);
  const { isPowered } = motors[1];
  motors[1].isPowered = () => Promise.reject(new SvcError("unavailable", "try again"));
  await clock.advance(200);
  motors[1].isPowered = isPowered;
  await clock.advance(2000);
  assertEquals(await powers(), [0.5, 0.5, 0.5, 0.5]);

  // As a control loop whose present power is 0.
  motors[0].isPowered = () => Promise.resolve({ isOn: false, powerPct: 0 });
  await clock.advance(2000);
  assertEquals([await motors[1].isMoving(), logged()], [true, []]);
  await base.close();
  assertEquals([await motors[1].isMoving(), clock.pending], [false, 0]);
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
