/**
 * The host as Deno gives it. The only file of `lib` that touches `Deno`.
 */

import { cpuUsage } from "node:process";
import { basename, dirname, isAbsolute, join, parse, resolve, sep } from "node:path";
import { type Code, messageOf, SvcError } from "./error.ts";
import { DenoDevice } from "./device_deno.ts";
import { escaped } from "./escape.ts";
import type { AppendFile, Device, FoundFile, Host } from "./host.ts";
import type { Clock } from "./clock.ts";
import {
  type Exit,
  EXIT_UNKNOWN,
  type FoundProcess,
  linesOf,
  type PipedProcess,
  type PipeHost,
  type ProcessCommand,
  type ProcessHost,
  type RunningProcess,
  type Signal,
} from "./process.ts";

const PIECE_BYTES = 64 * 1024;

export class DenoHost implements Host, ProcessHost, PipeHost {
  env(name: string): string | undefined {
    return Deno.env.get(name);
  }

  environment(): Record<string, string> {
    return Deno.env.toObject();
  }

  hostname(): string {
    return Deno.hostname();
  }

  platform(): { os: string; arch: string } {
    return { os: Deno.build.os, arch: Deno.build.arch === "x86_64" ? "x64" : "arm64" };
  }

  cwd(): string {
    return Deno.cwd();
  }

  readFile(path: string): Promise<Uint8Array> {
    return attempt("read", path, () => Deno.readFile(path));
  }

  readTextFile(path: string): Promise<string> {
    return attempt("read", path, () => Deno.readTextFile(path));
  }

  openDevice(path: string): Device {
    return new DenoDevice(path);
  }

  realPath(path: string): Promise<string> {
    return attempt("find", path, () => Deno.realPath(path));
  }

  filesAt(path: string): Promise<readonly FoundFile[]> {
    return attempt("list", path, () => foundAt(path, ""));
  }

  async *readPieces(path: string): AsyncGenerator<Uint8Array> {
    using file = await attempt("read", path, () => Deno.open(path));
    const buffer = new Uint8Array(PIECE_BYTES);
    for (;;) {
      const length = await attempt("read", path, () => file.read(buffer));
      if (length === null) return;
      yield buffer.slice(0, length);
    }
  }

  readFolder(path: string): Promise<string[]> {
    return attempt("list", path, async () => {
      const names: string[] = [];
      for await (const entry of Deno.readDir(path)) names.push(entry.name);
      return names.sort();
    });
  }

  writeFile(path: string, content: string | Uint8Array, { mode = 0o644 } = {}): Promise<void> {
    return attempt("write", path, async () => {
      const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
      const temporary = `${path}.${crypto.randomUUID().slice(0, 8)}.tmp`;
      try {
        using file = await Deno.open(temporary, { write: true, createNew: true, mode });
        for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
        await file.sync();
      } catch (error) {
        await Deno.remove(temporary).catch(() => {});
        throw error;
      }
      await Deno.rename(temporary, path);
      await this.#syncFolder(path);
    });
  }

  async fileSize(path: string): Promise<number | undefined> {
    try {
      return (await Deno.stat(path)).size;
    } catch {
      return undefined;
    }
  }

  makeFolder(path: string): Promise<void> {
    return attempt("make", path, () => Deno.mkdir(path, { recursive: true }));
  }

  openAppend(path: string): AppendFile {
    return attemptNow("append to", path, () => {
      Deno.mkdirSync(folderOf(path), { recursive: true });
      return new DenoAppendFile(path);
    });
  }

  moveFile(from: string, to: string): void {
    attemptNow("rename", from, () => Deno.renameSync(from, to));
  }

  emptyFile(path: string): void {
    attemptNow("empty", path, () => Deno.truncateSync(path));
  }

  removeFile(path: string): void {
    attemptNow("remove", path, () => Deno.removeSync(path));
  }

  write(text: string): void {
    writeAll(Deno.stdout, new TextEncoder().encode(escaped(text)));
  }

  writeError(text: string): void {
    writeAll(Deno.stderr, new TextEncoder().encode(escaped(text)));
  }

  draw(text: string): void {
    writeAll(Deno.stderr, new TextEncoder().encode(text));
  }

  coloured(): boolean {
    return Deno.stdout.isTerminal() && !Deno.env.get("NO_COLOR") && Deno.env.get("TERM") !== "dumb";
  }

  watchFile(path: string, changed: () => void): () => void {
    const steps = stepsTo(path);
    const watchers = [...new Set([...steps].map(dirname))].flatMap((folder) => {
      const watcher = watchFolder(folder);
      if (watcher) hear(watcher, folder, steps, changed).catch(changed);
      return watcher ?? [];
    });
    return () => {
      for (const watcher of watchers) watcher.close();
    };
  }

  onTermination(run: (signal: string) => void): () => void {
    const signals: Deno.Signal[] = Deno.build.os === "windows"
      ? ["SIGINT", "SIGBREAK"]
      : ["SIGINT", "SIGTERM"];
    const listeners = signals.map((signal) => ({ signal, listener: () => run(signal) }));
    for (const { signal, listener } of listeners) Deno.addSignalListener(signal, listener);
    return () => {
      for (const { signal, listener } of listeners) Deno.removeSignalListener(signal, listener);
    };
  }

  usage(): { residentBytes: number; heapUsedBytes: number; cpuUs: number } {
    const { rss: residentBytes, heapUsed: heapUsedBytes } = Deno.memoryUsage();
    const { user, system } = cpuUsage();
    return { residentBytes, heapUsedBytes, cpuUs: user + system };
  }

  spawn(command: ProcessCommand): RunningProcess {
    return attemptNow("run", command.command, () => new DenoProcess(command));
  }

  pipe(command: ProcessCommand): PipedProcess {
    return attemptNow("run", command.command, () => new DenoPipedProcess(command));
  }

  async findMarked(name: string, value: string, clock: Clock, until: AbortSignal): Promise<FoundProcess[]> {
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

  /** Makes a rename durable; Windows has no such call and needs none. */
  async #syncFolder(path: string): Promise<void> {
    if (Deno.build.os === "windows") return;
    using folder = await Deno.open(folderOf(path));
    await folder.sync();
  }
}

class DenoAppendFile implements AppendFile {
  readonly sizeBytes: number;
  readonly endsLine: boolean;
  readonly regular: boolean;
  readonly #file: Deno.FsFile;

  constructor(private readonly path: string) {
    this.#file = Deno.openSync(path, { read: true, append: true, create: true, mode: 0o640 });
    const { size, isFile } = this.#file.statSync();
    this.sizeBytes = size;
    this.regular = isFile;
    const last = new Uint8Array(1);
    if (size > 0) {
      this.#file.seekSync(-1, Deno.SeekMode.End);
      this.#file.readSync(last);
    }
    this.endsLine = size === 0 || last[0] === 10;
  }

  append(bytes: Uint8Array): void {
    attemptNow("append to", this.path, () => writeAll(this.#file, bytes));
  }

  close(): void {
    this.#file.close();
  }
}

/**
 * Runs its arguments as the leader of its group, beside a watch that kills the group when our end of the pipe closes:
 * the pipe closes with us, whatever became of us.
 */
const LEASH = `exec 3<&0; ( ( cat <&3; kill -KILL 0 ) >/dev/null 2>&1 & ); exec "$@" </dev/null 3<&-`;

class DenoProcess implements RunningProcess {
  readonly pid: number;
  readonly stdout: AsyncIterable<string>;
  readonly stderr: AsyncIterable<string>;
  readonly exited: Promise<Exit>;
  readonly #grouped: boolean;
  #exited = false;

  constructor(wanted: ProcessCommand) {
    const { command, args = [], env, bare, cwd, ownGroup, inheritOutput } = wanted;
    const unix = Deno.build.os !== "windows";
    const leashed = wanted.leash === true && unix;
    const errorFile = unix ? wanted.errorFile : undefined;
    this.#grouped = (ownGroup || leashed) && unix;
    const script = `${leashed ? LEASH : 'exec "$@"'}${errorFile === undefined ? "" : ' 2>>"$0"'}`;
    const shell = leashed || errorFile !== undefined;
    const child = new Deno.Command(shell ? "sh" : command, {
      args: shell ? ["-c", script, errorFile ?? command, command, ...args] : [...args],
      env: { ...env },
      clearEnv: bare,
      cwd,
      stdin: leashed ? "piped" : "null",
      stdout: inheritOutput ? "inherit" : "piped",
      stderr: inheritOutput ? "inherit" : "piped",
      detached: this.#grouped,
    }).spawn();
    this.pid = child.pid;
    this.stdout = inheritOutput ? NO_LINES : linesOf(child.stdout);
    this.stderr = inheritOutput ? NO_LINES : linesOf(child.stderr);
    this.exited = child.status.then(async ({ code, signal }) => {
      this.#exited = true;
      if (leashed) await child.stdin.close().catch(() => {});
      return { code, signal: signal ?? undefined };
    });
  }

  signal(name: Signal, { group = false } = {}): void {
    if (this.#exited && !(group && this.#grouped)) return;
    try {
      Deno.kill(group && this.#grouped ? -this.pid : this.pid, name);
    } catch (error) {
      // It has exited, and so has its group.
      if (!(error instanceof Deno.errors.NotFound) && !this.#exited) {
        throw failure("signal", String(this.pid), error);
      }
    }
  }
}

/** Its standard input is a pipe, which closes with us; so it needs no leash. */
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
      cwd,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
      detached: grouped,
    }).spawn();
    this.pid = child.pid;
    this.output = child.stdout;
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
      if (!(error instanceof Deno.errors.NotFound)) throw failure("signal", String(this.pid), error);
    }
  }
}

const NO_LINES: AsyncIterable<string> = { async *[Symbol.asyncIterator]() {} };

/** How often a process that is not our child is looked at. */
const LOOK_MS = 500;

/** One that somebody else started: known by its number and its start, for numbers are used again. */
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
      if (!(error instanceof Deno.errors.NotFound)) throw failure("signal", String(this.pid), error);
    }
  }

  #alive(): boolean {
    return procStat(this.pid)?.started === this.started;
  }
}

/** What Linux tells of a process: its group, and when it began (proc(5)). Nothing of one that only waits for its parent. */
function procStat(pid: number): { group: number; started: string } | undefined {
  try {
    const text = Deno.readTextFileSync(`/proc/${pid}/stat`);
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? undefined : { group: Number(fields[2]), started: fields[19] };
  } catch {
    return undefined;
  }
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

/** Links in a circle have no end. */
const LINKS_MAX = 40;

/** The entries of folders that decide what `path` reads: every link on the way, and the file at its end. */
function stepsTo(path: string): Set<string> {
  const steps = new Set<string>();
  let at = parse(resolve(path)).root;
  const names = resolve(path).slice(at.length).split(sep);
  for (let name = names.shift(), links = 0; name !== undefined; name = names.shift()) {
    const next = join(at, name);
    const target = links < LINKS_MAX ? linkAt(next) : undefined;
    if (target === undefined) at = next;
    else {
      links++;
      steps.add(next);
      const { root } = parse(target);
      if (isAbsolute(target)) at = root;
      names.unshift(...target.slice(root.length).split(sep));
    }
  }
  return steps.add(at);
}

function linkAt(path: string): string | undefined {
  try {
    return Deno.readLinkSync(path);
  } catch {
    return undefined;
  }
}

function watchFolder(path: string): Deno.FsWatcher | undefined {
  try {
    return Deno.watchFs(path, { recursive: false });
  } catch {
    return undefined;
  }
}

async function hear(watcher: Deno.FsWatcher, folder: string, steps: Set<string>, changed: () => void) {
  for await (const { kind, paths } of watcher) {
    const concerns = paths.length === 0 || paths.some((path) => path === folder || steps.has(path));
    if (kind !== "access" && concerns) changed();
  }
}

function writeAll(stream: { writeSync(bytes: Uint8Array): number }, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) at += stream.writeSync(bytes.subarray(at));
}

/** `name`: of what is there, seen from the folder that was asked for; empty for that itself. */
async function foundAt(path: string, name: string): Promise<FoundFile[]> {
  const { isFile, isDirectory, size, mtime } = await (name === "" ? Deno.stat(path) : Deno.lstat(path));
  if (isFile) {
    return [{ path, name: name || basename(path), sizeBytes: size, modifiedMs: mtime?.getTime() ?? 0 }];
  }
  if (!isDirectory) return [];
  const entries = await Array.fromAsync(Deno.readDir(path), (entry) => entry.name);
  const found: FoundFile[] = [];
  for (const entry of entries.sort()) {
    found.push(...await foundAt(join(path, entry), name === "" ? entry : `${name}/${entry}`));
  }
  return found;
}

function folderOf(path: string): string {
  const slash = Math.max(path.lastIndexOf("/"), Deno.build.os === "windows" ? path.lastIndexOf("\\") : -1);
  return slash < 0 ? "." : path.slice(0, slash) || "/";
}

async function attempt<T>(verb: string, path: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw failure(verb, path, error);
  }
}

function attemptNow<T>(verb: string, path: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw failure(verb, path, error);
  }
}

function failure(verb: string, path: string, error: unknown): SvcError {
  const code: Code = error instanceof Deno.errors.NotFound
    ? "not_found"
    : error instanceof Deno.errors.PermissionDenied
    ? "permission_denied"
    : (error as { code?: string }).code === "ENOSPC"
    ? "resource_exhausted"
    : "unknown";
  const why = code === "not_found"
    ? "it does not exist"
    : error instanceof Deno.errors.IsADirectory
    ? "it is a folder"
    : messageOf(error);
  return new SvcError(code, `cannot ${verb} "${path}": ${why}`, { cause: error });
}
