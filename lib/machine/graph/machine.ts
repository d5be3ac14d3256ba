/**
 * The machine: the resources of one configuration, built, looked up, retried and closed.
 *
 * It owns every instance from construction to close. A pass executes a plan: the steps from the present to the wanted
 * resources. A newer configuration, or a remote that comes or goes, ends a pass under way and starts another one, in
 * which unfinished builds that are still wanted unchanged continue. A failed resource is unhealthy with its reason and
 * is retried while the others work. Nothing here knows of transport.
 *
 * The room owns the resources of a machine from construction to close: passes (`pass/`), remotes, frames and
 * maintenance.
 */

import { type Clock, race } from "../../base/clock.ts";
import type { Logger, Logs } from "../../base/log/log.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { AnyApi, ModelHost, Registry } from "../../resource/registry.ts";
import type { Resource } from "../../resource/resource.ts";
import type { Uploader } from "../../resource/uploader.ts";
import type { Metadata } from "../../wire/rpc/metadata.ts";
import type { DescService } from "../../wire/rpc/proto.ts";
import type { MachineConfig } from "../config/config.ts";
import type { Modules } from "../modules/modules.ts";
import type { Activities } from "../../base/log/activities.ts";
import { Frames } from "./frames.ts";
import { ModuleSlot } from "./module_slot.ts";
import { BUILD_LIMITS, Builder, type BuildLimits } from "./pass/builder.ts";
import { PlanExecutor, type RequiredPackages } from "./pass/executor.ts";
import { Failures } from "./pass/failures.ts";
import type { Node, NodeReachability } from "./pass/node.ts";
import { Observers } from "./pass/observers.ts";
import { Passes } from "./pass/passes.ts";
import { ResourceGraph } from "./pass/resource_graph.ts";
import { WantedResources } from "./pass/wanted.ts";
import { relayed } from "./relays.ts";
import type { RemoteFrame } from "./remote_frames.ts";
import type { Remotes, RemoteStatus } from "./remotes.ts";

export type { BuildState, Node } from "./pass/node.ts";

export interface MachineLimits extends BuildLimits {
  /** Interval of the attempts to repair unhealthy resources. */
  readonly retryMs: number;
}

const MACHINE_LIMITS: MachineLimits = { ...BUILD_LIMITS, retryMs: 5_000 };

export interface MachineParts {
  readonly registry: Registry;
  readonly logs: Logs;
  readonly clock: Clock;
  readonly host: ModelHost;
  readonly limits?: Partial<MachineLimits>;
  readonly activities?: Activities;
  /** Receives captured data. */
  readonly uploader?: Uploader;
  readonly packages?: RequiredPackages;
  /** Absent, the configuration's remotes are ignored. The machine closes them. */
  readonly remotes?: Remotes;
}

export class Machine {
  readonly frames: Frames;
  readonly #parts: MachineParts;
  readonly #graph: ResourceGraph;
  readonly #wanted: WantedResources;
  readonly #failures: Failures;
  readonly #steps: Steps;
  readonly #passes: Passes;
  readonly #slot: ModuleSlot;
  /** The newest configuration, and the one in force. */
  #target: MachineConfig | undefined;
  #config: MachineConfig | undefined;
  #appliedMs = 0;
  #closed: Promise<void> | undefined;

  constructor(parts: MachineParts) {
    const { registry, logs, clock, remotes } = parts;
    const logger = logs.logger("rdk.resource_manager");
    const limits = { ...MACHINE_LIMITS, ...parts.limits };
    const bug = (message: string) => logger.error(`Bug: ${message}`);

    this.#parts = parts;
    this.frames = new Frames({ machine: this, logger: logs.logger("rdk.framesystem") });
    this.#graph = new ResourceGraph(clock, bug);
    this.#wanted = new WantedResources(registry);
    this.#failures = new Failures(clock, logger, remotes);
    this.#steps = createSteps(parts, {
      graph: this.#graph,
      failures: this.#failures,
      frames: this.frames,
      limits,
      logger,
    });
    this.#slot = new ModuleSlot(clock, () => void this.refresh());
    this.#passes = new Passes({
      pass: (overtaken) => this.#pass(this.#target!, overtaken, limits.retryMs),
      retry: (overtaken) => this.#retry(overtaken),
      hasFailed: () => this.#failures.failed.size > 0,
      clock,
      retryMs: limits.retryMs,
      bug,
    });
    remotes?.follow(() => void this.refresh());
  }

  get registry(): Registry {
    return this.#parts.registry;
  }

  /** Whether it is applying a change. A retry of failed resources does not count. */
  get busy(): boolean {
    return this.#passes.busy;
  }

  /** The configuration in force, and since when; absent before the first pass has ended. */
  get config(): MachineConfig | undefined {
    return this.#config;
  }

  get appliedMs(): number {
    return this.#appliedMs;
  }

  /** Every resource, in the order of the configuration, then those of remotes. */
  get nodes(): Iterable<Node> {
    return this.#graph.nodes.values();
  }

  /** The remotes themselves. */
  get remotes(): readonly RemoteStatus[] {
    return this.#parts.remotes?.statuses ?? [];
  }

  /** Has `load` called when a configuration first has modules; until now they are ignored. The machine closes them. */
  runModules(load: () => Promise<Modules>): void {
    this.#slot.runModules(load);
  }

  /** The modules, once a configuration had any. */
  get modules(): Modules | undefined {
    return this.#slot.modules;
  }

  /**
   * Restarts a module; resolves when its resources are back or have failed, or rejects at the abort. `undefined` if
   * there is no such module.
   */
  restartModule(match: Parameters<Modules["restart"]>[0], signal: AbortSignal): Promise<void> | undefined {
    const restarted = this.modules?.restart(match);
    return restarted && race(restarted.then(() => this.#passes.running), signal);
  }

  /** Every API that a resource of this machine may have; those that only modules and remotes know come last. */
  get apis(): AnyApi[] {
    return [...this.registry.apis, ...this.foreignApis];
  }

  /** The API of a service: a built-in one, or one that only modules or remotes know. */
  apiOfService(service: DescService): AnyApi | undefined {
    return this.registry.apiOfService(service) ??
      this.foreignApis.find(({ desc }) => desc.typeName === service.typeName);
  }

  get foreignApis(): readonly AnyApi[] {
    return [...this.modules?.foreignApis ?? [], ...this.#parts.remotes?.foreignApis ?? []];
  }

  /** The frames of remotes that are connected. */
  get remoteFrames(): readonly RemoteFrame[] {
    return this.#parts.remotes?.frames ?? [];
  }

  /** The healthy instances. */
  get resources(): Resource[] {
    return this.#graph.instances;
  }

  /** The healthy resources by the names that clients use; ambiguous ones are left out. */
  get names(): ResourceName[] {
    return this.#graph.listed(this.#parts.remotes).map(({ name }) => name);
  }

  /** The same for another machine whose remote this is: without the resources that came through that machine. */
  namesFor(asking: string, header: Metadata): ResourceName[] {
    const { remotes } = this.#parts;
    if (remotes?.machineId === undefined) return this.names;
    const listed = this.#graph.listed(remotes);
    return relayed(listed, { own: remotes.machineId, asking, header }).map(({ name }) => name);
  }

  reachability(name: ResourceName): NodeReachability {
    return this.#graph.reachability(name);
  }

  /** The instance with a client's name. Throws `unknown` (the published code) if it is missing or unhealthy. */
  find(api: string, short: string): Resource {
    return this.#graph.find(api, short);
  }

  /** Applies `config`; resolves when every resource of the newest configuration is ready or unhealthy. */
  apply(config: MachineConfig): Promise<void> {
    this.#target = config;
    return this.refresh();
  }

  /** Plans again: for changes outside of the configuration. Modules that could not start may try again at once. */
  refresh({ retriesModules = false } = {}): Promise<void> {
    if (!this.#target || this.#closed) return Promise.resolve();
    if (retriesModules) this.modules?.retryNow();
    return this.#passes.refresh();
  }

  /** Closes everything, dependents first. Idempotent. */
  close(): Promise<void> {
    return this.#closed ??= this.#end();
  }

  async #end(): Promise<void> {
    const { executor, builder } = this.#steps;
    await this.#passes.close();
    this.#graph.want(new Map(), []);
    await executor.close(this.#graph.plan().close);
    await builder.end();
    await this.modules?.close();
    await this.#parts.remotes?.close();
  }

  async #pass(config: MachineConfig, overtaken: AbortSignal, retryMs: number): Promise<void> {
    const { remotes, clock } = this.#parts;
    const { executor, observers } = this.#steps;
    remotes?.configure(config.remotes, config.cloud);
    await this.#slot.configure(config);

    this.#want(config);
    const plan = this.#graph.plan();
    await executor.replace(plan.close);
    this.modules?.dismiss();
    remotes?.dismiss();

    this.#graph.arrange(config.revision);
    observers.arrange();
    this.#failures.arrange(this.#graph);
    await executor.build(plan.build, overtaken);
    const meanwhile = async () => {
      if (this.#failures.failed.size > 0) await this.#retry(overtaken);
    };
    await this.#slot.settled(retryMs, meanwhile, overtaken);
    if (overtaken.aborted) return;
    // Only a pass for a new configuration changes the time of the last one.
    if (this.#config !== config) this.#appliedMs = clock.nowMs();
    this.#config = config;
  }

  #want(config: MachineConfig): void {
    const { nodes, wanted: last } = this.#graph;
    const remotes = this.#parts.remotes?.resources ?? [];
    const wanted = this.#wanted.list(config, { modules: this.modules, remotes, nodes, last });
    for (const [full, reason] of this.#graph.want(wanted, config.remotes)) {
      this.#steps.logger.warn(`${full} runs without an optional dependency: ${reason}`);
    }
  }

  #retry(overtaken: AbortSignal): Promise<void> {
    return this.#steps.executor.build(this.#graph.retryPlan(this.#failures.failed).build, overtaken);
  }
}

/** What carries out the steps of a pass. */
interface Steps {
  readonly executor: PlanExecutor;
  readonly builder: Builder;
  readonly observers: Observers;
  readonly logger: Logger;
}

function createSteps(
  { registry, logs, clock, host, uploader, packages, activities }: MachineParts,
  { graph, failures, frames, limits, logger }: {
    readonly graph: ResourceGraph;
    readonly failures: Failures;
    readonly frames: Frames;
    readonly limits: BuildLimits;
    readonly logger: Logger;
  },
): Steps {
  const builder = new Builder(limits, clock, logger);
  const observers = new Observers(graph, logger);
  const model = { registry, frames, logs, clock, host, uploader, packages, activities };
  const executor = new PlanExecutor({ graph, failures, observers, builder, logger, ...model });
  return { executor, builder, observers, logger };
}
