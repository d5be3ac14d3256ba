/**
 * The pins between a board and the driver chip of a brushed or brushless motor, in the three usual patterns:
 * a direction pin with PWM, two pins with PWM, and two pins of which one carries the pulses.
 *
 * A board sets its pins one by one, and one on another machine takes its time. The pins are set in the order in which
 * the motor never has more power meanwhile than before and after.
 */

import type { Board } from "../../lib/api/actuators/board.ts";
import { joined } from "../../lib/base/error.ts";
import type { Call } from "../../lib/resource/resource.ts";
import { limitedPower, type PowerLimits } from "./move.ts";

export interface DriverPinNames {
  readonly a?: string;
  readonly b?: string;
  readonly dir?: string;
  readonly pwm?: string;
  readonly enHigh?: string;
  readonly enLow?: string;
}

export interface Drive extends PowerLimits {
  readonly pwmFrequencyHz: number;
  readonly dirFlip: boolean;
}

export class DriverPins {
  /** The size of the present power. */
  #power = 0;
  /** The input that stays high, where the other one carries the pulses. */
  #highInput?: string;

  constructor(
    private readonly board: Board,
    private readonly pins: DriverPinNames,
    private readonly limits: Drive,
  ) {}

  /** Turns the motor at the nearest allowed power and resolves to that power. The sign is the direction. */
  async drive(powerPct: number, call?: Call): Promise<number> {
    const { a, b, pwm, enHigh, enLow } = this.pins;
    const power = Math.abs(limitedPower(powerPct, this.limits));
    const forwards = powerPct > 0;
    const level = forwards !== this.limits.dirFlip;
    if (pwm) await this.#driveByPwm(pwm, power, level, call);
    else await this.#driveByInput((level ? a : b)!, (level ? b : a)!, 1 - power, call);

    if (enLow) await this.board.setGpio(enLow, false, call);
    if (enHigh) await this.board.setGpio(enHigh, true, call);
    this.#power = power;

    return forwards ? power : -power;
  }

  /** Turns the motor off at once. Tries every pin, even if another pin fails. */
  async off(call?: Call): Promise<void> {
    const { a, b, pwm, enHigh, enLow } = this.pins;
    this.#power = 0;
    this.#highInput = undefined;
    const levels: [pin: string | undefined, high: boolean][] = [
      [enLow, true],
      [enHigh, false],
      [a, false],
      [b, false],
      [pwm, false],
    ];
    const failures: unknown[] = [];
    for (const [pin, high] of levels) {
      if (pin) await this.board.setGpio(pin, high, call).catch((error) => failures.push(error));
    }
    const failure = joined("cannot turn the motor off", failures);
    if (failure) throw failure;
  }

  /** A smaller power comes before the direction, a larger one after it. */
  async #driveByPwm(pwm: string, power: number, level: boolean, call?: Call): Promise<void> {
    const { a, b, dir } = this.pins;
    const isSmaller = power < this.#power;
    if (isSmaller) await this.#pulse(pwm, power, call);
    if (a && b) {
      await this.board.setGpio(a, level, call);
      await this.board.setGpio(b, !level, call);
    } else if (dir) {
      await this.board.setGpio(dir, level, call);
    }
    if (!isSmaller) await this.#pulse(pwm, power, call);
  }

  /**
   * One input stays high, so the motor is driven only while the other one is low: without its pulses it would have full
   * power.
   */
  async #driveByInput(high: string, pulsed: string, dutyCyclePct: number, call?: Call): Promise<void> {
    const reverses = this.#highInput === pulsed;
    if (reverses) await this.#pulse(pulsed, dutyCyclePct, call);
    await this.board.setGpio(high, true, call);
    this.#highInput = high;
    if (!reverses) await this.#pulse(pulsed, dutyCyclePct, call);
  }

  async #pulse(pin: string, dutyCyclePct: number, call?: Call): Promise<void> {
    await this.board.setPwmFrequency(pin, this.limits.pwmFrequencyHz, call);
    await this.board.setPwm(pin, dutyCyclePct, call);
  }
}
