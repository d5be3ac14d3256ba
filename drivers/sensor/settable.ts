/**
 * A sensor whose readings come from its attributes at first, then from commands. It can open and close the maintenance
 * window of a machine without a suitable sensor.
 *
 * Commands: `{"set": {"door_closed": true}}` sets readings and leaves the others as they are; `{"reset": true}`
 * returns to the attributes. Each answers with all readings.
 */

import type { Readings } from "../../lib/api/shared/readings.ts";
import { type Sensor, SensorApi } from "../../lib/api/sensors/sensor.ts";
import { SvcError } from "../../lib/base/error.ts";
import { anyObject, isObject, type JsonObject, object, show } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

/** The readings of one sensor as JSON have at most this length, so that callers cannot fill the memory. */
export const READINGS_LENGTH_MAX = 64 * 1024;

export const SettableSensor = model({
  api: SensorApi,
  name: "rdk:builtin:settable",
  doc:
    "A sensor whose readings are set, by its attributes and by commands; a switch for a maintenance window.",
  attributes: object({
    readings: anyObject("the readings until a command sets others").required().with((readings, at) =>
      isTooLong(readings) ? at.error(tooLong()) : readings
    ),
  }).required(),
  construct: ({ name, attributes }) => new Settable(name, attributes.readings),
});

class Settable extends BaseComponent implements Sensor {
  #readings: Readings;

  constructor(name: ResourceName, private readonly first: Readings) {
    super(name);
    this.#readings = first;
  }

  getReadings(): Promise<Readings> {
    return Promise.resolve(this.#readings);
  }

  override doCommand(command: JsonObject): Promise<JsonObject> {
    return Promise.try(() => {
      this.#readings = this.#commanded(command);
      return this.#readings;
    });
  }

  #commanded({ set, reset, ...others }: JsonObject): Readings {
    const unknown = Object.keys(others)[0];
    const wanted = 'wanted {"set": {"<reading>": <value>}} or {"reset": true}';
    if (unknown !== undefined) throw this.#refused(`found ${show(unknown)}, ${wanted}`);
    if (set === undefined && reset === true) return this.first;
    if (!isObject(set) || reset !== undefined) throw this.#refused(`found no reading to set, ${wanted}`);
    const readings = { ...this.#readings, ...set as Readings };
    if (isTooLong(readings)) throw this.#refused(tooLong());
    return readings;
  }

  #refused(why: string): SvcError {
    return new SvcError("invalid_argument", `${this.name} does not take the command: ${why}`);
  }
}

function isTooLong(readings: Readings): boolean {
  return JSON.stringify(readings).length > READINGS_LENGTH_MAX;
}

function tooLong(): string {
  return `the readings are longer than ${READINGS_LENGTH_MAX / 1024} KiB as JSON`;
}
