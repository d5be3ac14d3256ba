/**
 * The agent: asks the cloud what the device should run, and makes the device run it.
 *
 * One loop observes the device and takes the next steps. Nothing in it waits for the cloud, so a device that cannot
 * reach the cloud continues with what it knows. The agent stops the runtime only when the runtime allows it or the
 * cloud orders it. When the agent ends, the runtime keeps running, unless the agent was told to stop it.
 */

import { LogOnChange } from "../base/log/on_change.ts";
import type { DeviceAgentConfigRequestSchema, DeviceAgentConfigResponse } from "../../proto/gen/agent_pb.ts";
import { toDuration } from "../api/shared/time.ts";
import type { ReadFiles, WriteFiles } from "../base/files/files.ts";
import { type Clock, deadline, race, Waker } from "../base/clock.ts";
import { chainOf, SvcError } from "../base/error.ts";
import type { Logger } from "../base/log/log.ts";
import { shownUrlsIn } from "../base/log/shown_url.ts";
import type { Json, JsonObject, Problem } from "../base/schema/schema.ts";
import type { Announcements } from "../cloud_client/changes/change_feed.ts";
import type { CloudClient } from "../cloud_client/client.ts";
import type { MessageInitShape } from "../wire/rpc/proto.ts";
import { CloudPolls, POLL_ANSWER_MS } from "./supervise/cloud_polls.ts";
import type { OfflineReboots } from "./supervise/offline.ts";
import type { DeviceFacts } from "./system/device.ts";
import type { Probe } from "./supervise/probe.ts";
import { type BinaryName, releaseOf } from "./update/release.ts";
import type { Boots, RuntimeProcess, RuntimeSettings } from "./supervise/runtime.ts";
import { isIdle, PROBATION_LIMIT_MS, PROBATION_MS, RuntimeVersions } from "./update/runtime_versions.ts";
import {
  type AgentSettings,
  decideSettings,
  type LastGood,
  readDefaults,
  readLastGood,
  writeLastGood,
} from "./settings/settings.ts";
import type { AgentStatus } from "./control/status.ts";
import type { Subsystem } from "./settings/subsystem.ts";
import type { Now, Updates } from "./update/updater.ts";

export interface AgentOptions {
  /** The agent's folder. */
  readonly base: string;
  readonly defaultsPath: string;
  readonly version: string;
  /** Updates versions before the runtime starts; `undefined` leaves it to the settings. */
  readonly waitForUpdate?: boolean;
  readonly debug: boolean;
  /** The cached file that this process runs, if it is one. */
  readonly ownFile?: string;
  /** Whether the next agent can take over this agent's runtime. */
  readonly leavesRuntime: boolean;
}

export interface AgentParts {
  readonly options: AgentOptions;
  readonly device: DeviceFacts;
  readonly cloud: Pick<CloudClient, "deviceAgentConfig" | "needsRestart">;
  /** The cloud's announcements, and the interval of polls while there are some. */
  readonly changes?: Announcements;
  readonly rareMs: number;
  /** Whether the credentials file has changed since `cloud` was created. */
  readonly hasOthers: () => Promise<boolean>;
  readonly updaters: { readonly agent: Updates; readonly server: Updates };
  /** Creates the runtime, which starts what `boots` says; call `changed` at every change of its state. */
  readonly runtime: (settings: RuntimeSettings, boots: Boots, changed: () => void) => RuntimeProcess;
  readonly probe: Probe;
  readonly subsystems: readonly Subsystem[];
  readonly offline: OfflineReboots;
  /** Called periodically as a sign of life, for the watchdog. */
  readonly alive: () => void;
  /** Sets the log levels. */
  readonly configureLogs: (debug: boolean, deduplicate: boolean) => void;
  readonly host: ReadFiles & WriteFiles;
  readonly clock: Clock;
  readonly logger: Logger;
  /** From 0 to 1, so that a fleet does not poll all at once. */
  readonly random?: () => number;
}

/**
 * `stopped`: the agent was told to stop, and stopped the runtime, too. `replaced`: the next agent starts, and takes
 * over the runtime. `renewed`: the agent stopped the runtime, because the device has other credentials now.
 */
export type AgentEnd = "stopped" | "replaced" | "renewed";

const TICK_MS = 5_000;
/** Pause between requests until the first answer. */
const FIRST_RETRY_MS = 5_000;
/** How long it waits for the first answer if it does not wait for updates. */
const FIRST_ANSWER_MS = 2_000;
const WAIT_MS = 60_000;
/** How long a download may delay the first start. */
const UPDATE_WAIT_MS = 10 * 60_000;
const SUBSYSTEMS_MS = 5 * 60_000;
/** Interval of removing unused files; not soon after the start. */
const CLEAN_MS = 24 * 3600_000;
const CLEAN_FIRST_MS = 15 * 60_000;
const KEPT_MS = 30 * 24 * 3600_000;

export class Agent {
  readonly #parts: AgentParts;
  readonly #startedMs: number;
  #settings: AgentSettings;
  #lastGood: LastGood | undefined;
  /** Whether the next start will find them. */
  #isKept = true;
  #runtime!: RuntimeProcess;
  readonly #versions: RuntimeVersions;
  #problems: readonly Problem[] = [];
  /** The cloud's problems with the versions that the configuration chooses. */
  #versionProblems: readonly string[] = [];
  /** Why settings could not be applied to a subsystem, by its name. */
  readonly #unapplied = new Map<string, string>();
  readonly #facts = new LogOnChange(FACTS_MAX);
  readonly #polls: CloudPolls;
  #nextApplyMs = 0;
  #nextCleanMs: number;
  #applying: Promise<void> | undefined;
  #checking: Promise<void> | undefined;
  #replaced = false;
  #isRenewed = false;
  readonly #waker: Waker;

  constructor(parts: AgentParts) {
    this.#parts = parts;
    this.#waker = new Waker(parts.clock);
    this.#startedMs = parts.clock.monotonicMs();
    this.#nextCleanMs = this.#startedMs + CLEAN_FIRST_MS;
    this.#settings = decideSettings({}).settings;
    this.#versions = new RuntimeVersions({
      ...{ updater: parts.updaters.server, probe: parts.probe, clock: parts.clock },
      startTimeoutMs: () => this.#settings.advanced.runtimeStartTimeoutMs,
      changed: () => this.#waker.wake(),
    });
    const { cloud, changes, rareMs, offline, clock, logger, random } = parts;
    this.#polls = new CloudPolls({
      ...{ cloud, changes, rareMs, offline, clock, logger, random },
      report: () => this.#report(),
      mayOrder: async (signal) => {
        if (this.#runtime.state.phase !== "running") return true;
        return (await parts.probe.restartStatus(signal))?.handledByAgent ?? true;
      },
      restart: () => void this.#runtime.restart("the cloud has ordered a restart"),
      changed: () => this.#waker.wake(),
    });
  }

  /** Works until the signal aborts or a new agent takes over. */
  async run(signal: AbortSignal): Promise<AgentEnd> {
    const { host, options, updaters, logger } = this.#parts;
    this.#lastGood = await readLastGood(host, options.base);
    await this.#decide(undefined);
    this.#runtime = this.#parts.runtime(
      this.#runtimeSettings(),
      this.#versions,
      () => this.#waker.wake(),
    );
    for (const updater of [updaters.agent, updaters.server]) await updater.open();
    // Comes first, because a running runtime must not be taken for a stopped one.
    await this.#runtime.adopt();
    await this.#livingOn(this.#firstAnswer(signal));
    const over = new AbortController();
    const stop = () => {
      over.abort(signal.reason);
      this.#waker.wake();
    };
    signal.addEventListener("abort", stop);
    if (signal.aborted) stop();
    if (this.#replaced) this.#runtime.leave();
    const running = this.#runtime.run(over.signal);
    const asking = new AbortController();
    const polling = this.#polls.run(AbortSignal.any([signal, asking.signal]));
    try {
      while (!signal.aborted && !this.#replaced && !this.#isRenewed) {
        await this.#tick(signal).catch((error) =>
          logger.error(`a pass of the agent failed: ${chainOf(error)}`)
        );
        if (!this.#replaced && !this.#isRenewed && !signal.aborted) await this.#waker.sleep(TICK_MS);
      }
      if (this.#replaced && this.#parts.options.leavesRuntime) this.#runtime.leave();
      else stop();
      await this.#livingOn(running);
      // A requested end does not count as a failed start.
      if (!this.#replaced) await updaters.agent.settled();
      if (this.#replaced) return "replaced";
      return this.#isRenewed ? "renewed" : "stopped";
    } finally {
      signal.removeEventListener("abort", stop);
      asking.abort(new SvcError("canceled", "the agent ends"));
      await polling;
      await this.#livingOn(Promise.all([this.#applying, this.#checking]));
      await this.#parts.offline.close();
      for (const subsystem of this.#parts.subsystems) await subsystem.close();
    }
  }

  get status(): AgentStatus {
    const { options, updaters, clock } = this.#parts;
    const nowMs = clock.monotonicMs();
    const { isOnline, isRefused, offlineWhy, lastOnlineMs } = this.#polls;
    return {
      version: options.version,
      uptimeMs: nowMs - this.#startedMs,
      online: isOnline,
      refused: isRefused,
      offlineWhy: isOnline ? undefined : offlineWhy,
      sinceOnlineMs: lastOnlineMs === undefined ? undefined : nowMs - lastOnlineMs,
      runtime: this.#runtime.state,
      versions: { "svc-agent": updaters.agent.status(), "svc-server": updaters.server.status() },
      problems: [
        ...this.#problems.map(({ severity, path, message }) => `${severity}: ${path}: ${message}`),
        ...this.#versionProblems.map((problem) => `error: version_control: ${problem}`),
        ...[...this.#unapplied].map(([name, problem]) => `error: ${name}: ${problem}`),
      ],
    };
  }

  /**
   * Whether the device may be interrupted now, for instance by a reboot: the runtime allows it, or no runtime runs.
   */
  async mayInterrupt(): Promise<boolean> {
    if (isIdle(this.#runtime.state)) return true;
    return (await this.#parts.probe.restartStatus())?.restartAllowed ?? false;
  }

  /** Returns to the previous version. Throws `failed_precondition` if there is none. */
  async rollback(name: BinaryName): Promise<void> {
    const { updaters } = this.#parts;
    const reason = "somebody asked for the previous version";
    if (name === "svc-agent") await updaters.agent.goBack(reason);
    else await this.#versions.alone(() => updaters.server.goBack(reason));
    this.#waker.wake();
  }

  /** Gives signs of life during work that may take longer than the watchdog waits. */
  async #livingOn<T>(work: Promise<T> | undefined): Promise<T | undefined> {
    const { clock, alive } = this.#parts;
    let cancel = () => {};
    const again = () => {
      alive();
      cancel = clock.after(TICK_MS, again);
    };
    again();
    try {
      return await work;
    } finally {
      cancel();
    }
  }

  /** One round of all the work. */
  async #tick(signal: AbortSignal): Promise<void> {
    const { clock, alive, hasOthers, logger, offline } = this.#parts;
    await this.#hear();
    if (this.#polls.isRefused && await hasOthers() && await this.mayInterrupt()) {
      logger.info("the cloud refuses the credentials in use, and there are others now");
      return void (this.#isRenewed = true);
    }
    if (clock.monotonicMs() >= this.#nextApplyMs && !this.#applying) {
      // Not awaited, because an upgrade of the system takes long.
      this.#applying = this.#apply(signal).finally(() => this.#applying = undefined);
    }
    await this.#update(signal);
    if (this.#replaced) return;
    if (!this.#polls.isOnline && !this.#checking) {
      const pass = offline.pass(this.#settings.network.deviceRebootAfterOfflineMs, signal);
      this.#checking = pass.catch((error) => logger.error(`a check of the network failed: ${chainOf(error)}`))
        .finally(() => this.#checking = undefined);
    }
    await this.#clean();
    alive();
  }

  // What the cloud wants.

  async #firstAnswer(signal: AbortSignal): Promise<void> {
    const { options, clock, logger } = this.#parts;
    const { waitForUpdate = this.#settings.advanced.waitForUpdateCheck ?? false } = options;
    if (!waitForUpdate) {
      await this.#polls.poll(FIRST_ANSWER_MS, signal);
      return await this.#hear();
    }
    logger.info(`waiting up to ${WAIT_MS / 1000} s for the cloud before anything starts`);
    const untilMs = clock.monotonicMs() + WAIT_MS;
    while (!signal.aborted && clock.monotonicMs() < untilMs) {
      await this.#polls.poll(Math.min(POLL_ANSWER_MS, untilMs - clock.monotonicMs()), signal);
      if (this.#polls.isOnline) {
        await this.#hear();
        return await this.#bringUpToDate(signal);
      }
      await clock.sleep(Math.min(FIRST_RETRY_MS, Math.max(0, untilMs - clock.monotonicMs())), signal).catch(
        () => {},
      );
    }
    logger.warn(
      `the cloud ${this.#polls.isRefused ? "refuses this device" : "does not answer"}; starting without it`,
    );
  }

  /** Applies what the cloud wants, as far as time allows. */
  async #bringUpToDate(signal: AbortSignal): Promise<void> {
    const { updaters, clock, logger } = this.#parts;
    const all = [updaters.agent, updaters.server];
    const late = deadline(
      clock,
      UPDATE_WAIT_MS,
      () => new SvcError("deadline_exceeded", `${UPDATE_WAIT_MS / 60_000} minutes have passed`),
      signal,
    );
    try {
      for (let [before, now] = ["", "begun"]; before !== now && !this.#replaced;) {
        before = now;
        await this.#update(late.signal);
        await race(Promise.all(all.map((updater) => updater.idle())), late.signal);
        now = JSON.stringify(all.map((updater) => updater.status()));
      }
    } catch (error) {
      if (!signal.aborted) logger.warn(`starting before everything is up to date: ${chainOf(error)}`);
    } finally {
      late.done();
    }
  }

  /** Adopts the cloud's latest answer. */
  async #hear(): Promise<void> {
    const answer = this.#polls.take();
    if (!answer) return;
    this.#versionProblems = answer.versionProblems.slice(0, VERSION_PROBLEMS_MAX)
      .map((problem) => shownUrlsIn(problem.slice(0, PROBLEM_CHARS)));
    if (this.#facts.isNew(this.#versionProblems.join("\n"), "versions")) {
      for (const problem of this.#versionProblems) this.#parts.logger.warn(problem);
    }
    await this.#decide(sectionsOf(answer));
    this.#setTarget(answer);
  }

  #report(): MessageInitShape<typeof DeviceAgentConfigRequestSchema> {
    const { options, device, updaters, clock } = this.#parts;
    const nowMs = clock.monotonicMs();
    const { good: agent, refused: noAgent } = updaters.agent.status();
    const { good: server, refused: noServer } = updaters.server.status();
    const refusals = [["svc-server", noServer], ["svc-agent", noAgent]] as const;
    const state = this.#runtime?.state;
    const running = state?.startedMs !== undefined;
    return {
      hostInfo: { platform: device.platform, distro: device.distro, tags: [...device.tags] },
      versionInfo: {
        agentRunning: options.version,
        agentInstalled: agent?.version ?? "",
        viamServerRunning: running ? this.#versionOf(state.file) : "",
        viamServerInstalled: server?.version ?? "",
      },
      agentUptime: toDuration(nowMs - this.#startedMs),
      viamServerUptime: running ? toDuration(nowMs - state.startedMs) : undefined,
      refusedVersions: refusals.flatMap(([name, one]) => one ? [shownUrlsIn(`${name} ${one.version}`)] : []),
    };
  }

  #versionOf(file: string | undefined): string {
    const { good, previous, trial } = this.#parts.updaters.server.status();
    return [trial?.build, good, previous].find((build) => build?.file === file)?.version ?? "";
  }

  /** Applies the settings; `cloud` is the cloud's answer, if there is one. */
  async #decide(cloud: JsonObject | undefined): Promise<void> {
    const { host, options, logger, configureLogs } = this.#parts;
    const read = await readDefaults(host, options.defaultsPath);
    const { settings, problems, lastGood } = decideSettings({
      defaults: read.defaults,
      cloud,
      lastGood: this.#lastGood,
    });
    this.#problems = [...read.problems, ...problems];
    for (const { severity, path, message } of this.#problems) {
      this.#once(
        `${path}: ${message}`,
        () => logger[severity === "error" ? "error" : "warn"](`${path}: ${message}`),
      );
    }
    if (JSON.stringify(lastGood) !== JSON.stringify(this.#lastGood)) {
      this.#lastGood = lastGood;
      this.#isKept = false;
      this.#nextApplyMs = 0;
    }
    if (!this.#isKept) {
      const unkept = "cannot keep the settings";
      this.#isKept = await writeLastGood(host, options.base, lastGood).then(() => true, (error) => {
        this.#once(unkept, () => logger.error(`${unkept}: ${chainOf(error)}`));
        return false;
      });
      if (this.#isKept) this.#facts.clear(unkept);
    }
    this.#settings = settings;
    configureLogs(
      options.debug || settings.advanced.debug === true,
      !settings.advanced.disableLogDeduplication,
    );
    this.#runtime?.configure(this.#runtimeSettings());
  }

  #runtimeSettings(): RuntimeSettings {
    const { disableRuntime, runtimeStartTimeoutMs, runtimeEnv } = this.#settings.advanced;
    return { enabled: !disableRuntime, startTimeoutMs: runtimeStartTimeoutMs, env: runtimeEnv };
  }

  #setTarget({ agentUpdateInfo, viamServerUpdateInfo }: DeviceAgentConfigResponse): void {
    const { updaters, logger } = this.#parts;
    const targets = [
      ["svc-agent", agentUpdateInfo, updaters.agent],
      ["svc-server", viamServerUpdateInfo, updaters.server],
    ] as const;
    for (const [name, info, updater] of targets) {
      try {
        if (info) updater.setTarget(releaseOf(name, info));
      } catch (error) {
        this.#once(
          `${name}: ${chainOf(error)}`,
          () => logger.error(`no update of ${name}: ${chainOf(error)}`),
        );
      }
    }
  }

  // Applying what the cloud wants.

  async #apply(signal: AbortSignal): Promise<void> {
    const { subsystems, clock, logger } = this.#parts;
    this.#nextApplyMs = clock.monotonicMs() + SUBSYSTEMS_MS;
    for (const subsystem of subsystems) {
      try {
        await subsystem.apply(this.#settings, signal);
        this.#unapplied.delete(subsystem.name);
      } catch (error) {
        const problem = chainOf(error);
        this.#unapplied.set(subsystem.name, problem);
        this.#once(`${subsystem.name}: ${problem}`, () => logger.error(`${subsystem.name}: ${problem}`));
      }
    }
  }

  async #update(signal: AbortSignal): Promise<void> {
    const { updaters, options } = this.#parts;
    await this.#versions.update(this.#runtime, signal);
    // The runtime keeps running while the agent is replaced, so this needs no permission.
    const own = { running: options.ownFile, ...this.#ownVerdict(), maySwitch: true, mayUpdate: true };
    const { restart, began } = await updaters.agent.pass(own, signal);
    void began?.then(() => this.#waker.wake());
    this.#replaced = restart;
  }

  /**
   * The agent is healthy when it has worked for a while and the cloud, from which the next version comes, has
   * answered.
   */
  #ownVerdict(): Pick<Now, "health" | "reason"> {
    const uptimeMs = this.#parts.clock.monotonicMs() - this.#startedMs;
    if (this.#polls.lastOnlineMs !== undefined) {
      return { health: uptimeMs >= PROBATION_MS ? "healthy" : "starting" };
    }
    if (uptimeMs < PROBATION_LIMIT_MS) return { health: "starting" };
    return {
      health: "failed",
      reason: `it did not reach the cloud within ${PROBATION_LIMIT_MS / 60_000} minutes`,
    };
  }

  async #clean(): Promise<void> {
    const { clock, updaters, logger } = this.#parts;
    if (clock.monotonicMs() < this.#nextCleanMs) return;
    this.#nextCleanMs = clock.monotonicMs() + CLEAN_MS;
    const cleanings = [
      () => updaters.agent.clean(KEPT_MS),
      () => this.#versions.alone(() => updaters.server.clean(KEPT_MS)),
    ];
    for (const clean of cleanings) {
      const removed = await clean();
      if (removed.length > 0) logger.info("removed unused files", { files: removed });
    }
  }

  /** Logs a lasting fact once. */
  #once(what: string, log: () => void): void {
    if (this.#facts.isNew(what, what)) log();
  }
}

const FACTS_MAX = 1000;
/** The cloud's problems with the versions, for the status. */
const VERSION_PROBLEMS_MAX = 20;
const PROBLEM_CHARS = 1000;

function sectionsOf(answer: DeviceAgentConfigResponse): JsonObject {
  return {
    advanced_settings: (answer.advancedSettings ?? {}) as Json,
    network_configuration: (answer.networkConfiguration ?? {}) as Json,
    additional_networks: (answer.additionalNetworks ?? {}) as Json,
    system_configuration: (answer.systemConfiguration ?? {}) as Json,
  };
}
