import { assert, assertEquals } from "@std/assert";
import {
  type MovementSensor,
  MovementSensorApi,
  type MovementSensorProperties,
} from "../../lib/api/sensors/movement_sensor.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";
import { sensorCases } from "./sensor.ts";

const METHODS: {
  [property in keyof MovementSensorProperties]: [
    keys: string[],
    get: (sensor: MovementSensor) => Promise<unknown>,
  ];
} = {
  positionSupported: [["position", "altitude"], (sensor) => sensor.getPosition()],
  linearVelocitySupported: [["linear_velocity"], (sensor) => sensor.getLinearVelocity()],
  angularVelocitySupported: [["angular_velocity"], (sensor) => sensor.getAngularVelocity()],
  linearAccelerationSupported: [["linear_acceleration"], (sensor) => sensor.getLinearAcceleration()],
  compassHeadingSupported: [["compass"], (sensor) => sensor.getCompassHeading()],
  orientationSupported: [["orientation"], (sensor) => sensor.getOrientation()],
};

export const contract: Contract<MovementSensor> = {
  api: MovementSensorApi,
  cases: {
    ...sensorCases,
    "quantities work and are in the readings exactly if getProperties supports them": async (sensor) => {
      const properties = await sensor.getProperties();
      const readings = await sensor.getReadings();
      for (const [property, [keys, get]] of Object.entries(METHODS)) {
        const supported = properties[property as keyof MovementSensorProperties];
        const failure = await get(sensor).then(() => undefined, (error) => SvcError.from(error));
        assertEquals(failure?.code, supported ? undefined : "unimplemented", property);
        for (const key of keys) assertEquals(key in readings, supported, key);
      }
    },
    "readings of vectors and positions carry their _type": async (sensor) => {
      const types = {
        position: "geopoint",
        linear_velocity: "vector3",
        linear_acceleration: "vector3",
        angular_velocity: "angular_velocity",
        orientation: "orientation_vector_degrees",
      };
      const readings = await sensor.getReadings();
      for (const [key, type] of Object.entries(types)) {
        if (key in readings) assertEquals((readings[key] as { _type?: string })._type, type, key);
      }
    },
    "getCompassHeading returns 0 to 360 degrees": async (sensor) => {
      const { compassHeadingSupported } = await sensor.getProperties();
      const heading = compassHeadingSupported ? await sensor.getCompassHeading() : 0;
      assert(heading >= 0 && heading < 360, `${heading}`);
    },
    "getAccuracy returns numbers or leaves them out": async (sensor) => {
      const { accuracy, positionHdop } = await sensor.getAccuracy();
      assertEquals(typeof accuracy, "object");
      assert(positionHdop === undefined || typeof positionHdop === "number");
    },
  },
};
