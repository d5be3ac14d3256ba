/** A power sensor without hardware: always returns the same values. */

import { type PowerSensor, PowerSensorApi } from "../../lib/api/sensors/power_sensor.ts";
import type { Readings } from "../../lib/api/shared/readings.ts";
import { type JsonObject, object } from "../../lib/base/schema/schema.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

export const FakePowerSensor = model({
  api: PowerSensorApi,
  name: "rdk:builtin:fake",
  doc: "A power sensor without hardware: always 1.5 V, 2.2 A (alternating) and 9.8 W.",
  attributes: object({}),
  construct: ({ name }) => new Fake(name),
});

const VOLTS = 1.5;
const AMPERES = 2.2;
const WATTS = 9.8;

class Fake extends BaseComponent implements PowerSensor {
  getVoltage(): Promise<{ volts: number; isAc: boolean }> {
    return Promise.resolve({ volts: VOLTS, isAc: true });
  }

  getCurrent(): Promise<{ amperes: number; isAc: boolean }> {
    return Promise.resolve({ amperes: AMPERES, isAc: true });
  }

  getPower(): Promise<number> {
    return Promise.resolve(WATTS);
  }

  getReadings(): Promise<Readings> {
    return Promise.resolve({ volts: VOLTS, amps: AMPERES, is_ac: true, watts: WATTS });
  }

  /** Accepts any command and returns nothing, as published. */
  override doCommand(): Promise<JsonObject> {
    return Promise.resolve({});
  }
}
