/**
 * The movement sensor of a base in a simulated building: odometry from its wheels, which slip, and an IMU whose
 * gyroscope and accelerometer have a bias and noise.
 *
 * Odometry counts from where the base began, in metres to the east (x) and the north (y) of latitude 0, longitude 0.
 */

import {
  type Accuracy,
  collectReadings,
  type MovementSensor,
  type MovementSensorProperties,
} from "../../lib/api/sensors/movement_sensor.ts";
import type { GeoPoint, Readings } from "../../lib/api/shared/readings.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { geoPointAt } from "../../lib/geometry/geo.ts";
import type { OrientationVector, Vec3 } from "../../lib/geometry/pose.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { BaseComponent, type Call, type Resource } from "../../lib/resource/resource.ts";
import { normal, type SimulatedRobot, simulationOf } from "../../lib/slam/simulation/robot.ts";

const DEG_PER_RAD = 180 / Math.PI;

export interface SimulatedSensorSettings {
  readonly gyroBiasDegsPerSec: number;
  readonly gyroNoiseDegsPerSec: number;
  readonly accelerationNoise: number;
  readonly seed: number;
}

export class SimulatedMovementSensor extends BaseComponent implements MovementSensor {
  readonly #robot: SimulatedRobot;
  readonly #random: () => number;

  /** Throws `failed_precondition` for a base without a simulated building. */
  constructor(
    name: ResourceName,
    base: Resource,
    private readonly settings: SimulatedSensorSettings,
    private readonly clock: Clock,
  ) {
    super(name);
    this.#robot = simulationOf(base, `${name}: ${base.name}`);
    this.#random = randomFrom(settings.seed);
  }

  getReadings(call?: Call): Promise<Readings> {
    return collectReadings(this, call);
  }

  getPosition(): Promise<{ coordinate: GeoPoint; altitudeM: number }> {
    const { x, y } = this.#robot.odometry(this.#nowS);
    return Promise.resolve({ coordinate: geoPointAt({ eastM: x, northM: y }), altitudeM: 0 });
  }

  getLinearVelocity(): Promise<Vec3> {
    return Promise.resolve({ x: this.#robot.command().linearMps, y: 0, z: 0 });
  }

  getAngularVelocity(): Promise<Vec3> {
    const { gyroBiasDegsPerSec: bias, gyroNoiseDegsPerSec: noise } = this.settings;
    const yaw = this.#robot.motion(this.#nowS).angularRps * DEG_PER_RAD;
    const measured = (rate: number) => rate + bias + noise * normal(this.#random);
    return Promise.resolve({ x: measured(0), y: measured(0), z: measured(yaw) });
  }

  getLinearAcceleration(): Promise<Vec3> {
    const [x, y, z] = this.#robot.acceleration(this.#nowS);
    const measured = (exact: number) => exact + this.settings.accelerationNoise * normal(this.#random);
    return Promise.resolve({ x: measured(x), y: measured(y), z: measured(z) });
  }

  /** The building's x axis looks east. */
  async getCompassHeading(): Promise<number> {
    const { theta } = await this.getOrientation();
    return ((90 - theta) % 360 + 360) % 360;
  }

  getOrientation(): Promise<OrientationVector> {
    const { yaw } = this.#robot.odometry(this.#nowS);
    return Promise.resolve({ oX: 0, oY: 0, oZ: 1, theta: yaw * DEG_PER_RAD });
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
    return Promise.resolve({ accuracy: {} });
  }

  get #nowS(): number {
    return this.clock.monotonicMs() / 1000;
  }
}
