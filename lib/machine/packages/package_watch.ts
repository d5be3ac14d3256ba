/**
 * Looks every so often whether a word or a range of the configuration, such as `latest`, means another version than
 * the one that is here.
 *
 * It fetches nothing: whether the machine may move to that version is for others to say. Promises that one look has
 * ended before the next one begins, and that what goes wrong with a look is left to the next one.
 */

import type { Clock } from "../../base/clock.ts";
import type { PackageConfig } from "../config/config.ts";
import type { MachinePackages } from "./packages.ts";

/** Between two looks, where the environment says nothing else. */
export const LOOK_MS = 60_000;
/** Where a user has it look more or less often. */
export const LOOK_VARIABLES = ["SVC_PACKAGE_CHECK_INTERVAL"] as const;

export interface PackageWatchParts {
  readonly packages: Pick<MachinePackages, "haveMoved">;
  /** Those of the configuration in force. */
  readonly wanted: () => readonly PackageConfig[];
  readonly everyMs: number;
  readonly clock: Clock;
  /** Hears that there is another version. */
  readonly moved: () => void;
}

export class PackageWatch {
  readonly #closed = new AbortController();
  readonly #ended: Promise<void>;

  constructor(private readonly parts: PackageWatchParts) {
    this.#ended = this.#run(this.#closed.signal);
  }

  /** Ends the look under way. Idempotent. */
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
