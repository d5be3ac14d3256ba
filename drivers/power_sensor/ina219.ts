/**
 * INA219: voltage and current of a direct-current supply, by a shunt resistor, over I2C.
 *
 * Registers and scales are those of its data sheet (Texas Instruments SBOS448). The driver computes the current from
 * the voltage over the shunt, so that a chip that has lost its power and its calibration gives no wrong values.
 */

import { type PowerSensor, PowerSensorApi } from "../../lib/api/sensors/power_sensor.ts";
import type { Readings } from "../../lib/api/shared/readings.ts";
import { SvcError } from "../../lib/base/error.ts";
import { integer, number, object, text } from "../../lib/base/schema/schema.ts";
import { I2cDevice } from "../../lib/device/i2c.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

const REGISTER = { configuration: 0x00, shunt: 0x01, bus: 0x02, calibration: 0x05 } as const;
/** 32 V, a shunt of up to 320 mV, 12 bits, continuously: the state of the chip after power-on. */
const CONFIGURATION = 0x399f;
const SHUNT_VOLTS_PER_STEP = 10e-6;
const SHUNT_VOLTS_MAX = 0.32;
/** The converter says this, or its negative, for all that is beyond its range. */
const SHUNT_STEPS_END = 0x7d00;
const BUS_VOLTS_PER_STEP = 4e-3;
/** The voltage stands above three bits, of which the lowest says that the chip's own arithmetic was too large. */
const BUS_SHIFT = 3;
const OVERFLOW = 0b1;
/** Turns the chip's own arithmetic off: the driver does not use it. */
const NO_CALIBRATION = 0;

export const Ina219PowerSensor = model({
  api: PowerSensorApi,
  name: "rdk:builtin:ina219",
  doc: "An INA219 on an I2C bus: voltage, current and power of a direct-current supply.",
  attributes: object({
    i2cBus: text("bus: 1 for /dev/i2c-1").required(),
    i2cAddr: integer("address, 0x40 to 0x4f, by the pins A0 and A1", { min: 0x40, max: 0x4f }).zeroIsAbsent()
      .default(0x40),
    shuntResistance: number("resistance of the shunt in ohms", { above: 0 }).zeroIsAbsent().default(0.1),
    maxCurrentAmps: number("largest current to be measured, to check the shunt by", { above: 0 })
      .zeroIsAbsent(),
  }).required().with((settings, at) => {
    const { shuntResistance, maxCurrentAmps } = settings;
    const most = SHUNT_VOLTS_MAX / shuntResistance;
    if (maxCurrentAmps === undefined || maxCurrentAmps <= most) return settings;
    const found = `a shunt of ${shuntResistance} ohms measures up to ${most.toFixed(2)} A`;
    return at.at("max_current_amps").error(`found ${maxCurrentAmps}, but ${found}`);
  }),
  construct: ({ name, attributes, host }) => {
    const { i2cBus, i2cAddr, shuntResistance } = attributes;
    const device = I2cDevice.open(host, i2cBus, i2cAddr);
    try {
      device.writeWord(REGISTER.configuration, CONFIGURATION);
      device.writeWord(REGISTER.calibration, NO_CALIBRATION);
    } catch (cause) {
      device.close();
      throw cause;
    }
    return new Ina219(name, device, shuntResistance);
  },
});

class Ina219 extends BaseComponent implements PowerSensor {
  constructor(name: ResourceName, private readonly device: I2cDevice, private readonly shuntOhms: number) {
    super(name);
  }

  getVoltage(): Promise<{ volts: number; isAc: boolean }> {
    return Promise.try(() => ({ volts: this.#volts(), isAc: false }));
  }

  getCurrent(): Promise<{ amperes: number; isAc: boolean }> {
    return Promise.try(() => ({ amperes: this.#amperes(), isAc: false }));
  }

  getPower(): Promise<number> {
    return Promise.try(() => this.#volts() * this.#amperes());
  }

  getReadings(): Promise<Readings> {
    return Promise.try(() => {
      const [volts, amps] = [this.#volts(), this.#amperes()];
      return { volts, amps, is_ac: false, watts: volts * amps };
    });
  }

  override close(): Promise<void> {
    this.device.close();
    return Promise.resolve();
  }

  #volts(): number {
    let word = this.device.readWord(REGISTER.bus);
    if (word & OVERFLOW) {
      // Another program has calibrated the chip since.
      this.device.writeWord(REGISTER.calibration, NO_CALIBRATION);
      word = this.device.readWord(REGISTER.bus);
    }
    if (word & OVERFLOW) {
      throw new SvcError("out_of_range", `${this.name}: a value is too large for the INA219`);
    }
    return (word >> BUS_SHIFT) * BUS_VOLTS_PER_STEP;
  }

  #amperes(): number {
    const word = this.device.readWord(REGISTER.shunt);
    const steps = word >= 0x8000 ? word - 0x10000 : word;
    if (Math.abs(steps) >= SHUNT_STEPS_END) {
      const most = `${(SHUNT_VOLTS_MAX / this.shuntOhms).toFixed(2)} A`;
      throw new SvcError(
        "out_of_range",
        `${this.name}: the current is ${most} or more, the end of the shunt's range`,
      );
    }
    return steps * SHUNT_VOLTS_PER_STEP / this.shuntOhms;
  }
}
