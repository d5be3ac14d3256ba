/** The simulated motors of a fake board over time: they turn while their pins drive them. */

import type { Clock } from "../../lib/base/clock.ts";
import type { EdgeSink, SimulatedMotor } from "./simulated_motor.ts";

/** The interval at which turning motors advance. */
const MOTOR_STEP_MS = 10;
/**
 * The longest time that a motor turns in one step: if the process was held up, the motor was too.
 */
const MOTOR_STEP_MAX_MS = 100;

export class TurningMotors {
  #turnedToMs: number;
  #cancelStep?: () => void;
  #closed = false;

  /** `sink` receives the edges of the encoders. */
  constructor(
    private readonly motors: readonly SimulatedMotor[],
    private readonly clock: Clock,
    private readonly sink: EdgeSink,
  ) {
    this.#turnedToMs = clock.monotonicMs();
  }

  /** Turns the motors up to now, at the present levels of the pins; comes before a change of a pin. */
  turn(): void {
    const nowMs = this.clock.monotonicMs();
    const fromMs = Math.max(this.#turnedToMs, nowMs - MOTOR_STEP_MAX_MS);
    this.#turnedToMs = nowMs;
    for (const motor of this.motors) motor.turn(fromMs, nowMs, this.sink);
  }

  /** Goes on turning as long as a motor is driven; comes after a change of a pin. */
  goOn(): void {
    this.#cancelStep?.();
    const turning = !this.#closed && this.motors.some((motor) => motor.speed !== 0);
    this.#cancelStep = turning ? this.clock.after(MOTOR_STEP_MS, this.#step) : undefined;
  }

  close(): void {
    this.#closed = true;
    this.#cancelStep?.();
  }

  readonly #step = () => {
    this.turn();
    this.#cancelStep = this.clock.after(MOTOR_STEP_MS, this.#step);
  };
}
