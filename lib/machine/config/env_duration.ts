/**
 * Durations from the environment: limits that an expert may change.
 */

import type { Logger } from "../../base/log/log.ts";
import { formatDuration, parseDurationMs } from "../../base/schema/schema.ts";

/** `90s` in the first variable that is set, in ms; an unreadable one is logged, and `fallbackMs` applies. */
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
  const used = fallbackMs === undefined ? "it is ignored" : `${formatDuration(fallbackMs)} is used`;
  logger.warn(`${name} is "${text}", wanted a duration such as 90s; ${used}`);
  return fallbackMs;
}
