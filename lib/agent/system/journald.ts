/**
 * Limits the space of the system's journal, by a drop-in of journald's configuration (journald.conf(5)).
 */

import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Commands } from "./commands.ts";
import { ServiceFile } from "./drop_in.ts";
import type { AgentSettings } from "../settings/settings.ts";
import type { Subsystem } from "../settings/subsystem.ts";

/** The drop-in of journald. */
export const JOURNALD_FILE = "/etc/systemd/journald.conf.d/90-svc.conf";

export interface SystemParts {
  readonly files: ReadFiles & WriteFiles;
  readonly commands: Commands;
  readonly logger: Logger;
  /** Prefix of the paths of the system's files, for tests. */
  readonly root?: string;
}

export class Journald implements Subsystem {
  readonly name = "limits of the journal";
  #missing = false;
  readonly #limits: ServiceFile;

  constructor(private readonly parts: SystemParts) {
    this.#limits = new ServiceFile(parts.files, JOURNALD_FILE, parts.root);
  }

  async apply({ advanced, system }: AgentSettings, signal: AbortSignal): Promise<void> {
    const { commands, logger } = this.parts;
    if (advanced.disableSystemConfiguration) return;
    const wanted = dropIn(system);
    if (wanted !== undefined && !await this.#isThere(signal)) return;
    if (!await this.#limits.write(wanted)) return;
    await commands.run("systemctl", ["restart", "systemd-journald"], { signal });
    logger.info(
      wanted === undefined ? "the system's own limits of the journal apply again" : "the journal is limited",
      wanted === undefined ? {} : { settings: wanted.trim().split("\n").slice(2) },
    );
    // Moves the volatile journal to the disk, if it was not stored there before.
    if (system.journaldStorage) await commands.run("journalctl", ["--flush"], { signal });
    await this.#limits.noteRead();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #isThere(signal: AbortSignal): Promise<boolean> {
    const { commands, logger } = this.parts;
    const { code } = await commands.try("systemctl", ["is-enabled", "systemd-journald"], { signal })
      .catch(() => ({ code: -1 }));
    if (code !== 0 && !this.#missing) {
      logger.warn("this system has no systemd-journald, so its journal is not limited");
    }
    this.#missing = code !== 0;
    return !this.#missing;
  }
}

/** The drop-in's text; `undefined` if the settings set neither a size nor a storage. */
function dropIn(system: AgentSettings["system"]): string | undefined {
  const { journaldSystemMaxUseMb, journaldRuntimeMaxUseMb, journaldStorage } = system;
  if (journaldSystemMaxUseMb < 0 && journaldRuntimeMaxUseMb < 0 && !journaldStorage) return undefined;
  const lines = ["# Written by svc-agent: system_configuration of the machine", "[Journal]"];
  if (journaldSystemMaxUseMb >= 0) lines.push(`SystemMaxUse=${journaldSystemMaxUseMb}M`);
  if (journaldRuntimeMaxUseMb >= 0) lines.push(`RuntimeMaxUse=${journaldRuntimeMaxUseMb}M`);
  if (journaldStorage) lines.push(`Storage=${journaldStorage}`);
  return `${lines.join("\n")}\n`;
}
