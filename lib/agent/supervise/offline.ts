/**
 * Decides whether a device that has been offline for long reboots (`device_reboot_after_offline_minutes`).
 *
 * Each unsuccessful reboot doubles the wait for the next one, so that a device that is never online rarely reboots.
 * Being online resets the wait. The device does not reboot if the control plane does not answer but anything else on
 * the network does, because a reboot would not help. Times are monotonic.
 */

import { LogOnChange } from "../../base/log/on_change.ts";
import { backoffMs } from "../../base/async/backoff.ts";
import { type Clock, deadline } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Commands } from "../system/commands.ts";
import type { StoredCount } from "../system/stored_count.ts";

/** The function that reboots the device; `undefined` for an agent in dev mode, which runs on a developer's computer. */
export function rebootOf(
  { os, devMode }: { readonly os: string; readonly devMode: boolean },
  commands: Commands,
  logger: Logger,
): ((reason: string) => Promise<void>) | undefined {
  if (devMode) return undefined;
  const [command, args] = os === "windows"
    ? ["shutdown.exe", ["/r", "/t", "0", "/d", "p:4:1"]] as const
    : ["systemctl", ["reboot"]] as const;
  return async (reason) => {
    logger.warn(`the device reboots: ${reason}`);
    await commands.run(command, args);
  };
}

export interface Offline {
  /** Time offline, counted from the agent's start at the earliest. */
  readonly forMs: number;
  /** The configured time; 0 means never. */
  readonly rebootAfterMs: number;
  /** Reboots since the device was last online. */
  readonly reboots: number;
}

const WAIT_MAX_MS = 24 * 3600 * 1000;

export function rebootDue({ forMs, rebootAfterMs, reboots }: Offline): boolean {
  return rebootAfterMs > 0 && forMs >= waitMs(rebootAfterMs, reboots);
}

/** At least the configured time, even if that exceeds the limit. */
function waitMs(rebootAfterMs: number, reboots: number): number {
  return Math.max(
    rebootAfterMs,
    backoffMs({ firstMs: rebootAfterMs, mostMs: WAIT_MAX_MS, jitter: 0 }, reboots + 1),
  );
}

export interface OfflineRebootsParts {
  /** Whether the device is connected as the network settings require, if the agent manages its networks. */
  readonly isConnected?: () => boolean;
  /** The host whose answer shows that the network works; `undefined` if nothing answers. */
  readonly evidence: (signal: AbortSignal) => Promise<string | undefined>;
  /** Reboots the device; `undefined` if the agent never does. */
  readonly reboot?: (reason: string) => Promise<void>;
  /** The stored number of reboots since the device was last online. */
  readonly reboots: StoredCount;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Interval of the checks of the network, and the limit of one. */
const CHECK_MS = 30_000;
const CHECK_LIMIT_MS = 15_000;

/** Reboots the device when its network has not worked for the configured time. */
export class OfflineReboots {
  readonly #parts: OfflineRebootsParts;
  /** When the control plane or the network last gave a sign of life, or the agent started. */
  #reachableMs: number;
  #nextCheckMs = 0;
  #checking: Promise<void> | undefined;
  readonly #problems = new LogOnChange();

  constructor(parts: OfflineRebootsParts) {
    this.#parts = parts;
    this.#reachableMs = parts.clock.monotonicMs();
  }

  /** Records an answer of the control plane, even a refusal. */
  answered(): void {
    this.#reachableMs = this.#parts.clock.monotonicMs();
  }

  /** Records that the control plane serves this machine: the next reboot has the shortest wait again. */
  async online(): Promise<void> {
    this.answered();
    this.#problems.clear();
    // If the disk refuses the write, the answer must still be used.
    await this.#parts.reboots.set(0).catch((error) => this.#cannotCount(error));
  }

  /** Checks an offline device once, and reboots it if that is due. */
  async pass(rebootAfterMs: number, signal: AbortSignal): Promise<void> {
    const { clock, reboots, reboot, isConnected } = this.#parts;
    if (isConnected?.()) this.answered();
    if (rebootAfterMs === 0) return;
    if (clock.monotonicMs() >= this.#nextCheckMs) void this.#check(signal);
    const before = await reboots.get();
    const isDue = () => {
      const forMs = clock.monotonicMs() - this.#reachableMs;
      return rebootDue({ forMs, rebootAfterMs, reboots: before });
    };
    if (!isDue()) return;
    if (!reboot) return this.#once("device_reboot_after_offline_minutes reboots nothing in dev mode");
    await this.#check(signal);
    if (signal.aborted || !isDue()) return;
    await this.#reboot(reboot, before);
  }

  /** Waits for the check under way. */
  async close(): Promise<void> {
    await this.#checking;
  }

  #check(signal: AbortSignal): Promise<void> {
    return this.#checking ??= this.#look(signal).finally(() => this.#checking = undefined);
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { clock, evidence, logger } = this.#parts;
    this.#nextCheckMs = clock.monotonicMs() + CHECK_MS;
    const late = () => new SvcError("deadline_exceeded", "the check of the network takes too long");
    const limit = deadline(clock, CHECK_LIMIT_MS, late, signal);
    try {
      const host = await evidence(limit.signal);
      if (host === undefined) return;
      this.answered();
      logger.debug(`the control plane does not answer, but ${host} does: no reason to reboot`);
    } catch (error) {
      logger.debug(`cannot check the network: ${chainOf(error)}`);
    } finally {
      limit.done();
    }
  }

  async #reboot(reboot: (reason: string) => Promise<void>, before: number): Promise<void> {
    const { clock, reboots, logger } = this.#parts;
    // Counts the reboot before it happens. If the count cannot be stored, the device does not reboot, because it might
    // never stop rebooting.
    try {
      await reboots.set(before + 1);
    } catch (error) {
      return this.#cannotCount(error);
    }
    const minutes = Math.floor((clock.monotonicMs() - this.#reachableMs) / 60_000);
    logger.warn(
      `offline for ${minutes} minutes, the device is rebooted (device_reboot_after_offline_minutes)`,
    );
    await reboot(`offline for ${minutes} minutes`)
      .catch((error) => logger.error(`the device cannot be rebooted: ${chainOf(error)}`));
  }

  #cannotCount(error: unknown): void {
    this.#once(`cannot count the reboots of an offline device, so it is not rebooted: ${chainOf(error)}`);
  }

  #once(problem: string): void {
    if (this.#problems.isNew(problem)) this.#parts.logger.warn(problem);
  }
}
