/**
 * A service that finds another agent at work in its folder, such as one that somebody has started by hand, waits for
 * its end. Each start of the service that failed instead would count against the version that the loader starts, and
 * after three of them the device would return to the version before.
 */

import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Control } from "./control.ts";

export interface AloneParts {
  /** Opens the control socket; throws `already_exists` while another agent works. */
  readonly open: () => Promise<Control>;
  /** A sign of life for the service's watchdog. */
  readonly alive: () => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

const AGAIN_MS = 5_000;

/** The socket, once no other agent works in the folder; `undefined` if the signal aborts before. */
export async function openWhenAlone(
  { open, alive, clock, logger }: AloneParts,
  signal: AbortSignal,
): Promise<Control | undefined> {
  for (let isReported = false; !signal.aborted;) {
    try {
      return await open();
    } catch (error) {
      if (SvcError.from(error).code !== "already_exists") throw error;
      if (!isReported) logger.error(`this service waits for the end of the other agent: ${chainOf(error)}`);
      isReported = true;
    }
    alive();
    await clock.sleep(AGAIN_MS, signal).catch(() => {});
  }
  return undefined;
}
