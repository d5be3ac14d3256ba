import { assert, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { FakeClock, passing } from "../../tests/support/fake_clock.ts";
import { FakeBoard } from "../board/fake.ts";
import { GpioStepperMotor } from "./gpio_stepper.ts";

const PINS = { step: "11", dir: "13", en_high: "15", en_low: "16" };

async function bench(attributes: JsonObject = {}) {
  const clock = new FakeClock();
  const logged: LogRecord[] = [];
  const board = await construct(FakeBoard, {}, { name: "b", clock });
  const edges: string[] = [];
  const set = board.setGpio.bind(board);
  board.setGpio = async (pin, high) => {
    if (pin === "11" && high) {
      edges.push(`${await board.getGpio("13") ? "+" : "-"}${clock.monotonicMs() % 100_000}`);
    }
    await set(pin, high);
  };
  const motor = await construct(
    GpioStepperMotor,
    { board: "b", pins: PINS, ticks_per_rotation: 200, ...attributes },
    { dependencies: [board], clock, logged },
  );
  const enabled = async () => [await board.getGpio("15"), !await board.getGpio("16")];
  return { clock, board, motor, edges, enabled, logged };
}

Deno.test("gpiostepper: GoFor makes a pulse for each step, in its time and direction", async () => {
  const { clock, motor, edges, enabled } = await bench();
  assertEquals(await enabled(), [false, false]);
  const moving = motor.goFor(60, 0.05);
  await clock.advance(0);
  assertEquals([await enabled(), await motor.isPowered()], [[true, true], { isOn: true, powerPct: 1 }]);
  await passing(clock, 1000, moving);
  // 60 rpm of 200 steps are 5 ms for a step.
  const times = edges.map((edge) => Number(edge.slice(1)));
  assertEquals(edges.map((edge) => edge[0]).join(""), "++++++++++");
  assertEquals(times.slice(1).map((time, index) => time - times[index]), Array(9).fill(5));
  assertEquals([await motor.getPosition(), await motor.isMoving(), await enabled()], [0.05, false, [
    false,
    false,
  ]]);
  for (const [rpm, revolutions] of [[-60, 0.05], [60, -0.05]]) {
    await passing(clock, 1000, motor.goFor(rpm, revolutions));
  }
  assertEquals(await motor.getPosition(), -0.05);
  await passing(clock, 1000, motor.goFor(-60, -0.05));
  assertEquals(await motor.getPosition(), 0);
});

Deno.test("gpiostepper: GoTo goes to a position, ResetZeroPosition renames it", async () => {
  const { clock, motor } = await bench();
  await motor.resetZeroPosition(2);
  assertEquals(await motor.getPosition(), -2);
  await passing(clock, 10_000, motor.goTo(-120, -1.9));
  assertEquals(await motor.getPosition(), -1.9);
  await passing(clock, 10_000, motor.goTo(120, -1.895));
  assertEquals(await motor.getPosition(), -1.895);
});

Deno.test("gpiostepper: SetRPM and SetPower turn it until the next command", async () => {
  const { clock, motor, edges } = await bench({ stepper_delay_usec: 2000 });
  await motor.setRpm(-30);
  await clock.advance(1000);
  const position = await motor.getPosition();
  assert(position <= -0.49 && position >= -0.51, `${position}`);
  edges.length = 0;
  await motor.setPower(0.5);
  await clock.advance(200);
  const times = edges.map((edge) => Number(edge.slice(1)));
  assertEquals(times[10] - times[9], 4, "half of full power is twice the shortest delay");
  assertEquals(await motor.isPowered(), { isOn: true, powerPct: 0.5 });
  await motor.setPower(0);
  assertEquals([await motor.isMoving(), clock.pending], [false, 0]);
  const slow = await bench();
  const error = await assertRejects(() => slow.motor.setPower(0.5), SvcError, "stepper_delay_usec");
  assertEquals(error.code, "unimplemented");
  await slow.motor.setPower(0);
});

Deno.test("gpiostepper: no speed is faster than stepper_delay_usec, and a late computer is told", async () => {
  const { clock, motor, edges } = await bench({ stepper_delay_usec: 10_000 });
  await passing(clock, 1000, motor.goFor(6000, 0.05));
  const times = edges.map((edge) => Number(edge.slice(1)));
  assertEquals(times[1] - times[0], 10);
  const late = await bench();
  const sleep = late.clock.sleep.bind(late.clock);
  late.clock.sleep = (ms, signal) => sleep(Math.max(ms, 10), signal);
  await passing(late.clock, 5000, late.motor.goFor(60, 0.05));
  assert(late.logged.some(({ message }) => message.includes("instead of 60")));
});

Deno.test("gpiostepper: fast steps are PWM pulses, counted by their frequency and the time", async () => {
  const { clock, board, motor } = await bench({ ticks_per_rotation: 3200 });
  const moving = motor.goFor(-60, 2);
  await clock.advance(1000);
  assertEquals([await board.getPwmFrequency("11"), await board.getPwm("11"), await board.getGpio("13")], [
    3200,
    0.5,
    false,
  ]);
  assertEquals(await motor.getPosition(), -1);
  await clock.advance(1000);
  await moving;
  assertEquals([await motor.getPosition(), await board.getPwm("11"), await motor.isMoving()], [-2, 0, false]);
  await motor.setRpm(120);
  await clock.advance(250);
  await motor.stop();
  assertEquals([await motor.getPosition(), await board.getPwm("11"), clock.pending], [-1.5, 0, 0]);
  await motor.setRpm(120);
  await clock.advance(250);
  const going = motor.goTo(60, 0);
  await clock.advance(1000);
  await going;
  assertEquals(await motor.getPosition(), 0, "a command that takes over begins where the other ended");
});

Deno.test("gpiostepper: the position counts every step made, whenever a movement is stopped or taken over", async () => {
  const { clock, motor, edges } = await bench({ stepper_delay_usec: 4000 });
  const made = () => edges.reduce((sum, edge) => sum + (edge.startsWith("+") ? 1 : -1), 0) / 200;
  const begin = [() => motor.setRpm(60), () => motor.setRpm(-30), () => motor.setPower(0.7)];
  for (let turn = 0; turn < 30; turn++) {
    await begin[turn % 3]!();
    await clock.advance(1 + turn % 11);
    if (turn % 4 === 0) await motor.stop();
    assertEquals(await motor.getPosition(), made(), `turn ${turn}`);
  }
  const moving = motor.goFor(60, 5);
  await clock.advance(1001);
  await motor.stop();
  await moving;
  assertEquals(await motor.getPosition(), made());
  await motor.close();
});

Deno.test("gpiostepper: SetRPM at a speed near 0 stops a motor that turns", async () => {
  const { clock, motor } = await bench();
  for (const rpm of [0, 0.05, -0.05]) {
    await motor.setRpm(30);
    await clock.advance(100);
    await motor.setRpm(rpm);
    assertEquals([await motor.isMoving(), clock.pending], [false, 0], `${rpm}`);
  }
});

Deno.test("gpiostepper: a board that fails stops the motor with its reason", async () => {
  const { clock, board, motor } = await bench();
  const moving = motor.goFor(60, 1);
  const failed = assertRejects(() => moving, Error, "the board is gone");
  await clock.advance(20);
  board.setGpio = (pin) => pin === "11" ? Promise.reject(new Error("the board is gone")) : Promise.resolve();
  await clock.advance(20);
  await failed;
  assertEquals(await motor.isMoving(), false);
});

Deno.test("gpiostepper: pulses that a board did not end are ended by the next stop, and the motor moves until then", async () => {
  const { clock, board, motor } = await bench({ ticks_per_rotation: 3200 });
  const setPwm = board.setPwm.bind(board);
  const away = () => Promise.reject(new SvcError("unavailable", "the board is away"));
  await motor.setRpm(60);
  await clock.advance(250);
  board.setPwm = away;
  for (let attempt = 0; attempt < 2; attempt++) {
    await assertRejects(() => motor.stop(), SvcError, "the board is away");
    assertEquals([await board.getPwm("11"), await motor.isMoving()], [0.5, true]);
  }
  await assertRejects(() => motor.setRpm(-10), SvcError, "the board is away");
  await clock.advance(250);
  assertEquals(await motor.getPosition(), 0.5);

  board.setPwm = setPwm;
  await motor.stop();
  await clock.advance(250);
  assertEquals([await board.getPwm("11"), await motor.isMoving(), await motor.getPosition()], [
    0,
    false,
    0.5,
  ]);
});

Deno.test("gpiostepper: a motor ends the pulses of another one that was on its pins", async () => {
  const { clock, board, motor } = await bench({ ticks_per_rotation: 3200 });
  await motor.setRpm(60);
  const next = await construct(GpioStepperMotor, { board: "b", pins: PINS, ticks_per_rotation: 3200 }, {
    dependencies: [board],
    clock,
  });
  assertEquals(await board.getPwm("11"), 0);
  await next.close();
  await motor.close();
});

Deno.test("gpiostepper: missing pins and steps, each with its path", () => {
  assertEquals(
    problemsOf(GpioStepperMotor, { board: "b", pins: {}, ticks_per_rotation: 0 }).map((one) =>
      one.split(":")[0]
    ),
    [
      "pins.step",
      "pins.dir",
      "ticks_per_rotation",
    ],
  );
});

Deno.test("gpiostepper: the first step waits for a driver that was just enabled, and a stop ends the wait", async () => {
  const { clock, motor, edges, enabled } = await bench({ enable_delay_ms: 200 });
  const moving = motor.goFor(60, 0.05);
  await clock.advance(190);
  assertEquals([await enabled(), edges], [[true, true], []]);
  await clock.advance(20);
  assert(edges.length > 0, "it has begun");
  await passing(clock, 1000, moving);
  assertEquals([edges.length, await motor.getPosition(), await enabled()], [10, 0.05, [false, false]]);

  const stopped = motor.goFor(60, 0.05);
  await clock.advance(100);
  await motor.stop();
  await stopped;
  await clock.advance(1000);
  assertEquals([edges.length, await motor.isMoving(), await enabled()], [10, false, [false, false]]);

  const keeping = motor.setRpm(60);
  await clock.advance(300);
  await keeping;
  const before = edges.length;
  await motor.setRpm(30);
  await clock.advance(20);
  assert(edges.length > before, "a driver that is enabled takes the next movement at once");
  await motor.close();
});

Deno.test("gpiostepper: a speed that is given again and again makes the same steps as one that is given once", async () => {
  const stepsOf = async (rpm: number, everyMs: number) => {
    const { clock, board, motor } = await bench();
    let begun = 0;
    const { setPwm } = board;
    board.setPwm = (pin, duty) => (begun += Number(duty > 0), setPwm.call(board, pin, duty));
    for (let passedMs = 0; passedMs < 1000; passedMs += everyMs) {
      await motor.setRpm(rpm);
      await clock.advance(everyMs);
    }
    const turned = await motor.getPosition() * 200;
    await motor.setRpm(-rpm);
    await clock.advance(500);
    const back = await motor.getPosition() * 200 - turned;
    await motor.stop();
    await clock.advance(100);
    assertEquals(await motor.isMoving(), false);
    return [Math.abs(turned - rpm * 200 / 60) <= 1, Math.abs(back + rpm * 100 / 60) <= 1, begun];
  };
  for (const everyMs of [1000, 100, 20, 8]) {
    assertEquals(await stepsOf(60, everyMs), [true, true, 0], `${everyMs} ms`);
    assertEquals(await stepsOf(600, everyMs), [true, true, 2], `${everyMs} ms`);
  }
});

Deno.test("gpiostepper: a motor that is stopped while its board is told of a movement does not begin", async () => {
  for (const rpm of [60, 6000]) {
    const { clock, board, motor, edges } = await bench();
    const { setGpio } = board;
    board.setGpio = async (pin, high) => {
      await clock.sleep(30);
      await setGpio(pin, high);
    };
    const pulses: number[] = [];
    const { setPwm } = board;
    board.setPwm = (pin, duty) => (pulses.push(duty), setPwm.call(board, pin, duty));
    const moving = motor.goFor(rpm, 5);
    await clock.advance(10);
    const stopped = motor.stop();
    await passing(clock, 1000, Promise.all([moving, stopped]));
    await clock.advance(1000);
    assertEquals([edges, pulses.filter((duty) => duty > 0), await motor.getPosition()], [[], [], 0]);
    await passing(clock, 1000, motor.close());
  }
});

Deno.test("gpiostepper: a number that is none moves nothing, and stops nothing that moves", async () => {
  const { clock, motor, edges, enabled } = await bench({ stepper_delay_usec: 4000 });
  for (const none of [NaN, Infinity, -Infinity]) {
    await assertRejects(() => motor.setPower(none), SvcError, "wanted a number");
    await assertRejects(() => motor.goTo(60, none), SvcError);
    await assertRejects(() => motor.goFor(60, none), SvcError);
  }
  await clock.advance(1000);
  assertEquals([edges, await motor.isMoving(), await enabled()], [[], false, [false, false]]);
  await motor.setPower(1);
  await clock.advance(100);
  for (const none of [NaN, Infinity, -Infinity]) {
    await assertRejects(() => motor.setPower(none), SvcError, "wanted a number");
  }
  const before = edges.length;
  await clock.advance(100);
  assertEquals([await motor.isPowered(), edges.length - before], [{ isOn: true, powerPct: 1 }, 25]);
  await motor.stop();
});
