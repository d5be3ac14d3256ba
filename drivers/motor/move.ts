/**
 * Checks and conversions that all motor models share: refuses impossible movements in the published words,
 * and computes power and time for motors without an encoder. Also holds the limits of the power.
 */

import { SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { type DecodeContext, number } from "../../lib/base/schema/schema.ts";

/** No motor is faster: in ticks, more could be beyond what numbers hold. */
export const FASTEST_RPM = 1e9;
/** Speeds within this margin of 0 or of the maximum are logged. */
const RPM_MARGIN = 0.1;

export function checkPower(powerPct: number): void {
  if (Number.isFinite(powerPct)) return;
  throw new SvcError("invalid_argument", `cannot set the power to ${powerPct}, wanted a number from -1 to 1`);
}

/** Refuses 0 and speeds below `slowestRpm` in size. */
export function checkRpm(rpm: number, maxRpm: number, logger: Logger, slowestRpm = RPM_MARGIN): void {
  const speed = Math.abs(rpm);
  if (speed < RPM_MARGIN) logger.warn("motor speed is nearly 0 rev_per_min");
  else if (speed > maxRpm - RPM_MARGIN) logger.warn(`motor speed is nearly the max rev_per_min (${maxRpm})`);
  if (speed === 0 || !(speed >= slowestRpm)) {
    throw new SvcError("invalid_argument", "Cannot move motor at an RPM that is nearly 0");
  }
}

/**
 * Whether SetRPM at this speed stops the motor. An error instead, as for the other movements, would leave it turning
 * at its former speed, although the caller wants it to stand.
 */
export function isStandstill(rpm: number): boolean {
  return Math.abs(rpm) < RPM_MARGIN;
}

export function checkRevolutions(revolutions: number): void {
  if (revolutions === 0 || !Number.isFinite(revolutions)) {
    throw new SvcError("invalid_argument", `Cannot move motor for ${revolutions} revolutions`);
  }
}

/** Refuses a position, or an offset of positions, that is not finite: the motor could never be there. */
export function checkPosition(positionRevolutions: number): void {
  if (Number.isFinite(positionRevolutions)) return;
  throw new SvcError(
    "invalid_argument",
    `Cannot move motor to or from ${positionRevolutions} revolutions, wanted a finite number`,
  );
}

/** The attributes that limit a motor's power while it turns, as fractions of full power. */
export const POWER_LIMITS = {
  minPowerPct: number("lower limit of the power while the motor turns", { min: 0, max: 1 }).default(0),
  maxPowerPct: number("upper limit of the power", { min: 0.06, max: 1 }).zeroCounts().default(1),
};

export interface PowerLimits {
  readonly minPowerPct: number;
  readonly maxPowerPct: number;
}

/** Refuses limits that leave no power between them. */
export function checkLimits<T extends PowerLimits>(settings: T, at: DecodeContext): T | undefined {
  const { minPowerPct, maxPowerPct } = settings;
  if (minPowerPct <= maxPowerPct) return settings;
  return at.at("min_power_pct").error(
    `found ${minPowerPct}, wanted at most max_power_pct, which is ${maxPowerPct}`,
  );
}

/** The nearest allowed power. The sign gives the direction and is kept; 0 stays 0. */
export function limitedPower(powerPct: number, { minPowerPct, maxPowerPct }: PowerLimits): number {
  return Math.sign(powerPct) * Math.min(Math.max(Math.abs(powerPct), minPowerPct), maxPowerPct);
}

/**
 * The power for a speed, within the limits, and the time for a distance at that speed; assumes that speed is
 * proportional to power.
 */
export function timedMove(
  maxRpm: number,
  rpm: number,
  revolutions: number,
  limits: PowerLimits,
): { powerPct: number; durationMs: number } {
  const powerPct = Math.sign(rpm * revolutions) * limitedPower(Math.abs(rpm) / maxRpm, limits);
  return { powerPct, durationMs: Math.trunc(Math.abs(revolutions / (powerPct * maxRpm)) * 60_000) };
}
