/**
 * Child processes on this system.
 */

import { type Code, messageOf, SvcError } from "./error.ts";
import type { Clock } from "./clock.ts";
import { keepDescriptors } from "./native/descriptors.ts";
import { holdProcess, type Job } from "./native/jobs.ts";
import {
  type Exit,
  EXIT_UNKNOWN,
  type FoundProcess,
  linesOf,
  type PipedProcess,
  type ProcessCommand,
  type ProcessFigures,
  type RunningProcess,
  type Signal,
} from "./process.ts";

/** See `ProcessHost`. */
export function spawn(command: ProcessCommand): RunningProcess {
  return started(command, () => new DenoProcess(command));
}

/** See `PipeHost`. */
export function pipe(command: ProcessCommand): PipedProcess {
  return started(command, () => new DenoPipedProcess(command));
}

/** See `ProcessHost`. */
export async function findMarked(
  name: string,
  value: string,
  clock: Clock,
  until: AbortSignal,
): Promise<FoundProcess[]> {
  if (Deno.build.os !== "linux") return [];
  const found: FoundProcess[] = [];
  for await (const { name: entry } of Deno.readDir("/proc")) {
    const pid = Number(entry);
    if (!Number.isInteger(pid) || pid === Deno.pid) continue;
    const env = environmentOf(pid);
    const stat = env?.[name] === value ? procStat(pid) : undefined;
    if (env && stat?.group === pid) {
      found.push({ env, process: new FoundDenoProcess(pid, stat.started, clock, until) });
    }
  }

  return found;
}

/** See `ProcessTable`. */
export async function listensMarked(name: string, value: string, port: number): Promise<boolean | undefined> {
  if (Deno.build.os !== "linux") return undefined;
  const sockets = listenersAt(port);
  if (sockets.size === 0) return false;

  for (const { name: pid } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(pid) || environmentOf(Number(pid))?.[name] !== value) continue;
    try {
      for await (const { name: file } of Deno.readDir(`/proc/${pid}/fd`)) {
        const target = await Deno.readLink(`/proc/${pid}/fd/${file}`).catch(() => "");
        if (sockets.has(target)) return true;
      }
    } catch {
      // The process has ended.
    }
  }

  return false;
}

/** The sockets that listen on a TCP port, as links to them read: `socket:[1234]`. */
function listenersAt(port: number): Set<string> {
  const sockets = new Set<string>();
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    try {
      // proc_net_tcp(5): sl, local address and port in hexadecimal digits, remote address, state, …, inode.
      for (const line of Deno.readTextFileSync(table).split("\n").slice(1)) {
        const [, local = "", , state, , , , , , inode] = line.trim().split(/\s+/);
        const [, digits = ""] = local.split(":");
        if (state === LISTENS && parseInt(digits, 16) === port) sockets.add(`socket:[${inode}]`);
      }
    } catch {
      // A system without IPv6 has no table of it.
    }
  }
  return sockets;
}

/** `TCP_LISTEN` of Linux. */
const LISTENS = "0A";

/**
 * The end of a leash: waits until our end of the pipe closes, then kills every process with the mark in its
 * environment, in whatever group, and the group.
 */
const WATCH = `cat <&3; for one in $(grep -lszxF "SVC_LEASH=$1" /proc/[0-9]*/environ); do ` +
  "one=${one#/proc/}; kill -KILL ${one%/environ}; done; kill -KILL -$2";

/**
 * Runs its arguments as the leader of a group, beside a watcher: the pipe closes with this program, however it ends.
 * With `setsid` the watcher is in no group that gets signals with the program; until then it ignores those that ask it
 * to end, because a program may be asked to end right after its start.
 */
const LEASH = `mark=$1; shift; exec 3<&0; ` +
  `( trap '' HUP INT TERM; $(command -v setsid) sh -c '${WATCH}' watch "$mark" $$ >/dev/null 2>&1 & ); ` +
  `SVC_LEASH=$mark exec "$@" </dev/null 3<&-`;

/** A command of the shell that is to become the program. */
function raised(score: number): string {
  const file = "/proc/self/oom_score_adj";
  return `{ read -r now <${file} && [ "$now" -lt ${score} ] && echo ${score} >${file}; } 2>/dev/null; `;
}

class DenoProcess implements RunningProcess {
  readonly pid: number;
  readonly stdout: AsyncIterable<string>;
  readonly stderr: AsyncIterable<string>;
  readonly exited: Promise<Exit>;
  readonly #grouped: boolean;
  /** What a leash is on Windows. */
  readonly #job: Job | undefined;
  #exited = false;

  constructor(wanted: ProcessCommand) {
    const { command, args = [], env, bare, cwd, ownGroup, inheritOutput } = wanted;
    const unix = Deno.build.os !== "windows";
    const leashed = wanted.leash === true && unix;
    const errorFile = unix ? wanted.errorFile : undefined;
    this.#grouped = (ownGroup || leashed) && unix;

    const least = Deno.build.os === "linux" ? wanted.oomScoreMin : undefined;
    const script = `${least === undefined ? "" : raised(least)}${leashed ? LEASH : 'exec "$@"'}` +
      `${errorFile === undefined ? "" : ' 2>>"$0"'}`;
    const shell = leashed || errorFile !== undefined || least !== undefined;
    const child = new Deno.Command(shell ? "sh" : command, {
      args: shell
        ? ["-c", script, errorFile ?? command, ...(leashed ? [crypto.randomUUID()] : []), command, ...args]
        : [...args],
      env: { ...env },
      clearEnv: bare,
      cwd: cwd ?? openFolder(),
      stdin: leashed ? "piped" : "null",
      stdout: inheritOutput ? "inherit" : "piped",
      stderr: inheritOutput ? "inherit" : "piped",
      detached: this.#grouped,
    }).spawn();
    this.pid = child.pid;
    this.#job = wanted.leash === true && !unix ? jobOf(child) : undefined;
    this.stdout = inheritOutput ? NO_LINES : linesOf(child.stdout);

    this.stderr = inheritOutput ? NO_LINES : linesOf(child.stderr);
    this.exited = child.status.then(async ({ code, signal }) => {
      this.#exited = true;
      this.#job?.end();
      if (leashed) await child.stdin.close().catch(() => {});
      return { code, signal: signal ?? undefined };
    });
  }

  signal(name: Signal, { group = false } = {}): void {
    if (this.#exited && !(group && this.#grouped)) return;
    if (group && name === "SIGKILL" && this.#job) return this.#job.end();
    try {
      Deno.kill(group && this.#grouped ? -this.pid : this.pid, name);
    } catch (error) {
      // It has exited, and so has its group.
      if (!(error instanceof Deno.errors.NotFound) && !this.#exited) {
        throw failure("signal", this.pid, error);
      }
    }
  }
}

/** A process that has ended already cannot be held, and needs no leash. */
function jobOf({ pid }: Deno.ChildProcess): Job | undefined {
  try {
    return holdProcess(pid);
  } catch {
    return undefined;
  }
}

/** Its standard input is a pipe that closes with this program, so it needs no leash. */
class DenoPipedProcess implements PipedProcess {
  readonly pid: number;
  readonly output: AsyncIterable<Uint8Array>;
  readonly stderr: AsyncIterable<string>;
  readonly exited: Promise<Exit>;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  #exited = false;

  constructor({ command, args = [], env, bare, cwd, ownGroup }: ProcessCommand) {
    const grouped = ownGroup === true && Deno.build.os !== "windows";
    const child = new Deno.Command(command, {
      args: [...args],
      env: { ...env },
      clearEnv: bare,
      cwd: cwd ?? openFolder(),
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
      detached: grouped,
    }).spawn();
    this.pid = child.pid;
    this.output = bytesOf(child.stdout);
    this.stderr = linesOf(child.stderr);
    this.#input = child.stdin.getWriter();

    // A write to a pipe that nobody reads reports the error itself.
    this.#input.closed.catch(() => {});
    this.exited = child.status.then(async ({ code, signal }) => {
      this.#exited = true;
      await this.#input.close().catch(() => {});
      return { code, signal: signal ?? undefined };
    });
    this.#signal = (name, group) => Deno.kill(group && grouped ? -child.pid : child.pid, name);
  }

  readonly #signal: (name: Signal, group: boolean) => void;

  async write(bytes: Uint8Array): Promise<void> {
    try {
      await this.#input.write(bytes);
    } catch (cause) {
      throw new SvcError("unavailable", `cannot write to process ${this.pid}: ${messageOf(cause)}`, {
        cause,
      });
    }
  }

  signal(name: Signal, { group = false } = {}): void {
    if (this.#exited && !group) return;
    try {
      this.#signal(name, group);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw failure("signal", this.pid, error);
    }
  }
}

const READ_BYTES = 64 * 1024;

/** The bytes of a stream. Reads into one buffer: the runtime would make a new one of that size for every few bytes. */
async function* bytesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader({ mode: "byob" });
  let buffer = new Uint8Array(READ_BYTES);
  try {
    for (;;) {
      const { value, done } = await reader.read(buffer);
      if (done) return;
      yield value.slice();
      buffer = new Uint8Array(value.buffer);
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

const NO_LINES: AsyncIterable<string> = { async *[Symbol.asyncIterator]() {} };

/** Polling interval for a process that is not our child. */
const LOOK_MS = 500;

/** A process that another program started, identified by its number and start time, because numbers are reused. */
class FoundDenoProcess implements RunningProcess {
  readonly stdout = NO_LINES;
  readonly stderr = NO_LINES;
  readonly exited: Promise<Exit>;

  constructor(readonly pid: number, private readonly started: string, clock: Clock, until: AbortSignal) {
    this.exited = this.#watch(clock, until);
    this.exited.catch(() => {});
  }

  async #watch(clock: Clock, until: AbortSignal): Promise<Exit> {
    while (this.#alive()) await clock.sleep(LOOK_MS, until);
    return { code: EXIT_UNKNOWN };
  }

  signal(name: Signal, { group = false } = {}): void {
    if (!this.#alive() && !group) return;
    try {
      Deno.kill(group ? -this.pid : this.pid, name);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw failure("signal", this.pid, error);
    }
  }

  #alive(): boolean {
    return procStat(this.pid)?.started === this.started;
  }
}

/** Linux's facts of a process: its group and start time (proc(5)). None for one that only waits for its parent. */
function procStat(pid: number): { group: number; started: string } | undefined {
  try {
    const text = Deno.readTextFileSync(`/proc/${pid}/stat`);
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const { 0: state, 2: group, 19: started = "" } = fields;
    return state === "Z" ? undefined : { group: Number(group), started };
  } catch {
    return undefined;
  }
}

/** Limit of the descendants that are counted. */
const FAMILY_MAX = 256;
/** Size of a page and length of a clock tick, the same on nearly every Linux. */
const PAGE_BYTES = 4096;
const TICK_US = 10_000;

/** See `ProcessTable`. */
export function figuresOf(pid: number): ProcessFigures | undefined {
  let residentBytes = 0, cpuUs = 0, known = 0;
  for (const one of withDescendants(pid)) {
    try {
      const text = Deno.readTextFileSync(`/proc/${one}/stat`);
      const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
      cpuUs += (Number(fields[11]) + Number(fields[12])) * TICK_US;
      residentBytes += Number(fields[21]) * PAGE_BYTES;
      known++;
    } catch {
      // The process has ended, or this is not Linux.
    }
  }
  return known === 0 ? undefined : { residentBytes, cpuUs };
}

/** A process and its descendants; Linux only. */
export function withDescendants(pid: number): number[] {
  const family = [pid];
  // The loop extends the list. A child belongs to the thread that started it.
  for (const one of family) {
    try {
      for (const { name: thread } of Deno.readDirSync(`/proc/${one}/task`)) {
        const children = Deno.readTextFileSync(`/proc/${one}/task/${thread}/children`).trim();
        if (children !== "" && family.length < FAMILY_MAX) family.push(...children.split(" ").map(Number));
      }
    } catch {
      // The process has ended.
    }
  }
  return family;
}

function environmentOf(pid: number): Record<string, string> | undefined {
  try {
    const entries = Deno.readTextFileSync(`/proc/${pid}/environ`).split("\0").filter((entry) => entry !== "");
    return Object.fromEntries(entries.map((entry) => {
      const equals = entry.indexOf("=");
      return [entry.slice(0, equals), entry.slice(equals + 1)];
    }));
  } catch {
    return undefined;
  }
}

/**
 * The root if this program may not enter the folder that it was started in, as after `sudo -u USER` in root's home: the
 * runtime enters it again for each program that it starts.
 */
function openFolder(): string | undefined {
  if (Deno.build.os === "windows") return undefined;
  try {
    Deno.statSync(".");
    return undefined;
  } catch {
    return "/";
  }
}

function started<T>({ command }: ProcessCommand, run: () => T): T {
  try {
    keepDescriptors();
    return run();
  } catch (error) {
    throw failure("run", command, error);
  }
}

function failure(verb: string, what: string | number, error: unknown): SvcError {
  let code: Code = "unknown";
  if (error instanceof Deno.errors.NotFound) code = "not_found";
  else if (error instanceof Deno.errors.PermissionDenied) code = "permission_denied";

  const why = code === "not_found" ? "it does not exist" : messageOf(error);
  return new SvcError(code, `cannot ${verb} "${what}": ${why}`, { cause: error });
}
