/**
 * A simulated motor with an encoder, wired to a fake board. It reads the pins that a motor driver would read,
 * turns a shaft accordingly and reports the edges that its encoder makes.
 *
 * The motor has no inertia: it turns at `max_rpm` times the present drive. It keeps no time and no timer; the
 * board tells it when time has passed and before a pin changes.
 */

import { assert } from "../../lib/base/error.ts";
import { type Infer, number, object, text } from "../../lib/base/schema/schema.ts";

/** Highest edge rate of one simulated encoder; the board's queues hold the edges of one step at this rate. */
const EDGES_PER_SECOND_MAX = 50_000;

export const simulatedMotorField = object({
  pins: object({
    a: text("pin of the driver's input A"),
    b: text("pin of the driver's input B"),
    dir: text("direction pin; high is forwards"),
    pwm: text("PWM pin; its duty cycle is the speed"),
  }, "the pins that drive the motor: dir + pwm, a + b, or a + b + pwm, as for a gpio motor").required(),
  encoder: object({
    a: text("interrupt of phase A"),
    b: text("interrupt of phase B"),
    i: text("interrupt of an encoder with a single wire"),
  }, "names of this board's digital interrupts that the encoder drives: a + b, or i").required(),
  ticksPerRotation: number("ticks that the encoder model counts in one rotation", { above: 0 }).default(100),
  maxRpm: number("rotations a minute at full power", { above: 0 }).default(100),
}).with((motor, at) => {
  const { pins, encoder } = motor;
  const pinsGood = pins.a && pins.b ? !pins.dir : pins.dir && pins.pwm && !pins.a && !pins.b;
  if (!pinsGood) {
    return at.at("pins").error(`found ${pinsIn(pins)}, wanted dir and pwm, a and b, or a, b and pwm`);
  }
  const encoderGood = encoder.i ? !encoder.a && !encoder.b : encoder.a && encoder.b;
  if (!encoderGood) return at.at("encoder").error(`found ${pinsIn(encoder)}, wanted a and b, or i`);
  const rate = edgesPerRotation(encoder.i, motor.ticksPerRotation) * motor.maxRpm / 60;
  if (rate > EDGES_PER_SECOND_MAX) {
    return at.error(
      `its encoder makes ${rate} edges a second at full power, wanted ${EDGES_PER_SECOND_MAX} at most`,
    );
  }
  return motor;
});

/** The names of the pins that are set. */
function pinsIn(pins: { readonly [name: string]: string | undefined }): string {
  return Object.keys(pins).filter((name) => pins[name]).join(", ") || "none of them";
}

export type SimulatedMotorSettings = NonNullable<Infer<typeof simulatedMotorField>>;

/** The present levels of the pins. */
export interface PinLevels {
  isHigh(pin: string): boolean;
  /** The fraction of time for which the pin is high. */
  duty(pin: string): number;
}

/** Receives one edge: the interrupt, its level and the time. */
export type EdgeSink = (interrupt: string, high: boolean, timeMs: number) => void;

interface Edge {
  readonly interrupt: string;
  readonly high: boolean;
}

export class SimulatedMotor {
  /** Edges since the start; the whole part gives the state of the encoder. */
  #position = 0;
  /** The edge that leads into each state of the encoder, turning forwards. */
  readonly #cycle: readonly Edge[];

  constructor(private readonly settings: SimulatedMotorSettings, private readonly wires: PinLevels) {
    const { a = "", b = "", i } = settings.encoder;
    this.#cycle = i ? [falling(i), rising(i)] : [falling(a), rising(b), rising(a), falling(b)];
  }

  get interrupts(): string[] {
    return [...new Set(this.#cycle.map((edge) => edge.interrupt))];
  }

  /** Edges per millisecond; negative while turning backwards. */
  get speed(): number {
    const { encoder, ticksPerRotation, maxRpm } = this.settings;
    return this.#drive() * maxRpm * edgesPerRotation(encoder.i, ticksPerRotation) / 60_000;
  }

  /** Turns the shaft for the given time span, at the present levels of the pins. */
  turn(fromMs: number, toMs: number, sink: EdgeSink): void {
    const { speed } = this;
    const start = this.#position;
    const end = start + speed * (toMs - fromMs);
    const first = Math.floor(start);
    const last = Math.floor(end);
    const crossedAt = (edge: number) => Math.min(toMs, fromMs + Math.max(0, (edge - start) / speed));
    for (let state = first + 1; state <= last; state++) {
      const { interrupt, high } = this.#edgeInto(state);
      sink(interrupt, high, crossedAt(state));
    }

    for (let state = first; state > last; state--) {
      const { interrupt, high } = this.#edgeInto(state);
      sink(interrupt, !high, crossedAt(state));
    }

    this.#position = end;
  }

  #edgeInto(state: number): Edge {
    const edge = this.#cycle.at(state % this.#cycle.length);
    assert(edge, "a state of the encoder is a whole number");
    return edge;
  }

  /** The drive as a share of full power, -1 to 1. */
  #drive(): number {
    const { a, b, dir, pwm } = this.settings.pins;
    const { wires } = this;
    if (dir && pwm) return this.#duty(pwm) * (wires.isHigh(dir) ? 1 : -1);
    if (!a || !b) return 0;
    if (pwm) return this.#duty(pwm) * (Number(wires.isHigh(a)) - Number(wires.isHigh(b)));
    return this.#duty(a) - this.#duty(b);
  }

  /** A pin holds any duty cycle that it is given, but it is high from none to all of the time. */
  #duty(pin: string): number {
    const duty = this.wires.duty(pin);
    return Number.isNaN(duty) ? 0 : Math.max(0, Math.min(duty, 1));
  }
}

function rising(interrupt: string): Edge {
  return { interrupt, high: true };
}

function falling(interrupt: string): Edge {
  return { interrupt, high: false };
}

/**
 * Two wires make four edges a cycle, which a quadrature encoder counts as two ticks; a single wire ticks on
 * each edge.
 */
function edgesPerRotation(singleWire: string | undefined, ticksPerRotation: number): number {
  return singleWire ? ticksPerRotation : 2 * ticksPerRotation;
}
