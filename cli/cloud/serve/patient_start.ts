/**
 * Waits at the start for a server that svc-cloud needs. After a power loss, or with containers that start together,
 * svc-cloud is often up before its database and its object store.
 */

import { type BackoffLimits, backoffMs } from "../../../lib/base/async/backoff.ts";
import type { Clock } from "../../../lib/base/clock.ts";
import { messageOf, SvcError } from "../../../lib/base/error.ts";
import type { Logger } from "../../../lib/base/log/log.ts";

export interface PatientParts {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

const AGAIN: BackoffLimits = { firstMs: 500, mostMs: 10_000, jitter: 0.2 };

/**
 * Opens something as soon as it is available. Other errors than `unavailable`, such as those of a wrong password, are
 * thrown at once: waiting does not mend them. Throws the reason of `signal` if it aborts first.
 */
export async function openPatiently<T>(
  what: string,
  open: () => Promise<T>,
  { clock, logger, signal }: PatientParts,
): Promise<T> {
  let shown: string | undefined;
  for (let failures = 1;; failures++) {
    signal.throwIfAborted();
    try {
      const opened = await open();
      if (shown !== undefined) logger.info(`${what} is there`);
      return opened;
    } catch (error) {
      if (SvcError.from(error).code !== "unavailable") throw error;
      const reason = messageOf(error);
      if (reason !== shown) logger.warn(`waiting for ${what}: ${reason}`);
      shown = reason;
    }
    await clock.sleep(backoffMs(AGAIN, failures), signal);
  }
}
