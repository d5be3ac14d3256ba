/**
 * A board without hardware. A pin is low until it is set and reads back the last value set; analogs and
 * interrupts count up.
 *
 * With `simulated_motors` the board also simulates motors and encoders wired to its pins, so that a motor on
 * this board turns an encoder on it.
 */

import {
  type AnalogReading,
  type Board,
  BoardApi,
  type PowerMode,
  type Tick,
} from "../../lib/api/actuators/board.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { bool, type Infer, integer, list, object, text } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call, unsupported } from "../../lib/resource/resource.ts";
import { FakeInterrupts } from "./fake_interrupts.ts";
import { SimulatedMotor, simulatedMotorField } from "./simulated_motor.ts";
import { TurningMotors } from "./turning_motors.ts";

const ANALOG_MAX = 1000;
/** Pins that one board keeps. */
const PINS_MAX = 1000;
/** A pin that nobody has set. */
const LOW: Readonly<Pin> = { high: false, frequencyHz: 0 };

const attributes = object({
  failNew: bool(
    'fail at start with "whoops", to try how a machine handles a broken part; documented as required, but ' +
      "published configurations omit it, so absent means false",
  ).default(false),
  analogs: list(
    object({
      name: text("name of the analog reader").required(),
      pin: text("number on the ADC").default(""),
      chipSelect: text("chip select index; without effect here"),
      spiBus: text("SPI bus index; without effect here"),
      averageOverMs: integer("rolling average window in milliseconds; without effect here"),
      samplesPerSec: integer("sampling rate; without effect here"),
      still: bool("keep the written value instead of counting up from it").default(false),
    }),
    "analog readers",
  ).default([]),
  digitalInterrupts: list(
    object({
      name: text("name of the interrupt").required(),
      pin: text("GPIO pin number").required(),
      type: text('kind of interrupt; only "basic" is published'),
    }),
    "digital interrupts",
  ).default([]),
  simulatedMotors: list(
    simulatedMotorField,
    "simulated motors on the board's pins, each turning an encoder on the board's interrupts",
  ).default([]),
}).required().with((settings, at) => {
  const names = settings.digitalInterrupts.map(({ name }) => name);
  for (const [index, { encoder }] of settings.simulatedMotors.entries()) {
    for (const [wire, name] of Object.entries(encoder)) {
      if (name === undefined || names.includes(name)) continue;
      const field = at.at("simulated_motors").at(index).at("encoder").at(wire);
      field.wanted(`one of this board's digital interrupts (${names.join(", ") || "none"})`, name);
    }
  }
  return settings;
});

type Settings = NonNullable<Infer<typeof attributes>>;

export const FakeBoard = model({
  api: BoardApi,
  name: "rdk:builtin:fake",
  doc: "A board without hardware: pins read back what was set, analogs and interrupts count up.",
  attributes,
  construct: ({ name, attributes, clock }) => {
    if (attributes.failNew) {
      throw new SvcError("failed_precondition", `whoops: ${name} fails at start, as fail_new asks`);
    }
    return new Fake(name, attributes, clock);
  },
});

interface Pin {
  high: boolean;
  /** The duty cycle, while PWM drives the pin. */
  pwm?: number;
  frequencyHz: number;
}

class Fake extends BaseComponent implements Board {
  readonly #pins = new Map<string, Pin>();
  readonly #analogs: Map<string, { readonly still: boolean; value: number }>;
  readonly #interrupts: FakeInterrupts;
  readonly #motors: TurningMotors;

  constructor(name: ResourceName, settings: Settings, clock: Clock) {
    super(name);
    this.#analogs = new Map(settings.analogs.map(({ name, still }) => [name, { still, value: 0 }]));
    this.#interrupts = new FakeInterrupts(settings.digitalInterrupts, clock);

    const wires = {
      isHigh: (pin: string) => this.#pin(pin).high,
      duty: (pin: string) => this.#pin(pin).pwm ?? Number(this.#pin(pin).high),
    };
    const motors = settings.simulatedMotors.map((motor) => new SimulatedMotor(motor, wires));
    for (const one of motors.flatMap((motor) => motor.interrupts)) this.#interrupts.drive(one);
    this.#motors = new TurningMotors(motors, clock, (interrupt, high, timeMs) => {
      const pin = this.#interrupts.tick(interrupt, high, timeMs);
      this.#pins.set(pin, { ...this.#pin(pin), high });
    });
  }

  setGpio(pin: string, high: boolean): Promise<void> {
    return this.#change(pin, { high, pwm: undefined, frequencyHz: 0 });
  }

  getGpio(pin: string): Promise<boolean> {
    this.#motors.turn();
    return Promise.resolve(this.#pin(pin).high);
  }

  getPwm(pin: string): Promise<number> {
    return Promise.resolve(this.#pin(pin).pwm ?? 0);
  }

  setPwm(pin: string, dutyCyclePct: number): Promise<void> {
    return this.#change(pin, { pwm: dutyCyclePct });
  }

  getPwmFrequency(pin: string): Promise<number> {
    return Promise.resolve(this.#pin(pin).frequencyHz);
  }

  setPwmFrequency(pin: string, frequencyHz: number): Promise<void> {
    return this.#change(pin, { frequencyHz });
  }

  readAnalog(name: string): Promise<AnalogReading> {
    return Promise.try(() => {
      const analog = this.#analog(name);
      if (!analog.still) analog.value = (analog.value + 1) % (ANALOG_MAX + 1);
      return { value: analog.value, minRange: 0, maxRange: ANALOG_MAX, stepSize: 1 };
    });
  }

  writeAnalog(name: string, value: number): Promise<void> {
    return Promise.try(() => {
      this.#analog(name).value = value;
    });
  }

  getDigitalInterruptValue(name: string): Promise<number> {
    return Promise.try(() => {
      this.#motors.turn();
      return this.#interrupts.read(name);
    });
  }

  streamTicks(names: readonly string[], call?: Call): Promise<AsyncIterable<Tick>> {
    return Promise.try(() => {
      this.#motors.turn();
      return this.#interrupts.listen(names, String(this.name), call?.signal);
    });
  }

  setPowerMode(_mode: PowerMode): Promise<void> {
    return Promise.reject(unsupported(this.name, "SetPowerMode"));
  }

  override close(): Promise<void> {
    this.#motors.close();
    this.#interrupts.close();
    return Promise.resolve();
  }

  #pin(name: string): Readonly<Pin> {
    return this.#pins.get(name) ?? LOW;
  }

  #set(name: string, change: Partial<Pin>): void {
    if (!this.#pins.has(name) && this.#pins.size >= PINS_MAX) {
      throw new SvcError("resource_exhausted", `cannot set another pin of ${this.name}: ${PINS_MAX} are set`);
    }
    this.#pins.set(name, { ...this.#pin(name), ...change });
  }

  #analog(name: string) {
    const analog = this.#analogs.get(name);
    if (!analog) throw new SvcError("unknown", `can't find AnalogReader (${name})`);
    return analog;
  }

  /** Changes a pin. Motors turn with the old levels up to now and with the new levels from now on. */
  #change(pin: string, change: Partial<Pin>): Promise<void> {
    return Promise.try(() => {
      this.#motors.turn();
      this.#set(pin, change);
      this.#motors.goOn();
    });
  }
}
