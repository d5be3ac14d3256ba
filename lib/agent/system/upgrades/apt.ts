/**
 * Upgrades of Debian's family by the package unattended-upgrades. The agent replaces its two settings files
 * (`20auto-upgrades`, `50unattended-upgrades`) with the wanted ones.
 */

import type { Commands } from "../commands.ts";
import { writeIfOther } from "../drop_in.ts";
import { SvcError } from "../../../base/error.ts";
import {
  INSTALL_MS,
  type SystemUpgrades,
  UPGRADE_LOG,
  type UpgradeKind,
  type UpgradeParts,
  WHOLE_MS,
} from "./upgrader.ts";

const AUTO = "/etc/apt/apt.conf.d/20auto-upgrades";
const ORIGINS = "/etc/apt/apt.conf.d/50unattended-upgrades";
const TIMER = "apt-daily-upgrade.timer";

export class AptUpgrades implements SystemUpgrades {
  constructor(private readonly parts: UpgradeParts) {}

  async turnOff(signal: AbortSignal): Promise<boolean> {
    const changed = await this.#writeIfOther(AUTO, automatic(false));
    await this.parts.commands.run("systemctl", ["disable", "--now", TIMER], { signal });
    return changed;
  }

  async turnOn(kind: UpgradeKind, signal: AbortSignal): Promise<boolean> {
    const { commands } = this.parts;
    await requireUnattended(commands, signal);
    const patterns = await patternsNow(commands, kind, signal);
    const changed = [
      await this.#writeIfOther(AUTO, automatic(true)),
      await this.#writeIfOther(ORIGINS, origins(patterns)),
    ];
    await commands.run("systemctl", ["enable", "--now", TIMER], { signal });
    return changed.includes(true);
  }

  async upgrade(kind: UpgradeKind, signal: AbortSignal): Promise<void> {
    const { commands } = this.parts;
    const options = { signal, timeoutMs: WHOLE_MS, outlives: UPGRADE_LOG };
    await commands.run("apt-get", ["update"], options);
    // After an interrupted upgrade, for instance by a power loss, apt-get refuses every further one.
    await commands.run("dpkg", ["--force-confdef", "--force-confold", "--configure", "-a"], options);
    if (kind === "security") {
      await requireUnattended(commands, signal);
      await this.#writeIfOther(ORIGINS, origins(await patternsNow(commands, kind, signal)));
      await commands.run("unattended-upgrade", [], options);
    } else {
      const keep = ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"];
      await commands.run("apt-get", ["upgrade", "-y", "--with-new-pkgs", ...keep], options);
    }
  }

  async needsReboot(): Promise<boolean> {
    const { files, root = "" } = this.parts;
    if (await files.findFile(`${root}/var/run/reboot-required`)) return true;
    // Only Ubuntu and some packages leave that file.
    const read = (path: string) => files.readTextFile(`${root}${path}`).catch(() => "");
    const running = (await read("/proc/sys/kernel/osrelease")).trim();
    const installed = await files.readFolder(`${root}/boot`).catch(() => []);
    return hasNewerKernel(running, installed) || usesReplaced(await read("/proc/1/maps"));
  }

  #writeIfOther(path: string, text: string): Promise<boolean> {
    const { files, root = "" } = this.parts;
    return writeIfOther(files, `${root}${path}`, text);
  }
}

async function requireUnattended(commands: Commands, signal: AbortSignal): Promise<void> {
  const { code } = await commands.try("unattended-upgrade", ["--help"], { signal })
    .catch(() => ({ code: -1 }));
  if (code === 0) return;
  const options = { signal, timeoutMs: INSTALL_MS, outlives: UPGRADE_LOG };
  await commands.run("apt-get", ["update"], options);
  await commands.run("apt-get", ["install", "-y", "unattended-upgrades"], options);
}

/** Whether a newer kernel of the same kind as the running one (`amd64`, `rpi-v8`) is installed. */
export function hasNewerKernel(running: string, namesInBoot: readonly string[]): boolean {
  const kindOf = (release: string) => /-([a-z][\w-]*)$/i.exec(release)?.[1] ?? "";
  const numbersOf = (release: string) => (release.match(/\d+/g) ?? []).map(Number);
  const kind = kindOf(running);
  return running !== "" && namesInBoot.some((name) => {
    const release = /^vmlinuz-(\d.*)$/.exec(name)?.[1];
    if (release === undefined || kindOf(release) !== kind) return false;
    const mine = numbersOf(running), other = numbersOf(release);
    const at = other.findIndex((number, at) => number !== (mine[at] ?? -1));
    return (other[at] ?? -1) > (mine[at] ?? -1);
  });
}

/** Whether the first process uses a library that an upgrade has replaced; only a reboot changes that. */
export function usesReplaced(maps: string): boolean {
  return /\s\/(usr\/)?lib\S*\.so\S* \(deleted\)$/m.test(maps);
}

function automatic(on: boolean): string {
  return `APT::Periodic::Update-Package-Lists "1";\nAPT::Periodic::Unattended-Upgrade "${on ? 1 : 0}";\n`;
}

/** Throws `not_found` if no repository is of the kind, because no package would ever be upgraded. */
async function patternsNow(commands: Commands, kind: UpgradeKind, signal: AbortSignal): Promise<string[]> {
  const patterns = patternsOf(await commands.run("apt-cache", ["policy"], { signal }), kind);
  if (patterns.length > 0) return patterns;
  const found = kind === "security" ? 'none whose codename has "security" in it' : "none";
  throw new SvcError("not_found", `no package repository can be upgraded from: found ${found}`);
}

/**
 * The present repositories, as patterns of unattended-upgrades, from `apt-cache policy`. They are sorted, so that the
 * same system always has the same file. Custom repositories often have no codename, or only a site. Ubuntu's security
 * updates have the release's codename and an archive such as `noble-security`.
 */
export function patternsOf(policy: string, kind: UpgradeKind): string[] {
  const patterns = new Set<string>();
  const sources = policy.matchAll(/^[ \t]*release(?:[ \t]+(.*))?(?:\n[ \t]*origin[ \t]+(\S+))?/gm);
  for (const [, line = "", site = ""] of sources) {
    const fields = new Map(
      line.split(/,(?=\w=)/).map((field) => [field.slice(0, 1), safe(field.slice(2))] as const),
    );
    const { origin, codename, archive } = {
      origin: fields.get("o") ?? "",
      codename: fields.get("n") ?? "",
      archive: fields.get("a") ?? "",
    };
    const isSecure = codename.includes("security");
    const release = codename && (kind === "all" || isSecure) ? `codename=${codename}` : `archive=${archive}`;
    if (kind === "security" && !isSecure && !archive.includes("security")) continue;
    if (origin && (codename || archive)) patterns.add(`origin=${origin},${release}`);
    else if (origin && kind === "all") patterns.add(`origin=${origin}`);
    // Packages installed by hand have no site.
    else if (safe(site) && kind === "all") patterns.add(`site=${site}`);
  }
  return [...patterns].sort();
}

/**
 * A value that is safe in a pattern: a repository's text must neither become a setting nor match other repositories.
 */
function safe(value: string): string {
  return /["\\=;{}*?[\]\p{Cc}]/u.test(value) ? "" : value.replaceAll(",", "%2C");
}

function origins(patterns: readonly string[]): string {
  const lines = patterns.map((pattern) => `  "${pattern}";\n`).join("");
  return `Unattended-Upgrade::Origins-Pattern {\n${lines}};\n`;
}
