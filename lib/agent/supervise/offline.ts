/**
 * Decides whether a device that has been offline for long reboots (`device_reboot_after_offline_minutes`).
 *
 * Each reboot without success doubles the wait for the next one, so that a device that is never online does not reboot
 * for ever. Being online resets the wait. Times are monotonic.
 */

import type { Logger } from "../../base/log/log.ts";
import type { Commands } from "../system/commands.ts";

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
  return Math.max(rebootAfterMs, Math.min(rebootAfterMs * 2 ** Math.min(reboots, 30), WAIT_MAX_MS));
}
