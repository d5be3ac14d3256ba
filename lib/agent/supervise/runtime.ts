/**
 * Supervises the runtime: one `svc-server` process, which runs as long as the settings require it.
 *
 * Owns the process and its end. A runtime that exits starts again after the pause that its version's record decides. A
 * runtime that is not ready in time, or stops answering, is killed and starts again. If an earlier agent has left a
 * runtime behind, the agent takes it over instead of starting another one.
 *
 * The room owns the programs that are kept running, svc-server and, on Windows, the agent: their start, health, logs
 * and end.
 */

import { createHash } from "node:crypto";
import { SerialQueue } from "../../base/async/serial_queue.ts";
import type { LogFiles, ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { type Clock, Waker } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import {
  endsWithin,
  type Exit,
  EXIT_UNKNOWN,
  type ProcessHost,
  type RunningProcess,
} from "../../base/process.ts";
import { RUNTIME_MARK } from "../system/service_unit.ts";
import type { Probe } from "./probe.ts";

/** The part of the version's record that a start needs. */
export interface Boots {
  /** The next file to start, and the pause before it; counts a start. `undefined` if nothing is installed yet. */
  boot(): Promise<{ readonly file: string; readonly path: string; readonly delayMs: number } | undefined>;
  /** The file that should run, whatever `boot` chooses. */
  current(): Promise<string | undefined>;
  /** The runtime works: clears its count of failed starts. */
  settled(): Promise<void>;
  /** It ended by itself, or hung, soon after it had worked; `how` says how. */
  endedLate(file: string, how: string): Promise<void>;
  /** It has worked for long. */
  lasted(file: string): Promise<void>;
  /** Runs `work` alone: no decision about versions and no other such work overlaps it. */
  alone<T>(work: () => Promise<T>): Promise<T>;
}

export interface RuntimeSettings {
  readonly enabled: boolean;
  readonly startTimeoutMs: number;
  /** Environment variables in addition to the agent's own. */
  readonly env: { readonly [name: string]: string };
}

export interface RuntimeProcessParts {
  /** The agent's folder. */
  readonly base: string;
  /** The agent's folder in memory, if the system gives it one. */
  readonly run: string;
  /** Arguments of the process. */
  readonly args: readonly string[];
  readonly boots: Boots;
  readonly probe: Probe;
  readonly processes: ProcessHost;
  readonly host: ReadFiles & WriteFiles & LogFiles;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Receives the lines of its standard error. */
  readonly errors: Logger;
  /** Called at every change of `state`. */
  readonly changed: () => void;
}

export interface RuntimeState {
  /** `waiting`: in the pause before the next start. */
  readonly phase: "stopped" | "waiting" | "starting" | "running" | "stopping";
  /** Name of the version's file in the cache. */
  readonly file?: string;
  readonly pid?: number;
  readonly url?: string;
  /** Monotonic. */
  readonly startedMs?: number;
  /** Start of its present unbroken health. */
  readonly healthySinceMs?: number;
  /** How often it has ended by itself or been killed for not answering, since the agent's start. */
  readonly failures: number;
  readonly lastFailure?: string;
  /** Whether the process has another environment than the settings now define. */
  readonly stale: boolean;
}

/** Time for an orderly end before the whole process group is killed; the runtime's own limit is shorter. */
const STOP_MS = 120_000;
/** Time for a killed group to disappear. */
const KILLED_MS = 10_000;
const STARTING_LOOK_MS = 500;
const LOOK_MS = 5_000;
/** A runtime that is silent for this long hangs. The time is long because a computer may be very busy. */
const SILENCE_MS = 180_000;
/** Time after its start at which a healthy runtime counts as working. */
const SETTLED_MS = 60_000;
/** A runtime that ends by itself before this time, but after it worked, may have a fault that shows late. */
const LASTING_MS = 30 * 60_000;
/** Interval of checks while nothing is installed yet. */
const NOTHING_MS = 5_000;
const ERROR_FILE_BYTES = 64 * 1024;
const ERROR_LINES_MAX = 100;
/** Limit of the quoted last line, which usually says why the process ended. */
const ERROR_CHARS = 300;

const FILE_MARK = "SVC_AGENT_RUNTIME_FILE";
const ENV_MARK = "SVC_AGENT_RUNTIME_ENV";

const HANDLED = {
  SVC_AGENT_HANDLES_NEEDS_RESTART_CHECKING: "true",
  VIAM_AGENT_HANDLES_NEEDS_RESTART_CHECKING: "true",
};

/** Variables by which the system, Deno or a shell loads other code, and those that move the home of packages. */
const LOADING =
  /^((LD|DYLD)_.*|GLIBC_TUNABLES|GCONV_PATH|BASH_ENV|ENV|PATH|HOME|USERPROFILE|(SVC|VIAM)_HOME|NODE_.*|DENO_(?!CERT$|TLS_).*)$/i;

/** The file to which the runtime writes its URL, in the folder in memory: a full disk must not make it look dead. */
export function servingFile(run: string): string {
  return `${run}/serving.json`;
}

/** The file of public keys that sign releases and packages. The runtime receives its path and checks its packages by it. */
export function releaseKeysFile(base: string): string {
  return `${base}/etc/release_keys.json`;
}

interface Child {
  readonly process: RunningProcess;
  readonly file: string;
  readonly env: string;
  /** Time of its start, or of finding it. */
  readonly sinceMs: number;
}

export class RuntimeProcess {
  readonly #parts: RuntimeProcessParts;
  #settings: RuntimeSettings;
  #state: RuntimeState = { phase: "stopped", failures: 0, stale: false };
  #child: Child | undefined;
  /** Why the process has to end, and who waits for its end. */
  #ending: { readonly reason: string; readonly ended: PromiseWithResolvers<void> } | undefined;
  #leaving = false;
  /** Whether the agent stops, so that nothing is started any more. */
  #isStopping = false;
  /** Ends the watch over a runtime of an earlier agent. */
  readonly #looking = new AbortController();
  readonly #waker: Waker;

  constructor(parts: RuntimeProcessParts, settings: RuntimeSettings) {
    this.#parts = parts;
    this.#waker = new Waker(parts.clock);
    this.#settings = settings;
  }

  get state(): RuntimeState {
    return this.#state;
  }

  configure(settings: RuntimeSettings): void {
    this.#settings = settings;
    this.#set({ stale: this.#child !== undefined && this.#child.env !== hashOf(settings.env) });
    if (!settings.enabled) void this.restart("it is disabled");
    this.#waker.wake();
  }

  /** Ends the process; if it is still wanted, it starts again at once. Resolves when the process is gone. */
  restart(reason: string): Promise<void> {
    if (!this.#child) {
      this.#waker.wake();
      return Promise.resolve();
    }
    this.#ending ??= { reason, ended: Promise.withResolvers<void>() };
    this.#waker.wake();
    return this.#ending.ended.promise;
  }

  /** Makes `run` return and leaves the process to the next agent. */
  leave(): void {
    this.#leaving = true;
    this.#waker.wake();
  }

  /** Takes over the process of an earlier agent. If there are several, it keeps one and ends the others. */
  async adopt(): Promise<void> {
    const { processes, base, clock, logger } = this.#parts;
    for (
      const { process, env } of await processes.findMarked(RUNTIME_MARK, base, clock, this.#looking.signal)
    ) {
      const file = env[FILE_MARK] ?? "";
      if (this.#child) {
        logger.warn("found a second svc-server of an earlier agent; ending it", { pid: process.pid });
        process.signal("SIGKILL", { group: true });
        continue;
      }
      logger.info("svc-server is running already; taking it over", { pid: process.pid, file });
      this.#adopted({ process, file, env: env[ENV_MARK] ?? "", sinceMs: clock.monotonicMs() });
    }
  }

  /** Keeps the runtime running until the signal aborts, then ends it. Call `adopt` once before. */
  async run(signal: AbortSignal): Promise<void> {
    const wake = () => {
      this.#isStopping = true;
      if (this.#child) void this.restart("the agent stops");
      this.#waker.wake();
    };
    signal.addEventListener("abort", wake);
    try {
      while (!this.#leaving && (this.#child || !signal.aborted)) {
        if (signal.aborted) wake();
        if (this.#child) await this.#watch(this.#child);
        else await this.#begin();
      }
    } finally {
      this.#looking.abort();
      signal.removeEventListener("abort", wake);
    }
  }

  /** Starts the process, or waits for a reason to try again. */
  async #begin(): Promise<void> {
    const { boots, logger, clock } = this.#parts;
    if (!this.#settings.enabled) return await this.#waker.sleep();
    const next = await boots.alone(async () => {
      const boot = await boots.boot();
      if (!boot) return undefined;
      const started = boot.delayMs === 0 ? await this.#start(boot) : undefined;
      return { ...boot, started, current: await boots.current().catch(() => undefined) };
    }).catch((error) => void logger.error(`cannot decide which svc-server to start: ${chainOf(error)}`));
    if (!next || next.started === false) return await this.#waker.sleep(NOTHING_MS);
    const { file, delayMs, current } = next;
    if (delayMs === 0) return;
    logger.warn(`svc-server starts again in ${Math.round(delayMs / 1000)} s`, { file });
    this.#set({ phase: "waiting", file });
    const failing = hashOf(this.#settings.env);
    for (const untilMs = clock.monotonicMs() + delayMs; clock.monotonicMs() < untilMs;) {
      await this.#waker.sleep(untilMs - clock.monotonicMs());
      if (!this.#isWanted) return;
      // A change of the environment may fix the failure.
      if (hashOf(this.#settings.env) !== failing) break;
      // The pause is for this version's failures; another version starts at once.
      if (await boots.current().catch(() => current) !== current) return;
    }
    const started = await boots.alone(async () => {
      if (await boots.current().catch(() => current) === current) return await this.#start(next);
    });
    if (started === false) await this.#waker.sleep(NOTHING_MS);
  }

  /** Whether this agent may start the process. */
  get #isWanted(): boolean {
    return this.#settings.enabled && !this.#leaving && !this.#isStopping;
  }

  /** Whether the start succeeded; `undefined` if the runtime is no longer wanted. */
  async #start({ file, path }: { file: string; path: string }): Promise<boolean | undefined> {
    const { base, run, args, processes, clock, logger } = this.#parts;
    try {
      await this.#clearLast();
      if (!this.#isWanted) return undefined;
      const { env } = this.#settings;
      const allowed = await this.#dropRefused(env);
      const marks = { [RUNTIME_MARK]: base, [FILE_MARK]: file, [ENV_MARK]: hashOf(env) };
      const process = processes.spawn({
        command: path,
        args,
        cwd: base,
        env: {
          ...allowed,
          ...HANDLED,
          SVC_SERVING_FILE: servingFile(run),
          SVC_RELEASE_KEYS: releaseKeysFile(base),
          ...marks,
        },
        ownGroup: true,
        // The process outlives the agent, so that an update of the agent does not interrupt it.
        inheritOutput: true,
        errorFile: this.#errorFileNow(),
        // The agent's protection is not for the memory of modules: the system's network would be ended before them.
        oomScoreMin: 0,
      });
      logger.info("svc-server is started", { pid: process.pid, file });
      this.#adopted({ process, file, env: hashOf(env), sinceMs: clock.monotonicMs() });
      return true;
    } catch (error) {
      this.#failed(`cannot be started: ${chainOf(error)}`);
      return false;
    }
  }

  /**
   * The configured variables. On a device with pinned keys, variables that load code into the signed program, or lead
   * it to other packages, are left out.
   */
  async #dropRefused(env: RuntimeSettings["env"]): Promise<RuntimeSettings["env"]> {
    const { base, host, logger } = this.#parts;
    if (!await host.stat(releaseKeysFile(base))) return env;
    const refused = Object.keys(env).filter((name) => LOADING.test(name));
    for (const name of refused) {
      const advice =
        "this device runs only signed programs; if a module needs it, set it in the module's env";
      logger.warn(`viam_server_env: ${name} is ignored, because it may load other programs: ${advice}`);
    }
    return Object.fromEntries(Object.entries(env).filter(([name]) => !LOADING.test(name)));
  }

  /** Removes the files of the last process. A full or read-only disk does not prevent the start. */
  async #clearLast(): Promise<void> {
    const { base, run, host, logger } = this.#parts;
    try {
      for (const folder of [run, `${base}/state`]) await host.makeFolder(folder);
      for (const left of [servingFile(run), errorFile(base)]) {
        if (await host.fileSize(left) !== undefined) host.removeFile(left);
      }
    } catch (error) {
      logger.warn(chainOf(error));
    }
  }

  /**
   * The file for its standard error; `undefined` if the disk refuses it, because the process could not start with it.
   */
  #errorFileNow(): string | undefined {
    const { base, host, logger } = this.#parts;
    try {
      host.openAppend(errorFile(base)).close();
      return errorFile(base);
    } catch (error) {
      logger.warn(`the standard error of svc-server goes to that of the agent: ${chainOf(error)}`);
      return undefined;
    }
  }

  #adopted(child: Child): void {
    this.#child = child;
    this.#lastError = undefined;
    const { file, sinceMs: startedMs, process: { pid } } = child;
    const stale = child.env !== hashOf(this.#settings.env);
    this.#set({ phase: "starting", file, pid, startedMs, url: undefined, healthySinceMs: undefined, stale });
  }

  /** Watches a process until its end. */
  async #watch(child: Child): Promise<void> {
    const { clock, probe, boots, logger } = this.#parts;
    let exit: Exit | undefined;
    child.process.exited.then((found) => {
      exit = found;
      this.#waker.wake();
    }, () => {});
    let [settled, lasting] = [false, false];
    const endsLate = async (how: string) => {
      if (!settled || lasting) return;
      await boots.endedLate(child.file, how).catch((error) => logger.warn(chainOf(error)));
    };
    for (let answeredMs = child.sinceMs; !exit && !this.#leaving;) {
      if (this.#ending) return await this.#end(child, this.#ending.reason);
      const url = await probe.serving().catch(() => undefined);
      const nowMs = clock.monotonicMs();
      if (exit) break;
      if (url) {
        answeredMs = nowMs;
        const { healthySinceMs = nowMs, phase } = this.#state;
        if (phase === "starting") this.#parts.logger.info("svc-server is ready", { url });
        this.#set({ phase: "running", url, healthySinceMs });
        if (!settled && nowMs - healthySinceMs >= SETTLED_MS) {
          settled = true;
          await this.#parts.boots.settled();
        }
        if (settled && !lasting && nowMs - child.sinceMs >= LASTING_MS) {
          lasting = true;
          await boots.lasted(child.file).catch((error) => logger.warn(chainOf(error)));
        }
      } else if (this.#state.healthySinceMs !== undefined) this.#set({ healthySinceMs: undefined });
      const late = this.#lateness(nowMs - (this.#state.phase === "starting" ? child.sinceMs : answeredMs));
      if (late) {
        this.#failed(late);
        await this.#kill(child);
        await endsLate(late);
        return this.#gone();
      }
      void this.#tellErrors();
      await this.#waker.sleep(this.#state.phase === "starting" ? STARTING_LOOK_MS : LOOK_MS);
    }
    if (this.#leaving && !exit) return;
    if (exit && !this.#ending) {
      await this.#tellErrors();
      const output = this.#lastError === undefined ? "" : `: ${this.#lastError}`;
      const how = `ended by itself, ${describe(exit)}${output}`;
      this.#failed(how);
      if (isCrash(exit)) await endsLate(how);
    }
    this.#gone();
  }

  /** Why a silence of this length is too long; `undefined` if it is not. */
  #lateness(silentMs: number): string | undefined {
    const { startTimeoutMs } = this.#settings;
    if (this.#state.phase === "starting" && silentMs >= startTimeoutMs) {
      return `was not ready within ${startTimeoutMs / 60_000} minutes and is killed`;
    }
    if (this.#state.phase === "running" && silentMs >= SILENCE_MS) {
      return `has not answered for ${SILENCE_MS / 1000} s and is killed`;
    }
    return undefined;
  }

  async #end(child: Child, reason: string): Promise<void> {
    const { logger, boots } = this.#parts;
    logger.info(`svc-server is stopped: ${reason}`, { pid: child.process.pid });
    this.#set({ phase: "stopping" });
    child.process.signal("SIGTERM");
    if (!await endsWithin(child.process.exited, this.#parts.clock, STOP_MS)) {
      logger.warn(`svc-server did not end within ${STOP_MS / 1000} s and is killed`, {
        pid: child.process.pid,
      });
      await this.#kill(child);
    } else {
      child.process.signal("SIGKILL", { group: true });
      await boots.settled().catch((error) => logger.warn(chainOf(error)));
    }
    this.#gone();
  }

  async #kill(child: Child): Promise<void> {
    child.process.signal("SIGKILL", { group: true });
    if (!await endsWithin(child.process.exited, this.#parts.clock, KILLED_MS)) {
      this.#parts.logger.error("svc-server cannot be killed: the system does not end it", {
        pid: child.process.pid,
      });
    }
  }

  #gone(): void {
    void this.#tellErrors();
    this.#child = undefined;
    const ending = this.#ending;
    this.#ending = undefined;
    this.#set({
      phase: "stopped",
      pid: undefined,
      url: undefined,
      startedMs: undefined,
      healthySinceMs: undefined,
    });
    ending?.ended.resolve();
  }

  #failed(what: string): void {
    this.#parts.logger.warn(`svc-server ${what}`, { file: this.#state.file });
    this.#set({ failures: this.#state.failures + 1, lastFailure: what });
  }

  /** Logs the lines of its standard error, and truncates the file. */
  #tellErrors(): Promise<void> {
    const { host, base, errors } = this.#parts;
    const path = errorFile(base);
    return this.#errorLines.run(async () => {
      const size = await host.fileSize(path);
      if (!size) return;
      const text = size > ERROR_FILE_BYTES ? `(${size} bytes, left out)` : await host.readTextFile(path);
      host.emptyFile(path);
      const lines = text.split("\n").filter((line) => line.trim() !== "");
      for (const line of lines.slice(0, ERROR_LINES_MAX)) errors.warn(line);
      this.#lastError = lines.at(-1)?.slice(0, ERROR_CHARS);
      if (lines.length > ERROR_LINES_MAX) errors.warn(`(${lines.length - ERROR_LINES_MAX} more lines)`);
    }).catch((error) => errors.debug(chainOf(error)));
  }
  readonly #errorLines = new SerialQueue();
  #lastError: string | undefined;

  #set(change: Partial<RuntimeState>): void {
    this.#state = { ...this.#state, ...change };
    this.#parts.changed();
  }
}

function errorFile(base: string): string {
  return `${base}/state/svc-server.stderr`;
}

/** Compares environments without showing their values. */
function hashOf(env: { readonly [name: string]: string }): string {
  return createHash("sha256").update(JSON.stringify(Object.entries(env).sort())).digest("hex").slice(0, 16);
}

/** Not an end that somebody asked for, nor one for want of memory, which says nothing of the version. */
function isCrash({ code, signal }: Exit): boolean {
  if (signal) return !["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"].includes(signal);
  return code !== 0 && code !== EXIT_UNKNOWN;
}

function describe({ code, signal }: Exit): string {
  if (signal) return `by ${signal}`;
  return code === EXIT_UNKNOWN ? "nobody knows how" : `with exit code ${code}`;
}
