/**
 * One module of the configuration, kept running as long as the configuration names it.
 *
 * Owns the module's process and its state. A module that ends by itself starts again: at once after its first failure,
 * and after growing pauses if it keeps failing. Meanwhile its models stay known, with the reason why they are unusable.
 */

import { backoffMs } from "../../base/async/backoff.ts";
import type {
  Environment,
  LoopbackPeers,
  Platform,
  WholeEnvironment,
  WorkingFolder,
} from "../../base/host.ts";
import type { LinkFiles, ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { type Clock, Waker } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Level, Logger, Logs } from "../../base/log/log.ts";
import type { ProcessCommand, ProcessTable, SpawnHost } from "../../base/process.ts";
import { formatDuration } from "../../base/schema/schema.ts";
import type { AnyApi, Registry } from "../../resource/registry.ts";
import type { ModuleConfig, ResourceConfig } from "../config/config.ts";
import type { Activities } from "../../base/log/activities.ts";
import { commandOf, dataFolder, type MachineIdentity } from "./launch.ts";
import { ModuleModels, type Offer } from "./models.ts";
import type { ModuleGroups } from "./groups.ts";
import { findProgram, firstRun } from "./program.ts";
import { ModuleProcess } from "./process.ts";
import type { ModuleParent } from "./parent.ts";
import type { ModuleLimits } from "./limits.ts";

export type ModuleState = "pending" | "starting" | "ready" | "unhealthy" | "closing";

export interface ModuleStatus {
  readonly name: string;
  readonly state: ModuleState;
  /** Why it does not run; cleared when it runs again. */
  readonly error?: string;
  /** Time of the last change of its state. */
  readonly updatedMs: number;
  readonly consecutiveFailures: number;
}

/** The settings whose change requires a new module. */
export interface WantedModule {
  readonly config: ModuleConfig;
  /** The installed version of its package, if its configuration gives a word or a range. */
  readonly release: string | undefined;
  readonly logLevel: Level | undefined;
  readonly machine: MachineIdentity | undefined;
  /** The machine records spans. */
  readonly tracing: boolean;
  readonly key: { readonly id: string; readonly key: string } | undefined;
}

export interface ModuleParts {
  readonly registry: Registry;
  readonly host:
    & SpawnHost
    & ProcessTable
    & LoopbackPeers
    & ReadFiles
    & WriteFiles
    & LinkFiles
    & Environment
    & WholeEnvironment
    & WorkingFolder
    & Platform;
  readonly clock: Clock;
  readonly logs: Logs;
  readonly activities?: Activities;
  /** The program's home folder. */
  readonly home: string;
  readonly parent: ModuleParent;
  readonly groups: ModuleGroups;
  readonly buildTimeoutMs: number;
  /** The environment forbids running programs: no module starts. */
  readonly untrusted?: boolean;
  readonly limits: ModuleLimits;
  /** Rejects with the reason while the program's package is not there yet. */
  readonly required?: (config: ModuleConfig) => Promise<void>;
}

/** The libraries of others ask nobody who calls, and no right of an ordinary program closes a TCP port to other users. */
const OPEN_TO_ALL =
  "this module serves on a TCP port, as tcp_mode says: if its library does not check its callers, programs of every " +
  "user of this computer reach it without a key; without tcp_mode it serves on a socket of this user alone";

export class Module {
  readonly #closed = new AbortController();
  /** Resolves when the module has ended for good. */
  readonly ended: Promise<void>;
  readonly #begun = Promise.withResolvers<void>();
  readonly #logger: Logger;
  readonly #pause: Waker;
  #status: ModuleStatus;
  #isBegun = false;
  #process: ModuleProcess | undefined;
  /** The models of the newest run that was ready. */
  #models: ModuleModels | undefined;

  /** The module starts when `before` resolves: its predecessor has then ended. */
  constructor(
    readonly wanted: WantedModule,
    private readonly parts: ModuleParts,
    private readonly changed: () => void,
    before: Promise<void>,
  ) {
    const { name } = wanted.config;
    // Log patterns of the configuration refer to a module by its name alone.
    this.#logger = parts.logs.logger(`rdk.modmanager.${name}`, [name]);
    this.#pause = new Waker(parts.clock);
    this.#status = { name, state: "pending", updatedMs: parts.clock.nowMs(), consecutiveFailures: 0 };
    this.ended = before.then(() => this.#run());
  }

  get name(): string {
    return this.wanted.config.name;
  }

  get status(): ModuleStatus {
    return this.#status;
  }

  /** Whether the first attempt to start it has ended, either way, and no question to it is open. */
  get isSettled(): boolean {
    return this.#isBegun && (this.#status.state !== "ready" || this.#models?.isSettled === true);
  }

  /** Resolves when the first attempt to start it has ended. */
  get begun(): Promise<void> {
    return this.#begun.promise;
  }

  get foreignApis(): Iterable<AnyApi> {
    return this.#models?.foreignApis ?? [];
  }

  /** The process, if it is ready. */
  get process(): ModuleProcess | undefined {
    return this.#process;
  }

  /** The module's offer for a resource; `undefined` if the resource's model is not known to be the module's. */
  offer(resource: ResourceConfig): Offer | undefined {
    if (!this.#models?.has(resource.api, resource.model)) return undefined;
    const { state, error } = this.#status;
    if (state === "ready") return this.#models.offer(resource);
    return { kind: "problem", problem: error ?? `module "${this.name}" is ${state}` };
  }

  get models(): readonly { readonly api: string; readonly model: string }[] {
    return this.#process?.models ?? [];
  }

  keep(wanted: ReadonlyMap<string, string>): void {
    this.#models?.keep(wanted);
  }

  /** Announces its end; its resources can still be removed. */
  withdraw(): void {
    this.#set({ state: "closing" });
  }

  /** Ends the pause before the next start of a module that could not start. */
  retryNow(): void {
    if (this.#status.state === "unhealthy" || this.#status.state === "starting") this.#pause.wake();
  }

  /** Ends the module. Idempotent. */
  async close(): Promise<void> {
    this.withdraw();
    this.#closed.abort(new SvcError("canceled", `module "${this.name}" is no longer wanted`));
    this.#pause.wake();
    await this.ended;
  }

  /** Removes its data, once the configuration no longer names it. Never rejects. */
  async removeData(): Promise<void> {
    const { host, home } = this.parts;
    const folder = dataFolder(home, this.wanted.machine, this.name);
    await host.removeTree(folder).catch((error) =>
      this.#logger.warn(`cannot remove its data: ${chainOf(error)}`)
    );
  }

  async #run(): Promise<void> {
    const { settledMs, pauseMs, crashPauseMaxMs, startPauseMaxMs } = this.parts.limits;
    const { signal } = this.#closed;
    for (let failures = 0; !signal.aborted;) {
      const { reason, readyMs } = await this.#runOnce(signal);
      if (signal.aborted) break;
      failures = readyMs >= settledMs ? 1 : failures + 1;
      this.#fail(reason, failures);
      this.#setBegun();
      this.changed();
      if (failures === 1) continue;
      const mostMs = readyMs > 0 ? crashPauseMaxMs : startPauseMaxMs;
      const pause = backoffMs({ firstMs: pauseMs, mostMs, jitter: 0 }, failures - 1);
      this.#logger.info(`module "${this.name}" starts again in ${formatDuration(pause)}`);
      await this.#pause.sleep(pause);
    }

    await this.parts.groups.remove(this.wanted.config);
    this.#setBegun();
  }

  /** One run from its start to its end; returns why it ended, and how long it was ready. */
  async #runOnce(signal: AbortSignal): Promise<{ reason: string; readyMs: number }> {
    const { clock } = this.parts;
    let process: ModuleProcess | undefined;
    let sinceMs: number | undefined;
    try {
      process = await this.#start(signal);
      this.#models = await this.#learn(process);
      signal.throwIfAborted();
      sinceMs = clock.monotonicMs();
      this.#process = process;
      this.#logger.info(`module "${this.name}" is ready`, {
        pid: process.pid,
        models: process.models.length,
      });

      this.#set({ state: "ready", error: undefined, consecutiveFailures: 0 });
      this.#setBegun();
      this.changed();

      // Deno 2.7 forgets a signal made of both, which nobody else would hold.
      await Promise.race([aborted(process.ended), aborted(signal)]);
      throw process.ended.reason;
    } catch (error) {
      const readyMs = sinceMs === undefined ? 0 : clock.monotonicMs() - sinceMs;
      return { reason: chainOf(error), readyMs };
    } finally {
      this.#process = undefined;
      await process?.stop();
      await this.parts.groups.kill(this.wanted.config);
    }
  }

  async #start(signal: AbortSignal): Promise<ModuleProcess> {
    const { host, clock, home, parent, groups, limits, activities, untrusted } = this.parts;
    const { config, release, logLevel, machine, tracing, key } = this.wanted;
    const { name } = config;
    if (untrusted) {
      throw new SvcError("permission_denied", `module "${name}" is a program, which -untrusted-env disables`);
    }

    if (this.#status.state === "pending") this.#set({ state: "starting" });
    const ended = activities?.begin("module", { module: name });
    try {
      await this.parts.required?.(config);
      const program = await findProgram(config, home, host, release);
      const data = dataFolder(home, machine, name);
      await this.#makeDataFolder(data);

      const { own: address, parent: parentAddress } = await parent.addresses(name, config.tcpMode);
      if (config.tcpMode && host.platform().os !== "windows") this.#logger.warn(OPEN_TO_ALL, { address });
      const facts = { config, program, data, address, logLevel, home, machine, tracing, key };
      const within = (command: ProcessCommand) => groups.inLimits(command, config);
      const command = commandOf(facts, host);
      await firstRun(program, command, config, { host, clock, logger: this.#logger, within }, signal);

      const run = {
        name,
        command: await within(command),
        address,
        parentAddress,
        limits,
        host,
        clock,
        logger: this.#logger,
      };
      const process = await ModuleProcess.start(run, signal);
      ended?.();

      return process;
    } catch (error) {
      ended?.({ error: chainOf(error) });
      throw error;
    }
  }

  /** A module that keeps nothing works without a folder for its data. */
  async #makeDataFolder(data: string): Promise<void> {
    try {
      await this.parts.host.makeFolder(data, { mode: 0o750 });
    } catch (error) {
      this.#logger.warn(`module "${this.name}" starts without a folder for its data: ${chainOf(error)}`);
    }
  }

  #learn(process: ModuleProcess): Promise<ModuleModels> {
    const { registry, clock, buildTimeoutMs, limits } = this.parts;
    const logger = this.#logger;
    const changed = () => this.#process === process && this.changed();
    const { reconfigures } = this.wanted.config;
    const known = { name: this.name, reconfigures, buildTimeoutMs, limits };
    const parts = { ...known, process, registry, clock, logger, changed };
    return ModuleModels.learn(parts);
  }

  #fail(error: string, consecutiveFailures: number): void {
    if (this.#closed.signal.aborted) return;
    this.#logger.error(error, { failures: consecutiveFailures });
    this.#set({ state: "unhealthy", error, consecutiveFailures });
  }

  #setBegun(): void {
    this.#isBegun = true;
    this.#begun.resolve();
  }

  #set(change: Partial<ModuleStatus>): void {
    if (this.#status.state === "closing") return;
    const moved = change.state !== undefined && change.state !== this.#status.state;
    const updatedMs = moved ? this.parts.clock.nowMs() : this.#status.updatedMs;
    this.#status = { ...this.#status, ...change, updatedMs };
  }
}

/** Resolves when the signal aborts. */
function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
