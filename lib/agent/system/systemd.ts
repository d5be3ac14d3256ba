/**
 * Services of systemd: installing and removing a unit.
 *
 * A repeated installation changes only what differs, and leaves a disabled service disabled.
 */

import type { LinkFiles, ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Commands } from "./commands.ts";
import { writeForAll } from "./drop_in.ts";

export interface SystemService {
  readonly name: string;
  /** Time limit of a stop, above the time that the service may take to end. */
  readonly stopMs: number;
}

/** A service that starts with the system. */
export interface Unit {
  readonly name: string;
  /** Content of its file (systemd.service(5), systemd.exec(5)). */
  readonly text: string;
}

export interface ServiceParts {
  readonly files: ReadFiles & WriteFiles & LinkFiles;
  readonly commands: Commands;
  readonly logger: Logger;
  /** Prefix of every path, for tests. */
  readonly root?: string;
}

/** Folders for an administrator's units, the preferred one first. */
const FOLDERS = ["/usr/local/lib/systemd/system", "/etc/systemd/system"] as const;

/** The links of services that start with the system. */
const WANTS = "/etc/systemd/system/multi-user.target.wants";

/** Quotes a command line as systemd reads it. */
export function commandLine(words: readonly string[]): string {
  return words.map((word) => {
    const escaped = word.replaceAll("%", "%%").replaceAll("$", "$$$$");
    return /^[\w@%+=:,./$-]+$/.test(escaped) ? escaped : `"${escaped.replaceAll(/["\\]/g, "\\$&")}"`;
  }).join(" ");
}

/** Writes the unit, and enables it if it is new. Throws `failed_precondition` without systemd. */
export async function installService(
  { name, text }: Unit,
  { files, commands, logger, root = "" }: ServiceParts,
): Promise<void> {
  await requireSystemd(name, commands);
  const known = (await commands.run("systemd-path", ["systemd-search-system-unit"]).catch(() => "")).split(
    ":",
  );
  const folder = FOLDERS.find((one) => known.includes(one)) ?? FOLDERS[1];
  const paths = pathsOf(name, root);
  const path = pathIn(folder, name, root);
  const found = await Promise.all(paths.map((one) => files.findFile(one)));
  const isNew = found.every((one) => one === undefined);
  const there = await files.readFile(path).catch(() => undefined);
  const changed = !there || new TextDecoder().decode(there) !== text;
  if (isNew) {
    // The link precedes the unit, because the unit marks the service as installed: after a power loss in between, the
    // installation runs again.
    await files.makeFolder(`${root}${WANTS}`);
    await files.turnLink(`${root}${WANTS}/${name}.service`, `${folder}/${name}.service`);
  }
  if (changed) {
    await files.makeFolder(`${root}${folder}`);
    await writeForAll(files, path, text);
  }
  for (const other of paths.filter((one) => one !== path)) {
    if (await files.findFile(other)) await files.removeDurably(other);
  }
  if (changed) await commands.run("systemctl", ["daemon-reload"]);
  logger.info(changed ? `the service is installed: ${path}` : `the service is up to date: ${path}`);
}

/**
 * Gives files the labels that the system's policy wants, so that systemd may run them where SELinux enforces. Without
 * SELinux there is no such program, or it does nothing.
 */
export async function labelFiles(paths: readonly string[], commands: Commands): Promise<void> {
  await commands.try("restorecon", ["-R", ...paths]).catch(() => {});
}

/** Whether a unit of that name is installed. */
export async function hasService(
  name: string,
  { files, root = "" }: Pick<ServiceParts, "files" | "root">,
): Promise<boolean> {
  const found = await Promise.all(pathsOf(name, root).map((path) => files.findFile(path)));
  return found.some((one) => one !== undefined);
}

/** The command line of an installed unit; `undefined` without a unit. */
export async function unitCommand(
  name: string,
  { files, root = "" }: { readonly files: ReadFiles; readonly root?: string },
): Promise<string | undefined> {
  for (const path of pathsOf(name, root)) {
    if (!await files.findFile(path)) continue;
    return /^ExecStart=(.*)$/m.exec(await files.readTextFile(path))?.[1];
  }
  return undefined;
}

/** Stops the service and removes it; does nothing if there is none. */
export async function removeService(
  { name, stopMs }: SystemService,
  parts: ServiceParts,
): Promise<void> {
  const { files, commands, logger, root = "" } = parts;
  await requireSystemd(name, commands);
  if (!await hasService(name, parts)) return logger.info(`there is no service ${name} to remove`);
  await commands.run("systemctl", ["disable", "--now", name], { timeoutMs: stopMs });
  for (const path of pathsOf(name, root)) if (await files.findFile(path)) await files.removeDurably(path);
  await commands.run("systemctl", ["daemon-reload"]);
  await commands.try("systemctl", ["reset-failed", name]);
  logger.info(`the service ${name} is removed`);
}

function pathsOf(name: string, root: string): string[] {
  return FOLDERS.map((folder) => pathIn(folder, name, root));
}

function pathIn(folder: string, name: string, root: string): string {
  return `${root}${folder}/${name}.service`;
}

async function requireSystemd(name: string, commands: Commands): Promise<void> {
  try {
    await commands.run("systemctl", ["--version"]);
  } catch (cause) {
    const wanted = "wanted systemd; without it start the program yourself";
    throw new SvcError(
      "failed_precondition",
      `cannot make ${name} a service: systemctl does not answer, ${wanted}`,
      { cause },
    );
  }
}
