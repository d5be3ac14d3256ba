/**
 * The runtime as the agent runs it: one `svc-server` process, kept running for as long as it is wanted.
 *
 * Owns the process and its end. Promises: what exits is started again, after a pause that the version's record
 * decides; what does not get ready in its time is killed and started again; so is what no longer answers at all; and
 * one that was left behind by an earlier agent is taken over rather than started a second time.
 *
 * The room owns svc-server as a process of the agent: its start, health, logs and end, and the socket by which people
 * ask the agent.
 */

import { createHash } from "node:crypto";
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
import type { Probe } from "./probe.ts";

/** What of the version's record is needed to run it. */
export interface Boots {
  /** What to start next, and after which pause; a start counts from here. Nothing is installed yet: `undefined`. */
  boot(): Promise<{ readonly file: string; readonly path: string; readonly delayMs: number } | undefined>;
  /** The file that is meant to run, whatever `boot` makes of it. */
  current(): Promise<string | undefined>;
  /** It ran well: its failed starts are forgotten. */
  settled(): Promise<void>;
  /** Does something while nobody decides about versions, and no other such work goes on. */
  alone<T>(work: () => Promise<T>): Promise<T>;
}

export interface RuntimeSettings {
  readonly enabled: boolean;
  readonly startTimeoutMs: number;
  /** Variables of its environment besides the agent's own. */
  readonly env: { readonly [name: string]: string };
}

export interface RuntimeProcessParts {
  /** The agent's folder. */
  readonly base: string;
  /** What it is started with. */
  readonly args: readonly string[];
  readonly boots: Boots;
  readonly probe: Probe;
  readonly processes: ProcessHost;
  readonly host: ReadFiles & WriteFiles & LogFiles;
  readonly clock: Clock;
  readonly logger: Logger;
  /** What it writes to standard error. */
  readonly errors: Logger;
  /** Hears of every change of `state`. */
  readonly changed: () => void;
}

export interface RuntimeState {
  /** `waiting`: for the pause before the next start. */
  readonly phase: "stopped" | "waiting" | "starting" | "running" | "stopping";
  /** Of the version's file, in the cache. */
  readonly file?: string;
  readonly pid?: number;
  readonly url?: string;
  /** By the clock that never goes back. */
  readonly startedMs?: number;
  /** Since when it has answered without a break. */
  readonly healthySinceMs?: number;
  /** Times that it ended by itself or was killed for not answering, since the agent's start. */
  readonly failures: number;
  readonly lastFailure?: string;
  /** Its environment is another one than is wanted now. */
  readonly stale: boolean;
}

/** How long it may take to end before its whole group is killed; its own limit is shorter. */
const STOP_MS = 120_000;
/** How long a group that was killed may take to be gone. */
const KILLED_MS = 10_000;
const STARTING_LOOK_MS = 500;
const LOOK_MS = 5_000;
/** One that has not answered for as long hangs. Long, for a computer may be very busy. */
const SILENCE_MS = 180_000;
/** How long after its start it is believed to run well. */
const SETTLED_MS = 60_000;
/** When nothing is installed yet. */
const NOTHING_MS = 5_000;
const ERROR_FILE_BYTES = 64 * 1024;
const ERROR_LINES_MAX = 100;
/** Of the last line, which mostly tells why it ended. */
const ERROR_CHARS = 300;

/** Marks our process among others, also for the next agent. */
export const MARK = "SVC_AGENT_RUNTIME";
const FILE_MARK = "SVC_AGENT_RUNTIME_FILE";
const ENV_MARK = "SVC_AGENT_RUNTIME_ENV";

const HANDLED = {
  SVC_AGENT_HANDLES_NEEDS_RESTART_CHECKING: "true",
  VIAM_AGENT_HANDLES_NEEDS_RESTART_CHECKING: "true",
};

/** Where the runtime is asked to tell where it serves. */
export function servingFile(base: string): string {
  return `${base}/state/serving.json`;
}

interface Child {
  readonly process: RunningProcess;
  readonly file: string;
  readonly env: string;
  /** When it was started, or found. */
  readonly sinceMs: number;
}

export class RuntimeProcess {
  readonly #parts: RuntimeProcessParts;
  #settings: RuntimeSettings;
  #state: RuntimeState = { phase: "stopped", failures: 0, stale: false };
  #child: Child | undefined;
  /** Why the process is to end, and who waits for that. */
  #ending: { readonly reason: string; readonly ended: PromiseWithResolvers<void> } | undefined;
  #leaving = false;
  /** What was found of an earlier agent is looked after as long. */
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

  /** Ends the process, for it to be started again, at once, if it is still wanted. Resolves when it is gone. */
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

  /** Takes over a process of an earlier agent. Of several one is kept: more than one was never meant to be. */
  async adopt(): Promise<void> {
    const { processes, base, clock, logger } = this.#parts;
    for (const { process, env } of await processes.findMarked(MARK, base, clock, this.#looking.signal)) {
      const file = env[FILE_MARK] ?? "";
      if (this.#child) {
        logger.warn("found a second svc-server of an earlier agent, it is ended", { pid: process.pid });
        process.signal("SIGKILL", { group: true });
        continue;
      }
      logger.info("svc-server is running already, it is taken over", { pid: process.pid, file });
      this.#adopted({ process, file, env: env[ENV_MARK] ?? "", sinceMs: clock.monotonicMs() });
    }
  }

  /** Keeps it running until the signal aborts; then ends it. `adopt` comes before, once. */
  async run(signal: AbortSignal): Promise<void> {
    const wake = () => {
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

  /** Starts it, or waits until there is a reason to look again. */
  async #begin(): Promise<void> {
    const { boots, logger, clock } = this.#parts;
    if (!this.#settings.enabled) return await this.#waker.sleep();
    const next = await boots.alone(async () => {
      const boot = await boots.boot();
      if (!boot) return undefined;
      const started = boot.delayMs === 0 ? await this.#start(boot) : undefined;
      return { ...boot, started, current: await boots.current().catch(() => undefined) };
    }).catch((error) => void logger.error(`cannot tell which svc-server to start: ${chainOf(error)}`));
    if (!next || next.started === false) return await this.#waker.sleep(NOTHING_MS);
    const { file, delayMs, current } = next;
    if (delayMs === 0) return;
    logger.warn(`svc-server is started again in ${Math.round(delayMs / 1000)} s`, { file });
    this.#set({ phase: "waiting", file });
    for (const untilMs = clock.monotonicMs() + delayMs; clock.monotonicMs() < untilMs;) {
      await this.#waker.sleep(untilMs - clock.monotonicMs());
      if (!this.#settings.enabled || this.#leaving) return;
      // Another version does not wait because this one fails.
      if (await boots.current().catch(() => current) !== current) return;
    }
    const started = await boots.alone(async () => {
      if (await boots.current().catch(() => current) === current) return await this.#start(next);
    });
    if (started === false) await this.#waker.sleep(NOTHING_MS);
  }

  /** Whether it could be started; nothing where it is not to be any more. */
  async #start({ file, path }: { file: string; path: string }): Promise<boolean | undefined> {
    const { base, args, processes, host, clock, logger } = this.#parts;
    try {
      await host.makeFolder(`${base}/state`);
      for (const left of [servingFile(base), errorFile(base)]) {
        if (await host.fileSize(left) !== undefined) host.removeFile(left);
      }
      const { enabled, env } = this.#settings;
      if (!enabled || this.#leaving) return undefined;
      const marks = { [MARK]: base, [FILE_MARK]: file, [ENV_MARK]: hashOf(env) };
      const process = processes.spawn({
        command: path,
        args,
        cwd: base,
        env: { ...HANDLED, SVC_SERVING_FILE: servingFile(base), ...env, ...marks },
        ownGroup: true,
        // It outlives the agent, so that an update of the agent does not interrupt it.
        inheritOutput: true,
        errorFile: errorFile(base),
      });
      logger.info("svc-server is started", { pid: process.pid, file });
      this.#adopted({ process, file, env: hashOf(env), sinceMs: clock.monotonicMs() });
      return true;
    } catch (error) {
      this.#failed(`cannot be started: ${chainOf(error)}`);
      return false;
    }
  }

  #adopted(child: Child): void {
    this.#child = child;
    this.#lastError = undefined;
    const { file, sinceMs: startedMs, process: { pid } } = child;
    const stale = child.env !== hashOf(this.#settings.env);
    this.#set({ phase: "starting", file, pid, startedMs, url: undefined, healthySinceMs: undefined, stale });
  }

  /** Stays with a process to its end. */
  async #watch(child: Child): Promise<void> {
    const { clock, probe } = this.#parts;
    let exit: Exit | undefined;
    child.process.exited.then((found) => {
      exit = found;
      this.#waker.wake();
    }, () => {});
    let settled = false;
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
      } else if (this.#state.healthySinceMs !== undefined) this.#set({ healthySinceMs: undefined });
      const late = this.#lateness(nowMs - (this.#state.phase === "starting" ? child.sinceMs : answeredMs));
      if (late) {
        this.#failed(late);
        await this.#kill(child);
        return this.#gone();
      }
      this.#tellErrors();
      await this.#waker.sleep(this.#state.phase === "starting" ? STARTING_LOOK_MS : LOOK_MS);
    }
    if (this.#leaving && !exit) return;
    if (exit && !this.#ending) {
      await this.#tellErrors();
      const said = this.#lastError === undefined ? "" : `: ${this.#lastError}`;
      this.#failed(`ended by itself, ${describe(exit)}${said}`);
    }
    this.#gone();
  }

  /** What is wrong with having said nothing for so long. */
  #lateness(silentMs: number): string | undefined {
    const { startTimeoutMs } = this.#settings;
    if (this.#state.phase === "starting" && silentMs >= startTimeoutMs) {
      return `did not get ready within ${startTimeoutMs / 60_000} minutes and is killed`;
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
    this.#tellErrors();
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

  /** Passes on what it has written to standard error, and makes room for more. */
  #tellErrors(): Promise<void> {
    const { host, base, errors } = this.#parts;
    const path = errorFile(base);
    return this.#telling = this.#telling.then(async () => {
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
  #telling = Promise.resolve();
  #lastError: string | undefined;

  #set(change: Partial<RuntimeState>): void {
    this.#state = { ...this.#state, ...change };
    this.#parts.changed();
  }
}

function errorFile(base: string): string {
  return `${base}/state/svc-server.stderr`;
}

/** Tells environments apart without showing what is in them. */
function hashOf(env: { readonly [name: string]: string }): string {
  return createHash("sha256").update(JSON.stringify(Object.entries(env).sort())).digest("hex").slice(0, 16);
}

function describe({ code, signal }: Exit): string {
  if (signal) return `by ${signal}`;
  return code === EXIT_UNKNOWN ? "nobody knows how" : `with exit code ${code}`;
}
