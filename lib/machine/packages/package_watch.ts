/**
 * Checks periodically whether a moving version in the configuration, such as `latest` or a range, now stands for
 * another version than the installed one.
 *
 * It fetches nothing: others decide whether the machine may switch to that version. Promises that checks never overlap,
 * and that a failed check has no effect besides the next check.
 */

import type { Clock } from "../../base/clock.ts";
import type { PackageConfig } from "../config/config.ts";
import type { MachinePackages } from "./packages.ts";

/** The default interval of the checks. */
export const LOOK_MS = 60_000;
/** The variables that set another interval. */
export const LOOK_VARIABLES = ["SVC_PACKAGE_CHECK_INTERVAL"] as const;

export interface PackageWatchParts {
  readonly packages: Pick<MachinePackages, "haveMoved">;
  /** The packages of the configuration in force. */
  readonly wanted: () => readonly PackageConfig[];
  readonly everyMs: number;
  readonly clock: Clock;
  /** Called when there is another version. */
  readonly moved: () => void;
}

export class PackageWatch {
  readonly #closed = new AbortController();
  readonly #ended: Promise<void>;

  constructor(private readonly parts: PackageWatchParts) {
    this.#ended = this.#run(this.#closed.signal);
  }

  /** Ends a check in progress. Idempotent. */
  async close(): Promise<void> {
    this.#closed.abort();
    await this.#ended;
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { packages, wanted, everyMs, clock, moved } = this.parts;
    while (!signal.aborted) {
      await clock.sleep(everyMs, signal).catch(() => {});
      if (signal.aborted) return;
      const isOther = await packages.haveMoved(wanted(), signal).catch(() => false);
      if (isOther && !signal.aborted) moved();
    }
  }
}
