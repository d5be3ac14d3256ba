/**
 * The limits of a module, held by a control group of Linux: memory, processor time and processes, of all that the module
 * starts together. They need root and control groups of version 2; a module whose limits cannot be held does not start.
 */

import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { ProcessCommand } from "../../base/process.ts";
import type { ModuleConfig } from "../config/config.ts";
import { fileNameOf } from "../config/placeholder.ts";

const ROOT = "/sys/fs/cgroup";
const ALL = `${ROOT}/svc-modules`;
const CONTROLLERS = "+memory +cpu +pids";
/** The time in which a group may use its share, in microseconds. */
const PERIOD_US = 100_000;
/** Enters the group before anything of the module runs. */
const ENTER = 'echo $$ >"$0/cgroup.procs" && exec "$@"';

/** The command, in the control group of the module if it has limits. */
export async function limited(
  command: ProcessCommand,
  { name, limits }: ModuleConfig,
  host: ReadFiles & WriteFiles,
): Promise<ProcessCommand> {
  if (!limits) return command;
  const { memoryMb, cpuPercent, processes } = limits;
  const folder = `${ALL}/${fileNameOf(name)}`;
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
    const problem = `the limits of module "${name}" cannot be held, ${wanted}: ${messageOf(cause)}`;
    throw new SvcError("failed_precondition", problem, { cause });
  }
  return {
    ...command,
    command: "/bin/sh",
    args: ["-c", ENTER, folder, command.command, ...command.args ?? []],
  };
}

/** A file of the kernel, which takes each write as a whole. */
async function write(host: WriteFiles, path: string, text: string): Promise<void> {
  const file = await host.open(path, "append");
  try {
    await file.write(new TextEncoder().encode(text));
  } finally {
    file.close();
  }
}
