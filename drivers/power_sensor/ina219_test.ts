import { assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import type { PowerSensor } from "../../lib/api/sensors/power_sensor.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { FakeI2c, FakePins } from "../../tests/support/fake_pins.ts";
import { Ina219PowerSensor } from "./ina219.ts";

function bench(address = 0x40) {
  const pins = new FakePins();
  const chip = new FakeI2c();
  pins.i2c.set(`/dev/i2c-1 ${address}`, chip);
  const host = new FakeHost({ devices: pins });
  const sensor = (attributes: JsonObject = {}): Promise<PowerSensor> =>
    construct(Ina219PowerSensor, { i2c_bus: "1", ...attributes }, { host });
  return { pins, chip, sensor };
}

Deno.test("INA219: the data sheet's example registers give 11.98 V and 10 A", async () => {
  // Figure 27 of the data sheet: 10 A over 2 milliohms.
  const { pins, chip, sensor } = bench();
  chip.words.set(0x01, 0x07d0);
  chip.words.set(0x02, 0x5d98);
  const one = await sensor({ shunt_resistance: 0.002 });
  assertEquals(chip.words.get(0x00), 0x399f, "what the chip is set to");
  assertEquals(pins.waits.get("/dev/i2c-1"), 50, "a stuck bus holds nobody for the kernel's second");
  assertAlmostEquals((await one.getVoltage()).volts, 11.98, 1e-3);
  assertAlmostEquals((await one.getCurrent()).amperes, 10, 1e-9);
  assertAlmostEquals(await one.getPower(), 119.8, 0.02);
  assertEquals((await one.getCurrent()).isAc, false);
  await one.close();
  assertEquals(pins.open, 0);
});

Deno.test("INA219: a reverse current is negative, an overflow or a silent chip is an error", async () => {
  const { pins, chip, sensor } = bench(0x45);
  // -319.99 mV over 0.1 ohm.
  chip.words.set(0x01, 0x8301);
  const one = await sensor({ i2c_addr: 0x45 });
  assertAlmostEquals((await one.getCurrent()).amperes, -3.1999, 1e-9);
  for (const end of [0x7d00, 0x8300, 0x7fff]) {
    chip.words.set(0x01, end);
    await assertRejects(() => one.getCurrent(), SvcError, "3.20 A or more");
    await assertRejects(() => one.getPower(), SvcError, "the end of the shunt's range");
  }
  chip.words.set(0x01, 0);
  chip.words.set(0x02, 0x0001);
  await assertRejects(() => one.getVoltage(), SvcError, "too large");
  chip.gone = true;
  await assertRejects(
    () => one.getReadings(),
    SvcError,
    "nothing answers; check its wires, power and address",
  );
  await one.close();
  await assertRejects(() => sensor({ i2c_addr: 0x45 }), SvcError, "nothing answers");
  assertEquals(pins.open, 0);
});

Deno.test("INA219: another program's calibration does not block the readings", async () => {
  const { chip, sensor } = bench();
  chip.words.set(0x05, 0xffff);
  const read = chip.words.get.bind(chip.words);
  // The chip's arithmetic overflows as long as it has a calibration.
  chip.words.get = (register) => register === 0x02 ? 0x5d98 | (read(0x05) === 0 ? 0 : 1) : read(register);
  const one = await sensor();
  assertAlmostEquals((await one.getVoltage()).volts, 11.98, 1e-3);
  chip.words.set(0x05, 0x1000);
  assertAlmostEquals((await one.getVoltage()).volts, 11.98, 1e-3);
  await one.close();
});

Deno.test("INA219: a max_current_amps beyond the range of the shunt is refused", () => {
  const problems = problemsOf(Ina219PowerSensor, { i2c_bus: "1", max_current_amps: 10 });
  assertEquals(problems, ["max_current_amps: found 10, but a shunt of 0.1 ohms measures up to 3.20 A"]);
});
