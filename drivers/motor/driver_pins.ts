/**
 * The pins between a board and the driver chip of a brushed or brushless motor, in the three usual patterns:
 * a direction pin with PWM, two pins with PWM, and two pins of which one carries the pulses.
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
  constructor(
    private readonly board: Board,
    private readonly pins: DriverPinNames,
    private readonly limits: Drive,
  ) {}

  /** Turns the motor at the nearest allowed power and resolves to that power. The sign is the direction. */
  async drive(powerPct: number, call?: Call): Promise<number> {
    const { a, b, dir, pwm, enHigh, enLow } = this.pins;
    const power = Math.abs(limitedPower(powerPct, this.limits));
    const forwards = powerPct > 0;
    const level = forwards !== this.limits.dirFlip;
    if (a && b) {
      await this.board.setGpio(a, level, call);
      await this.board.setGpio(b, !level, call);
    } else if (dir) {
      await this.board.setGpio(dir, level, call);
    }

    if (enLow) await this.board.setGpio(enLow, false, call);
    if (enHigh) await this.board.setGpio(enHigh, true, call);
    if (pwm) await this.#pulse(pwm, power, call);
    // One pin stays high, so the motor is driven only while the other pin is low.
    else await this.#pulse((level ? b : a)!, 1 - power, call);

    return forwards ? power : -power;
  }

  /** Turns the motor off at once. Tries every pin, even if another pin fails. */
  async off(call?: Call): Promise<void> {
    const { a, b, pwm, enHigh, enLow } = this.pins;
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

  async #pulse(pin: string, dutyCyclePct: number, call?: Call): Promise<void> {
    await this.board.setPwmFrequency(pin, this.limits.pwmFrequencyHz, call);
    await this.board.setPwm(pin, dutyCyclePct, call);
  }
}
