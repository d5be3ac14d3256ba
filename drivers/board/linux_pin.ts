/**
 * One pin of a Linux board: a line that is an input or an output, or makes pulses by hardware or by a thread.
 *
 * Owns the line from its first use on. Promises: its calls run one after the other; a level ends the pulses before
 * it; when the pin closes, what made pulses is low. A line whose chip was unplugged is asked for again by the next call;
 * until then it has no level and no pulses of former calls.
 */

import type { Pulse, Pulses } from "../../lib/base/host.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { GpioBackEnd, HeldLine, LineAddress } from "../../lib/device/gpio_back_end.ts";
import type { Bias } from "../../lib/device/gpio.ts";
import type { PwmChannel } from "../../lib/device/pwm.ts";

/** Where none was set: the default of a gpio motor. */
const FREQUENCY_HZ = 800;
/** Beyond it a thread spends its time on switching, and its pulses are no longer even. */
const SOFTWARE_HZ_MAX = 10_000;
const HARDWARE_HZ_MAX = 50_000_000;
/** Callers whose sums of fractions come out a little too large mean 1. */
const DUTY_SLACK = 0.01;
const NS_PER_SECOND = 1e9;

export interface PinParts {
  readonly backEnd: GpioBackEnd;
  readonly line: LineAddress;
  readonly bias?: Bias;
  /** Opens the hardware PWM that the configuration gives this pin. */
  readonly hardware?: () => Promise<PwmChannel>;
  /** The thread of all pins that have no hardware. */
  readonly pulses: () => Pulses;
}

export class LinuxPin {
  #held?: HeldLine;
  #output = false;
  #pulse?: Pulse;
  #hardware?: PwmChannel;
  #duty = 0;
  #frequencyHz = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** `name` as the caller says it. */
  constructor(readonly name: string, private readonly parts: PinParts) {}

  get isOutput(): boolean {
    return this.#output || this.parts.hardware !== undefined;
  }

  get duty(): number {
    return this.#duty;
  }

  get frequencyHz(): number {
    return this.#frequencyHz;
  }

  set(high: boolean): Promise<void> {
    return this.#onLine(async () => {
      await this.#stopPulses();
      this.#duty = 0;
      this.#frequencyHz = 0;
      await this.#level(high);
    });
  }

  get(): Promise<boolean> {
    return this.#onLine(async () => {
      this.#held ??= await this.#hold({ bias: this.parts.bias });
      return this.#held.get();
    });
  }

  setPwm(dutyCyclePct: number): Promise<void> {
    return this.#onLine(async () => {
      const duty = checkedDuty(dutyCyclePct);
      await this.#pulseAt(duty, this.#frequencyHz || FREQUENCY_HZ);
      this.#duty = duty;
    });
  }

  setFrequency(frequencyHz: number): Promise<void> {
    return this.#onLine(async () => {
      const most = this.parts.hardware ? HARDWARE_HZ_MAX : SOFTWARE_HZ_MAX;
      if (!Number.isFinite(frequencyHz) || frequencyHz < 0 || frequencyHz > most) {
        const hint = this.parts.hardware ? "" : "; a higher one needs hardware PWM (attribute hardware_pwm)";
        const wanted = `wanted 1 to ${most} Hz, or 0 for the default${hint}`;
        throw new SvcError(
          "invalid_argument",
          `pin ${this.name}: found a PWM frequency of ${frequencyHz} Hz, ${wanted}`,
        );
      }
      if (this.#duty > 0) await this.#pulseAt(this.#duty, frequencyHz || FREQUENCY_HZ);
      this.#frequencyHz = frequencyHz;
    });
  }

  close(): Promise<void> {
    return this.#inTurn(async () => {
      // Full power is a level, without pulses.
      const pulsed = this.#pulse !== undefined || this.#duty > 0;
      await this.#stopPulses();
      try {
        if (pulsed) this.#held?.set(false);
        await this.#hardware?.close();
      } finally {
        this.#held?.close();
        this.#hardware = undefined;
        this.#held = undefined;
      }
    });
  }

  async #pulseAt(duty: number, frequencyHz: number): Promise<void> {
    const periodNs = NS_PER_SECOND / frequencyHz;
    if (this.parts.hardware) {
      this.#hardware ??= await this.parts.hardware();
      return await this.#hardware.set(periodNs, periodNs * duty);
    }
    if (duty === 0 || duty === 1) {
      await this.#stopPulses();
      return await this.#level(duty === 1);
    }
    if (!this.#output) await this.#level(false);
    // The thread's pulses on a chip that was unplugged fail without a word.
    else this.#held!.get();
    this.#pulse ??= this.parts.pulses().attach(this.#held!.wire);
    this.#pulse.set(periodNs, periodNs * duty);
  }

  async #stopPulses(): Promise<void> {
    await this.#hardware?.off();
    await this.#pulse?.end();
    this.#pulse = undefined;
  }

  /** With hardware PWM the line belongs to it: a level is pulses that never end, or none. */
  async #level(high: boolean): Promise<void> {
    if (this.parts.hardware) {
      this.#hardware ??= await this.parts.hardware();
      const periodNs = NS_PER_SECOND / FREQUENCY_HZ;
      return await (high ? this.#hardware.set(periodNs, periodNs) : this.#hardware.off());
    }
    if (!this.#held) this.#held = await this.#hold({ output: high });
    else if (this.#output) this.#held.set(high);
    else this.#held.use({ output: high });
    this.#output = true;
  }

  #hold(use: { output?: boolean; bias?: Bias }): Promise<HeldLine> {
    return this.parts.backEnd.hold(this.parts.line, use).catch((cause) => {
      const { code } = SvcError.from(cause);
      throw new SvcError(code, `cannot use pin ${this.name}`, { cause });
    });
  }

  /** Does the work, once more if the line's chip was unplugged, as it may be back. */
  #onLine<T>(work: () => Promise<T>): Promise<T> {
    return this.#inTurn(async () => {
      try {
        return await work();
      } catch (cause) {
        if (!this.#held || SvcError.from(cause).code !== "unavailable") throw cause;
        await this.#letGo();
        return await work();
      }
    });
  }

  async #letGo(): Promise<void> {
    await this.#stopPulses();
    this.#held?.close();
    this.#held = undefined;
    this.#output = false;
    this.#duty = 0;
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work, work);
    this.#last = done.catch(() => {});
    return done;
  }
}

function checkedDuty(duty: number): number {
  if (duty >= 0 && duty <= 1 + DUTY_SLACK) return Math.min(duty, 1);
  throw new SvcError("invalid_argument", `found a duty cycle of ${duty}, wanted 0 to 1`);
}
