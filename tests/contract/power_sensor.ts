import { assert, assertEquals } from "@std/assert";
import { type PowerSensor, PowerSensorApi } from "../../lib/api/sensors/power_sensor.ts";
import type { Contract } from "./contract.ts";
import { sensorCases } from "./sensor.ts";

export const contract: Contract<PowerSensor> = {
  api: PowerSensorApi,
  cases: {
    ...sensorCases,
    "voltage, current and power are numbers": async (sensor) => {
      const [{ volts }, { amperes }] = [await sensor.getVoltage(), await sensor.getCurrent()];
      for (const value of [volts, amperes, await sensor.getPower()]) assert(Number.isFinite(value));
    },
    "voltage and current agree on isAc": async (sensor) => {
      assertEquals((await sensor.getVoltage()).isAc, (await sensor.getCurrent()).isAc);
    },
  },
};
