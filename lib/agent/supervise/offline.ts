/**
 * Whether a device that has been offline for long is to be rebooted (`device_reboot_after_offline_minutes`).
 *
 * Each reboot that did not help doubles the wait for the next one, so that a device that is never online is not
 * rebooted for ever; being online makes it the configured one again. Counted by the clock that never goes back.
 */

import type { Logger } from "../../base/log/log.ts";
import type { Commands } from "../system/commands.ts";

/** Restarts the device; nothing where an agent must not: one that a developer runs on their own computer. */
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
  /** For how long, or since the agent's start. */
  readonly forMs: number;
  /** As configured; 0 is never. */
  readonly rebootAfterMs: number;
  /** Reboots since the device was last online. */
  readonly reboots: number;
}

const WAIT_MAX_MS = 24 * 3600 * 1000;

export function rebootDue({ forMs, rebootAfterMs, reboots }: Offline): boolean {
  return rebootAfterMs > 0 && forMs >= waitMs(rebootAfterMs, reboots);
}

/** Never less than is configured, however long that is. */
function waitMs(rebootAfterMs: number, reboots: number): number {
  return Math.max(rebootAfterMs, Math.min(rebootAfterMs * 2 ** Math.min(reboots, 30), WAIT_MAX_MS));
}
