/**
 * What every family of systems does for `os_auto_upgrade_type`, and which family this system is of.
 */

import type { SystemParts } from "./journald.ts";

export type UpgradeParts = Pick<SystemParts, "files" | "commands" | "root">;

/** Every package, or those that mend security alone. */
export type UpgradeKind = "all" | "security";

export interface SystemUpgrades {
  /** Turns the system's own automatic upgrades off; whether settings have changed. */
  turnOff(signal: AbortSignal): Promise<boolean>;
  /** Installs what the system needs for them, sets it up and turns it on; whether settings have changed. */
  turnOn(kind: UpgradeKind, signal: AbortSignal): Promise<boolean>;
  /** Upgrades now. */
  upgrade(kind: UpgradeKind, signal: AbortSignal): Promise<void>;
  needsReboot(signal: AbortSignal): Promise<boolean>;
}

export const INSTALL_MS = 10 * 60_000;
/** An upgrade of everything. */
export const WHOLE_MS = 30 * 60_000;

export type Family = "debian" | "fedora";

/** By which words of os-release(5) a family is known. */
const WORDS: { readonly [F in Family]: readonly string[] } = {
  debian: ["debian", "ubuntu"],
  fedora: ["fedora", "rhel", "centos"],
};

/** The family of a system, by `ID` and what it says to be like; nothing for any other. */
export function familyOf(osRelease: string): Family | undefined {
  const words = ["ID", "ID_LIKE"].flatMap((name) =>
    osReleaseValue(osRelease, name).toLowerCase().split(/\s+/)
  );
  return (Object.keys(WORDS) as Family[]).find((family) =>
    WORDS[family].some((word) => words.includes(word))
  );
}

/** A variable of os-release(5), which a shell could read; empty where it is not there. */
export function osReleaseValue(text: string, name: string): string {
  const [, value = ""] = new RegExp(`^${name}=(.*)$`, "m").exec(text) ?? [];
  return value.trim().replace(/^(["'])(.*)\1$/, "$2");
}
