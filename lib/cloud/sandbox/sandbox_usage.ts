/**
 * Measures repeatedly what the programs of a sandbox use together, because the kernel does not limit this.
 *
 * Between two measurements they may exceed a limit by as much as a process can take in that time. So the rest of the
 * computer keeps a reserve of memory and disk, and programs that use the reserve are ended, too, even within their own
 * limits.
 */

import { join } from "node:path";
import type { ReadFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { RunningProcess } from "../../base/process.ts";

export interface UsageLimits {
  /** Limits for all programs together, and for each one. */
  readonly memoryBytes: number;
  /** Processor time of all programs. */
  readonly cpuSeconds: number;
  /** Threads included. */
  readonly processes: number;
  /** For each process. */
  readonly openFiles: number;
  /** For each file. */
  readonly fileBytes: number;
  /** Growth of the folder beyond its initial size. */
  readonly folderBytes: number;
  readonly folderFiles: number;
}

const MIB = 1024 ** 2;
const LOOK_MS = 250;
/** Largest share of the time that walking through the folder takes. */
const WALK_SHARE = 0.1;
const WALK_MS_MIN = 1_000;
/** Longest pause between two walks through a slow folder. */
const WALK_MS_MAX = 5_000;
/** The reserve of the rest of the computer. */
const MEMORY_RESERVE_BYTES = 256 * MIB;
const DISK_RESERVE_BYTES = 512 * MIB;
/** Units of the times in `/proc/<pid>/stat` on every Linux (`USER_HZ`). */
const TICKS_PER_SECOND = 100;
const FILES_AT_ONCE = 64;

/**
 * Kills a process and its group if its descendants use too much together; resolves at its end, with the reason if that
 * was the cause.
 */
export async function watchUsage(
  process: Pick<RunningProcess, "pid" | "signal" | "exited">,
  limits: UsageLimits,
  folder: WatchedFolder | undefined,
  files: ReadFiles,
  clock: Clock,
): Promise<SvcError | undefined> {
  const over = new AbortController();
  const exited = process.exited.finally(() => over.abort());
  let breach: SvcError | undefined;
  try {
    while (!over.signal.aborted && !breach) {
      breach = await processesBeyond(files, process.pid, limits) ?? await memoryBeyond(files) ??
        await folder?.beyond();
      if (!breach) await clock.sleep(LOOK_MS, over.signal);
    }
  } catch (error) {
    // A sandbox that cannot be watched must end.
    if (!over.signal.aborted) breach = SvcError.from(error);
  }
  // It may have ended while it was measured. A folder that has disappeared is empty.
  if (over.signal.aborted) breach ??= await folder?.beyond({ atLast: true }).catch(() => undefined);
  else process.signal("SIGKILL", { group: true });
  await exited;
  return breach;
}

/** The growth of a folder. */
export class WatchedFolder {
  #walkAtMs: number;

  private constructor(
    private readonly files: ReadFiles,
    private readonly path: string,
    private readonly limits: UsageLimits,
    private readonly begun: Content,
    private readonly clock: Clock,
  ) {
    this.#walkAtMs = clock.monotonicMs();
  }

  /** Its present content is not counted. */
  static async open(
    files: ReadFiles,
    path: string,
    limits: UsageLimits,
    clock: Clock,
  ): Promise<WatchedFolder> {
    return new WatchedFolder(files, path, limits, await measureContent(files, path, Infinity), clock);
  }

  /** `atLast`: measures even if it has just done so, because the programs may have exceeded the limit since. */
  async beyond({ atLast = false } = {}): Promise<SvcError | undefined> {
    const { files: disk, path, limits, begun, clock } = this;
    const freeBytes = await disk.freeBytes(path);
    if (freeBytes < DISK_RESERVE_BYTES) {
      return tooMuch(`left ${mib(freeBytes)} of disk free`, `at least ${mib(DISK_RESERVE_BYTES)}`);
    }
    const fromMs = clock.monotonicMs();
    if (fromMs < this.#walkAtMs && !atLast) return undefined;
    const now = await measureContent(disk, path, begun.files + limits.folderFiles);
    const tookMs = clock.monotonicMs() - fromMs;
    this.#walkAtMs = fromMs + Math.min(WALK_MS_MAX, Math.max(WALK_MS_MIN, tookMs / WALK_SHARE));
    const files = now.files - begun.files;
    if (files > limits.folderFiles) return tooMuch(`made ${files} files`, `at most ${limits.folderFiles}`);
    const bytes = now.bytes - begun.bytes;
    if (bytes <= limits.folderBytes) return undefined;
    return tooMuch(`wrote ${mib(bytes)} to its folder`, `at most ${mib(limits.folderBytes)}`);
  }
}

interface Content {
  /** Folders included. */
  readonly files: number;
  /** On the disk. */
  readonly bytes: number;
}

/** The content of a folder, counted only until it exceeds the given number of files. */
async function measureContent(disk: ReadFiles, path: string, filesMax: number): Promise<Content> {
  const folders = [path];
  let [files, bytes] = [0, 0];
  for (let folder = folders.pop(); folder !== undefined && files <= filesMax; folder = folders.pop()) {
    // Files come and go, and folders may be unreadable.
    const entries = await disk.entries(folder).catch(() => []);
    files += entries.length;
    for (let at = 0; at < entries.length && files <= filesMax; at += FILES_AT_ONCE) {
      const some = entries.slice(at, at + FILES_AT_ONCE).map(async (entry) => {
        const inside = join(folder, entry.name);
        if (entry.kind === "folder") folders.push(inside);
        return (await disk.stat(inside, { links: true }))?.diskBytes ?? 0;
      });
      for (const one of await Promise.all(some)) bytes += one;
    }
  }
  return { files, bytes };
}

/** Compares a process and all its descendants with the limits. */
async function processesBeyond(
  files: ReadFiles,
  root: number,
  limits: UsageLimits,
): Promise<SvcError | undefined> {
  const all = await processesFrom(files, root);
  const seconds = all.reduce((sum, { ticks }) => sum + ticks, 0) / TICKS_PER_SECOND;
  if (seconds > limits.cpuSeconds) {
    return tooMuch(`used ${Math.round(seconds)} s of processor time`, `at most ${limits.cpuSeconds} s`);
  }
  const resident = await computeSum(files, all, "status", /^VmRSS:\s+(\d+) kB$/m);
  if (resident <= limits.memoryBytes) return undefined;
  // Shared memory is counted for each process; counting it once is slow.
  const bytes = await computeSum(files, all, "smaps_rollup", /^Pss:\s+(\d+) kB$/m) || resident;
  if (bytes <= limits.memoryBytes) return undefined;
  return tooMuch(`used ${mib(bytes)} of memory`, `at most ${mib(limits.memoryBytes)}`);
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  /** Processor time of the process and of its ended children. */
  readonly ticks: number;
}

async function processesFrom(files: ReadFiles, root: number): Promise<Process[]> {
  const names = (await files.readFolder("/proc")).filter((name) => /^\d+$/.test(name));
  const all = (await Promise.all(names.map(async (name) => parseStat(await inProc(files, name, "stat")))))
    .filter((one) => one !== undefined);
  const found = new Set([root]);
  for (let size = 0; size < found.size;) {
    size = found.size;
    for (const { pid, parent } of all) if (found.has(parent)) found.add(pid);
  }
  return all.filter(({ pid }) => found.has(pid));
}

/** A line of `/proc/<pid>/stat` (proc(5)); the name in it may contain any character. */
export function parseStat(text: string): Process | undefined {
  const end = text.lastIndexOf(")");
  if (end < 0) return undefined;
  const fields = text.slice(end + 2).split(" ");
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return { pid: Number.parseInt(text), parent: Number(fields[1]), ticks };
}

async function computeSum(
  files: ReadFiles,
  processes: readonly Process[],
  file: string,
  kilobytes: RegExp,
): Promise<number> {
  const each = processes.map(async ({ pid }) => {
    return Number(kilobytes.exec(await inProc(files, `${pid}`, file))?.[1] ?? 0) * 1024;
  });
  return (await Promise.all(each)).reduce((sum, bytes) => sum + bytes, 0);
}

/** Nothing for a process that is gone. */
function inProc(files: ReadFiles, pid: string, file: string): Promise<string> {
  return files.readTextFile(`/proc/${pid}/${file}`).catch(() => "");
}

/** Checks the memory of the whole computer, because files in memory that nobody maps belong to no process. */
async function memoryBeyond(files: ReadFiles): Promise<SvcError | undefined> {
  const [, kilobytes] = /^MemAvailable:\s+(\d+) kB$/m.exec(await files.readTextFile("/proc/meminfo")) ?? [];
  const left = Number(kilobytes ?? Infinity) * 1024;
  if (left >= MEMORY_RESERVE_BYTES) return undefined;
  return tooMuch(`ran while ${mib(left)} of memory were left`, `at least ${mib(MEMORY_RESERVE_BYTES)}`);
}

function tooMuch(found: string, wanted: string): SvcError {
  return new SvcError("resource_exhausted", `the sandbox was ended: it ${found}, wanted ${wanted}`);
}

function mib(bytes: number): string {
  return `${Math.round(bytes / MIB)} MiB`;
}
