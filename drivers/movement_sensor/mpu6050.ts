/**
 * MPU-6050: acceleration and angular velocity, over I2C.
 *
 * Registers and scales are those of its register map (InvenSense RM-MPU-6000A). All seven values are read at once,
 * so that they belong to the same moment.
 */

import { BaseMovementSensor, MovementSensorApi } from "../../lib/api/sensors/movement_sensor.ts";
import type { Readings } from "../../lib/api/shared/readings.ts";
import { SvcError } from "../../lib/base/error.ts";
import { bool, object, text } from "../../lib/base/schema/schema.ts";
import { I2cDevice } from "../../lib/device/i2c.ts";
import type { Vec3 } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import type { Call } from "../../lib/resource/resource.ts";

const REGISTER = { gyroscope: 0x1b, accelerometer: 0x1c, values: 0x3b, power: 0x6b, whoAmI: 0x75 } as const;
const [ADDRESS, OTHER_ADDRESS] = [0x68, 0x69];
interface Chip {
  readonly name: string;
  /** The temperature is the number in its register divided by `stepsPerDegree`, plus `zeroCelsius`. */
  readonly stepsPerDegree: number;
  readonly zeroCelsius: number;
}

/** The identity that the chip reports at either address. */
const IDENTITY = 0x68;
/**
 * By identity: the chip, and its successors on boards that are sold as MPU-6050. Their registers for motion are the
 * same, in the same ranges; the scales of the thermometers are those of their data sheets.
 */
const CHIPS: ReadonlyMap<number, Chip> = new Map([
  [IDENTITY, { name: "MPU-6050", stepsPerDegree: 340, zeroCelsius: 36.53 }],
  [0x70, { name: "MPU-6500", stepsPerDegree: 333.87, zeroCelsius: 21 }],
  [0x98, { name: "ICM-20689", stepsPerDegree: 326.8, zeroCelsius: 25 }],
  [0x12, { name: "ICM-20602", stepsPerDegree: 326.8, zeroCelsius: 25 }],
  [0xaf, { name: "ICM-20608", stepsPerDegree: 326.8, zeroCelsius: 25 }],
  [0x19, { name: "MPU-6886", stepsPerDegree: 326.8, zeroCelsius: 25 }],
]);
/** Awake, by the clock of a gyroscope, which is steadier than the chip's own. */
const AWAKE = 0x01;
const ASLEEP = 0x40;
const VALUES_BYTES = 14;
/** In the ranges that are set: two times the gravity of the earth, and 250 degrees a second. */
const STEPS_PER_G = 16384, STEPS_PER_DEGREE = 131;
const GRAVITY = 9.80665;
/** The chip says this, or its negative, for all that is beyond its range. */
const STEPS_END = 0x7fff;
const RANGES = { degreesPerSecond: "250 degrees/s", metresPerSecond2: "two times gravity" } as const;

export const Mpu6050MovementSensor = model({
  api: MovementSensorApi,
  name: "rdk:builtin:mpu6050",
  doc: "An MPU-6050 on an I2C bus: acceleration and angular velocity.",
  attributes: object({
    i2cBus: text("bus: 1 for /dev/i2c-1").required(),
    useAltI2cAddress: bool("the pin AD0 is high, so that the address is 0x69 instead of 0x68").default(false),
  }).required(),
  construct: ({ name, attributes, host, logger }) => {
    const address = attributes.useAltI2cAddress ? OTHER_ADDRESS : ADDRESS;
    const device = I2cDevice.open(host, attributes.i2cBus, address);
    try {
      const found = device.readByte(REGISTER.whoAmI);
      const chip = CHIPS.get(found);
      const reported = `the chip at address 0x${address.toString(16)} says 0x${found.toString(16)}`;
      if (!chip) throw new SvcError("failed_precondition", `${reported}, wanted 0x68: it is not an MPU-6050`);
      if (found !== IDENTITY) logger.warn(`${reported}: it is used as its kind, an ${chip.name}`);
      begin(device);
      return new Mpu6050(name, device, chip);
    } catch (cause) {
      device.close();
      throw cause;
    }
  },
});

/** Wakes the chip and sets its ranges. */
function begin(device: I2cDevice): void {
  device.writeByte(REGISTER.power, AWAKE);
  device.writeByte(REGISTER.gyroscope, 0);
  device.writeByte(REGISTER.accelerometer, 0);
}

class Mpu6050 extends BaseMovementSensor {
  #closed = false;

  constructor(name: ResourceName, private readonly device: I2cDevice, private readonly chip: Chip) {
    super(name, { angularVelocitySupported: true, linearAccelerationSupported: true });
  }

  override getAngularVelocity(): Promise<Vec3> {
    return Promise.try(() => this.#measured("degreesPerSecond"));
  }

  override getLinearAcceleration(): Promise<Vec3> {
    return Promise.try(() => this.#measured("metresPerSecond2"));
  }

  override async getReadings(call?: Call): Promise<Readings> {
    const readings = await super.getReadings(call);
    const { stepsPerDegree, zeroCelsius } = this.chip;
    const celsius = mpu6050Values(this.#values()).temperatureSteps / stepsPerDegree + zeroCelsius;
    return { ...readings, temperature_celsius: celsius };
  }

  override close(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    this.#closed = true;
    try {
      this.device.writeByte(REGISTER.power, ASLEEP);
    } catch {
      // The chip is gone; its bus must close all the same.
    }
    this.device.close();
    return Promise.resolve();
  }

  #measured(what: keyof typeof RANGES): Vec3 {
    const { steps, scale } = mpu6050Values(this.#values())[what];
    if (steps.some((one) => Math.abs(one) >= STEPS_END)) {
      const found = `the motion is ${RANGES[what]} or more, the end of its range`;
      throw new SvcError("out_of_range", `${this.name}: ${found}`);
    }
    const [x = 0, y = 0, z = 0] = steps.map((one) => one * scale);
    return { x, y, z };
  }

  /** A chip that has lost its power for a moment sleeps: it answers, with zeros. */
  #values(): Uint8Array {
    const values = this.device.readBlock(REGISTER.values, VALUES_BYTES);
    if (values.some((byte) => byte !== 0) || !(this.device.readByte(REGISTER.power) & ASLEEP)) return values;
    begin(this.device);
    throw new SvcError(
      "unavailable",
      `${this.name}: the ${this.chip.name} had lost its power, and begins again`,
    );
  }
}

/**
 * The values in the registers from 0x3b on: acceleration, temperature, angular velocity; each value's higher byte
 * first.
 */
function mpu6050Values(bytes: Uint8Array) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const vector = (at: number, scale: number) => ({
    steps: [at, at + 2, at + 4].map((one) => view.getInt16(one)),
    scale,
  });
  return {
    metresPerSecond2: vector(0, GRAVITY / STEPS_PER_G),
    temperatureSteps: view.getInt16(6),
    degreesPerSecond: vector(8, 1 / STEPS_PER_DEGREE),
  };
}
