/**
 * Upgrades of the operating system, by `os_auto_upgrade_type`: the system upgrades itself (unattended-upgrades,
 * dnf-automatic), or the agent upgrades it (`managed-…`) when the runtime allows a restart, and reboots if the upgrade
 * needs it.
 *
 * The room owns upgrades of the operating system: when they happen, and how each family of systems performs them.
 */

import { type BackoffLimits, backoffMs } from "../../../base/async/backoff.ts";
import type { Clock } from "../../../base/clock.ts";
import { SvcError } from "../../../base/error.ts";
import { forgets } from "../device.ts";
import type { SystemParts } from "../journald.ts";
import type { StoredCount } from "../stored_count.ts";
import { AptUpgrades } from "./apt.ts";
import { DnfUpgrades } from "./dnf.ts";
import { YumUpgrades } from "./yum.ts";
import { familyOf, osReleaseValue, type SystemUpgrades, type UpgradeKind } from "./upgrader.ts";
import type { AgentSettings } from "../../settings/settings.ts";
import type { Subsystem } from "../../settings/subsystem.ts";

/** Wait after a failed or refused upgrade. */
const RETRY_MS = 5 * 60_000;
const RELEASE = "/etc/os-release";
/**
 * From the agent's start to a reboot, after reboots in a row that left one needed: the system starts an older kernel, or
 * another one. Such a device must not reboot at every start.
 */
const FRUITLESS: BackoffLimits = { firstMs: 24 * 3600_000, mostMs: 30 * 24 * 3600_000, jitter: 0 };

export interface OsUpgradeParts extends SystemParts {
  readonly clock: Clock;
  /** Whether the runtime may be interrupted now. */
  readonly mayInterrupt: () => Promise<boolean>;
  readonly reboot: (reason: string) => Promise<void>;
  /** The stored number of reboots for upgrades since none was needed. */
  readonly reboots: StoredCount;
}

/** Whether this is an older system of the family, without dnf. */
async function hasYumAlone({ files, root = "" }: Pick<SystemParts, "files" | "root">): Promise<boolean> {
  const [dnf, yum] = ["dnf", "yum"].map((name) => files.stat(`${root}/usr/bin/${name}`));
  return await dnf === undefined && await yum !== undefined;
}

export class OsUpgrades implements Subsystem {
  readonly name = "upgrades of the system";
  readonly #parts: OsUpgradeParts;
  readonly #startedMs: number;
  #applied = "";
  #system?: SystemUpgrades;
  #nextMs = 0;
  #rebootNeeded = false;
  /** Why the last attempt failed, until another one succeeds. */
  #failure: SvcError | undefined;

  constructor(parts: OsUpgradeParts) {
    this.#parts = parts;
    this.#startedMs = parts.clock.monotonicMs();
  }

  async apply({ advanced, system }: AgentSettings, signal: AbortSignal): Promise<void> {
    const { osAutoUpgradeType: type, osManagedUpgradeIntervalHours } = system;
    if (advanced.disableSystemConfiguration || type === "") {
      this.#failure = undefined;
      return void (this.#applied = "");
    }
    if (type !== "disable") await this.#requireDisk(type);
    if (type !== this.#applied) {
      this.#system = await this.#find(type);
      if (type === "disable" || type.startsWith("managed-")) await this.#turnOff(this.#system, signal);
      else await this.#turnOn(this.#system, type as UpgradeKind, signal);
      this.#applied = type;
      this.#nextMs = 0;
    }
    if (type.startsWith("managed-")) {
      await this.#manage(
        this.#system!,
        type.slice("managed-".length) as UpgradeKind,
        osManagedUpgradeIntervalHours * 3600_000,
        signal,
      );
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** The upgrader of this system. Throws `unimplemented` for an unknown family. */
  async #find(type: string): Promise<SystemUpgrades> {
    const { files, root = "" } = this.#parts;
    const release = await files.readFile(`${root}${RELEASE}`)
      .then((bytes) => new TextDecoder().decode(bytes), () => "");
    switch (familyOf(release)) {
      case "debian":
        return new AptUpgrades(this.#parts);
      case "fedora":
        return await hasYumAlone(this.#parts) ? new YumUpgrades(this.#parts) : new DnfUpgrades(this.#parts);
    }
    const id = osReleaseValue(release, "ID");
    const found = id === "" ? `no ID in ${RELEASE}` : `"${id}"`;
    throw new SvcError(
      "unimplemented",
      `os_auto_upgrade_type "${type}" is not applied: found ${found}, wanted a system like Debian ` +
        "(unattended-upgrades) or like Fedora (dnf-automatic)",
    );
  }

  async #turnOff(system: SystemUpgrades, signal: AbortSignal): Promise<void> {
    const changed = await system.turnOff(signal);
    if (changed) this.#parts.logger.info("automatic upgrades of the system are off");
  }

  async #turnOn(system: SystemUpgrades, kind: UpgradeKind, signal: AbortSignal): Promise<void> {
    const changed = await system.turnOn(kind, signal);
    if (changed) this.#parts.logger.info(`automatic upgrades of the system are on: ${kind}`);
  }

  /** Throws `failed_precondition` for a system whose upgrade would take memory, and be gone at the next start. */
  async #requireDisk(type: string): Promise<void> {
    const { files, root = "" } = this.#parts;
    const read = (name: string) => files.readTextFile(`${root}/proc/${name}`).catch(() => "");
    if (!forgets("/usr", await read("mounts"), await read("cmdline"))) return;
    throw new SvcError(
      "failed_precondition",
      `os_auto_upgrade_type "${type}" is not applied: the system is in memory (overlay file system), and forgets an ` +
        "upgrade at its next start",
    );
  }

  /** Upgrades when an upgrade is due and the runtime allows it. */
  async #manage(
    system: SystemUpgrades,
    kind: UpgradeKind,
    everyMs: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, logger, mayInterrupt } = this.#parts;
    const nowMs = clock.monotonicMs();
    const mayReboot = this.#rebootNeeded && nowMs >= this.#startedMs + await this.#rebootWaitMs();
    const isDue = mayReboot || nowMs >= this.#nextMs;
    if (!isDue || !await mayInterrupt()) {
      if (this.#failure) throw this.#failure;
      return;
    }
    if (mayReboot) return await this.#reboot();
    this.#nextMs = nowMs + RETRY_MS;
    try {
      await system.upgrade(kind, signal);
      this.#failure = undefined;
      this.#nextMs = clock.monotonicMs() + everyMs;
      this.#rebootNeeded = await system.needsReboot(signal);
      logger.info("the system is upgraded", { kind, reboot: this.#rebootNeeded });
    } catch (error) {
      const again = `cannot upgrade the system, the next attempt is in ${RETRY_MS / 60_000} minutes`;
      this.#failure = new SvcError(SvcError.from(error).code, again, { cause: error });
      if (signal.aborted) return;
      // The agent logs it, and shows it in its status until an attempt succeeds.
      throw this.#failure;
    }
    await this.#noteNeed();
  }

  async #rebootWaitMs(): Promise<number> {
    return backoffMs(FRUITLESS, await this.#parts.reboots.get());
  }

  async #noteNeed(): Promise<void> {
    const { reboots, logger } = this.#parts;
    if (!this.#rebootNeeded) return await reboots.set(0);
    const count = await reboots.get();
    if (count === 0) return;
    const hours = await this.#rebootWaitMs() / 3600_000;
    logger.warn(
      `a reboot for upgrades has not helped, the system still wants one (${count} in a row): does it start another ` +
        `kernel than the newest? The next reboot is ${hours} hours after the agent's start at the earliest`,
    );
  }

  /** Counts the reboot before it happens: a device that cannot count might never stop rebooting. */
  async #reboot(): Promise<void> {
    const { reboots, reboot } = this.#parts;
    const before = await reboots.get();
    await reboots.set(before + 1);
    try {
      await reboot("upgrades of the system need it");
    } catch (error) {
      await reboots.set(before);
      throw error;
    }
  }
}
