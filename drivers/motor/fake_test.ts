import { assert, assertEquals, assertRejects } from "@std/assert";
import { settle } from "../../lib/base/clock.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { construct, namedBy, problemsOf } from "../../tests/support/construct.ts";
import { FakeBoard } from "../board/fake.ts";
import { FakeEncoder } from "../encoder/fake.ts";
import { IncrementalEncoder } from "../encoder/incremental.ts";
import { FakeMotor } from "./fake.ts";

async function bench(attributes: JsonObject = {}) {
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  const board = await construct(FakeBoard, {}, { name: "b", clock });
  const encoder = await construct(FakeEncoder, {}, { name: "e", clock });
  const motor = await construct(FakeMotor, attributes, {
    name: "m",
    dependencies: [board, encoder],
    clock,
    logged,
  });
  return { clock, board, encoder, motor, logged };
}

const ENCODED = { encoder: "e", ticks_per_rotation: 200 };

Deno.test("fake motor: isPowered returns the set power, and a nearly zero power counts as off", async () => {
  const { motor } = await bench();
  assertEquals(await motor.isPowered(), { isOn: false, powerPct: 0 });
  await motor.setPower(-0.5);
  assertEquals(await motor.isPowered(), { isOn: true, powerPct: -0.5 });
  await motor.setPower(0.004);
  assertEquals([await motor.isPowered(), await motor.isMoving()], [{ isOn: false, powerPct: 0.004 }, false]);
  await motor.setRpm(-40);
  assertEquals(await motor.isPowered(), { isOn: true, powerPct: -0.4 });
  await motor.close();
  assertEquals(await motor.isPowered(), { isOn: false, powerPct: 0 });
});

Deno.test("fake motor: GoFor takes the time of its revolutions, then the motor stops", async () => {
  const { motor, clock } = await bench({ max_rpm: 100 });
  const moving = motor.goFor(-10, -2);
  await settle();
  assertEquals(await motor.isPowered(), { isOn: true, powerPct: 0.1 });
  await clock.advance(11_999);
  assertEquals(await motor.isMoving(), true);
  await clock.advance(1);
  await moving;
  assertEquals([await motor.isMoving(), await motor.getPosition()], [false, 0]);
});

Deno.test("with an encoder: positions that are not finite are refused, and the position stays", async () => {
  const { motor } = await bench(ENCODED);
  for (const position of [NaN, Infinity, -Infinity]) {
    await assertRejects(() => motor.goTo(60, position), SvcError, "wanted a finite number");
    await assertRejects(() => motor.resetZeroPosition(position), SvcError, "wanted a finite number");
  }
  assertEquals([await motor.isMoving(), await motor.getPosition()], [false, 0]);
});

Deno.test("fake motor: with an encoder position, GoFor, GoTo and resetZeroPosition are exact", async () => {
  const { motor, clock } = await bench(ENCODED);
  assertEquals(await motor.getProperties(), { positionReporting: true });
  const run = async (movement: Promise<void>) => {
    await clock.advance(2000);
    await movement;
    return await motor.getPosition();
  };
  assertEquals(await run(motor.goFor(60, 1.5)), 1.5);
  assertEquals(await run(motor.goFor(-60, 1)), 0.5);
  assertEquals(await run(motor.goTo(-60, -0.25)), -0.25);
  await motor.resetZeroPosition(2);
  assertEquals(await motor.getPosition(), -2);
  await motor.setPower(0.6);
  await clock.advance(1000);
  assertEquals(await motor.getPosition(), -1);
  await motor.stop();
});

Deno.test("the limits apply to power and speed, and a slower motor takes longer", async () => {
  const { motor, clock } = await bench({ min_power_pct: 0.2, max_power_pct: 0.5, max_rpm: 100 });
  const powerAt = async (powerPct: number) => {
    await motor.setPower(powerPct);
    return (await motor.isPowered()).powerPct;
  };
  assertEquals([await powerAt(1), await powerAt(-3), await powerAt(0.1), await powerAt(-0.1)], [
    0.5,
    -0.5,
    0.2,
    -0.2,
  ]);
  assertEquals([await powerAt(0.3), await powerAt(0)], [0.3, 0]);
  const moving = motor.goFor(100, 10);
  await settle();
  assertEquals((await motor.isPowered()).powerPct, 0.5);
  // 10 revolutions at 50 rpm.
  await clock.advance(11_999);
  assertEquals(await motor.isMoving(), true);
  await clock.advance(1);
  await moving;
});

Deno.test("fake motor: dir_flip keeps the motor's positions and reverses its encoder", async () => {
  const { motor, encoder, clock } = await bench({ ...ENCODED, dir_flip: true });
  const moving = motor.goFor(100, 2);
  await clock.advance(1_200);
  await moving;
  assertEquals([await motor.getPosition(), (await encoder.getPosition("ticks")).value], [2, -400]);
  const back = motor.goTo(100, -1);
  await clock.advance(1_800);
  await back;
  assertEquals([await motor.getPosition(), (await encoder.getPosition("ticks")).value], [-1, 200]);
});

Deno.test("fake motor: SetPower ends a running GoFor at its position", async () => {
  const { motor, clock } = await bench(ENCODED);
  const moving = motor.goFor(60, 10);
  await clock.advance(500);
  await motor.setPower(0);
  await moving;
  await clock.advance(10_000);
  assertEquals(await motor.getPosition(), 0.5);
  assertEquals(clock.pending, 0);
});

Deno.test("fake motor: impossible movements are refused with the published errors", async () => {
  const { motor, logged } = await bench();
  await assertRejects(() => motor.goFor(0, 1), SvcError, "Cannot move motor at an RPM that is nearly 0");
  await assertRejects(() => motor.goFor(10, 0), SvcError, "Cannot move motor for 0 revolutions");
  await assertRejects(() => motor.goTo(10, 1), SvcError, "encoder is not defined");
  await assertRejects(() => motor.resetZeroPosition(1), SvcError, "encoder is not defined");
  assertEquals(logged.map(({ message }) => message), ["motor speed is nearly 0 rev_per_min"]);
  const slow = motor.goFor(0.05, 1);
  await settle();
  await motor.stop();
  await slow;
});

Deno.test("attributes: none is required, but an encoder requires ticks_per_rotation", async () => {
  assertEquals(problemsOf(FakeMotor, {}), []);
  assertEquals(problemsOf(FakeMotor, { pins: { dir: "1", pwm: "2", a: "3", b: "4" }, dir_flip: true }), []);
  for (const attributes of [{ encoder: "e" } as JsonObject, { encoder: "e", ticks_per_rotation: 0 }]) {
    assertEquals(problemsOf(FakeMotor, attributes), [
      "ticks_per_rotation: need nonzero TicksPerRotation for encoded motor",
    ]);
  }
  assertEquals(namedBy(FakeMotor, { board: "b", ...ENCODED }), ["b", "e"]);
  const { board } = await bench({ board: "b", pwm_freq: 4000, max_rpm: 0 });
  assertEquals(await board.getPwmFrequency("1"), 4000);
});

Deno.test("attributes: limits are in range, and the lower limit is not above the upper", () => {
  const paths = (attributes: JsonObject) => problemsOf(FakeMotor, attributes).map((one) => one.split(":")[0]);
  assertEquals(paths({ min_power_pct: 0.5, max_power_pct: 0.5 }), []);
  assertEquals(paths({ min_power_pct: 0.9, max_power_pct: 0.5 }), ["min_power_pct"]);
  assertEquals(paths({ min_power_pct: -0.1 }), ["min_power_pct"]);
  for (const max of [0, 0.05, 1.01]) assertEquals(paths({ max_power_pct: max }), ["max_power_pct"]);
  for (const max of [-1, 1e308]) assertEquals(paths({ max_rpm: max }), ["max_rpm"]);
});

Deno.test("fake motor: an encoder that is not a fake encoder is refused", async () => {
  const board = await construct(FakeBoard, {
    digital_interrupts: [{ name: "a", pin: "1" }, { name: "b", pin: "2" }],
  }, {
    name: "b",
  });
  const encoder = await construct(IncrementalEncoder, { board: "b", pins: { a: "a", b: "b" } }, {
    name: "e",
    dependencies: [board],
  });
  const error = await assertRejects(
    () => construct(FakeMotor, ENCODED, { dependencies: [encoder] }),
    SvcError,
    "wanted a fake encoder",
  );
  assert(error.message.includes("rdk:component:encoder/e"));
  await encoder.close();
  await board.close();
});
