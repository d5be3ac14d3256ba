/**
 * Restart orders: asks the control plane whether the program should end, so that its supervisor starts it again. The
 * program obeys when the machine allows a restart; until then the order stays pending.
 */

import type { CloudClient } from "../client.ts";
import type { ChangeFeed } from "./change_feed.ts";
import { type Clock, Waker } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";

/** Interval if the control plane gives none. */
const INTERVAL_MS = 5_000;
const INTERVAL_MIN_MS = 1_000;

export interface RestartParts {
  readonly client: Pick<CloudClient, "needsRestart">;
  /** Triggers an immediate poll. */
  readonly changes?: Pick<ChangeFeed, "hear">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly mayRestart: () => Promise<boolean>;
  /** Asks the program to end. */
  readonly stop: (reason: string) => void;
}

/** Polls until an order comes; the returned function stops it. */
export function followRestartOrders(parts: RestartParts): () => Promise<void> {
  const { client, changes, clock, logger, mayRestart, stop } = parts;
  const ended = new AbortController();
  const { signal } = ended;
  const waker = new Waker(clock);
  const unhear = changes?.hear("restart", () => waker.wake());
  const run = async () => {
    let intervalMs = INTERVAL_MS;
    let waiting = false;
    for (;;) {
      await waker.sleep(Math.max(INTERVAL_MIN_MS, intervalMs));
      if (signal.aborted) return;
      try {
        const order = await client.needsRestart({ signal });
        if (order.intervalMs > 0) intervalMs = order.intervalMs;
        if (!order.mustRestart) continue;
      } catch (error) {
        logger.debug(`cannot ask whether to restart: ${chainOf(error)}`);
        continue;
      }
      if (await mayRestart()) return stop("app_restart");
      if (!waiting) logger.info("told to restart, waiting until the machine may");
      waiting = true;
    }
  };
  const done = run().catch(() => {});
  return async () => {
    unhear?.();
    ended.abort();
    waker.wake();
    await done;
  };
}
