/**
 * Upgrades of the operating system, as `os_auto_upgrade_type` wants them: by Debian's unattended-upgrades, or by the
 * agent itself (`managed-…`), which upgrades when the runtime may be restarted and reboots where that is needed.
 */

import type { Clock } from "../base/clock.ts";
import { chainOf } from "../base/error.ts";
import type { Commands } from "./commands.ts";
import { settle } from "./drop_in.ts";
import type { SystemParts } from "./journald.ts";
import type { AgentSettings } from "./settings.ts";
import type { Subsystem } from "./subsystem.ts";

const AUTO = "/etc/apt/apt.conf.d/20auto-upgrades";
const ORIGINS = "/etc/apt/apt.conf.d/50unattended-upgrades";
const TIMER = "apt-daily-upgrade.timer";
/** Debian's releases that this was made for. */
const CODENAMES = ["bullseye", "bookworm", "trixie"];
const APT_MS = 30 * 60_000;
const INSTALL_MS = 10 * 60_000;
/** When an upgrade may not be made now, or failed. */
const RETRY_MS = 5 * 60_000;

export interface OsUpgradeParts extends SystemParts {
  readonly clock: Clock;
  /** The runtime may be interrupted now. */
  readonly mayInterrupt: () => Promise<boolean>;
  readonly reboot: (reason: string) => Promise<void>;
}

type Kind = "all" | "security";

export class OsUpgrades implements Subsystem {
  readonly name = "upgrades of the system";
  readonly #parts: OsUpgradeParts;
  #applied = "";
  #nextMs = 0;
  #rebootNeeded = false;

  constructor(parts: OsUpgradeParts) {
    this.#parts = parts;
  }

  async apply({ advanced, system }: AgentSettings, signal: AbortSignal): Promise<void> {
    const { osAutoUpgradeType: type, osManagedUpgradeIntervalHours } = system;
    if (advanced.disableSystemConfiguration || type === "") return void (this.#applied = "");
    if (type !== this.#applied) {
      if (!await this.#isSupported(type)) return void (this.#applied = type);
      if (type === "disable" || type.startsWith("managed-")) await this.#turnOff(signal);
      else await this.#turnOn(type as Kind, signal);
      this.#applied = type;
      this.#nextMs = 0;
    }
    if (type.startsWith("managed-")) {
      await this.#manage(
        type.slice("managed-".length) as Kind,
        osManagedUpgradeIntervalHours * 3600_000,
        signal,
      );
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #isSupported(type: string): Promise<boolean> {
    const { disk, logger, root = "" } = this.#parts;
    const release = await disk.read(`${root}/etc/os-release`).then(
      (bytes) => new TextDecoder().decode(bytes),
      () => "",
    );
    const [, codename = ""] = /^VERSION_CODENAME=["']?(\w+)/m.exec(release) ?? [];
    if (CODENAMES.includes(codename)) return true;
    const found = codename === "" ? "a system that does not tell its codename" : `"${codename}"`;
    logger.warn(
      `os_auto_upgrade_type "${type}" is not applied: found ${found}, wanted Debian ${CODENAMES.join(", ")}`,
    );
    return false;
  }

  async #turnOff(signal: AbortSignal): Promise<void> {
    const { commands, logger } = this.#parts;
    const changed = await this.#settle(AUTO, automatic(false));
    await commands.run("systemctl", ["disable", "--now", TIMER], { signal });
    if (changed) logger.info("automatic upgrades of the system are off");
  }

  async #turnOn(kind: Kind, signal: AbortSignal): Promise<void> {
    const { commands, logger } = this.#parts;
    await requireUnattended(commands, signal);
    const origins = originsOf(await commands.run("apt-cache", ["policy"], { signal }), kind);
    const changed = [
      await this.#settle(AUTO, automatic(true)),
      await this.#settle(ORIGINS, pattern(origins)),
    ];
    await commands.run("systemctl", ["enable", "--now", TIMER], { signal });
    if (changed.includes(true)) logger.info(`automatic upgrades of the system are on: ${kind}`, { origins });
  }

  /** Upgrades when it is time and nobody minds. */
  async #manage(kind: Kind, everyMs: number, signal: AbortSignal): Promise<void> {
    const { clock, logger, mayInterrupt, reboot } = this.#parts;
    if (clock.monotonicMs() < this.#nextMs && !this.#rebootNeeded) return;
    if (!await mayInterrupt()) return;
    if (this.#rebootNeeded) return await reboot("upgrades of the system need it");
    this.#nextMs = clock.monotonicMs() + RETRY_MS;
    try {
      await this.#upgrade(kind, signal);
      this.#nextMs = clock.monotonicMs() + everyMs;
      this.#rebootNeeded = await this.#needsReboot();
      logger.info("the system is upgraded", { kind, reboot: this.#rebootNeeded });
    } catch (error) {
      logger.error(
        `the system cannot be upgraded, it is tried again in ${RETRY_MS / 60_000} minutes: ${chainOf(error)}`,
      );
    }
  }

  async #upgrade(kind: Kind, signal: AbortSignal): Promise<void> {
    const { commands } = this.#parts;
    const options = { signal, timeoutMs: APT_MS };
    await commands.run("apt-get", ["update"], options);
    if (kind === "security") {
      await requireUnattended(commands, signal);
      const origins = originsOf(await commands.run("apt-cache", ["policy"], { signal }), kind);
      await this.#settle(ORIGINS, pattern(origins));
      await commands.run("unattended-upgrade", [], options);
    } else {
      const keep = ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"];
      await commands.run("apt-get", ["upgrade", "-y", ...keep], options);
    }
  }

  async #needsReboot(): Promise<boolean> {
    const { disk, root = "" } = this.#parts;
    return await disk.stat(`${root}/var/run/reboot-required`) !== undefined;
  }

  #settle(path: string, text: string): Promise<boolean> {
    const { disk, root = "" } = this.#parts;
    return settle(disk, `${root}${path}`, text);
  }
}

async function requireUnattended(commands: Commands, signal: AbortSignal): Promise<void> {
  const { code } = await commands.try("unattended-upgrade", ["--help"], { signal }).catch(() => ({
    code: -1,
  }));
  if (code === 0) return;
  const options = { signal, timeoutMs: INSTALL_MS };
  await commands.run("apt-get", ["update"], options);
  await commands.run("apt-get", ["install", "-y", "unattended-upgrades"], options);
}

function automatic(on: boolean): string {
  return `APT::Periodic::Update-Package-Lists "1";\nAPT::Periodic::Unattended-Upgrade "${on ? 1 : 0}";\n`;
}

/**
 * The origins of packages that are there now, sorted, so that the same system always has the same file: from the
 * `release` lines of `apt-cache policy`, as `origin=Debian,codename=bookworm`.
 */
export function originsOf(policy: string, kind: Kind): string[] {
  const origins = new Set<string>();
  for (const [, line] of policy.matchAll(/^\s*release\s+(.*)$/gm)) {
    const fields = new Map(line.split(",").map((field) => [field.slice(0, 1), field.slice(2)] as const));
    const [origin, codename] = [fields.get("o"), fields.get("n")];
    if (!origin || !codename || (kind === "security" && !codename.includes("security"))) continue;
    origins.add(`origin=${origin},codename=${codename}`);
  }
  return [...origins].sort();
}

function pattern(origins: readonly string[]): string {
  const lines = origins.map((origin) => `  "${origin}";\n`).join("");
  return `Unattended-Upgrade::Origins-Pattern {\n${lines}};\n`;
}
