/**
 * A board without hardware. A pin is low until it is set and reads back the last value set; analogs and
 * interrupts count up.
 *
 * With `simulated_motors` the board also simulates motors and encoders wired to its pins, so that a motor on
 * this board turns an encoder on it.
 */

import { type AnalogReading, type Board, BoardApi, type PowerMode, type Tick } from "../../lib/api/board.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { bool, type Infer, integer, list, object, text } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call, unsupported } from "../../lib/resource/resource.ts";
import { SimulatedMotor, simulatedMotorField } from "./simulated_motor.ts";
import { TickQueue } from "./tick_queue.ts";

const ANALOG_MAX = 1000;
/** Pins that one board keeps. */
const PINS_MAX = 1000;
/** A pin that nobody has set. */
const LOW: Readonly<Pin> = { high: false, frequencyHz: 0 };
/** The interval at which an undriven interrupt ticks for its listeners. */
const RANDOM_TICK_MS = 700;
/** The interval at which the board advances turning simulated motors. */
const MOTOR_STEP_MS = 10;
/**
 * The longest time that a simulated motor turns in one step: if the process was held up, the motor was too.
 */
const MOTOR_STEP_MAX_MS = 100;

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
      const place = at.at("simulated_motors").at(index).at("encoder").at(wire);
      place.wanted(`one of this board's digital interrupts (${names.join(", ") || "none"})`, name);
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

interface Interrupt {
  readonly name: string;
  readonly pin: string;
  /** True if a simulated motor drives this interrupt. */
  driven: boolean;
  count: number;
}

class Fake extends BaseComponent implements Board {
  readonly #pins = new Map<string, Pin>();
  readonly #analogs: Map<string, { readonly still: boolean; value: number }>;
  readonly #interrupts: Map<string, Interrupt>;
  readonly #motors: SimulatedMotor[];
  readonly #listeners = new Set<TickQueue>();
  /** Offset from the monotonic clock to the epoch. */
  readonly #epochMs: number;
  #turnedToMs: number;
  #cancelMotorStep?: () => void;
  #cancelRandomTick?: () => void;
  #closed = false;

  constructor(name: ResourceName, settings: Settings, private readonly clock: Clock) {
    super(name);
    this.#analogs = new Map(settings.analogs.map(({ name, still }) => [name, { still, value: 0 }]));
    this.#interrupts = new Map(
      settings.digitalInterrupts.map(({ name, pin }) => [name, { name, pin, driven: false, count: 0 }]),
    );
    const wires = {
      isHigh: (pin: string) => this.#pin(pin).high,
      duty: (pin: string) => this.#pin(pin).pwm ?? Number(this.#pin(pin).high),
    };
    this.#motors = settings.simulatedMotors.map((motor) => new SimulatedMotor(motor, wires));
    for (const one of this.#motors.flatMap((motor) => motor.interrupts)) this.#interrupt(one).driven = true;
    this.#turnedToMs = clock.monotonicMs();
    this.#epochMs = clock.nowMs() - this.#turnedToMs;
  }

  setGpio(pin: string, high: boolean): Promise<void> {
    return this.#change(pin, { high, pwm: undefined, frequencyHz: 0 });
  }

  getGpio(pin: string): Promise<boolean> {
    this.#turnMotors();
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

  /** Reading an undriven interrupt triggers it, so that its value goes up as documented. */
  getDigitalInterruptValue(name: string): Promise<number> {
    return Promise.try(() => {
      this.#turnMotors();
      const interrupt = this.#interrupt(name);
      if (!interrupt.driven) interrupt.count++;
      return interrupt.count;
    });
  }

  streamTicks(names: readonly string[], call?: Call): Promise<AsyncIterable<Tick>> {
    return Promise.try(() => {
      if (this.#closed) {
        throw new SvcError("unavailable", `${this.name} is closed, its interrupts do not tick`);
      }
      for (const name of names) this.#interrupt(name);
      this.#turnMotors();
      const queue = new TickQueue(names, (left) => this.#listeners.delete(left), call?.signal);
      if (!queue.ended) this.#listeners.add(queue);
      this.#cancelRandomTick ??= this.clock.after(RANDOM_TICK_MS, this.#randomTick);
      return queue;
    });
  }

  setPowerMode(_mode: PowerMode): Promise<void> {
    return Promise.reject(unsupported(this.name, "SetPowerMode"));
  }

  override close(): Promise<void> {
    this.#closed = true;
    this.#cancelMotorStep?.();
    this.#cancelRandomTick?.();
    for (const queue of this.#listeners) queue.end();
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

  #interrupt(name: string): Interrupt {
    const interrupt = this.#interrupts.get(name);
    if (!interrupt) throw new SvcError("unknown", `cant find DigitalInterrupt (${name})`);
    return interrupt;
  }

  /** Changes a pin. Motors turn with the old levels up to now and with the new levels from now on. */
  #change(pin: string, change: Partial<Pin>): Promise<void> {
    return Promise.try(() => {
      this.#turnMotors();
      this.#set(pin, change);
      this.#cancelMotorStep?.();
      const turning = !this.#closed && this.#motors.some((motor) => motor.speed !== 0);
      this.#cancelMotorStep = turning ? this.clock.after(MOTOR_STEP_MS, this.#motorStep) : undefined;
    });
  }

  readonly #motorStep = () => {
    this.#turnMotors();
    this.#cancelMotorStep = this.clock.after(MOTOR_STEP_MS, this.#motorStep);
  };

  #turnMotors(): void {
    const nowMs = this.clock.monotonicMs();
    const fromMs = Math.max(this.#turnedToMs, nowMs - MOTOR_STEP_MAX_MS);
    this.#turnedToMs = nowMs;
    for (const motor of this.#motors) {
      motor.turn(fromMs, nowMs, (name, high, timeMs) => {
        const interrupt = this.#interrupt(name);
        this.#pins.set(interrupt.pin, { ...this.#pin(interrupt.pin), high });
        this.#tick(interrupt, high, timeMs);
      });
    }
  }

  readonly #randomTick = () => {
    this.#cancelRandomTick = undefined;
    if (this.#listeners.size === 0) return;
    for (const interrupt of this.#interrupts.values()) {
      const listened = [...this.#listeners].some((queue) => queue.interrupts.has(interrupt.name));
      if (listened && !interrupt.driven) {
        this.#tick(interrupt, Math.random() < 0.5, this.clock.monotonicMs());
      }
    }
    this.#cancelRandomTick = this.clock.after(RANDOM_TICK_MS, this.#randomTick);
  };

  #tick(interrupt: Interrupt, high: boolean, timeMs: number): void {
    interrupt.count++;
    if (this.#listeners.size === 0) return;
    const tick = {
      pinName: interrupt.name,
      timeNs: BigInt(Math.round((this.#epochMs + timeMs) * 1e6)),
      high,
    };
    for (const queue of this.#listeners) if (queue.interrupts.has(interrupt.name)) queue.push(tick);
  }
}
