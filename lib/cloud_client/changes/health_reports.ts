/**
 * Reports of a machine's health to its control plane: the configuration that it runs, and what does not work.
 *
 * It reports after each change, and rarely without one, because a control plane may have lost the last report. A control
 * plane without this call is asked again after an hour.
 */

import { type BackoffLimits, requestPauseMs, unevenMs } from "../../base/async/backoff.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { CloudClient } from "../client.ts";

/** Interval of the looks, and so the shortest one between reports of a machine whose state changes all the time. */
const LOOK_MS = 5_000;
const RETRY: BackoffLimits = { firstMs: 5_000, mostMs: 300_000, jitter: 0.5 };
const UNIMPLEMENTED: BackoffLimits = { firstMs: 3_600_000, mostMs: 3_600_000, jitter: 0.5 };
/** A control plane keeps no more. */
const UNHEALTHY_MAX = 50;
const UNHEALTHY_CHARS_MAX = 300;

export interface HealthReport {
  /** Of the configuration in force. */
  readonly revision: string;
  /** `name: reason` */
  readonly unhealthy: readonly string[];
  /** A newer configuration waits for the maintenance window. */
  readonly heldBack: boolean;
}

export interface HealthReportParts {
  readonly client: Pick<CloudClient, "report">;
  /** The present state; `undefined` while a change is under way. */
  readonly state: () => HealthReport | undefined;
  /** After this time the same report is repeated. */
  readonly repeatMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A number from 0 up to 1. */
  readonly random?: () => number;
}

/** Reports until the returned function is called. */
export function reportHealth(parts: HealthReportParts): () => Promise<void> {
  const { client, state, repeatMs, clock, logger, random = Math.random } = parts;
  const ended = new AbortController();
  const { signal } = ended;
  const run = async () => {
    let [sent, repeatAtMs, failures, waitMs] = ["", -Infinity, 0, LOOK_MS];
    for (;;) {
      await clock.sleep(waitMs, signal);
      waitMs = LOOK_MS;
      const found = state();
      if (!found) continue;
      const report = boundedReport(found);
      const text = JSON.stringify(report);
      if (text === sent && clock.monotonicMs() < repeatAtMs) continue;
      try {
        await client.report(report, { signal });
        [sent, repeatAtMs, failures] = [text, clock.monotonicMs() + unevenMs(repeatMs, random), 0];
      } catch (error) {
        const limits = SvcError.from(error).code === "unimplemented" ? UNIMPLEMENTED : RETRY;
        waitMs = requestPauseMs(limits, ++failures, error, random);
        logger.debug(`cannot report the machine's health: ${chainOf(error)}`);
      }
    }
  };
  const done = run().catch(() => {});
  return async () => {
    ended.abort();
    await done;
  };
}

function boundedReport({ unhealthy, ...rest }: HealthReport) {
  const kept = unhealthy.slice(0, UNHEALTHY_MAX).map((one) => one.slice(0, UNHEALTHY_CHARS_MAX));
  return { ...rest, unhealthy: kept };
}
