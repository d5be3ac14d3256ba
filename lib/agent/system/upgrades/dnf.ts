/**
 * Upgrades of Fedora's family by dnf-automatic: its settings file and its timer.
 */

import { writeIfOther } from "../drop_in.ts";
import {
  INSTALL_MS,
  type SystemUpgrades,
  UPGRADE_LOG,
  type UpgradeKind,
  type UpgradeParts,
  WHOLE_MS,
} from "./upgrader.ts";

const SETTINGS = "/etc/dnf/automatic.conf";
/** Names of the package and its timer with dnf 4, and with dnf 5. */
const PACKAGES = ["dnf-automatic", "dnf5-plugin-automatic"] as const;
const TIMERS = ["dnf-automatic.timer", "dnf5-automatic.timer"] as const;
/** A timer of dnf 4 that installs upgrades regardless of the settings. */
const FORCING_TIMER = "dnf-automatic-install.timer";

export class DnfUpgrades implements SystemUpgrades {
  constructor(private readonly parts: UpgradeParts) {}

  async turnOff(signal: AbortSignal): Promise<boolean> {
    const { commands, files, root = "" } = this.parts;
    // Without the package there is nothing to turn off.
    const path = `${root}${SETTINGS}`;
    const changed = await files.findFile(path)
      ? await writeIfOther(files, path, settings("all", false))
      : false;
    for (const timer of [...TIMERS, FORCING_TIMER]) {
      if (await this.#isThere(timer, signal)) {
        await commands.run("systemctl", ["disable", "--now", timer], { signal });
      }
    }
    return changed;
  }

  async turnOn(kind: UpgradeKind, signal: AbortSignal): Promise<boolean> {
    const { commands, files, root = "" } = this.parts;
    const timer = await this.#timer(signal) ?? await this.#install(signal);
    const changed = await writeIfOther(files, `${root}${SETTINGS}`, settings(kind, true));
    await commands.run("systemctl", ["enable", "--now", timer], { signal });
    return changed;
  }

  async upgrade(kind: UpgradeKind, signal: AbortSignal): Promise<void> {
    const only = kind === "security" ? ["--security"] : [];
    const options = { signal, timeoutMs: WHOLE_MS, outlives: UPGRADE_LOG };
    await this.parts.commands.run("dnf", ["upgrade", "-y", ...only], options);
  }

  /**
   * `needs-restarting -r` exits with 1 if a reboot is needed. Without that plugin, assumes that none is
   * needed.
   */
  async needsReboot(signal: AbortSignal): Promise<boolean> {
    const { commands } = this.parts;
    const { code } = await commands.try("dnf", ["needs-restarting", "-r"], { signal }).catch(() => ({
      code: 0,
    }));
    return code === 1;
  }

  async #install(signal: AbortSignal): Promise<string> {
    const { commands } = this.parts;
    const [first, second] = PACKAGES;
    const options = { signal, timeoutMs: INSTALL_MS, outlives: UPGRADE_LOG };
    const { code } = await commands.try("dnf", ["install", "-y", first], options);
    if (code !== 0) await commands.run("dnf", ["install", "-y", second], options);
    return await this.#timer(signal) ?? TIMERS[0];
  }

  async #timer(signal: AbortSignal): Promise<string | undefined> {
    for (const timer of TIMERS) if (await this.#isThere(timer, signal)) return timer;
    return undefined;
  }

  async #isThere(unit: string, signal: AbortSignal): Promise<boolean> {
    return (await this.parts.commands.try("systemctl", ["cat", unit], { signal })).code === 0;
  }
}

function settings(kind: UpgradeKind, on: boolean): string {
  return `# Written by svc-agent: system_configuration of the machine
[commands]
upgrade_type = ${kind === "security" ? "security" : "default"}
download_updates = ${on ? "yes" : "no"}
apply_updates = ${on ? "yes" : "no"}
[emitters]
emit_via = stdio
`;
}
