/**
 * The agent as a service of systemd: its unit, and how it is installed and removed.
 *
 * What is started is the loader, so that no update of the agent can leave the device without one. The runtime is not
 * ended with an agent that crashes or is replaced: the next agent takes it over. Promises that installing again
 * changes nothing that is right already, and leaves alone what somebody has disabled.
 */

import { dirname } from "node:path";
import { SvcError } from "../base/error.ts";
import type { Logger } from "../base/log.ts";
import type { Commands } from "./commands.ts";
import { LOADER } from "./loader.ts";
import { type Disk, linkDurably, removeDurably, writeDurably } from "./update_files.ts";

export const SERVICE = "svc-agent";

/** Where units of the administrator are, the better place first. */
const FOLDERS = ["/usr/local/lib/systemd/system", "/etc/systemd/system"];

/** What is started with the system. */
const WANTS = "/etc/systemd/system/multi-user.target.wants";

/** Above the agent's own limit for its whole end, which is above that for the runtime. */
const STOP_S = 240;
/** Above what the end of a runtime may take, which the agent waits for before it is replaced. */
const WATCHDOG_S = 180;

export interface UnitOptions {
  readonly base: string;
  readonly configPath: string;
  readonly defaultsPath: string;
}

/** The text of the unit (systemd.service(5), systemd.exec(5)). */
export function unitOf({ base, configPath, defaultsPath }: UnitOptions): string {
  const command = [
    `${base}/bin/${LOADER}`,
    "--dir",
    base,
    "--config",
    configPath,
    "--defaults",
    defaultsPath,
  ];
  return `[Unit]
Description=svc-agent: installs, runs, watches and updates svc-server
Wants=network-online.target
After=network-online.target NetworkManager.service bluetooth.service
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart=${command.map(quoted).join(" ")}
Restart=always
RestartSec=5
# svc-server outlives an agent that crashes or is replaced; one that is told to stop ends it itself.
KillMode=process
TimeoutStopSec=${STOP_S}
WatchdogSec=${WATCHDOG_S}
NotifyAccess=all
RuntimeDirectory=${SERVICE}
RuntimeDirectoryPreserve=yes
OOMScoreAdjust=-900
ProtectClock=no
RestrictSUIDSGID=no
LockPersonality=yes
RestrictRealtime=no
KeyringMode=private

[Install]
WantedBy=multi-user.target
`;
}

/** A word of a command line as systemd reads it. */
function quoted(word: string): string {
  const escaped = word.replaceAll("%", "%%").replaceAll("$", "$$$$");
  return /^[\w@%+=:,./$-]+$/.test(escaped) ? escaped : `"${escaped.replaceAll(/["\\]/g, "\\$&")}"`;
}

export interface ServiceParts {
  readonly disk: Disk;
  readonly commands: Commands;
  readonly logger: Logger;
  /** What stands before every path, for tests. */
  readonly root?: string;
}

/** Writes the unit, enabled if it is new. Throws `failed_precondition` where there is no systemd. */
export async function installService(
  options: UnitOptions,
  { disk, commands, logger, root = "" }: ServiceParts,
): Promise<void> {
  await requireSystemd(commands);
  const known = (await commands.run("systemd-path", ["systemd-search-system-unit"]).catch(() => "")).split(
    ":",
  );
  const folder = FOLDERS.find((one) => known.includes(one)) ?? FOLDERS[1];
  const pathIn = (one: string) => `${root}${one}/${SERVICE}.service`;
  const path = pathIn(folder);
  const found = await Promise.all(FOLDERS.map((one) => disk.stat(pathIn(one))));
  const isNew = found.every((one) => one === undefined);
  const wanted = new TextEncoder().encode(unitOf(options));
  const there = await disk.read(path).catch(() => undefined);
  const changed = !there || new TextDecoder().decode(there) !== new TextDecoder().decode(wanted);
  if (isNew) {
    // Before the unit, which is what tells that it was installed: should the power go now, it is done again.
    await disk.makeFolder(`${root}${WANTS}`);
    await linkDurably(disk, `${root}${WANTS}/${SERVICE}.service`, `${folder}/${SERVICE}.service`);
  }
  if (changed) {
    await disk.makeFolder(`${root}${folder}`);
    await writeDurably(disk, path, wanted);
  }
  for (const other of FOLDERS.filter((one) => one !== folder)) {
    if (await disk.stat(pathIn(other))) await removeDurably(disk, pathIn(other));
  }
  if (changed) await commands.run("systemctl", ["daemon-reload"]);
  logger.info(changed ? `the service is installed: ${path}` : `the service is as it should be: ${path}`);
}

/** Stops the service and removes it; does nothing where there is none. */
export async function removeService({ disk, commands, logger, root = "" }: ServiceParts): Promise<void> {
  await requireSystemd(commands);
  const paths = FOLDERS.map((folder) => `${root}${folder}/${SERVICE}.service`);
  const there = (await Promise.all(paths.map((path) => disk.stat(path)))).some((one) => one !== undefined);
  if (!there) return logger.info("there is no service to remove");
  await commands.run("systemctl", ["disable", "--now", SERVICE], { timeoutMs: (STOP_S + 30) * 1000 });
  for (const path of paths) if (await disk.stat(path)) await removeDurably(disk, path);
  await commands.run("systemctl", ["daemon-reload"]);
  await commands.try("systemctl", ["reset-failed", SERVICE]);
  logger.info("the service is removed", { folder: dirname(paths[0]) });
}

async function requireSystemd(commands: Commands): Promise<void> {
  try {
    await commands.run("systemctl", ["--version"]);
  } catch (cause) {
    const wanted = "wanted systemd to run the agent; without it start it yourself, with --dev-mode";
    throw new SvcError(
      "failed_precondition",
      `cannot install a service: systemctl does not answer; ${wanted}`,
      {
        cause,
      },
    );
  }
}
