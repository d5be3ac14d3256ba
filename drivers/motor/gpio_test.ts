import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import type { Board } from "../../lib/api/actuators/board.ts";
import type { Motor } from "../../lib/api/actuators/motor.ts";
import { settle } from "../../lib/base/clock.ts";
import { FakeClock, passing } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { assertRefused } from "../../tests/support/refusals.ts";
import { construct, namedBy, problemsOf } from "../../tests/support/construct.ts";
import { FakeBoard } from "../board/fake.ts";
import { FakeEncoder } from "../encoder/fake.ts";
import { IncrementalEncoder } from "../encoder/incremental.ts";
import { SingleEncoder } from "../encoder/single.ts";
import { timedMove } from "./move.ts";
import { GpioMotor } from "./gpio.ts";

interface Bench {
  readonly board: Board;
  readonly motor: Motor;
  readonly clock: FakeClock;
  logged(): string[];
  /** Each pin as `high` or `low`, with duty cycle and frequency while it carries pulses. */
  pins(...names: string[]): Promise<string[]>;
}

async function bench(attributes: JsonObject): Promise<Bench> {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const board = await construct(FakeBoard, {}, { name: "b", clock });
  const motor = await construct(GpioMotor, { board: "b", ...attributes }, {
    name: "m",
    dependencies: [board],
    clock,
    logged: records,
  });
  return {
    board,
    motor,
    clock,
    logged: () => records.map(({ message }) => message),
    pins: (...names) =>
      Promise.all(names.map(async (pin) => {
        const level = await board.getGpio(pin) ? "high" : "low";
        const frequencyHz = await board.getPwmFrequency(pin);
        return frequencyHz === 0 ? level : `${level} ${await board.getPwm(pin)} ${frequencyHz}Hz`;
      })),
  };
}

const PATTERNS: JsonObject[] = [{ a: "1", b: "2", pwm: "3" }, { dir: "1", pwm: "3" }, { a: "1", b: "3" }];
const NEARLY_0 = "Cannot move motor at an RPM that is nearly 0";

Deno.test("gpio motor, a + b + pwm: power sets exact pin levels", async () => {
  const { motor, pins } = await bench({ pins: { a: "1", b: "2", pwm: "3" }, max_rpm: 100, pwm_freq: 4000 });
  assertEquals(await pins("1", "2", "3"), ["low", "low", "low"]);
  assertEquals(await motor.isPowered(), { isOn: false, powerPct: 0 });
  await motor.setPower(0.43);
  assertEquals(await pins("1", "2", "3"), ["high", "low", "low 0.43 4000Hz"]);
  assertEquals(await motor.isPowered(), { isOn: true, powerPct: 0.43 });
  await motor.setPower(-0.44);
  assertEquals(await pins("1", "2", "3"), ["low", "high", "low 0.44 4000Hz"]);
  assertEquals(await motor.isPowered(), { isOn: true, powerPct: -0.44 });
  assertEquals(await motor.isMoving(), true);
  await motor.setPower(0.01);
  assertEquals(await pins("1", "2", "3"), ["low", "low", "low"]);
  await motor.setRpm(-50);
  assertEquals(await pins("1", "2", "3"), ["low", "high", "low 0.5 4000Hz"]);
  await motor.close();
  assertEquals(await pins("1", "2", "3"), ["low", "low", "low"]);
  assertEquals([await motor.getPosition(), await motor.getProperties()], [0, { positionReporting: false }]);
});

Deno.test("dir + pwm: exact pin levels, with an active-low enable pin", async () => {
  const { motor, pins, clock } = await bench({
    pins: { dir: "1", pwm: "3", en_low: "2" },
    max_rpm: 100,
    pwm_freq: 4000,
  });
  assertEquals(await pins("1", "2", "3"), ["low", "high", "low"]);
  const moving = motor.goFor(50, 1);
  await settle();
  assertEquals(await pins("1", "2", "3"), ["high", "low", "low 0.5 4000Hz"]);
  await clock.advance(1200);
  await moving;
  assertEquals(await pins("1", "2", "3"), ["high", "high", "low"]);
  await motor.setPower(-0.45);
  assertEquals(await pins("1", "2", "3"), ["low", "low", "low 0.45 4000Hz"]);
  await motor.stop();
  assertEquals(await pins("1", "2", "3"), ["low", "high", "low"]);
});

Deno.test("a + b: one pin is high, the other gets PWM with the rest of the power", async () => {
  const { motor, pins, logged } = await bench({
    pins: { a: "1", b: "2", en_high: "3" },
    max_rpm: 100,
    pwm_freq: 4000,
  });
  assert(logged()[0].includes("configured with A and B pins, but no PWM"), logged()[0]);
  assertEquals(await pins("1", "2", "3"), ["low", "low", "low"]);
  await motor.setPower(0.5);
  assertEquals(await pins("1", "2", "3"), ["high", "low 0.5 4000Hz", "high"]);
  await motor.setPower(-0.5);
  assertEquals(await pins("1", "2", "3"), ["high 0.5 4000Hz", "high", "high"]);
  await motor.setPower(0.45);
  assertEquals(await pins("1", "2"), ["high", "high 0.55 4000Hz"]);
  assertEquals(await motor.isPowered(), { isOn: true, powerPct: 0.45 });
  await motor.stop();
  assertEquals(await pins("1", "2", "3"), ["low", "low", "low"]);
});

const ENABLED = { a: "1", b: "3", en_high: "2" };
for (const pinNames of [...PATTERNS, ENABLED]) {
  Deno.test(`gpio motor: no more power on the way from one to another: ${Object.keys(pinNames).join(" + ")}`, async () => {
    const { motor, board } = await bench({ pins: pinNames });
    /** By pin, the share of the time in which it is high. */
    const shares = new Map<string, number>();
    const power = () => {
      const share = (pin: unknown) => shares.get(pin as string) ?? 0;
      const { pwm, dir, a, b, en_high: enHigh } = pinNames as JsonObject;
      if (enHigh && !share(enHigh)) return 0;
      const forwards = dir ? 2 * share(dir) - 1 : share(a) - share(b);
      return pwm ? forwards * share(pwm) : forwards;
    };
    const seen: number[] = [];
    const noting =
      (set: (pin: string, value: never) => Promise<void>) => async (pin: string, value: never) => {
        await set(pin, value);
        shares.set(pin, Number(value));
        seen.push(power());
      };
    board.setGpio = noting(board.setGpio.bind(board));
    board.setPwm = noting(board.setPwm.bind(board));

    // Without a pin that enables the driver, inputs at rest make their first pulses from full power.
    if (!("pwm" in pinNames || pinNames === ENABLED)) await motor.setPower(0.1);
    for (const next of [0.2, 0.25, -0.1, -0.3, 0.3, 0.2, 1, -0.1, 0.05]) {
      const before = power();
      seen.length = 0;
      await motor.setPower(next);
      const [least, most] = [Math.min(before, next, 0), Math.max(before, next, 0)];
      assert(seen.every((one) => one >= least - 1e-9 && one <= most + 1e-9), `${before} to ${next}: ${seen}`);
      assertAlmostEquals(power(), next, 1e-9);
    }
    await motor.close();
    assertEquals(power(), 0);
  });
}

Deno.test("gpio motor: dir_flip and direction_flip swap the directions", async () => {
  const dir = await bench({ pins: { dir: "1", pwm: "2" }, dir_flip: true });
  await dir.motor.setPower(1);
  assertEquals(await dir.pins("1", "2"), ["low", "low 1 800Hz"]);
  const ab = await bench({ pins: { a: "1", b: "2" }, direction_flip: true });
  await ab.motor.setPower(0.75);
  assertEquals(await ab.pins("1", "2"), ["low 0.25 800Hz", "high"]);
  const abPwm = await bench({ pins: { a: "1", b: "2", pwm: "3" }, dir_flip: true });
  await abPwm.motor.setPower(-0.75);
  assertEquals(await abPwm.pins("1", "2", "3"), ["high", "low", "low 0.75 800Hz"]);
});

Deno.test("gpio motor: power stays between min_power_pct and max_power_pct", async () => {
  const { motor, pins } = await bench({
    pins: { dir: "1", pwm: "2" },
    min_power_pct: 0.2,
    max_power_pct: 0.6,
  });
  await motor.setPower(1);
  assertEquals(await pins("2"), ["low 0.6 800Hz"]);
  await motor.setPower(-0.05);
  assertEquals(await pins("1", "2"), ["low", "low 0.2 800Hz"]);
  assertEquals(await motor.isPowered(), { isOn: true, powerPct: -0.2 });
  await motor.setPower(0.005);
  assertEquals(await motor.isPowered(), { isOn: false, powerPct: 0 });
  await assertRejects(() => motor.setPower(NaN), SvcError, "wanted a number");
});

Deno.test("gpio motor: a missing max_rpm is logged and counts as 100", async () => {
  const { motor, pins, logged } = await bench({ pins: { dir: "1", pwm: "2" } });
  assert(logged()[0].includes("has no max_rpm"), logged()[0]);
  await motor.setRpm(25);
  assertEquals(await pins("2"), ["low 0.25 800Hz"]);
});

Deno.test("gpio motor: impossible movements are refused with the published errors", async () => {
  const { motor, logged } = await bench({ pins: { dir: "1", pwm: "2" }, max_rpm: 100 });
  await motor.setPower(0.5);
  await assertRejects(() => motor.goFor(0.05, 6.6), SvcError, NEARLY_0);
  await assertRejects(() => motor.setRpm(NaN), SvcError, NEARLY_0);
  await assertRejects(() => motor.goFor(50, 0), SvcError, "Cannot move motor for 0 revolutions");
  const to = await assertRejects(
    () => motor.goTo(50, 1),
    SvcError,
    "motor with name m does not support GoTo",
  );
  assertEquals(to.code, "unimplemented");
  await assertRejects(() => motor.resetZeroPosition(0), SvcError, "m does not support ResetZeroPosition");
  assertEquals(await motor.isMoving(), true, "what was refused does not interrupt");
  assert(logged().includes("motor speed is nearly 0 rev_per_min"));
  await motor.setRpm(100);
  assert(logged().at(-1)?.startsWith("motor speed is nearly the max rev_per_min"), logged().at(-1));
});

Deno.test("gpio motor: SetRPM at a speed near 0 stops a motor that turns", async () => {
  const { motor, pins } = await bench({ pins: { dir: "1", pwm: "2" }, max_rpm: 100 });
  for (const rpm of [0, -0, 0.05, -0.05]) {
    await motor.setRpm(50);
    await motor.setRpm(rpm);
    assertEquals([await motor.isMoving(), await pins("2")], [false, ["low"]], `${rpm}`);
  }
});

Deno.test("timedMove() gives power and duration of a movement without an encoder", () => {
  const free = { minPowerPct: 0, maxPowerPct: 1 };
  assertEquals(timedMove(100, 100, 100, free), { powerPct: 1, durationMs: 60_000 });
  assertEquals(timedMove(100, -100, 100, free), { powerPct: -1, durationMs: 60_000 });
  assertEquals(timedMove(100, -1000, 100, free), { powerPct: -1, durationMs: 60_000 });
  assertEquals(timedMove(100, 1000, 200, free), { powerPct: 1, durationMs: 120_000 });
  assertEquals(timedMove(100, 1000, 50, free), { powerPct: 1, durationMs: 30_000 });
  assertEquals(timedMove(200, 100, 50, free), { powerPct: 0.5, durationMs: 30_000 });
  assertEquals(timedMove(200, 100, -50, free), { powerPct: -0.5, durationMs: 30_000 });
  assertEquals(timedMove(200, -100, -50, free), { powerPct: 0.5, durationMs: 30_000 });
  const slow = { minPowerPct: 0.25, maxPowerPct: 0.5 };
  assertEquals(timedMove(100, 100, 50, slow), { powerPct: 0.5, durationMs: 60_000 });
  assertEquals(timedMove(100, -10, 50, slow), { powerPct: -0.25, durationMs: 120_000 });
});

for (const pinNames of PATTERNS) {
  Deno.test(`gpio motor: stop ends a running GoFor without an error: ${Object.keys(pinNames).join(" + ")}`, async () => {
    const { motor, pins, clock } = await bench({ pins: pinNames, max_rpm: 100 });
    const moving = motor.goFor(100, 100);
    await clock.advance(20);
    assertEquals(await motor.isMoving(), true);
    await motor.stop();
    await moving;
    assertEquals(await motor.isMoving(), false);
    assertEquals((await pins("3"))[0], "low");
    assertEquals(clock.pending, 0);
  });
}

Deno.test("gpio motor: a new command ends a GoFor, and an aborted call stops the motor", async () => {
  const { motor, clock } = await bench({ pins: { dir: "1", pwm: "2" }, max_rpm: 100 });
  const moving = motor.goFor(100, 100);
  await settle();
  await motor.setPower(-0.25);
  await moving;
  assertEquals(await motor.isPowered(), { isOn: true, powerPct: -0.25 });
  const caller = new AbortController();
  const abandoned = assertRejects(() => motor.goFor(100, 100, { signal: caller.signal }), Error, "gone");
  await settle();
  caller.abort(new Error("gone"));
  await abandoned;
  assertEquals([await motor.isMoving(), clock.pending], [false, 0]);
});

Deno.test("attributes: pin patterns, limits and missing values, each error with its path", () => {
  const problems = (pins: JsonObject, more: JsonObject = {}) =>
    problemsOf(GpioMotor, { board: "b", pins, ...more });
  for (const good of PATTERNS) assertEquals(problems(good), []);
  assertEquals(problems({ a: "1" }), ["pins: motor pin config has specified pin A but not pin B"]);
  assertEquals(problems({ b: "1" }), ["pins: motor pin config has specified pin B but not pin A"]);
  assertEquals(problems({ dir: "1" }), ["pins: motor pin config has direction pin but needs PWM pin"]);
  assertEquals(problems({ pwm: "1" }), [
    "pins: motor pin config has PWM pin but needs either a direction pin, or A and B pins",
  ]);
  assertEquals(problems({}), [
    "pins: motor pin config devoid of pin definitions (A, B, Direction, PWM are all missing), wanted a and b, or dir and pwm",
  ]);
  const ab = { a: "1", b: "2" };
  for (const max of [100, 0.05, 0, -1]) {
    assertEquals(problems(ab, { max_power_pct: max }), [
      `max_power_pct: found ${max}, wanted a number from 0.06 to 1`,
    ]);
  }
  for (const min of [7, -0.1]) {
    assertEquals(problems(ab, { min_power_pct: min }), [
      `min_power_pct: found ${min}, wanted a number from 0 to 1`,
    ]);
  }
  assertEquals(problems(ab, { min_power_pct: 0.9, max_power_pct: 0.5 }), [
    "min_power_pct: found 0.9, wanted at most max_power_pct, which is 0.5",
  ]);
  assertEquals(problems(ab, { min_power_pct: 0.5, max_power_pct: 0.5, pwm_freq: 0 }), []);
  assert(
    problems(ab, { encoder: "e", ticks_per_rotation: -1 })[0].includes(
      "ticks_per_rotation should be positive",
    ),
  );
  assertEquals(problems(ab, { ticks_per_rotation: 0 }), [], "0 means the default");
  assert(problems(ab, { ramp_rate: -1 })[0].startsWith("ramp_rate: "));
  for (const max of [-1, 1e308]) assert(problems(ab, { max_rpm: max })[0].startsWith("max_rpm: "));
  assertEquals(problemsOf(GpioMotor, {}).map((one) => one.split(":")[0]), ["board", "pins"]);
  assertEquals(namedBy(GpioMotor, { board: "b", encoder: "e", pins: ab }), ["b", "e"]);
});

const WIRED: JsonObject = {
  digital_interrupts: [{ name: "ea", pin: "11" }, { name: "eb", pin: "12" }],
  simulated_motors: [
    { pins: { dir: "1", pwm: "2" }, encoder: { a: "ea", b: "eb" }, ticks_per_rotation: 200, max_rpm: 120 },
  ],
};

/** A gpio motor with an encoder that really turns: both are wired to the same fake board. */
async function encoded(attributes: JsonObject = {}) {
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  const board = await construct(FakeBoard, WIRED, { name: "b", clock });
  const encoder = await construct(IncrementalEncoder, { board: "b", pins: { a: "ea", b: "eb" } }, {
    name: "e",
    dependencies: [board],
    clock,
  });
  const motor = await construct(
    GpioMotor,
    {
      board: "b",
      encoder: "e",
      pins: { dir: "1", pwm: "2" },
      ticks_per_rotation: 200,
      max_rpm: 120,
      ...attributes,
    },
    { name: "m", dependencies: [board, encoder], clock, logged },
  );
  const close = async () => {
    for (const one of [motor, encoder, board]) await one.close();
    assertEquals(clock.pending, 0);
  };
  return { board, encoder, motor, clock, logged, close };
}

Deno.test("gpio motor with encoder: setPower turns the motor, and its position follows", async () => {
  const { motor, encoder, clock, close } = await encoded();
  assertEquals(await motor.getProperties(), { positionReporting: true });
  await motor.setPower(0.5);
  await clock.advance(100);
  // 60 rpm for 0.1 s with 200 ticks a rotation.
  assertAlmostEquals((await encoder.getPosition()).value, 20, 1);
  assertAlmostEquals(await motor.getPosition(), 0.1, 0.01);
  await motor.setPower(-0.5);
  await clock.advance(200);
  assertAlmostEquals(await motor.getPosition(), -0.1, 0.01);
  await motor.resetZeroPosition(3);
  assertEquals([await motor.getPosition(), await motor.isMoving()], [-3, false]);
  assertEquals((await encoder.getPosition()).value, 0);
  await close();
});

const MOVES = [[60, 0.2, 1], [-60, 0.2, -1], [60, -0.2, -1], [-60, -0.2, 1]] as const;
for (const [rpm, revolutions, direction] of MOVES) {
  Deno.test(`gpio motor with encoder: GoFor(${rpm}, ${revolutions}) reaches its distance`, async () => {
    const { motor, clock, close } = await encoded({ ramp_rate: 0.1 });
    const moving = motor.goFor(rpm, revolutions);
    await settle();
    assertEquals(await motor.isPowered(), { isOn: true, powerPct: 0.2 * direction });
    await passing(clock, 2000, moving);
    assertAlmostEquals(await motor.getPosition(), 0.2 * direction, 0.03);
    assertEquals(await motor.isMoving(), false);
    await close();
  });
}

Deno.test("with an encoder: GoTo takes its direction from the distance, and does nothing near the goal", async () => {
  const { motor, clock, close } = await encoded();
  await passing(clock, 2000, motor.goTo(-60, 0.3));
  assertAlmostEquals(await motor.getPosition(), 0.3, 0.03);
  const there = await motor.getPosition();
  await motor.goTo(60, 0.25);
  assertEquals(await motor.getPosition(), there);
  await passing(clock, 2000, motor.goTo(60, -0.1));
  assertAlmostEquals(await motor.getPosition(), -0.1, 0.03);
  await assertRejects(() => motor.goTo(0, 1), SvcError, NEARLY_0);
  await close();
});

Deno.test("with an encoder: positions that are not finite are refused, and the motor stands", async () => {
  const { motor, close } = await encoded();
  for (const position of [NaN, Infinity, -Infinity]) {
    await assertRejects(() => motor.goTo(60, position), SvcError, "wanted a finite number");
    await assertRejects(() => motor.resetZeroPosition(position), SvcError, "wanted a finite number");
  }
  assertEquals([await motor.isMoving(), await motor.getPosition()], [false, 0]);
  await close();
});

Deno.test("with an encoder and a PID loop: of an impossible speed the motor turns at full power", async () => {
  const { motor, clock, close } = await encoded({ control_parameters: {} });
  for (const rpm of [Infinity, -1e308]) {
    await motor.setRpm(rpm);
    await clock.advance(100);
    assertEquals(await motor.isPowered(), { isOn: true, powerPct: Math.sign(rpm) });
  }
  await close();
});

Deno.test("gpio motor with encoder: SetRPM holds the speed until SetPower", async () => {
  const { motor, clock, close } = await encoded();
  await motor.setRpm(-48);
  await clock.advance(400);
  const before = await motor.getPosition();
  await clock.advance(200);
  assertAlmostEquals(await motor.getPosition() - before, -48 / 60 * 0.2, 0.03);
  await motor.setPower(0.3);
  await clock.advance(100);
  assertEquals(await motor.isPowered(), { isOn: true, powerPct: 0.3 });
  await close();
});

Deno.test("gpio motor with encoder: SetRPM fails if the motor cannot begin, and tells why", async () => {
  const { motor, encoder, logged, close } = await encoded();
  encoder.getPosition = () => Promise.reject(new SvcError("unavailable", "the cable is off"));
  await assertRefused("unavailable", "the cable is off", () => motor.setRpm(48));
  assertEquals(logged.filter(({ message }) => message.includes("could not keep up 48 rpm")).length, 1);
  await close();
});

Deno.test("gpio motor with encoder: SetPower ends a running GoFor", async () => {
  const { motor, clock, close } = await encoded();
  const moving = motor.goFor(100, 1000);
  await clock.advance(200);
  await motor.setPower(-0.25);
  await moving;
  assertEquals(await motor.isPowered(), { isOn: true, powerPct: -0.25 });
  await close();
});

for (const control of [{ p: 0, i: 0, d: 0 }, { p: 0.04, i: 0.2, d: 0.0005 }]) {
  Deno.test(`gpio motor with encoder: a PID loop holds position and speed, gains ${JSON.stringify(control)}`, async () => {
    const { motor, clock, close } = await encoded({ control_parameters: control });
    await passing(clock, 1500, motor.goFor(100, 0.25));
    assertAlmostEquals(await motor.getPosition(), 0.25, 0.02);
    await passing(clock, 1500, motor.goTo(100, 0));
    assertAlmostEquals(await motor.getPosition(), 0, 0.02);
    await motor.setRpm(60);
    await clock.advance(500);
    const before = await motor.getPosition();
    await clock.advance(200);
    assertAlmostEquals(await motor.getPosition() - before, 0.2, 0.03);
    await motor.stop();
    assertEquals(await motor.isPowered(), { isOn: false, powerPct: 0 });
    await close();
  });
}

Deno.test("gpio motor: a single and a fake encoder get the direction from the motor", async () => {
  const clock = new FakeClock();
  const board = await construct(FakeBoard, {
    digital_interrupts: [{ name: "i", pin: "11" }],
    simulated_motors: [{ pins: { a: "1", b: "2" }, encoder: { i: "i" }, ticks_per_rotation: 200 }],
  }, { name: "b", clock });
  const single = await construct(SingleEncoder, { board: "b", pins: { i: "i" } }, {
    name: "single",
    dependencies: [board],
    clock,
  });
  const fake = await construct(FakeEncoder, {}, { name: "fake", clock });
  for (const encoder of [single, fake]) {
    const motor = await construct(
      GpioMotor,
      { board: "b", pins: { a: "1", b: "2" }, encoder: encoder.name.short, ticks_per_rotation: 200 },
      { dependencies: [board, single, fake], clock },
    );
    await motor.setPower(-0.6);
    await clock.advance(200);
    // 60 rpm for 0.2 s
    assertAlmostEquals(await motor.getPosition(), -0.2, 0.01, encoder.name.short);
    await motor.setPower(0.6);
    await clock.advance(400);
    assertAlmostEquals(await motor.getPosition(), 0.2, 0.01, encoder.name.short);
    await motor.close();
  }
  await single.close();
  await board.close();
});

Deno.test("gpio motor: an encoder of angles is refused", async () => {
  const board = await construct(FakeBoard, {}, { name: "b" });
  const encoder = await construct(FakeEncoder, {}, { name: "e" });
  encoder.getProperties = () => Promise.resolve({ ticksCountSupported: false, angleDegreesSupported: true });
  await assertRejects(
    () =>
      construct(GpioMotor, { board: "b", encoder: "e", pins: { a: "1", b: "2" }, ticks_per_rotation: 1 }, {
        dependencies: [board, encoder],
      }),
    SvcError,
    "encoder position type is Angle Degrees, need an encoder that supports Ticks",
  );
});

Deno.test("gpio motor with encoder: SetRPM 0 ends the control loop and stops the motor", async () => {
  const loops: JsonObject[] = [{}, { control_parameters: { p: 0, i: 0, d: 0 } }];
  for (const settings of loops) {
    const { motor, clock, close } = await encoded(settings);
    await motor.setRpm(60);
    await clock.advance(200);
    await motor.setRpm(0);
    assertEquals([await motor.isMoving(), await motor.isPowered()], [false, { isOn: false, powerPct: 0 }]);
    await close();
  }
});

Deno.test("gpio motor: an encoder that fails during a movement stops the motor", async () => {
  const { motor, encoder, clock, logged, close } = await encoded();
  const getPosition = encoder.getPosition.bind(encoder);
  await motor.setRpm(60);
  await clock.advance(100);
  encoder.getPosition = () => Promise.reject(new SvcError("unavailable", "the cable is loose"));
  await clock.advance(20);
  assertEquals(await motor.isMoving(), false);
  assert(logged.at(-1)?.message.includes("the cable is loose"), logged.at(-1)?.message);
  await assertRejects(() => motor.goFor(60, 1), SvcError, "the cable is loose");
  encoder.getPosition = getPosition;
  await close();
});

Deno.test("gpio motor: stop tries every pin and reports every failure", async () => {
  const { motor, board } = await bench({ pins: { a: "1", b: "2", pwm: "3" } });
  await motor.setPower(1);
  const setGpio = board.setGpio.bind(board);
  board.setGpio = (pin, high, call) =>
    pin === "3" ? setGpio(pin, high, call) : Promise.reject(new Error(`pin ${pin} stuck`));
  await assertRejects(() => motor.stop(), SvcError, "cannot turn the motor off: pin 1 stuck; pin 2 stuck");
  assertEquals(await board.getPwm("3"), 0);
});

Deno.test("gpio motor: an encoder that hangs during a movement stops the motor within a second", async () => {
  const { motor, encoder, clock, logged, close } = await encoded();
  const getPosition = encoder.getPosition.bind(encoder);
  const hang = () => void (encoder.getPosition = () => new Promise(() => {}));
  const going = motor.goFor(60, 1000);
  const failed = assertRejects(() => going, SvcError, "encoder/e gave no reading within 1 s");
  await clock.advance(100);
  hang();
  await clock.advance(1100);
  await failed;
  assertEquals(await motor.isPowered(), { isOn: false, powerPct: 0 });

  encoder.getPosition = getPosition;
  await motor.setRpm(60);
  await clock.advance(100);
  hang();
  await clock.advance(1100);
  assertEquals(await motor.isMoving(), false);
  assert(logged.at(-1)?.message.includes("gave no reading"), logged.at(-1)?.message);
  encoder.getPosition = getPosition;
  await close();
});

Deno.test("gpio motor: Stop and SetPower do not wait for an encoder that hangs", async () => {
  const { motor, encoder, clock, close } = await encoded();
  const getPosition = encoder.getPosition.bind(encoder);
  const going = motor.goFor(60, 1000);
  await clock.advance(100);
  encoder.getPosition = () => new Promise(() => {});
  await clock.advance(20);
  await motor.setPower(0.25);
  await going;
  assertEquals((await motor.isPowered()).powerPct, 0.25);
  await motor.stop();
  assertEquals(await motor.isMoving(), false);
  encoder.getPosition = getPosition;
  await close();
});

/** Advances the time in small steps until the promise settles, for at most 20 s; returns the elapsed time. */
async function untilSettled(clock: FakeClock, promise: Promise<unknown>): Promise<number> {
  let settled = false;
  void promise.catch(() => {}).then(() => settled = true);
  let elapsedMs = 0;
  for (; !settled && elapsedMs < 20_000; elapsedMs += 20) await clock.advance(20);
  return elapsedMs;
}

const STEERED: readonly (readonly [string, JsonObject])[] = [
  ["a ramp", {}],
  ["a PID loop", { control_parameters: { p: 0, i: 0, d: 0 } }],
];
for (const [loop, control] of STEERED) {
  Deno.test(`gpio motor with ${loop}: an encoder that counts the other way stops the motor instead of running away`, async () => {
    const { motor, clock, logged, close } = await encoded({ dir_flip: true, ...control });
    const reason = "its power turns it forwards, but e counts down; exchange the encoder's pins a and b";
    for (const move of [() => motor.goFor(60, 2), () => motor.goTo(60, 100)]) {
      const moving = move();
      const failed = assertRejects(() => moving, SvcError, reason);
      const elapsedMs = await untilSettled(clock, moving);
      assert(elapsedMs < 5_000, `${elapsedMs} ms`);
      await failed;
      assertEquals([await motor.isMoving(), await motor.isPowered()], [false, { isOn: false, powerPct: 0 }]);
    }
    await motor.setRpm(-60);
    await clock.advance(5_000);
    assertEquals(await motor.isMoving(), false);
    assert(logged.at(-1)?.message.includes("turns it backwards, but e counts up"), logged.at(-1)?.message);
    await close();
  });
}

for (const [loop, control] of STEERED) {
  Deno.test(`gpio motor with ${loop}: an encoder that is not connected stops the motor instead of full power for ever`, async () => {
    const { motor, encoder, clock, logged, close } = await encoded(control);
    encoder.getPosition = () => Promise.resolve({ value: 7, type: "ticks" });
    const reason = "it has all of its power, and e counts nothing; its shaft is blocked, or the encoder";
    for (const move of [() => motor.goFor(60, 2), () => motor.goTo(60, -100)]) {
      const moving = move();
      const failed = assertRejects(() => moving, SvcError, reason);
      const elapsedMs = await untilSettled(clock, moving);
      assert(elapsedMs < 10_000, `${elapsedMs} ms`);
      await failed;
      assertEquals([await motor.isMoving(), await motor.isPowered()], [false, { isOn: false, powerPct: 0 }]);
    }
    await motor.setRpm(-60);
    await clock.advance(10_000);
    assertEquals(await motor.isMoving(), false);
    assert(logged.at(-1)?.message.includes(reason), logged.at(-1)?.message);
    await close();
  });
}

for (const [loop, control] of STEERED) {
  Deno.test(`gpio motor with ${loop}: a speed that is given again and again is reached as one that is given once`, async () => {
    const speedOf = async (everyMs: number) => {
      const { motor, clock, close } = await encoded(control);
      for (let passedMs = 0; passedMs < 1500; passedMs += everyMs) {
        await motor.setRpm(90);
        await clock.advance(everyMs);
      }
      const before = await motor.getPosition();
      await clock.advance(200);
      const rpm = (await motor.getPosition() - before) / 0.2 * 60;
      await close();
      return rpm;
    };
    const once = await speedOf(1500);
    assertAlmostEquals(once, 90, 12);
    for (const everyMs of [20, 50, 100]) assertAlmostEquals(await speedOf(everyMs), once, 10);
  });

  Deno.test(`gpio motor with ${loop}: a slower speed is taken at once, also after an impossible one, and a stop ends it`, async () => {
    const { motor, clock, close } = await encoded(control);
    await motor.setRpm(1000);
    await clock.advance(5000);
    assertEquals(await motor.isPowered(), { isOn: true, powerPct: 1 });
    await motor.setRpm(30);
    await clock.advance(500);
    const before = await motor.getPosition();
    await clock.advance(500);
    assertAlmostEquals((await motor.getPosition() - before) / 0.5 * 60, 30, 10);

    await motor.setRpm(-30);
    await clock.advance(100);
    const { powerPct } = await motor.isPowered();
    assert(powerPct < 0, `${powerPct}`);

    const stopped = motor.stop();
    await motor.setRpm(-60);
    await stopped;
    await clock.advance(1000);
    assert((await motor.isPowered()).powerPct < 0);
    await motor.stop();
    await clock.advance(1000);
    assertEquals(await motor.isPowered(), { isOn: false, powerPct: 0 });
    await close();
  });

  Deno.test(`gpio motor with ${loop}: a blocked shaft stops the motor although its speed is given again and again`, async () => {
    const { motor, encoder, clock, logged, close } = await encoded(control);
    encoder.getPosition = () => Promise.resolve({ value: 7, type: "ticks" });
    for (let passedMs = 0; passedMs < 8000 && logged.length === 0; passedMs += 100) {
      await motor.setRpm(passedMs % 200 === 0 ? 60 : 70);
      await clock.advance(100);
    }
    assert(logged.at(-1)?.message.includes("its shaft is blocked"), logged.at(-1)?.message);
    assertEquals(await motor.isMoving(), false);
    await close();
  });
}
