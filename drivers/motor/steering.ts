/**
 * Two ways to choose a motor's power from its encoder; neither uses a clock or a device.
 *
 * `Ramp` starts gently and corrects in small steps, with nothing to tune. `Pid` follows a position that moves
 * at the wanted speed. Both believe the encoder; `RunawayWatch` and `StandstillWatch` do not.
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
  /** Goes on with another speed in the same direction; for movements without end. */
  changeSpeed(ticksPerMs: number): void;
}

const RAMP_START_POWER = 0.2;
const RAMP_PERIOD_MS = 50;
const MUCH_SLOWER = 0.5;

export class Ramp implements Steering {
  readonly #direction: number;
  #ticksPerMs: number;
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
    this.#ticksPerMs = target.ticksPerMs;
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
    const step = Math.sign((this.#ticksPerMs - speed) * this.#direction) * this.ratePct;
    // Skips a step that would reverse the motor or leave it without power.
    if (this.#power + step > 1e-9) this.#power = Math.min(this.#power + step, this.maxPowerPct);
    this.ticks = ticks;
    this.nowMs = nowMs;
    return this.#power * this.#direction;
  }

  /** A much slower speed begins at once with its share of the power, not step by step. */
  changeSpeed(ticksPerMs: number): void {
    const share = ticksPerMs / this.#ticksPerMs;
    if (share <= MUCH_SLOWER) {
      this.#power = Math.max(this.#power * share, Math.min(this.#power, RAMP_START_POWER));
    }
    this.#ticksPerMs = ticksPerMs;
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
/** How far a motor may be behind, in time at its speed, when it gets another speed. */
const BEHIND_MS = 1000 / BANDWIDTH;

/**
 * Gains for a motor that turns `ticksPerSecond` at full power. With them the motor follows a change of the
 * wanted position without overshoot (two equal real poles).
 */
export function tunedGains(ticksPerSecond: number): Gains {
  return { p: 2 * BANDWIDTH / ticksPerSecond, i: BANDWIDTH ** 2 / ticksPerSecond, d: 0 };
}

export class Pid implements Steering {
  readonly #toleranceTicks: number;
  #ticksPerMs: number;
  #ticks: number;
  /** Where and when the present speed began. */
  #startTicks: number;
  #startMs: number;
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
    this.#ticksPerMs = target.ticksPerMs;
    this.#ticks = ticks;
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
    this.#ticks = ticks;
    this.nowMs = nowMs;
    return power;
  }

  /** Of the way that the motor is behind at an impossible speed, a slower one makes up for little. */
  changeSpeed(ticksPerMs: number): void {
    if (ticksPerMs === this.#ticksPerMs) return;
    const most = Math.abs(ticksPerMs) * BEHIND_MS;
    this.#error = Math.max(-most, Math.min(this.#error, most));
    this.#startTicks = this.#ticks + this.#error;
    this.#startMs = this.nowMs;
    this.#ticksPerMs = ticksPerMs;
  }

  /** The position that the shaft should have now. */
  #wanted(nowMs: number): number {
    const { goalTicks } = this.target;
    const there = this.#startTicks + this.#ticksPerMs * (nowMs - this.#startMs);
    return this.#ticksPerMs > 0 ? Math.min(there, goalTicks) : Math.max(there, goalTicks);
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

/** A shaft that full power has not turned for so long is blocked, or its encoder is not connected. */
const STALL_MS = 5_000;
/** A shaft that is held shakes by up to so many ticks, or the share of a rotation below if that is less. */
const STALL_TICKS = 2, STALL_ROTATIONS = 0.01;

/** Notices a shaft that stands although it has full power, by its encoder: the power would never end. */
export class StandstillWatch {
  readonly #shakenTicks: number;
  #stallMs = STALL_MS;
  #ticks = 0;
  #sinceMs?: number;

  constructor(private readonly maxPowerPct: number, ticksPerRotation: number, ticksPerMs: number) {
    this.changeSpeed(ticksPerMs);
    this.#shakenTicks = Math.min(STALL_TICKS, ticksPerRotation * STALL_ROTATIONS);
  }

  /** A slow movement has its time for each tick, even at full power. */
  changeSpeed(ticksPerMs: number): void {
    this.#stallMs = Math.max(STALL_MS, 2 / Math.abs(ticksPerMs));
  }

  /** Whether the shaft stands, for its present position and the power that it has had so far. */
  sees(ticks: number, nowMs: number, powerPct: number): boolean {
    if (Math.abs(powerPct) < this.maxPowerPct) this.#sinceMs = undefined;
    else if (this.#sinceMs === undefined || Math.abs(ticks - this.#ticks) > this.#shakenTicks) {
      [this.#ticks, this.#sinceMs] = [ticks, nowMs];
    }
    return this.#sinceMs !== undefined && nowMs - this.#sinceMs >= this.#stallMs;
  }
}
