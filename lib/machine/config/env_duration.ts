/**
 * Durations that the environment says: limits that somebody who knows the machine may want otherwise.
 */

import type { Logger } from "../../base/log/log.ts";
import { formatDuration, parseDurationMs } from "../../base/schema/schema.ts";

/** `90s` in the first of the variables that is set, in ms; what cannot be read is told and `fallbackMs` used. */
export function envDurationMs<T extends number | undefined>(
  variables: readonly string[],
  fallbackMs: T,
  env: (name: string) => string | undefined,
  logger: Logger,
): number | T {
  const name = variables.find((one) => env(one));
  if (name === undefined) return fallbackMs;
  const text = env(name)!;
  const ms = parseDurationMs(text);
  if (ms !== undefined && ms > 0) return ms;
  const used = fallbackMs === undefined ? "it does not count" : `${formatDuration(fallbackMs)} is used`;
  logger.warn(`${name} is "${text}", wanted a duration such as 90s; ${used}`);
  return fallbackMs;
}
