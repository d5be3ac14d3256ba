/**
 * A stepper motor behind a driver chip with a step pin and a direction pin (A4988, DRV8825, L298N, …), on the pins of
 * any board. Each pulse on the step pin turns the motor by one step, so the driver knows its position by counting.
 *
 * Slow steps are made one by one. A step is never early: if the computer is late, the motor turns more slowly rather than
 * jump over steps. Fast steps are PWM pulses of the board, counted by their frequency and the time, as published.
 */

import { type Board, BoardApi } from "../../lib/api/actuators/board.ts";
import { type Motor, MotorApi, type MotorProperties } from "../../lib/api/actuators/motor.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { chainOf, joined } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { type Infer, integer, object, text } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { Operation } from "../../lib/resource/operation.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call, unsupported } from "../../lib/resource/resource.ts";
import { checkPosition, checkPower, checkRevolutions, checkRpm, isStandstill } from "./move.ts";

const MS_PER_MINUTE = 60_000;
/** Steps that follow each other faster are PWM pulses. */
const SLOW_PERIOD_MS = 2;
const LONG_MS = 3_600_000;
const ENABLE_DELAY_MS_MAX = 10_000;
/** Powers up to this count as off. */
const OFF_POWER_PCT = 0.0001;
/** A movement that is slower than this share of its speed is told. */
const SLOW_SHARE = 0.9;

const attributes = object({
  board: text("name of the board that the driver chip is wired to").required().names("board"),
  pins: object({
    step: text("pin that a pulse makes a step of").required(),
    dir: text("direction pin; high is forwards").required(),
    enHigh: text("pin that enables the driver when high"),
    enLow: text("pin that enables the driver when low"),
  }, "board pin numbers").required(),
  ticksPerRotation: integer("steps in one rotation, by the motor and the microsteps of its driver", {
    min: 1,
  })
    .required(),
  stepperDelayUsec: integer(
    "shortest time between two steps in microseconds; SetPower needs it, because it is the speed at full power",
    { min: 0 },
  ).zeroIsAbsent(),
  enableDelayMs: integer(
    "time from the enable pin to the first step, as drivers need it that lose the steps before; 200 for a DM542 or DM556",
    { min: 0, max: ENABLE_DELAY_MS_MAX },
  ).default(0),
}).required();

type Settings = NonNullable<Infer<typeof attributes>>;

export const GpioStepperMotor = model({
  api: MotorApi,
  name: "rdk:builtin:gpiostepper",
  doc: "A stepper motor behind a driver chip with a step pin and a direction pin, on the pins of a board.",
  attributes,
  construct: async ({ name, attributes, dependencies, clock, logger }) => {
    const motor = new GpioStepper(
      name,
      dependencies.get(BoardApi, attributes.board),
      attributes,
      clock,
      logger,
    );
    await motor.stop();
    return motor;
  },
});

class GpioStepper extends BaseComponent implements Motor {
  readonly #operation = new Operation(() => this.#rest());
  readonly #shortestMs: number;
  /** From the motor's zero, without those of the present pulses. */
  #steps = 0;
  /** The board may make pulses: it was told to, also by a motor before this one, and not yet to end them. */
  #mayPulse = true;
  #pulses?: { readonly startMs: number; readonly stepsPerMs: number; readonly stepsMax: number };
  #powerPct = 0;
  #isEnabled = false;
  /** A motion without end, once it has begun. */
  #keeping?: { readonly signal: AbortSignal; readonly periodMs: number };

  constructor(
    name: ResourceName,
    private readonly board: Board,
    private readonly settings: Settings,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {
    super(name);
    this.#shortestMs = (settings.stepperDelayUsec ?? 0) / 1000;
  }

  async setPower(powerPct: number, call?: Call): Promise<void> {
    checkPower(powerPct);
    if (Math.abs(powerPct) <= OFF_POWER_PCT) return await this.stop();
    if (this.#shortestMs === 0) {
      throw unsupported(
        this.name,
        "SetPower",
        "stepper_delay_usec gives the speed at full power, and is not set",
      );
    }
    const power = Math.max(-1, Math.min(powerPct, 1));
    await this.#keepTurning(this.#shortestMs / Math.abs(power), power, call);
  }

  async goFor(rpm: number, revolutions: number, call?: Call): Promise<void> {
    checkRpm(rpm, Infinity, this.logger);
    checkRevolutions(revolutions);
    const steps = Math.trunc(Math.abs(revolutions) * this.settings.ticksPerRotation);
    await this.#goBy(() => Math.sign(rpm * revolutions) * steps, rpm, call);
  }

  async goTo(rpm: number, positionRevolutions: number, call?: Call): Promise<void> {
    checkRpm(rpm, Infinity, this.logger);
    checkPosition(positionRevolutions);
    const goal = Math.round(positionRevolutions * this.settings.ticksPerRotation);
    await this.#goBy(() => goal - this.#steps, rpm, call);
  }

  async setRpm(rpm: number, call?: Call): Promise<void> {
    if (isStandstill(rpm)) return await this.stop();
    checkRpm(rpm, Infinity, this.logger);
    await this.#keepTurning(this.#periodMs(rpm), Math.sign(rpm), call);
  }

  async resetZeroPosition(offset: number): Promise<void> {
    checkPosition(offset);
    await this.stop();
    this.#steps = Math.round(-offset * this.settings.ticksPerRotation);
  }

  getPosition(): Promise<number> {
    return Promise.resolve((this.#steps + this.#pulsed()) / this.settings.ticksPerRotation);
  }

  getProperties(): Promise<MotorProperties> {
    return Promise.resolve({ positionReporting: true });
  }

  isPowered(): Promise<{ isOn: boolean; powerPct: number }> {
    return Promise.resolve({ isOn: this.#powerPct !== 0, powerPct: this.#powerPct });
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(this.#powerPct !== 0);
  }

  stop(): Promise<void> {
    return this.#operation.stop();
  }

  override close(): Promise<void> {
    return this.stop();
  }

  #periodMs(rpm: number): number {
    const periodMs = MS_PER_MINUTE / (Math.abs(rpm) * this.settings.ticksPerRotation);
    if (periodMs < this.#shortestMs) {
      this.logger.debug(`turns more slowly than ${rpm} rpm, by its stepper_delay_usec`);
    }
    return Math.max(periodMs, this.#shortestMs);
  }

  /** `stepsOf` is asked when the motor rests. */
  async #goBy(stepsOf: () => number, rpm: number, call?: Call): Promise<void> {
    const periodMs = this.#periodMs(rpm);
    await this.#operation.run(async (signal) => {
      const steps = stepsOf();
      if (steps === 0) return await this.#rest();
      const startMs = this.clock.monotonicMs();
      await this.#turn(steps, periodMs, Math.sign(steps), signal);
      await this.#rest();
      const tookMs = this.clock.monotonicMs() - startMs, wantedMs = Math.abs(steps) * periodMs;
      if (wantedMs >= SLOW_SHARE * tookMs) return;
      this.logger.warn(
        `turned at ${(Math.abs(rpm) * wantedMs / tookMs).toFixed(1)} rpm instead of ${Math.abs(rpm)}: ` +
          "this computer makes no faster steps",
      );
    }, call?.signal);
  }

  /** Turns on after the call, until the next one; resolves when the motor turns. */
  async #keepTurning(periodMs: number, powerPct: number, call?: Call): Promise<void> {
    call?.signal?.throwIfAborted();
    const keeping = this.#keeping;
    // Programs repeat a speed many times a second: a motor that stopped for each could not follow its steps.
    if (keeping && !keeping.signal.aborted && keeping.periodMs === periodMs && this.#powerPct === powerPct) {
      return;
    }

    const begun = Promise.withResolvers<void>();
    this.#operation.run(async (signal) => {
      try {
        await this.#turn(Math.sign(powerPct) * Infinity, periodMs, powerPct, signal, () => {
          this.#keeping = { signal, periodMs };
          begun.resolve();
        });
      } finally {
        this.#keeping = undefined;
      }
    }).then(() => begun.resolve(), (error) => {
      begun.reject(error);
      this.logger.warn(`motor ${this.name.short} was stopped: ${chainOf(error)}`);
    });
    await begun.promise;
  }

  async #turn(
    steps: number,
    periodMs: number,
    powerPct: number,
    signal: AbortSignal,
    begun = () => {},
  ): Promise<void> {
    const direction = Math.sign(steps), { step, dir } = this.settings.pins;
    await this.#endPulses();
    if (!this.#isEnabled) {
      await this.#enable(true);
      const { enableDelayMs } = this.settings;
      if (enableDelayMs > 0) await this.clock.sleep(enableDelayMs, signal);
    }
    await this.board.setGpio(dir, direction > 0);
    // A board elsewhere takes its time: what was stopped meanwhile does not begin.
    signal.throwIfAborted();
    this.#powerPct = powerPct;
    begun();
    if (periodMs < SLOW_PERIOD_MS) return await this.#pulse(steps, periodMs, signal);

    let dueMs = this.clock.monotonicMs();
    for (let left = Math.abs(steps); left > 0; left--) {
      await this.board.setGpio(step, true);
      // The rise makes the step, also if a stop comes before the fall.
      this.#steps += direction;
      await this.clock.sleep(periodMs / 2, signal).finally(() => this.board.setGpio(step, false));
      const nowMs = this.clock.monotonicMs();
      dueMs = Math.max(dueMs + periodMs, nowMs);
      await this.clock.sleep(dueMs - nowMs, signal);
    }
  }

  async #pulse(steps: number, periodMs: number, signal: AbortSignal): Promise<void> {
    const { step } = this.settings.pins;
    const wantedHz = Math.max(1, Math.round(1000 / periodMs));
    this.#mayPulse = true;
    await this.board.setPwmFrequency(step, wantedHz);
    await this.board.setPwm(step, 0.5);

    const startMs = this.clock.monotonicMs();
    try {
      const hz = await this.board.getPwmFrequency(step).catch(() => 0) || wantedHz;
      this.#pulses = { startMs, stepsPerMs: Math.sign(steps) * hz / 1000, stepsMax: Math.abs(steps) };
      for (let leftMs = 1000 * Math.abs(steps) / hz; leftMs > 0; leftMs -= LONG_MS) {
        await this.clock.sleep(Math.min(leftMs, LONG_MS), signal);
      }
      this.#steps += steps;
      this.#pulses = undefined;
    } finally {
      await this.#endPulses();
    }
  }

  /** Until the board has ended them, each stop tries it again. */
  async #endPulses(): Promise<void> {
    if (!this.#mayPulse) return;
    await this.board.setPwm(this.settings.pins.step, 0);
    this.#mayPulse = false;
    this.#steps += this.#pulsed();
    this.#pulses = undefined;
  }

  /** The steps of the present pulses until now. */
  #pulsed(): number {
    if (!this.#pulses) return 0;
    const { startMs, stepsPerMs, stepsMax } = this.#pulses;
    const steps = Math.round(stepsPerMs * (this.clock.monotonicMs() - startMs));
    return Math.sign(steps) * Math.min(Math.abs(steps), stepsMax);
  }

  /** Without power the motor does not hold its place. */
  async #rest(): Promise<void> {
    const ended = this.#endPulses().then(() => void (this.#powerPct = 0));
    const results = await Promise.allSettled([ended, this.#enable(false)]);
    const failure = joined(`cannot stop ${this.name}`, reasonsOf(results));
    if (failure) throw failure;
  }

  async #enable(on: boolean): Promise<void> {
    this.#isEnabled = false;
    const { enHigh, enLow } = this.settings.pins;
    const results = await Promise.allSettled([
      enHigh !== undefined && this.board.setGpio(enHigh, on),
      enLow !== undefined && this.board.setGpio(enLow, !on),
    ]);
    const failure = joined(
      `cannot ${on ? "enable" : "disable"} the driver of ${this.name}`,
      reasonsOf(results),
    );
    if (failure) throw failure;
    this.#isEnabled = on;
  }
}

function reasonsOf(results: readonly PromiseSettledResult<unknown>[]): unknown[] {
  return results.flatMap((result) => result.status === "rejected" ? [result.reason] : []);
}
