import { assertEquals } from "@std/assert";
import { construct } from "../../tests/support/construct.ts";
import { FakePowerSensor } from "./fake.ts";

Deno.test("fake power sensor: voltage, current and power are constant", async () => {
  const sensor = await construct(FakePowerSensor);
  assertEquals(await sensor.getVoltage(), { volts: 1.5, isAc: true });
  assertEquals(await sensor.getCurrent(), { amperes: 2.2, isAc: true });
  assertEquals(await sensor.getPower(), 9.8);
  assertEquals(await sensor.getReadings(), { volts: 1.5, amps: 2.2, is_ac: true, watts: 9.8 });
  assertEquals(await sensor.doCommand({ any: "thing" }), {});
});
