/**
 * Restart orders: asks the control plane whether the program should end, so that its supervisor starts it again. The
 * program obeys an order as soon as the machine allows a restart.
 */

import type { CloudClient } from "../client.ts";
import type { Announcements } from "./change_feed.ts";
import { PollTimer } from "./poll_timer.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";

/** Interval if the control plane gives none. */
const INTERVAL_MS = 5_000;
const INTERVAL_MIN_MS = 1_000;

export interface RestartParts {
  readonly client: Pick<CloudClient, "needsRestart">;
  /** Triggers an immediate poll, and makes the others rare. */
  readonly changes?: Announcements;
  /** Their interval then. */
  readonly rareMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly mayRestart: () => Promise<boolean>;
  /** Asks the program to end. */
  readonly stop: (reason: string) => void;
}

/** Polls until an order comes; the returned function stops it. */
export function followRestartOrders(parts: RestartParts): () => Promise<void> {
  const { client, changes, rareMs, clock, logger, mayRestart, stop } = parts;
  const ended = new AbortController();
  const { signal } = ended;
  const timer = new PollTimer({ changes, what: ["restart"], rareMs, clock });
  const run = async () => {
    let intervalMs = INTERVAL_MS;
    // The control plane may give an order once only.
    let isOrdered = false;
    for (;;) {
      const usualMs = Math.max(INTERVAL_MIN_MS, intervalMs);
      await (isOrdered ? clock.sleep(usualMs, signal) : timer.next(usualMs));
      if (signal.aborted) return;
      if (!isOrdered) {
        try {
          const order = await client.needsRestart({ signal });
          if (order.intervalMs > 0) intervalMs = order.intervalMs;
          if (!order.mustRestart) continue;
        } catch (error) {
          logger.debug(`cannot ask whether to restart: ${chainOf(error)}`);
          timer.failed(error);
          continue;
        }
      }
      if (await mayRestart()) return stop("app_restart");
      if (!isOrdered) logger.info("told to restart, waiting until the machine may");
      isOrdered = true;
    }
  };
  const done = run().catch(() => {});
  return async () => {
    ended.abort();
    timer.close();
    await done;
  };
}
