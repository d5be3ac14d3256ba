/** A sensor without hardware: always returns the same readings. */

import type { Readings } from "../../lib/api/shared/readings.ts";
import { type Sensor, SensorApi } from "../../lib/api/sensors/sensor.ts";
import { object } from "../../lib/base/schema/schema.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

export const FakeSensor = model({
  api: SensorApi,
  name: "rdk:builtin:fake",
  doc: "A sensor without hardware: always reads a = 1, b = 2, c = 3.",
  attributes: object({}),
  construct: ({ name }) => new Fake(name),
});

class Fake extends BaseComponent implements Sensor {
  getReadings(): Promise<Readings> {
    return Promise.resolve({ a: 1, b: 2, c: 3 });
  }
}
