import { assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { FakeBoard } from "../board/fake.ts";
import { GpioServo } from "./gpio.ts";

async function bench(attributes: JsonObject = {}, logged: LogRecord[] = []) {
  const board = await construct(FakeBoard, {}, { name: "b" });
  const servo = await construct(GpioServo, { board: "b", pin: "12", ...attributes }, {
    dependencies: [board],
    logged,
  });
  /** Microseconds of each pulse. */
  const widthUs = async () => await board.getPwm("12") / await board.getPwmFrequency("12") * 1e6;
  return { board, servo, widthUs };
}

Deno.test("gpio servo: 0 to 180 degrees are pulses of 0.5 to 2.5 ms at 50 Hz", async () => {
  const { board, servo, widthUs } = await bench();
  assertEquals([await board.getPwm("12"), await servo.getPosition()], [0, 0], "it does not move at start");
  for (const [angle, us] of [[0, 500], [90, 1500], [180, 2500]]) {
    await servo.move(angle);
    assertAlmostEquals(await widthUs(), us, 1e-6);
    assertEquals([await board.getPwmFrequency("12"), await servo.getPosition()], [50, angle]);
  }
  await servo.stop();
  assertEquals([await board.getPwm("12"), await servo.getPosition()], [0, 180]);
  await servo.move(1000);
  assertAlmostEquals(await widthUs(), 2500, 1e-6);
  assertEquals(await servo.getPosition(), 180);
  await assertRejects(() => servo.move(NaN), SvcError, "wanted 0 to 180 degrees");
});

Deno.test("gpio servo: a stop, or a newer angle, counts while a movement waits for a slow board", async () => {
  const { board, servo, widthUs } = await bench();
  const setFrequency = board.setPwmFrequency.bind(board);
  const slowly = (answered: Promise<void>) =>
    board.setPwmFrequency = async (pin, hz) => {
      await answered;
      await setFrequency(pin, hz);
    };
  for (const next of [() => servo.stop(), () => servo.move(90)]) {
    const { promise, resolve } = Promise.withResolvers<void>();
    slowly(promise);
    const moving = servo.move(180);
    slowly(Promise.resolve());
    await next();
    const before = [await board.getPwm("12"), await servo.getPosition()];
    resolve();
    await moving;
    assertEquals([await board.getPwm("12"), await servo.getPosition()], before);
  }
  assertAlmostEquals(await widthUs(), 1500, 1e-6);
});

Deno.test("gpio servo: attributes set its range, pulse widths and starting position", async () => {
  const ends = { min_angle_deg: 45, max_angle_deg: 135, min_width_us: 1000, max_width_us: 2000 };
  const { servo, widthUs } = await bench({ ...ends, frequency_hz: 300, starting_position_degs: 90 });
  assertAlmostEquals(await widthUs(), 1500, 1e-6);
  for (
    const [asked, found, us] of [[44, 45, 1000], [0, 45, 1000], [136, 135, 2000], [4_294_967_295, 135, 2000]]
  ) {
    await servo.move(asked);
    assertEquals([await servo.getPosition(), Math.round(await widthUs())], [found, us], `${asked}`);
  }
  const path = (attributes: JsonObject) =>
    problemsOf(GpioServo, { board: "b", pin: "1", ...attributes })[0].split(":")[0];
  assertEquals(path({ max_width_us: 600_000 }), "max_width_us");
  assertEquals(path({ min_angle_deg: 180 }), "min_angle_deg");
  assertEquals(path({ starting_position_degs: 200 }), "starting_position_deg");
  for (const key of ["starting_position_deg", "starting_position_degs"]) {
    assertAlmostEquals(await (await bench({ ...ends, [key]: 135 })).widthUs(), 2000, 1e-6);
  }
});

Deno.test("gpio servo: a frequency without room for the longest pulse is lowered, with a warning", async () => {
  const cases = [
    [{ frequency_hz: 333 }, 333, 0],
    [{ frequency_hz: 400 }, 333, 1],
    [{ frequency_hz: 450, min_width_us: 1000, max_width_us: 2000 }, 333, 1],
    [{ frequency_hz: 450, min_width_us: 200, max_width_us: 2000 }, 450, 0],
  ] as const;
  for (const [attributes, hz, warnings] of cases) {
    const logged: LogRecord[] = [];
    const { board, servo, widthUs } = await bench(attributes, logged);
    await servo.move(180);
    assertEquals(
      [await board.getPwmFrequency("12"), logged.length],
      [hz, warnings],
      JSON.stringify(attributes),
    );
    assertAlmostEquals(await widthUs(), "max_width_us" in attributes ? 2000 : 2500, 1e-6);
  }
});

Deno.test("gpio servo: pwm_resolution rounds the pulse to a step of the board's PWM", async () => {
  for (const [pwm_resolution, us] of [[4096, 1499.0234375], [100, 1600], [0, 1500], [65535, 1500]]) {
    const { servo, widthUs } = await bench({ pwm_resolution });
    await servo.move(90);
    assertAlmostEquals(await widthUs(), us, 0.2, String(pwm_resolution));
  }
});
