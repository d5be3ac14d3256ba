import { assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import type { MovementSensor } from "../../lib/api/sensors/movement_sensor.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { LogRecord } from "../../lib/base/log/log.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { construct } from "../../tests/support/construct.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { FakeI2c, FakePins } from "../../tests/support/fake_pins.ts";
import { Mpu6050MovementSensor } from "./mpu6050.ts";

function bench(address = 0x68) {
  const pins = new FakePins();
  const chip = new FakeI2c();
  chip.bytes[0x75] = 0x68;
  chip.bytes[0x6b] = 0x40;
  pins.i2c.set(`/dev/i2c-1 ${address}`, chip);
  const host = new FakeHost({ devices: pins });
  const logged: LogRecord[] = [];
  const sensor = (attributes: JsonObject = {}): Promise<MovementSensor> =>
    construct(Mpu6050MovementSensor, { i2c_bus: "1", ...attributes }, { host, logged });
  return { pins, chip, sensor, logged };
}

Deno.test("MPU-6050: the chip is woken, set to its ranges and read in the scales of its registers", async () => {
  const { pins, chip, sensor } = bench();
  chip.bytes[0x1b] = chip.bytes[0x1c] = 0x18;
  // 1 g up, -0.5 g along x; 36.53 degrees and 1; 1 degree a second about x, -249.9 about z.
  chip.bytes.set([0xe0, 0, 0, 0, 0x40, 0, 0x01, 0x54, 0, 131, 0, 0, 0x80, 0x10], 0x3b);
  const one = await sensor();
  assertEquals([chip.bytes[0x6b], chip.bytes[0x1b], chip.bytes[0x1c]], [0x01, 0, 0]);
  assertEquals(pins.waits.get("/dev/i2c-1"), 50);
  const acceleration = await one.getLinearAcceleration();
  assertAlmostEquals(acceleration.z, 9.80665, 1e-9);
  assertAlmostEquals(acceleration.x, -9.80665 / 2, 1e-9);
  const turning = await one.getAngularVelocity();
  assertAlmostEquals(turning.x, 1, 1e-9);
  assertAlmostEquals(turning.z, -32752 / 131, 1e-9);
  assertAlmostEquals((await one.getReadings()).temperature_celsius as number, 37.53, 1e-9);
  await assertRejects(() => one.getPosition(), SvcError, "does not support GetPosition");
  await one.close();
  assertEquals([chip.bytes[0x6b], pins.open], [0x40, 0], "asleep, and its bus closed");
});

Deno.test("MPU-6050: a chip that has lost its power is woken again, and its zeros are no values", async () => {
  const { chip, sensor } = bench();
  const one = await sensor();
  assertEquals((await one.getAngularVelocity()).x, 0, "zeros of a chip that is awake are values");
  const calls = [() => one.getAngularVelocity(), () => one.getLinearAcceleration()];
  for (const call of calls) {
    chip.bytes[0x6b] = 0x40;
    chip.bytes[0x1b] = chip.bytes[0x1c] = 0x18;
    const error = await assertRejects(call, SvcError, "the MPU-6050 had lost its power, and begins again");
    assertEquals(error.code, "unavailable");
    assertEquals([chip.bytes[0x6b], chip.bytes[0x1b], chip.bytes[0x1c]], [0x01, 0, 0]);
    await call();
  }
  chip.bytes.set([0x40, 0], 0x3f);
  assertAlmostEquals((await one.getLinearAcceleration()).z, 9.80665, 1e-9);
  await one.close();
});

Deno.test("MPU-6050: a motion beyond the range of the chip is no value", async () => {
  const { chip, sensor } = bench();
  const one = await sensor();
  for (const end of [[0x7f, 0xff], [0x80, 0x00], [0x80, 0x01]]) {
    chip.bytes.set([...end, 0, 0, 0x40, 0, 0, 0, 0, 131, 0, 0, 0, 0], 0x3b);
    const error = await assertRejects(
      () => one.getLinearAcceleration(),
      SvcError,
      "two times gravity or more",
    );
    assertEquals(error.code, "out_of_range");
    assertAlmostEquals((await one.getAngularVelocity()).x, 1, 1e-9);
    chip.bytes.set([0, 0, 0, 0, 0x40, 0, 0, 0, 0, 131, ...end, 0, 0], 0x3b);
    await assertRejects(() => one.getAngularVelocity(), SvcError, "250 degrees/s or more");
    assertAlmostEquals((await one.getLinearAcceleration()).z, 9.80665, 1e-9);
  }
  chip.bytes.set([0x7f, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0x3b);
  assertAlmostEquals((await one.getLinearAcceleration()).x, 2 * 9.80665, 2e-3);
  await one.close();
});

Deno.test("MPU-6050: the alternative address works, and another chip there is refused", async () => {
  const { pins, chip, sensor } = bench(0x69);
  await (await sensor({ use_alt_i2c_address: true })).close();
  chip.bytes[0x75] = 0x71;
  await assertRejects(() => sensor({ use_alt_i2c_address: true }), SvcError, "says 0x71, wanted 0x68");
  await assertRejects(() => sensor(), SvcError, "nothing answers");
  assertEquals(pins.open, 0, "the bus is closed");
});

Deno.test("MPU-6050: boards with a successor of the chip work, with a warning and the chip's thermometer", async () => {
  for (
    const [identity, name, celsius] of [
      [0x70, "MPU-6500", 21 + 3338.7 / 333.87],
      [0x98, "ICM-20689", 25 + 3338.7 / 326.8],
      [0x12, "ICM-20602", 25 + 3338.7 / 326.8],
      [0x19, "MPU-6886", 25 + 3338.7 / 326.8],
    ] as const
  ) {
    const { chip, sensor, logged } = bench();
    chip.bytes[0x75] = identity;
    chip.bytes.set([0, 0, 0, 0, 0x40, 0, 0x0d, 0x0b, 0, 131, 0, 0, 0, 0], 0x3b);
    const one = await sensor();
    assertAlmostEquals((await one.getLinearAcceleration()).z, 9.80665, 1e-9);
    assertAlmostEquals((await one.getReadings()).temperature_celsius as number, celsius, 2e-3);
    assertEquals(logged.filter(({ message }) => message.includes(name)).length, 1);
    await one.close();
  }
});
