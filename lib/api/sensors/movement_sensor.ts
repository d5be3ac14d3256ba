/**
 * Movement sensor: position, heading and motion. A model supports some of the methods and lists them in its
 * properties; the others are `unimplemented`.
 */

import { MovementSensorService } from "../../../proto/gen/movement_sensor_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import type { Message } from "../../wire/rpc/proto.ts";
import { service } from "../../wire/rpc/service.ts";
import type { OrientationVector, Vec3 } from "../../geometry/pose.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import { BaseComponent, type Call, unsupported } from "../../resource/resource.ts";
import { callOf, ComponentClient } from "../shared/resource.ts";
import {
  angularVelocityReading,
  fromReadingsMessage,
  type GeoPoint,
  geoPointReading,
  orientationReading,
  type Readings,
  vectorReading,
} from "../shared/readings.ts";
import { capturedReadings, type Sensor, sensorHandlers } from "./sensor.ts";
import { capturedOrientation, capturedVector } from "../shared/capture.ts";

/** Measures place and motion. Throws `unimplemented` for what `getProperties` denies. */
export interface MovementSensor extends Sensor {
  /** Degrees of latitude and longitude (WGS 84), and metres above the sea. */
  getPosition(call?: Call): Promise<{ coordinate: GeoPoint; altitudeM: number }>;
  /** Metres per second. */
  getLinearVelocity(call?: Call): Promise<Vec3>;
  /** Degrees per second about each axis. */
  getAngularVelocity(call?: Call): Promise<Vec3>;
  /** Metres per second squared. */
  getLinearAcceleration(call?: Call): Promise<Vec3>;
  /** Degrees from north, clockwise, from 0 to 360. */
  getCompassHeading(call?: Call): Promise<number>;
  /** Theta in degrees. */
  getOrientation(call?: Call): Promise<OrientationVector>;
  /** What it measures. */
  getProperties(call?: Call): Promise<MovementSensorProperties>;
  /** How good the fix is. */
  getAccuracy(call?: Call): Promise<Accuracy>;
}

/** Which of its methods a movement sensor has. */
export interface MovementSensorProperties {
  /** Whether `getPosition` works. */
  readonly positionSupported: boolean;
  /** Whether `getLinearVelocity` works. */
  readonly linearVelocitySupported: boolean;
  /** Whether `getAngularVelocity` works. */
  readonly angularVelocitySupported: boolean;
  /** Whether `getLinearAcceleration` works. */
  readonly linearAccelerationSupported: boolean;
  /** Whether `getCompassHeading` works. */
  readonly compassHeadingSupported: boolean;
  /** Whether `getOrientation` works. */
  readonly orientationSupported: boolean;
}

/** Absent values are unknown. */
export interface Accuracy {
  /** The model's own measures, by name. */
  readonly accuracy: { readonly [measure: string]: number };
  /** Horizontal dilution of precision; 1 is ideal, above 20 the position is useless. */
  readonly positionHdop?: number;
  /** The same for the altitude. */
  readonly positionVdop?: number;
  /** The quality number of an NMEA GGA sentence; 4 and 5 are the precise ones. */
  readonly positionNmeaGgaFix?: number;
  /** Error of the compass heading in degrees. */
  readonly compassDegreesError?: number;
}

/** Every reading that the sensor supports, under its published name; models return it from `getReadings`. */
export async function collectReadings(
  sensor: Omit<MovementSensor, "getReadings">,
  call?: Call,
): Promise<Readings> {
  const [position, velocity, acceleration, angularVelocity, heading, orientation] = await Promise.all([
    supported(sensor.getPosition(call)),
    supported(sensor.getLinearVelocity(call)),
    supported(sensor.getLinearAcceleration(call)),
    supported(sensor.getAngularVelocity(call)),
    supported(sensor.getCompassHeading(call)),
    supported(sensor.getOrientation(call)),
  ]);
  return {
    ...(position && { position: geoPointReading(position.coordinate), altitude: position.altitudeM }),
    ...(velocity && { linear_velocity: vectorReading(velocity) }),
    ...(acceleration && { linear_acceleration: vectorReading(acceleration) }),
    ...(angularVelocity && { angular_velocity: angularVelocityReading(angularVelocity) }),
    ...(heading !== undefined && { compass: heading }),
    ...(orientation && { orientation: orientationReading(orientation) }),
  };
}

async function supported<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (SvcError.from(error).code === "unimplemented") return undefined;
    throw error;
  }
}

/**
 * A movement sensor that supports only some of the methods: a model overrides these and names their properties. The
 * other methods fail with `unimplemented`.
 */
export abstract class BaseMovementSensor extends BaseComponent implements MovementSensor {
  constructor(name: ResourceName, private readonly supported: Partial<MovementSensorProperties>) {
    super(name);
  }

  getReadings(call?: Call): Promise<Readings> {
    return collectReadings(this, call);
  }

  getPosition(_call?: Call): Promise<{ coordinate: GeoPoint; altitudeM: number }> {
    return Promise.reject(unsupported(this.name, "GetPosition"));
  }

  getLinearVelocity(_call?: Call): Promise<Vec3> {
    return Promise.reject(unsupported(this.name, "GetLinearVelocity"));
  }

  getAngularVelocity(_call?: Call): Promise<Vec3> {
    return Promise.reject(unsupported(this.name, "GetAngularVelocity"));
  }

  getLinearAcceleration(_call?: Call): Promise<Vec3> {
    return Promise.reject(unsupported(this.name, "GetLinearAcceleration"));
  }

  getCompassHeading(_call?: Call): Promise<number> {
    return Promise.reject(unsupported(this.name, "GetCompassHeading"));
  }

  getOrientation(_call?: Call): Promise<OrientationVector> {
    return Promise.reject(unsupported(this.name, "GetOrientation"));
  }

  getProperties(): Promise<MovementSensorProperties> {
    return Promise.resolve({
      positionSupported: false,
      linearVelocitySupported: false,
      angularVelocitySupported: false,
      linearAccelerationSupported: false,
      compassHeadingSupported: false,
      orientationSupported: false,
      ...this.supported,
    });
  }

  getAccuracy(): Promise<Accuracy> {
    return Promise.resolve({ accuracy: {} });
  }
}

class MovementSensorClient extends ComponentClient<typeof MovementSensorService> implements MovementSensor {
  async getReadings(call?: Call): Promise<Readings> {
    return fromReadingsMessage(await this.rpc.getReadings(this.request(call), call));
  }

  async getPosition(call?: Call): Promise<{ coordinate: GeoPoint; altitudeM: number }> {
    const { coordinate, altitudeM } = await this.rpc.getPosition(this.request(call), call);
    const { latitude = 0, longitude = 0 } = coordinate ?? {};
    return { coordinate: { latitude, longitude }, altitudeM };
  }

  async getLinearVelocity(call?: Call): Promise<Vec3> {
    return vectorOf((await this.rpc.getLinearVelocity(this.request(call), call)).linearVelocity);
  }

  async getAngularVelocity(call?: Call): Promise<Vec3> {
    return vectorOf((await this.rpc.getAngularVelocity(this.request(call), call)).angularVelocity);
  }

  async getLinearAcceleration(call?: Call): Promise<Vec3> {
    return vectorOf((await this.rpc.getLinearAcceleration(this.request(call), call)).linearAcceleration);
  }

  async getCompassHeading(call?: Call): Promise<number> {
    return (await this.rpc.getCompassHeading(this.request(call), call)).value;
  }

  async getOrientation(call?: Call): Promise<OrientationVector> {
    const { orientation } = await this.rpc.getOrientation(this.request(call), call);
    const { oX = 0, oY = 0, oZ = 1, theta = 0 } = orientation ?? {};
    return { oX, oY, oZ, theta };
  }

  async getProperties(call?: Call): Promise<MovementSensorProperties> {
    return fieldsOf(await this.rpc.getProperties(this.request(call), call));
  }

  async getAccuracy(call?: Call): Promise<Accuracy> {
    return fieldsOf(await this.rpc.getAccuracy(this.request(call), call));
  }
}

function fieldsOf<M extends Message>({ $typeName: _, $unknown: __, ...fields }: M) {
  return fields;
}

function vectorOf(message: Vec3 | undefined): Vec3 {
  const { x = 0, y = 0, z = 0 } = message ?? {};
  return { x, y, z };
}

/** The API `rdk:component:movement_sensor`. */
export const MovementSensorApi: Api<MovementSensor> = {
  name: "rdk:component:movement_sensor",
  desc: MovementSensorService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: {
    ...capturedReadings,
    Position: async (sensor, _, call) => {
      const { coordinate: { latitude, longitude }, altitudeM } = await sensor.getPosition(call);
      return { reading: { coordinate: { latitude, longitude }, altitude_m: altitudeM } };
    },
    LinearVelocity: async (sensor, _, call) => ({
      reading: { linear_velocity: capturedVector(await sensor.getLinearVelocity(call)) },
    }),
    AngularVelocity: async (sensor, _, call) => ({
      reading: { angular_velocity: capturedVector(await sensor.getAngularVelocity(call)) },
    }),
    LinearAcceleration: async (sensor, _, call) => ({
      reading: { linear_acceleration: capturedVector(await sensor.getLinearAcceleration(call)) },
    }),
    CompassHeading: async (sensor, _, call) => ({ reading: { value: await sensor.getCompassHeading(call) } }),
    Orientation: async (sensor, _, call) => ({
      reading: { orientation: capturedOrientation(await sensor.getOrientation(call)) },
    }),
  },
  client: (name: ResourceName, channel: Channel) =>
    new MovementSensorClient(name, channel, MovementSensorService),
  serve: (find) =>
    service(MovementSensorService, {
      ...sensorHandlers(find),
      getPosition: (request, ctx) => find(request.name).getPosition(callOf(request, ctx)),
      getLinearVelocity: async (request, ctx) => ({
        linearVelocity: await find(request.name).getLinearVelocity(callOf(request, ctx)),
      }),
      getAngularVelocity: async (request, ctx) => ({
        angularVelocity: await find(request.name).getAngularVelocity(callOf(request, ctx)),
      }),
      getLinearAcceleration: async (request, ctx) => ({
        linearAcceleration: await find(request.name).getLinearAcceleration(callOf(request, ctx)),
      }),
      getCompassHeading: async (request, ctx) => ({
        value: await find(request.name).getCompassHeading(callOf(request, ctx)),
      }),
      getOrientation: async (request, ctx) => ({
        orientation: await find(request.name).getOrientation(callOf(request, ctx)),
      }),
      getProperties: (request, ctx) => find(request.name).getProperties(callOf(request, ctx)),
      getAccuracy: (request, ctx) => find(request.name).getAccuracy(callOf(request, ctx)),
    }),
};
