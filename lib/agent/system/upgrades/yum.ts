/**
 * Upgrades of the older systems of Fedora's family, which have yum and no dnf, by yum-cron.
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

const SETTINGS = "/etc/yum/yum-cron.conf";
const SERVICE = "yum-cron.service";

export class YumUpgrades implements SystemUpgrades {
  constructor(private readonly parts: UpgradeParts) {}

  async turnOff(signal: AbortSignal): Promise<boolean> {
    const { commands, files, root = "" } = this.parts;
    // Without the package there is nothing to turn off.
    if (!await files.findFile(`${root}${SETTINGS}`)) return false;
    const changed = await writeIfOther(files, `${root}${SETTINGS}`, settings("all", false));
    await commands.run("systemctl", ["disable", "--now", SERVICE], { signal });
    return changed;
  }

  async turnOn(kind: UpgradeKind, signal: AbortSignal): Promise<boolean> {
    const { commands, files, root = "" } = this.parts;
    if (!await files.findFile(`${root}${SETTINGS}`)) {
      const options = { signal, timeoutMs: INSTALL_MS, outlives: UPGRADE_LOG };
      await commands.run("yum", ["install", "-y", "yum-cron"], options);
    }
    const changed = await writeIfOther(files, `${root}${SETTINGS}`, settings(kind, true));
    await commands.run("systemctl", ["enable", "--now", SERVICE], { signal });
    return changed;
  }

  async upgrade(kind: UpgradeKind, signal: AbortSignal): Promise<void> {
    const only = kind === "security" ? ["--security"] : [];
    const options = { signal, timeoutMs: WHOLE_MS, outlives: UPGRADE_LOG };
    await this.parts.commands.run("yum", ["update", "-y", ...only], options);
  }

  /** `needs-restarting` is in yum-utils; without it the answer is no. */
  async needsReboot(signal: AbortSignal): Promise<boolean> {
    const { code } = await this.parts.commands.try("needs-restarting", ["-r"], { signal })
      .catch(() => ({ code: 0 }));
    return code === 1;
  }
}

function settings(kind: UpgradeKind, on: boolean): string {
  return `# Written by svc-agent: system_configuration of the machine
[commands]
update_cmd = ${kind === "security" ? "security" : "default"}
update_messages = no
download_updates = ${on ? "yes" : "no"}
apply_updates = ${on ? "yes" : "no"}
random_sleep = 0
[emitters]
emit_via = stdio
[base]
debuglevel = -2
`;
}
