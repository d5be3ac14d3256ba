/**
 * The port of a family of systems for `os_auto_upgrade_type`, and the detection of this system's family.
 */

import type { SystemParts } from "../journald.ts";

export type UpgradeParts = Pick<SystemParts, "files" | "commands" | "root">;

/** Every package, or security updates only. */
export type UpgradeKind = "all" | "security";

export interface SystemUpgrades {
  /** Turns the system's own automatic upgrades off; returns whether settings changed. */
  turnOff(signal: AbortSignal): Promise<boolean>;
  /**
   * Installs the packages that automatic upgrades need, configures them and turns them on; returns whether settings
   * changed.
   */
  turnOn(kind: UpgradeKind, signal: AbortSignal): Promise<boolean>;
  /** Upgrades now. */
  upgrade(kind: UpgradeKind, signal: AbortSignal): Promise<void>;
  needsReboot(signal: AbortSignal): Promise<boolean>;
}

/** The output of the package manager's last command. Such a command is never killed. */
export const UPGRADE_LOG = "/var/log/svc-agent-upgrade.log";
export const INSTALL_MS = 10 * 60_000;
/** Limit of a complete upgrade. */
export const WHOLE_MS = 30 * 60_000;

export type Family = "debian" | "fedora";

/** The identifiers in os-release(5) of each family. */
const WORDS: { readonly [F in Family]: readonly string[] } = {
  debian: ["debian", "ubuntu"],
  fedora: ["fedora", "rhel", "centos"],
};

/** The family of a system, by `ID` and `ID_LIKE`; `undefined` for any other. */
export function familyOf(osRelease: string): Family | undefined {
  const words = ["ID", "ID_LIKE"].flatMap((name) =>
    osReleaseValue(osRelease, name).toLowerCase().split(/\s+/)
  );
  return (Object.keys(WORDS) as Family[]).find((family) =>
    WORDS[family].some((word) => words.includes(word))
  );
}

/** The value of a variable in os-release(5), whose syntax is the shell's; empty if it is missing. */
export function osReleaseValue(text: string, name: string): string {
  const [, value = ""] = new RegExp(`^${name}=(.*)$`, "m").exec(text) ?? [];
  return value.trim().replace(/^(["'])(.*)\1$/, "$2");
}
