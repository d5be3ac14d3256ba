/**
 * Control of a base's velocity: two PID controllers, for driving and for turning, that set the base's power so that a
 * movement sensor measures the wanted velocity; and the measurement that finds their gains.
 *
 * VelocityGains have the published scale: a controller's output of 255 is full power.
 */

import type { Base } from "../../lib/api/actuators/base.ts";
import type { MovementSensor } from "../../lib/api/sensors/movement_sensor.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { ORIGIN } from "../../lib/geometry/pose.ts";
import { feedback } from "../../lib/resource/feedback.ts";

const FULL_OUTPUT = 255;

export interface VelocityGains {
  readonly p: number;
  readonly i: number;
  readonly d: number;
}

export function isUntuned({ p, i, d }: VelocityGains): boolean {
  return p === 0 && i === 0 && d === 0;
}

/** A PID controller. Its integral and its output are limited to full power. */
export class PidController {
  #integral = 0;
  #error?: number;

  constructor(private readonly gains: VelocityGains) {}

  /** The power from -1 to 1 for an error after this many seconds. */
  power(error: number, seconds: number): number {
    const { p, i, d } = this.gains;
    this.#integral = limited(this.#integral + i * error * seconds);
    const slope = this.#error === undefined || seconds <= 0 ? 0 : (error - this.#error) / seconds;
    this.#error = error;
    return limited(p * error + this.#integral + d * slope) / FULL_OUTPUT;
  }

  reset(): void {
    this.#integral = 0;
    this.#error = undefined;
  }
}

function limited(output: number): number {
  return Math.max(-FULL_OUTPUT, Math.min(output, FULL_OUTPUT));
}

/** Metres and degrees a second. */
export interface PlaneVelocity {
  readonly linear: number;
  readonly angular: number;
}

export const AT_REST: PlaneVelocity = { linear: 0, angular: 0 };

/** One step after the other keeps a base at the wanted velocity. */
export class VelocityControl {
  wanted = AT_REST;
  readonly #linear: PidController;
  readonly #angular: PidController;
  #atMs: number;

  constructor(
    private readonly base: Base,
    private readonly sensor: MovementSensor,
    gains: { readonly linear: VelocityGains; readonly angular: VelocityGains },
    private readonly clock: Clock,
  ) {
    this.#linear = new PidController(gains.linear);
    this.#angular = new PidController(gains.angular);
    this.#atMs = clock.monotonicMs();
  }

  /** Forgets the past: no rest of an earlier movement kicks the base. */
  reset(): void {
    this.#linear.reset();
    this.#angular.reset();
    this.#atMs = this.clock.monotonicMs();
  }

  async step(signal: AbortSignal): Promise<void> {
    const found = await measured(this.sensor, this.clock, signal);
    const nowMs = this.clock.monotonicMs();
    const seconds = (nowMs - this.#atMs) / 1000;
    this.#atMs = nowMs;
    const forward = this.#linear.power(this.wanted.linear - found.linear, seconds);
    const left = this.#angular.power(this.wanted.angular - found.angular, seconds);
    // The sides of a base that drives backwards are exchanged.
    await setPower(this.base, { linear: forward, angular: forward < 0 ? -left : left }, signal);
  }
}

export async function measured(
  sensor: MovementSensor,
  clock: Clock,
  moving: AbortSignal,
): Promise<PlaneVelocity> {
  const [linear, angular] = await feedback(sensor.name, clock, moving, (signal) =>
    Promise.all([
      sensor.getLinearVelocity({ signal }),
      sensor.getAngularVelocity({ signal }),
    ]));
  if (Number.isFinite(linear.y) && Number.isFinite(angular.z)) {
    return { linear: linear.y, angular: angular.z };
  }
  throw new SvcError("unavailable", `${sensor.name} measures ${linear.y} m/s and ${angular.z} degrees/s`);
}

async function setPower(base: Base, { linear, angular }: PlaneVelocity, signal: AbortSignal): Promise<void> {
  await base.setPower({ ...ORIGIN, y: linear }, { ...ORIGIN, z: angular }, { signal });
}

/** The measurement's power: a step to it, then above and below it in turn. */
const STEP_POWER = 0.35;
const SWING = 0.5;
const STEP_MS_MAX = 5_000;
const STEP_SAMPLES_MIN = 20;
const SWING_MS = 4_000;
/** The share of the final speed at which the base counts as having answered. */
const ANSWERED = 0.85;
/** Speeds whose changes are below this share of their size are steady. */
const STEADY = 0.02;

/**
 * Finds the gains of one direction by moving the base: the power steps up until the speed is steady, then swings about
 * it; the rules of Ziegler and Nichols for a PI controller give the gains. Resolves to `undefined` if the sensor sees no
 * movement. Stops the base in any case.
 */
export async function measuredGains(
  direction: keyof PlaneVelocity,
  { base, sensor, clock, periodMs }: {
    readonly base: Base;
    readonly sensor: MovementSensor;
    readonly clock: Clock;
    readonly periodMs: number;
  },
  signal: AbortSignal,
): Promise<VelocityGains | undefined> {
  const speedAt = async (power: number) => {
    await setPower(base, { ...AT_REST, [direction]: power }, signal);
    await clock.sleep(periodMs, signal);
    return Math.abs((await measured(sensor, clock, signal))[direction]);
  };
  try {
    const startMs = clock.monotonicMs();
    const speeds: { atMs: number; speed: number }[] = [];
    do {
      const speed = await speedAt(STEP_POWER);
      speeds.push({ atMs: clock.monotonicMs() - startMs, speed });
    } while (!isSteady(speeds.map(({ speed }) => speed)) && clock.monotonicMs() - startMs < STEP_MS_MAX);

    const final = speeds.slice(-5).reduce((sum, { speed }) => sum + speed, 0) / Math.min(5, speeds.length);
    if (!(final > 0)) return undefined;

    const answerMs = speeds.find(({ speed }) => speed >= ANSWERED * final)?.atMs ?? periodMs;

    const peaks = { high: [] as number[], low: [] as number[] };
    const swingStartMs = clock.monotonicMs();
    for (let high = true; clock.monotonicMs() - swingStartMs < SWING_MS; high = !high) {
      const power = STEP_POWER * (high ? 1 + SWING : 1 - SWING);
      const untilMs = clock.monotonicMs() + answerMs;
      let peak: number | undefined;
      do {
        const speed = await speedAt(power);
        peak = peak === undefined || (high ? speed > peak : speed < peak) ? speed : peak;
      } while (clock.monotonicMs() < untilMs);
      (high ? peaks.high : peaks.low).push(peak);
    }

    return gainsOf(peaks, answerMs);
  } finally {
    await base.stop();
  }
}

function isSteady(speeds: readonly number[]): boolean {
  if (speeds.length < STEP_SAMPLES_MIN) return false;
  const last = speeds.slice(-STEP_SAMPLES_MIN / 4);
  const most = Math.max(...last), least = Math.min(...last);
  return most > 0 && (most - least) / most < STEADY;
}

function gainsOf(
  peaks: { high: readonly number[]; low: readonly number[] },
  answerMs: number,
): VelocityGains | undefined {
  const pairs = Math.min(peaks.high.length, peaks.low.length);
  let amplitude = 0;
  for (const [pair, high] of peaks.high.slice(0, pairs).entries()) {
    amplitude += Math.abs(high - (peaks.low[pair] ?? high)) / 2 / pairs;
  }
  if (!(amplitude > 0)) return undefined;
  const ultimate = 4 * SWING * STEP_POWER * FULL_OUTPUT / (Math.PI * amplitude);
  const periodS = 2 * answerMs / 1000;
  return { p: 0.4545 * ultimate, i: 0.5454 * ultimate / periodS, d: 0 };
}
