/** Logs, for the operator, failed calls that no caller can fix: defects, and a full disk. */

import type { Clock } from "../base/clock.ts";
import { chainOf, type SvcError } from "../base/error.ts";
import type { Logger } from "../base/log/log.ts";
import type { Interceptor } from "../wire/rpc/service.ts";

/** On a full disk every call that stores something fails. */
const FULL_EVERY_MS = 60_000;

export function tellOperator(logger: Logger, clock: Clock): Interceptor {
  let fullMs = -Infinity;
  const isFull = (error: SvcError) => {
    // Errors of callers' limits have no cause.
    if (error.code !== "resource_exhausted" || error.cause === undefined) return false;
    const nowMs = clock.monotonicMs();
    if (nowMs - fullMs < FULL_EVERY_MS) return false;
    fullMs = nowMs;
    return true;
  };
  return (ctx) => (error) => {
    if (!error) return;
    const isDefect = error.code === "internal" || error.code === "unknown";
    if (isDefect || isFull(error)) logger.error(`${ctx.path}: ${chainOf(error)}`);
  };
}
