/**
 * The limits of modules, by control groups of Linux: memory, processor time and processes of a module with all that it
 * starts. Limits need root and control groups of version 2; a module whose limits cannot be enforced does not start.
 *
 * Owns a folder in `svc-modules` of the control groups, named after this process, with a group for each module that has
 * limits. Promises that nothing in a group outlives the run of its module, that a group goes with its module, and that
 * the groups of a killed svc-server go, with all that still runs in them, when the next svc-server starts a module.
 */

import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { LinkFiles, ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Logger } from "../../base/log/log.ts";
import type { ProcessCommand } from "../../base/process.ts";
import type { ModuleConfig } from "../config/config.ts";
import { fileNameFrom } from "../../base/files/names.ts";

const ROOT = "/sys/fs/cgroup";
const ALL = `${ROOT}/svc-modules`;
const CONTROLLERS = "+memory +cpu +pids";
/** The period of a group's processor share, in microseconds. */
const PERIOD_US = 100_000;
/** Enters the group before any of the module's code runs. */
const ENTER = 'echo $$ >"$0/cgroup.procs" && exec "$@"';
/** The kernel removes killed processes a little later, and a group only without processes. */
const EMPTY_MS = 5_000;
const LOOK_MS = 20;

export interface ModuleGroupsParts {
  readonly host: ReadFiles & WriteFiles & Pick<LinkFiles, "readLink">;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class ModuleGroups {
  #own: Promise<string> | undefined;
  #sweeping: Promise<void> | undefined;

  constructor(private readonly parts: ModuleGroupsParts) {}

  /** The command, placed in the module's control group if the module has limits. */
  async inLimits(command: ProcessCommand, { name, limits }: ModuleConfig): Promise<ProcessCommand> {
    const { host } = this.parts;
    const own = await (this.#own ??= this.#open());
    if (!limits) return command;

    const { memoryMb, cpuPercent, processes } = limits;
    const folder = `${own}/${fileNameFrom(name)}`;
    try {
      await write(host, `${ROOT}/cgroup.subtree_control`, CONTROLLERS);
      for (const above of [ALL, own]) {
        await host.makeFolder(above);
        await write(host, `${above}/cgroup.subtree_control`, CONTROLLERS);
      }
      await host.makeFolder(folder);
      await write(host, `${folder}/memory.max`, memoryMb === undefined ? "max" : `${memoryMb * 1024 * 1024}`);
      const share = cpuPercent === undefined ? "max" : `${Math.round(cpuPercent / 100 * PERIOD_US)}`;
      await write(host, `${folder}/cpu.max`, `${share} ${PERIOD_US}`);
      await write(host, `${folder}/pids.max`, processes === undefined ? "max" : `${processes}`);
    } catch (cause) {
      const wanted = "they need root and control groups of version 2";
      const problem = `cannot enforce the limits of module "${name}", ${wanted}: ${messageOf(cause)}`;
      throw new SvcError("failed_precondition", problem, { cause });
    }

    return {
      ...command,
      command: "/bin/sh",
      args: ["-c", ENTER, folder, command.command, ...command.args ?? []],
    };
  }

  /** Kills the remaining processes of a run in the module's group. Never rejects. */
  async kill({ name, limits }: ModuleConfig): Promise<void> {
    if (limits && this.#own) await this.#kill(`${await this.#own}/${fileNameFrom(name)}`);
  }

  /** Removes the module's group, and kills its remaining processes. Never rejects. */
  async remove({ name, limits }: ModuleConfig): Promise<void> {
    if (limits && this.#own) await this.#remove(`${await this.#own}/${fileNameFrom(name)}`);
  }

  /** Removes the folder with everything in it. Idempotent. */
  async close(): Promise<void> {
    const own = await this.#own;
    await this.#sweeping;
    if (own) await this.#removeAll(own);
  }

  /** The folder of this process; begins to remove those of killed ones. */
  async #open(): Promise<string> {
    const { host } = this.parts;
    const read = (path: string) => host.readLink(path).catch(() => undefined);
    const [pid = "0", space = ""] = await Promise.all([read("/proc/self"), read("/proc/self/ns/pid")]);
    // A container may see the groups of others, whose process numbers mean nothing here.
    const prefix = `${space.replace(/\D/g, "")}-`;
    const own = `${ALL}/${prefix}${pid}`;
    const folders = await this.#namesIn(ALL);
    // In a container each svc-server may have the same number.
    if (folders.includes(`${prefix}${pid}`)) await this.#removeAll(own);
    this.#sweeping = this.#sweep(
      folders.filter((one) => one.startsWith(prefix) && one !== `${prefix}${pid}`),
    );
    return own;
  }

  async #sweep(folders: readonly string[]): Promise<void> {
    const { host, logger } = this.parts;
    for (const folder of folders) {
      const pid = folder.slice(folder.lastIndexOf("-") + 1);
      if (!/^\d+$/.test(pid) || await host.stat(`/proc/${pid}`).catch(() => "unknown")) continue;
      await this.#removeAll(`${ALL}/${folder}`);
      logger.debug("removed the control groups of a killed svc-server", { folder });
    }
  }

  async #removeAll(folder: string): Promise<void> {
    for (const name of await this.#namesIn(folder)) await this.#remove(`${folder}/${name}`);
    await this.parts.host.remove(folder).catch(() => {});
  }

  async #kill(folder: string): Promise<void> {
    const { host, logger } = this.parts;
    // Kernels before 5.14 cannot; the module's process group has ended by then.
    if (!await host.stat(`${folder}/cgroup.kill`).catch(() => undefined)) return;
    await write(host, `${folder}/cgroup.kill`, "1").catch((error) => {
      logger.warn(`cannot end what runs in ${folder}: ${messageOf(error)}`);
    });
  }

  async #remove(folder: string): Promise<void> {
    const { host, clock, logger } = this.parts;
    if (!await host.stat(folder).catch(() => undefined)) return;
    await this.#kill(folder);
    const endMs = clock.monotonicMs() + EMPTY_MS;
    for (;;) {
      const error = await host.remove(folder).then(() => undefined, messageOf);
      if (error === undefined) return;
      if (clock.monotonicMs() >= endMs) return logger.warn(`cannot remove the control group: ${error}`);
      await clock.sleep(LOOK_MS);
    }
  }

  /** The groups in a group; its files are the kernel's. */
  async #namesIn(folder: string): Promise<string[]> {
    const { host } = this.parts;
    const names = await host.readFolder(folder).catch(() => []);
    const facts = await Promise.all(
      names.map((name) => host.stat(`${folder}/${name}`).catch(() => undefined)),
    );
    return names.filter((_, at) => facts[at]?.kind === "folder");
  }
}

/** Writes a kernel file, which needs its text in one write. */
async function write(host: WriteFiles, path: string, text: string): Promise<void> {
  const file = await host.open(path, "append");
  try {
    await file.write(new TextEncoder().encode(text));
  } finally {
    file.close();
  }
}
