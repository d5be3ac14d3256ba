/**
 * The agent: asks the cloud what the device should run, and makes the device run it.
 *
 * One loop observes the device and takes the next steps. Nothing in it waits for the cloud, so a device that cannot
 * reach the cloud continues with what it knows. The agent stops the runtime only when the runtime allows it or the
 * cloud orders it. When the agent ends, the runtime keeps running, unless the agent was told to stop it.
 */

import type { DeviceAgentConfigRequestSchema, DeviceAgentConfigResponse } from "../../proto/gen/agent_pb.ts";
import { toDuration } from "../api/shared/time.ts";
import type { ReadFiles, WriteFiles } from "../base/files/files.ts";
import { type Clock, deadline, race, Waker } from "../base/clock.ts";
import { chainOf, SvcError } from "../base/error.ts";
import type { Logger } from "../base/log/log.ts";
import { shownUrlsIn } from "../base/log/shown_url.ts";
import type { Json, JsonObject } from "../base/schema/schema.ts";
import type { Announcements } from "../cloud_client/changes/change_feed.ts";
import type { CloudClient } from "../cloud_client/client.ts";
import type { MessageInitShape } from "../wire/rpc/proto.ts";
import { CloudPolls, POLL_ANSWER_MS } from "./supervise/cloud_polls.ts";
import type { OfflineReboots } from "./supervise/offline.ts";
import type { DeviceFacts } from "./system/device.ts";
import type { Probe } from "./supervise/probe.ts";
import type { BinaryName } from "./update/release.ts";
import type { Boots, RuntimeProcess, RuntimeSettings } from "./supervise/runtime.ts";
import { isIdle, PROBATION_LIMIT_MS, PROBATION_MS, RuntimeVersions } from "./update/runtime_versions.ts";
import { CurrentSettings } from "./settings/current_settings.ts";
import { SubsystemPasses } from "./settings/subsystem_passes.ts";
import { CloudTargets } from "./update/cloud_targets.ts";
import { UnusedFiles } from "./update/unused_files.ts";
import type { AgentStatus } from "./control/status.ts";
import type { Subsystem } from "./settings/subsystem.ts";
import type { Now, Updates } from "./update/updater.ts";

/** Why a version of the agent fails that finds no cloud. */
const UNREACHED = `it did not reach the cloud within ${PROBATION_LIMIT_MS / 60_000} minutes`;
/** A version that reaches the cloud does so well before this time after its start. */
const FORGIVE_MS = 3 * 60_000;

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

export class Agent {
  readonly #parts: AgentParts;
  readonly #startedMs: number;
  readonly #settings: CurrentSettings;
  readonly #subsystems: SubsystemPasses;
  #runtime!: RuntimeProcess;
  readonly #versions: RuntimeVersions;
  readonly #targets: CloudTargets;
  readonly #unused: UnusedFiles;
  readonly #polls: CloudPolls;
  #checking: Promise<void> | undefined;
  /** Why the agent is about to end. */
  #end: Exclude<AgentEnd, "stopped"> | undefined;
  readonly #waker: Waker;

  constructor(parts: AgentParts) {
    this.#parts = parts;
    this.#waker = new Waker(parts.clock);
    this.#startedMs = parts.clock.monotonicMs();

    const { host, options, subsystems, updaters, clock, logger } = parts;
    this.#settings = new CurrentSettings({ ...options, host, logger });
    this.#subsystems = new SubsystemPasses(subsystems, clock, logger);
    this.#targets = new CloudTargets(updaters, logger);
    this.#versions = new RuntimeVersions({
      ...{ updater: updaters.server, probe: parts.probe, clock },
      startTimeoutMs: () => this.#settings.now.advanced.runtimeStartTimeoutMs,
      changed: () => this.#waker.wake(),
    });
    this.#unused = new UnusedFiles(
      [
        (keepMs) => updaters.agent.clean(keepMs),
        (keepMs) => this.#versions.alone(() => updaters.server.clean(keepMs)),
      ],
      clock,
      logger,
    );

    const { cloud, changes, rareMs, offline, random } = parts;
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
    const { updaters, logger } = this.#parts;
    await this.#settings.open();
    this.#configure();
    for (const problem of this.#parts.device.problems) logger.warn(problem);
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
    if (this.#end === "replaced") this.#runtime.leave();
    const running = this.#runtime.run(over.signal);
    const asking = new AbortController();
    const polling = this.#polls.run(AbortSignal.any([signal, asking.signal]));
    try {
      while (!signal.aborted && !this.#end) {
        await this.#tick(signal).catch((error) =>
          logger.error(`a pass of the agent failed: ${chainOf(error)}`)
        );
        if (!this.#end && !signal.aborted) await this.#waker.sleep(TICK_MS);
      }
      const end = this.#end ?? "stopped";
      if (end === "replaced" && this.#parts.options.leavesRuntime) this.#runtime.leave();
      else stop();
      await this.#livingOn(running);
      // A requested end does not count as a failed start.
      if (end !== "replaced") await updaters.agent.settled();
      return end;
    } finally {
      signal.removeEventListener("abort", stop);
      asking.abort(new SvcError("canceled", "the agent ends"));
      await polling;
      await this.#livingOn(Promise.all([this.#subsystems.idle(), this.#checking]));
      await this.#parts.offline.close();
      await this.#subsystems.close();
    }
  }

  get status(): AgentStatus {
    const { options, device, updaters, clock } = this.#parts;
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
        ...this.#settings.problems.map(({ severity, path, message }) => `${severity}: ${path}: ${message}`),
        ...this.#targets.problems.map((problem) => `error: version_control: ${problem}`),
        ...device.problems.map((problem) => `error: ${problem}`),
        ...this.#targets.deviceProblems.map((problem) => `error: ${problem}`),
        ...this.#subsystems.problems.map((problem) => `error: ${problem}`),
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
    const { alive, hasOthers, logger, offline } = this.#parts;
    await this.#hear();
    if (this.#polls.isRefused && await hasOthers() && await this.mayInterrupt()) {
      logger.info("the cloud refuses the credentials in use, and there are others now");
      return void (this.#end = "renewed");
    }
    this.#subsystems.begin(() => this.#settings.now, signal);
    await this.#update(signal);
    if (this.#end) return;
    if (!this.#polls.isOnline && !this.#checking) {
      const pass = offline.pass(this.#settings.now.network.deviceRebootAfterOfflineMs, signal);
      this.#checking = pass.catch((error) => logger.error(`a check of the network failed: ${chainOf(error)}`))
        .finally(() => this.#checking = undefined);
    }
    await this.#unused.cleanIfDue();
    alive();
  }

  // What the cloud wants.

  async #firstAnswer(signal: AbortSignal): Promise<void> {
    const { options, clock, logger } = this.#parts;
    const { waitForUpdate = this.#settings.now.advanced.waitForUpdateCheck ?? false } = options;
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
      const leftMs = Math.max(0, untilMs - clock.monotonicMs());
      const pauseMs = Math.max(FIRST_RETRY_MS, this.#polls.heldMs);
      await clock.sleep(Math.min(pauseMs, leftMs), signal).catch(() => {});
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
      for (let [before, now] = ["", "begun"]; before !== now && !this.#end;) {
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
    if (await this.#settings.decide(sectionsOf(answer))) this.#subsystems.expire();
    this.#configure();
    this.#targets.adopt(answer);
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

  /** Applies the settings in force to the agent itself and to the runtime. */
  #configure(): void {
    const { options, configureLogs } = this.#parts;
    const { debug, disableLogDeduplication } = this.#settings.now.advanced;
    configureLogs(options.debug || debug === true, !disableLogDeduplication);
    this.#runtime?.configure(this.#runtimeSettings());
  }

  #runtimeSettings(): RuntimeSettings {
    const { disableRuntime, runtimeStartTimeoutMs, runtimeEnv } = this.#settings.now.advanced;
    return { enabled: !disableRuntime, startTimeoutMs: runtimeStartTimeoutMs, env: runtimeEnv };
  }

  // Applying what the cloud wants.

  async #update(signal: AbortSignal): Promise<void> {
    const { updaters, options } = this.#parts;
    await this.#versions.update(this.#runtime, signal);
    // The runtime keeps running while the agent is replaced, so this needs no permission.
    const own = { running: options.ownFile, ...this.#ownVerdict(), maySwitch: true, mayUpdate: true };
    await this.#forgiveUnreached();
    const { restart, began } = await updaters.agent.pass(own, signal);
    void began?.then(() => this.#waker.wake());
    if (restart) this.#end = "replaced";
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
      reason: UNREACHED,
    };
  }

  /** If this version does not reach the cloud, either, it was not the fault of the one before that did not. */
  async #forgiveUnreached(): Promise<void> {
    const { updaters, options, clock } = this.#parts;
    const { good } = updaters.agent.status();
    if (this.#polls.lastOnlineMs !== undefined || good?.file !== options.ownFile) return;
    if (clock.monotonicMs() - this.#startedMs < FORGIVE_MS) return;
    await updaters.agent.forgive(UNREACHED, "the version before it does not reach the cloud, either");
  }
}

function sectionsOf(answer: DeviceAgentConfigResponse): JsonObject {
  return {
    advanced_settings: (answer.advancedSettings ?? {}) as Json,
    network_configuration: (answer.networkConfiguration ?? {}) as Json,
    additional_networks: (answer.additionalNetworks ?? {}) as Json,
    system_configuration: (answer.systemConfiguration ?? {}) as Json,
  };
}
