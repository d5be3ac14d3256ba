/**
 * `merged`: several movement sensors as one. For each quantity the configuration names sensors in the order of
 * preference; the first one that supports the quantity gives it.
 */

import {
  type Accuracy,
  collectReadings,
  type MovementSensor,
  MovementSensorApi,
  type MovementSensorProperties,
} from "../../lib/api/sensors/movement_sensor.ts";
import type { GeoPoint, Readings } from "../../lib/api/shared/readings.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { list, object, text } from "../../lib/base/schema/schema.ts";
import type { OrientationVector, Vec3 } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call, unsupported } from "../../lib/resource/resource.ts";

/** A quantity, the method that gives it, and the property that says that a sensor has it. */
const QUANTITIES = {
  position: { method: "GetPosition", property: "positionSupported" },
  orientation: { method: "GetOrientation", property: "orientationSupported" },
  compassHeading: { method: "GetCompassHeading", property: "compassHeadingSupported" },
  angularVelocity: { method: "GetAngularVelocity", property: "angularVelocitySupported" },
  linearVelocity: { method: "GetLinearVelocity", property: "linearVelocitySupported" },
  linearAcceleration: { method: "GetLinearAcceleration", property: "linearAccelerationSupported" },
} as const;
type Quantity = keyof typeof QUANTITIES;
const NAMES = Object.keys(QUANTITIES) as Quantity[];

const sensors = (quantity: string) =>
  list(text(), `names of movement sensors for the ${quantity}, in order of preference`)
    .default([]).names("movement_sensor");

const attributes = object({
  position: sensors("position"),
  orientation: sensors("orientation"),
  compassHeading: sensors("compass heading"),
  angularVelocity: sensors("angular velocity"),
  linearVelocity: sensors("linear velocity"),
  linearAcceleration: sensors("linear acceleration"),
}).required().with((settings, at) => {
  if (NAMES.some((name) => settings[name].length > 0)) return settings;
  return at.error("found no movement sensor, wanted one for a quantity at least");
});

type Sources = { readonly [Q in Quantity]?: MovementSensor };

class Merged extends BaseComponent implements MovementSensor {
  constructor(name: ResourceName, private readonly sources: Sources) {
    super(name);
  }

  getReadings(call?: Call): Promise<Readings> {
    return collectReadings(this, call);
  }

  async getPosition(call?: Call): Promise<{ coordinate: GeoPoint; altitudeM: number }> {
    return await this.#source("position").getPosition(call);
  }

  async getOrientation(call?: Call): Promise<OrientationVector> {
    return await this.#source("orientation").getOrientation(call);
  }

  async getCompassHeading(call?: Call): Promise<number> {
    return await this.#source("compassHeading").getCompassHeading(call);
  }

  async getAngularVelocity(call?: Call): Promise<Vec3> {
    return await this.#source("angularVelocity").getAngularVelocity(call);
  }

  async getLinearVelocity(call?: Call): Promise<Vec3> {
    return await this.#source("linearVelocity").getLinearVelocity(call);
  }

  async getLinearAcceleration(call?: Call): Promise<Vec3> {
    return await this.#source("linearAcceleration").getLinearAcceleration(call);
  }

  getProperties(): Promise<MovementSensorProperties> {
    const supported = Object.fromEntries(
      NAMES.map((name) => [QUANTITIES[name].property, this.sources[name] !== undefined]),
    );
    return Promise.resolve(supported as { [P in keyof MovementSensorProperties]: boolean });
  }

  /**
   * The measures of all sensors, each under the sensor's name; those of the position come from the sensor for
   * positions.
   */
  async getAccuracy(call?: Call): Promise<Accuracy> {
    const sources = new Set(NAMES.flatMap((name) => this.sources[name] ?? []));
    const accuracy: { [measure: string]: number } = {};
    let position: Accuracy | undefined, compass: Accuracy | undefined;
    for (const source of sources) {
      const found = await source.getAccuracy(call).catch((error) => {
        if (SvcError.from(error).code === "unimplemented") return undefined;
        throw error;
      });
      if (source === this.sources.position) position = found;
      if (source === this.sources.compassHeading) compass = found;
      for (const [measure, value] of Object.entries(found?.accuracy ?? {})) {
        accuracy[`${source.name.short}_${measure}`] = value;
      }
    }

    return { ...position, accuracy, compassDegreesError: compass?.compassDegreesError };
  }

  #source(quantity: Quantity): MovementSensor {
    const source = this.sources[quantity];
    if (source) return source;
    throw unsupported(this.name, QUANTITIES[quantity].method, "no sensor is configured for it");
  }
}

export const MergedMovementSensor = model({
  api: MovementSensorApi,
  name: "rdk:builtin:merged",
  doc: "Several movement sensors as one: each quantity comes from the first sensor that supports it.",
  attributes,
  construct: async ({ name, attributes, dependencies, logger, signal }) => {
    const sources: { [Q in Quantity]?: MovementSensor } = {};
    for (const quantity of NAMES) {
      const candidates = attributes[quantity].map((one) => dependencies.get(MovementSensorApi, one));
      if (candidates.length === 0) continue;
      sources[quantity] = await firstWith(quantity, candidates, name, logger, signal);
    }
    return new Merged(name, sources);
  },
});

/** Throws `failed_precondition` if none of them supports the quantity. */
async function firstWith(
  quantity: Quantity,
  candidates: readonly MovementSensor[],
  name: ResourceName,
  logger: Logger,
  signal: AbortSignal,
): Promise<MovementSensor> {
  const { property } = QUANTITIES[quantity];
  const reasons: string[] = [];
  for (const candidate of candidates) {
    try {
      if ((await candidate.getProperties({ signal }))[property]) return candidate;
      reasons.push(`${candidate.name} does not support it`);
    } catch (error) {
      reasons.push(`${candidate.name}: ${chainOf(error)}`);
      logger.warn(`${candidate.name} did not give its properties: ${chainOf(error)}`);
    }
  }

  throw new SvcError("failed_precondition", `${name} has no sensor for ${quantity}: ${reasons.join("; ")}`);
}
