import { assert, assertEquals } from "@std/assert";
import { type Sensor, SensorApi } from "../../lib/api/sensors/sensor.ts";
import type { Contract } from "./contract.ts";

/** What every kind of sensor promises. */
export const sensorCases: Contract<Sensor>["cases"] = {
  "getReadings returns at least one reading": async (sensor) => {
    assert(Object.keys(await sensor.getReadings()).length > 0);
  },
  "getReadings returns the same names every time": async (sensor) => {
    const [first, second] = [await sensor.getReadings(), await sensor.getReadings()];
    assertEquals(Object.keys(first).sort(), Object.keys(second).sort());
  },
  "getGeometries returns a list": async (sensor) => {
    assert(Array.isArray(await sensor.getGeometries()));
  },
};

export const contract: Contract<Sensor> = { api: SensorApi, cases: sensorCases };
