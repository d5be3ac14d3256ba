/** A movement sensor without hardware: supports every method and always returns the same values. */

import {
  type Accuracy,
  type MovementSensor,
  MovementSensorApi,
  type MovementSensorProperties,
  readingsOf,
} from "../../lib/api/movement_sensor.ts";
import type { GeoPoint, Readings } from "../../lib/api/shared/readings.ts";
import { type JsonObject, object } from "../../lib/base/schema/schema.ts";
import type { OrientationVector, Vec3 } from "../../lib/geometry/pose.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";

export const FakeMovementSensor = model({
  api: MovementSensorApi,
  name: "rdk:builtin:fake",
  doc: "A movement sensor without hardware: supports every method, with constant readings.",
  attributes: object({}),
  construct: ({ name }) => new Fake(name),
});

class Fake extends BaseComponent implements MovementSensor {
  getReadings(call?: Call): Promise<Readings> {
    return readingsOf(this, call);
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
