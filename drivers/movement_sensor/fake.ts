/**
 * A movement sensor without hardware: supports every method and always returns the same values; with `base`, those of a
 * base in a simulated building.
 */

import {
  type Accuracy,
  collectReadings,
  type MovementSensor,
  MovementSensorApi,
  type MovementSensorProperties,
} from "../../lib/api/sensors/movement_sensor.ts";
import type { GeoPoint, Readings } from "../../lib/api/shared/readings.ts";
import { BaseApi } from "../../lib/api/actuators/base.ts";
import { integer, type JsonObject, number, object, text } from "../../lib/base/schema/schema.ts";
import type { OrientationVector, Vec3 } from "../../lib/geometry/pose.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";

/** By an address worked out as it runs: machines without a simulated building do not read it. */
const SIMULATED = new URL("./simulated.ts", import.meta.url).href;

const attributes = object({
  base: text("a fake base with a simulated building, on which the sensor is mounted; absent means none")
    .names("base"),
  gyroBiasDegsPerSec: number("bias of the gyroscope", { min: -10, max: 10 }).default(0.1),
  gyroNoiseDegsPerSec: number("standard deviation of the gyroscope's noise", { min: 0, max: 10 }).default(
    0.1,
  ),
  accelerationNoise: number("standard deviation of the acceleration, in m/s²", { min: 0, max: 10 })
    .default(0.02),
  seed: integer("another seed gives other noise", { min: 0 }).default(1),
}).required();

export const FakeMovementSensor = model({
  api: MovementSensorApi,
  name: "rdk:builtin:fake",
  doc: "A movement sensor without hardware: supports every method, with constant or simulated readings.",
  attributes,
  construct: async (
    { name, attributes: { base, ...settings }, dependencies, clock },
  ): Promise<MovementSensor> => {
    if (!base) return new Fake(name);
    const { SimulatedMovementSensor }: typeof import("./simulated.ts") = await import(SIMULATED);
    return new SimulatedMovementSensor(name, dependencies.get(BaseApi, base), settings, clock);
  },
});

class Fake extends BaseComponent implements MovementSensor {
  getReadings(call?: Call): Promise<Readings> {
    return collectReadings(this, call);
  }

  getPosition(): Promise<{ coordinate: GeoPoint; altitudeM: number }> {
    return Promise.resolve({ coordinate: { latitude: 40.7, longitude: -73.98 }, altitudeM: 50.5 });
  }

  getLinearVelocity(): Promise<Vec3> {
    return Promise.resolve({ x: 0, y: 5.4, z: 0 });
  }

  getAngularVelocity(): Promise<Vec3> {
    return Promise.resolve({ x: 0, y: 0, z: 1 });
  }

  getLinearAcceleration(): Promise<Vec3> {
    return Promise.resolve({ x: 2.2, y: 4.5, z: 2 });
  }

  getCompassHeading(): Promise<number> {
    return Promise.resolve(25);
  }

  getOrientation(): Promise<OrientationVector> {
    return Promise.resolve({ oX: 0, oY: 0, oZ: 1, theta: 0 });
  }

  getProperties(): Promise<MovementSensorProperties> {
    return Promise.resolve({
      positionSupported: true,
      linearVelocitySupported: true,
      angularVelocitySupported: true,
      linearAccelerationSupported: true,
      compassHeadingSupported: true,
      orientationSupported: true,
    });
  }

  getAccuracy(): Promise<Accuracy> {
    return Promise.resolve({
      accuracy: {},
      positionHdop: 0,
      positionVdop: 0,
      positionNmeaGgaFix: 4,
      compassDegreesError: 0,
    });
  }

  /** Accepts any command and returns nothing, as published. */
  override doCommand(): Promise<JsonObject> {
    return Promise.resolve({});
  }
}
