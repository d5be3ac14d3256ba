/**
 * The limits of a module, by a control group of Linux: memory, processor time and processes of the module with all that
 * it starts. Limits need root and control groups of version 2; a module whose limits cannot be enforced does not start.
 */

import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { ProcessCommand } from "../../base/process.ts";
import type { ModuleConfig } from "../config/config.ts";
import { safeFileName } from "../config/placeholder.ts";

const ROOT = "/sys/fs/cgroup";
const ALL = `${ROOT}/svc-modules`;
const CONTROLLERS = "+memory +cpu +pids";
/** The period of a group's processor share, in microseconds. */
const PERIOD_US = 100_000;
/** Enters the group before any of the module's code runs. */
const ENTER = 'echo $$ >"$0/cgroup.procs" && exec "$@"';

/** The command, placed in the module's control group if the module has limits. */
export async function inLimits(
  command: ProcessCommand,
  { name, limits }: ModuleConfig,
  host: ReadFiles & WriteFiles,
): Promise<ProcessCommand> {
  if (!limits) return command;
  const { memoryMb, cpuPercent, processes } = limits;
  const folder = `${ALL}/${safeFileName(name)}`;
  try {
    await write(host, `${ROOT}/cgroup.subtree_control`, CONTROLLERS);
    await host.makeFolder(ALL);
    await write(host, `${ALL}/cgroup.subtree_control`, CONTROLLERS);
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

/** Writes a kernel file, which needs its text in one write. */
async function write(host: WriteFiles, path: string, text: string): Promise<void> {
  const file = await host.open(path, "append");
  try {
    await file.write(new TextEncoder().encode(text));
  } finally {
    file.close();
  }
}
