/** The attempts at one package: the first one at once, the next ones after pauses, until it is there. */

import { type BackoffLimits, requestPauseMs } from "../../base/async/backoff.ts";
import type { Clock } from "../../base/clock.ts";
import { isRetryable, type SvcError } from "../../base/error.ts";
import type { PackageConfig } from "../config/config.ts";

const RETRY: BackoffLimits = { firstMs: 2_000, mostMs: 120_000, jitter: 0.3 };
/** Longest pause that servers can request: a machine waits with its new configuration meanwhile. */
const ASKED_MAX_MS = 3600_000;

/** The attempts at a package. None of the promises rejects. */
export interface Installation {
  readonly config: PackageConfig;
  /** Resolves after the first attempt. */
  readonly tried: Promise<void>;
  /** Resolves when the package is there, or has failed for a reason that does not pass by itself. */
  readonly settled: Promise<void>;
  /** Resolves when there are no more attempts. */
  readonly ended: Promise<void>;
}

export interface InstallationParts {
  readonly config: PackageConfig;
  /** Makes one attempt; returns why it failed. */
  readonly attempt: (config: PackageConfig) => Promise<SvcError | undefined>;
  /** Whether the last attempt has brought a part of the package: the next pause is the shortest again. */
  readonly takeProgress: (config: PackageConfig) => boolean;
  /** Called after the attempt that succeeds. */
  readonly arrived: () => Promise<void>;
  readonly clock: Clock;
  /** Ends the attempts. */
  readonly signal: AbortSignal;
}

/** Begins the attempts. */
export function beginInstallation(parts: InstallationParts): Installation {
  const [tried, settled] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const attempted = (failure: SvcError | undefined) => {
    tried.resolve();
    if (!failure || !isRetryable(failure)) settled.resolve();
  };
  const ended = attemptUntilThere(parts, attempted).finally(() => {
    tried.resolve();
    settled.resolve();
  });
  return { config: parts.config, tried: tried.promise, settled: settled.promise, ended };
}

async function attemptUntilThere(
  { config, attempt, takeProgress, arrived, clock, signal }: InstallationParts,
  attempted: (failure: SvcError | undefined) => void,
): Promise<void> {
  for (let attempts = 1; !signal.aborted; attempts++) {
    const failure = await attempt(config);
    if (signal.aborted) return;
    attempted(failure);
    if (!failure) return await arrived();

    if (takeProgress(config)) attempts = 1;
    const pauseMs = Math.min(requestPauseMs(RETRY, attempts, failure), ASKED_MAX_MS);
    await clock.sleep(pauseMs, signal).catch(() => {});
  }
}
