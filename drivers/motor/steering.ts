/**
 * Two ways to choose a motor's power from its encoder; neither uses a clock or a device.
 *
 * `Ramp` starts gently and corrects in small steps, with nothing to tune. `Pid` follows a position that moves
 * at the wanted speed. Both believe the encoder; `RunawayWatch` does not.
 */

/** The goal of a movement, in ticks; the signs of speed and distance agree. */
export interface MovementGoal {
  readonly ticksPerMs: number;
  /** Infinite for a movement without end. */
  readonly goalTicks: number;
}

export interface Steering {
  /** Whether the goal is reached. */
  arrived(ticks: number): boolean;
  /**
   * The power (-1 to 1) from now on, for the present position of the shaft; `undefined` keeps the power as it
   * is.
   */
  power(ticks: number, nowMs: number): number | undefined;
}

const RAMP_START_POWER = 0.2;
const RAMP_PERIOD_MS = 50;

export class Ramp implements Steering {
  readonly #direction: number;
  #power: number;

  /** `ticks` is the present position of the shaft; `ratePct` is the size of a correction. */
  constructor(
    private readonly target: MovementGoal,
    private readonly ratePct: number,
    private readonly maxPowerPct: number,
    private ticks: number,
    private nowMs: number,
  ) {
    this.#direction = Math.sign(target.ticksPerMs);
    this.#power = Math.min(RAMP_START_POWER, maxPowerPct);
  }

  /** The power to start with. */
  get start(): number {
    return this.#power * this.#direction;
  }

  arrived(ticks: number): boolean {
    return (this.target.goalTicks - ticks) * this.#direction <= 0;
  }

  power(ticks: number, nowMs: number): number | undefined {
    const elapsedMs = nowMs - this.nowMs;
    if (elapsedMs < RAMP_PERIOD_MS) return undefined;
    const speed = (ticks - this.ticks) / elapsedMs;
    const step = Math.sign((this.target.ticksPerMs - speed) * this.#direction) * this.ratePct;
    // Skips a step that would reverse the motor or leave it without power.
    if (this.#power + step > 1e-9) this.#power = Math.min(this.#power + step, this.maxPowerPct);
    this.ticks = ticks;
    this.nowMs = nowMs;
    return this.#power * this.#direction;
  }
}

/** Power per tick, per tick and second, and per tick a second. */
export interface Gains {
  readonly p: number;
  readonly i: number;
  readonly d: number;
}

/**
 * A motor has arrived within this many ticks of its goal, or within the share of a rotation below if that is
 * less.
 */
const TOLERANCE_TICKS = 2;
const TOLERANCE_ROTATIONS = 0.1;

/** Correction rate of a motor without configured gains, per second. */
const BANDWIDTH = 5;

/**
 * Gains for a motor that turns `ticksPerSecond` at full power. With them the motor follows a change of the
 * wanted position without overshoot (two equal real poles).
 */
export function tunedGains(ticksPerSecond: number): Gains {
  return { p: 2 * BANDWIDTH / ticksPerSecond, i: BANDWIDTH ** 2 / ticksPerSecond, d: 0 };
}

export class Pid implements Steering {
  readonly #toleranceTicks: number;
  readonly #startTicks: number;
  readonly #startMs: number;
  #integral = 0;
  #error = 0;

  constructor(
    private readonly target: MovementGoal,
    private readonly gains: Gains,
    private readonly maxPowerPct: number,
    ticksPerRotation: number,
    ticks: number,
    private nowMs: number,
  ) {
    this.#toleranceTicks = Math.min(TOLERANCE_TICKS, ticksPerRotation * TOLERANCE_ROTATIONS);
    this.#startTicks = ticks;
    this.#startMs = nowMs;
  }

  arrived(ticks: number): boolean {
    return Math.abs(this.target.goalTicks - ticks) <= this.#toleranceTicks;
  }

  power(ticks: number, nowMs: number): number | undefined {
    const elapsedS = (nowMs - this.nowMs) / 1000;
    if (elapsedS <= 0) return undefined;
    const { p, i, d } = this.gains;
    const error = this.#wanted(nowMs) - ticks;
    const integral = this.#integral + error * elapsedS;
    const wanted = p * error + i * integral + d * (error - this.#error) / elapsedS;
    const power = Math.max(-this.maxPowerPct, Math.min(wanted, this.maxPowerPct));
    // At the limit the integral stays as it is; otherwise the motor would have to work it off later.
    if (power === wanted) this.#integral = integral;
    this.#error = error;
    this.nowMs = nowMs;
    return power;
  }

  /** The position that the shaft should have now. */
  #wanted(nowMs: number): number {
    const { ticksPerMs, goalTicks } = this.target;
    const there = this.#startTicks + ticksPerMs * (nowMs - this.#startMs);
    return ticksPerMs > 0 ? Math.min(there, goalTicks) : Math.max(there, goalTicks);
  }
}

const RUNAWAY_WINDOW_MS = 1_000;
/** A shaft that turns less than this in a window is held or shaken. */
const RUNAWAY_ROTATIONS = 0.1;
/** A shaft that the power brakes is slower than this share of its speed a window later. */
const BRAKED_SHARE = 0.95;

/**
 * Notices a shaft that goes on turning against the power that drives it, as one whose encoder counts the other way: it
 * gets away from its goal, and more power makes it worse. A motor that the power reverses is slower in each window.
 */
export class RunawayWatch {
  readonly #leastTicks: number;
  #sign = 0;
  #ticks = 0;
  #sinceMs = 0;
  /** How far the shaft turned against the power in the window before. */
  #against: number | undefined;

  constructor(ticksPerRotation: number) {
    this.#leastTicks = ticksPerRotation * RUNAWAY_ROTATIONS;
  }

  /** Whether the shaft has run away, for its present position and the power that it has had so far. */
  sees(ticks: number, nowMs: number, powerPct: number): boolean {
    if (Math.sign(powerPct) !== this.#sign || this.#sign === 0) {
      this.#begin(Math.sign(powerPct), ticks, nowMs);
      return false;
    }
    if (nowMs - this.#sinceMs < RUNAWAY_WINDOW_MS) return false;

    const against = (this.#ticks - ticks) * this.#sign, before = this.#against;
    this.#begin(this.#sign, ticks, nowMs);
    if (against < this.#leastTicks) return false;
    this.#against = against;
    return before !== undefined && against >= before * BRAKED_SHARE;
  }

  #begin(sign: number, ticks: number, nowMs: number): void {
    [this.#sign, this.#ticks, this.#sinceMs, this.#against] = [sign, ticks, nowMs, undefined];
  }
}
