/**
 * What every motor model does with the arguments of a movement: refuses what cannot be, in the published words, and
 * works out power and time where there is nothing to measure by.
 */

import { SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log.ts";

/** Speeds nearer to 0, or to the maximum, than this are remarkable. */
const RPM_MARGIN = 0.1;

export function checkPower(powerPct: number): void {
  if (Number.isFinite(powerPct)) return;
  throw new SvcError("invalid_argument", `cannot set the power to ${powerPct}, wanted a number from -1 to 1`);
}

/** Speeds whose size is below `slowestRpm`, and 0, are refused. */
export function checkRpm(rpm: number, maxRpm: number, logger: Logger, slowestRpm = RPM_MARGIN): void {
  const speed = Math.abs(rpm);
  if (speed < RPM_MARGIN) logger.warn("motor speed is nearly 0 rev_per_min");
  else if (speed > maxRpm - RPM_MARGIN) logger.warn(`motor speed is nearly the max rev_per_min (${maxRpm})`);
  if (speed === 0 || !(speed >= slowestRpm)) {
    throw new SvcError("invalid_argument", "Cannot move motor at an RPM that is nearly 0");
  }
}

export function checkRevolutions(revolutions: number): void {
  if (revolutions === 0 || !Number.isFinite(revolutions)) {
    throw new SvcError("invalid_argument", `Cannot move motor for ${revolutions} revolutions`);
  }
}

/** The power for a speed and the time for a distance at it, taking speed to be in proportion to power. */
export function timedMove(
  maxRpm: number,
  rpm: number,
  revolutions: number,
): { powerPct: number; durationMs: number } {
  const speed = Math.min(Math.abs(rpm), maxRpm);
  const direction = Math.sign(rpm * revolutions);
  return {
    powerPct: direction * speed / maxRpm,
    durationMs: Math.trunc(Math.abs(revolutions) / speed * 60_000),
  };
}
