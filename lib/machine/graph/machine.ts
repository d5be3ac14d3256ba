/**
 * The machine: the resources of one configuration, built, looked up, retried and closed.
 *
 * It owns every instance from construction to close. A pass executes a plan: the steps from the present to the wanted
 * resources. A newer configuration, or a remote that comes or goes, ends a pass under way and starts another one, in
 * which unfinished builds that are still wanted unchanged continue. A failed resource is unhealthy with its reason and
 * is retried while the others work. Nothing here knows of transport.
 *
 * The room owns the resources of a machine from construction to close: the plan, its steps, remotes, frames and
 * maintenance.
 */

import { type Clock, deadline, race } from "../../base/clock.ts";
import { chainOf, messageOf, SvcError } from "../../base/error.ts";
import type { Logger, Logs } from "../../base/log/log.ts";
import type { JsonObject, Problem } from "../../base/schema/schema.ts";
import { type Need, UNRESOLVED, wire } from "../../resource/graph.ts";
import { ResourceName } from "../../resource/name.ts";
import {
  type AnyApi,
  type AnyModel,
  Dependencies,
  type ModelHost,
  type Registry,
} from "../../resource/registry.ts";
import type { Resource } from "../../resource/resource.ts";
import type { Uploader } from "../../resource/uploader.ts";
import type { Metadata } from "../../wire/rpc/metadata.ts";
import type { DescService } from "../../wire/rpc/proto.ts";
import type { Activities } from "./activities.ts";
import { BUILD_LIMITS, Builder, type BuildLimits } from "./builder.ts";
import {
  type MachineConfig,
  resourceAliases,
  type ResourceConfig,
  resourceLogger,
} from "../config/config.ts";
import { Frames } from "./frames.ts";
import { GraphNode, type Node, type NodeReachability } from "./node.ts";
import { obstacle, planOf, retryScope, unsettled, type WantedResource } from "./plan.ts";
import type { RemoteFrame } from "./remote_frames.ts";
import type { RemoteResource, Remotes, RemoteStatus } from "./remotes.ts";
import { relayed, type Relays } from "./relays.ts";
import type { RunningModel } from "../modules/models.ts";
import type { Modules } from "../modules/modules.ts";
import { stopBeforeClosing } from "../serve/stop.ts";

export type { BuildState, Node } from "./node.ts";

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
  /** Absent, the configuration's remotes are ignored. The machine closes them. */
  readonly remotes?: Remotes;
}

/** The inputs of a node's construction. */
interface Entry extends WantedResource {
  readonly config: ResourceConfig;
  readonly source?: AnyModel | RunningModel | RemoteResource;
  /** A module has yet to say whether it can be built: the problem will disappear or become another one. */
  readonly pending?: boolean;
}

/** The origin of a configured resource, or why it has none. */
interface Origin {
  readonly source?: AnyModel | RunningModel;
  readonly needs?: readonly Need[];
  readonly problem?: string;
  readonly pending?: boolean;
  /** The present instance may stay while this is pending. */
  readonly stays?: boolean;
}

type Groups = readonly (readonly string[])[];

export class Machine {
  readonly registry: Registry;
  /** All nodes by full name. */
  readonly frames: Frames;
  readonly #parts: MachineParts;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #limits: MachineLimits;
  readonly #builder: Builder;
  readonly #fingerprints = new Fingerprints();
  readonly #nodes = new Map<string, GraphNode>();
  /** The remotes' nodes by the names that clients use. */
  readonly #bySimple = new Map<string, GraphNode[]>();
  /** Nodes that failed by themselves, and the last logged reason of each unhealthy one. */
  readonly #failed = new Set<string>();
  /** Nodes that wait for a module's answer, and their dependents. */
  readonly #pending = new Set<string>();
  readonly #loggedFailures = new Map<string, { level: "debug" | "error"; error: string }>();
  /** The last notice to resources that observe others. */
  readonly #lastWeak = new WeakMap<Resource, ReadonlySet<Resource>>();
  #watching: readonly string[] = [];
  #changed = false;
  #wanted: ReadonlyMap<string, Entry> = new Map();
  #wiring = wire(new Map());
  /** The newest configuration, and the one in force. */
  #target: MachineConfig | undefined;
  #config: MachineConfig | undefined;
  #appliedMs = 0;
  /** The passes under way, and whether the newest one is outdated already. */
  #running: Promise<void> | undefined;
  #outdated = false;
  #retrying = false;
  #overtaken = new AbortController();
  #callOffRetry: () => void = () => {};
  #closed: Promise<void> | undefined;
  #loadModules: (() => Promise<Modules>) | undefined;
  #modules: Modules | undefined;

  constructor(parts: MachineParts) {
    this.registry = parts.registry;
    this.frames = new Frames({ machine: this, logger: parts.logs.logger("rdk.framesystem") });
    this.#parts = parts;
    this.#logger = parts.logs.logger("rdk.resource_manager");
    this.#clock = parts.clock;
    this.#limits = { ...MACHINE_LIMITS, ...parts.limits };
    this.#builder = new Builder(this.#limits, parts.clock, this.#logger);
    parts.remotes?.follow(() => void this.refresh());
  }

  /** Whether it is applying a change. A retry of failed resources does not count. */
  get busy(): boolean {
    return this.#outdated || (this.#running !== undefined && !this.#retrying);
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
    return this.#nodes.values();
  }

  /** The remotes themselves. */
  get remotes(): readonly RemoteStatus[] {
    return this.#parts.remotes?.statuses ?? [];
  }

  /** Has `load` called when a configuration first has modules; until now they are ignored. The machine closes them. */
  runModules(load: () => Promise<Modules>): void {
    this.#loadModules = load;
  }

  /** The modules, once a configuration had any. */
  get modules(): Modules | undefined {
    return this.#modules;
  }

  /**
   * Restarts a module; resolves when its resources are back or have failed, or rejects at the abort. `undefined` if
   * there is no such module.
   */
  restartModule(match: Parameters<Modules["restart"]>[0], signal: AbortSignal): Promise<void> | undefined {
    const restarted = this.#modules?.restart(match);
    return restarted && race(restarted.then(() => this.#running), signal);
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
    return [...this.#modules?.foreignApis ?? [], ...this.#parts.remotes?.foreignApis ?? []];
  }

  /** The frames of remotes that are connected. */
  get remoteFrames(): readonly RemoteFrame[] {
    return this.#parts.remotes?.frames ?? [];
  }

  /** The healthy instances. */
  get resources(): Resource[] {
    const instances: Resource[] = [];
    for (const { instance } of this.#nodes.values()) if (instance) instances.push(instance);
    return instances;
  }

  /** The healthy resources by the names that clients use; ambiguous ones are left out. */
  get names(): ResourceName[] {
    return this.#listed.map(({ name }) => name);
  }

  /** The same for another machine whose remote this is: without the resources that came through that machine. */
  namesFor(asking: string, header: Metadata): ResourceName[] {
    const own = this.#parts.remotes?.machineId;
    if (own === undefined) return this.names;
    return relayed(this.#listed, { own, asking, header }).map(({ name }) => name);
  }

  get #listed(): { name: ResourceName; relays: Relays }[] {
    const listed: { name: ResourceName; relays: Relays }[] = [];
    for (const { name, instance } of this.#nodes.values()) {
      if (!instance || this.reachability(name) !== "reachable") continue;
      const relays = name.isRemote ? this.#parts.remotes!.relaysOf(name) : [];
      listed.push({ name: name.isRemote ? ResourceName.of(name.api, name.simple) : name, relays });
    }
    return listed;
  }

  reachability({ api, full, simple, isRemote }: ResourceName): NodeReachability {
    if (!isRemote) return "reachable";
    const key = `${api}/${simple}`;
    const source = this.#wanted.get(full)?.source;
    if (!isRemoteResource(source) || source.problem !== undefined) return "disconnected";
    if (this.#nodes.has(key)) return "shadowed";
    return this.#bySimple.get(key)!.length === 1 ? "reachable" : "ambiguous";
  }

  /** The instance with a client's name. Throws `unknown` (the published code) if it is missing or unhealthy. */
  find(api: string, short: string): Resource {
    const key = `${api}/${short}`;
    const [node, other] = this.#nodes.has(key) ? [this.#nodes.get(key)!] : this.#bySimple.get(key) ?? [];
    if (!node) throw new SvcError("unknown", `no node found with api ${api} and name ${short}`);
    if (other) {
      const names = this.#bySimple.get(key)!.map(({ name }) => name.short).join(", ");
      throw new SvcError("unknown", `found multiple nodes matching api ${api} and name ${short}: ${names}`);
    }
    if (node.instance) return node.instance;
    const reason = node.error ?? `it is ${node.state}`;
    throw new SvcError("unknown", `resource ${node.name} not available; reason=${reason}`);
  }

  /** Applies `config`; resolves when every resource of the newest configuration is ready or unhealthy. */
  apply(config: MachineConfig): Promise<void> {
    this.#target = config;
    return this.refresh();
  }

  /** Plans again: for changes outside of the configuration. */
  refresh(): Promise<void> {
    if (!this.#target || this.#closed) return Promise.resolve();
    this.#outdated = true;
    this.#overtaken.abort(new SvcError("aborted", "another pass has begun"));
    return this.#running ??= this.#run();
  }

  /** Closes everything, dependents first. Idempotent. */
  close(): Promise<void> {
    return this.#closed ??= this.#end();
  }

  async #end(): Promise<void> {
    this.#overtaken.abort(new SvcError("unavailable", "the machine is shutting down"));
    this.#callOffRetry();
    await this.#running;
    this.#wanted = new Map();
    await this.#close(planOf(this.#nodes, this.#wanted).close);
    await this.#builder.end();
    await this.#modules?.close();
    await this.#parts.remotes?.close();
  }

  /** Runs passes until none is outdated; the promise never rejects. */
  async #run(retry = false): Promise<void> {
    this.#callOffRetry();
    this.#overtaken = new AbortController();
    try {
      this.#retrying = retry;
      if (retry) await this.#retry(this.#overtaken.signal);
      this.#retrying = false;
      while (this.#outdated && !this.#closed) {
        this.#outdated = false;
        this.#overtaken = new AbortController();
        await this.#pass(this.#target!, this.#overtaken.signal);
      }
    } catch (error) {
      this.#bug(`a pass ended early: ${chainOf(error)}`);
    }
    this.#running = undefined;
    if (this.#failed.size === 0 || this.#closed) return;
    this.#callOffRetry = this.#clock.after(this.#limits.retryMs, () => this.#running = this.#run(true));
  }

  async #pass(config: MachineConfig, overtaken: AbortSignal): Promise<void> {
    this.#parts.remotes?.configure(config.remotes, config.cloud);
    if (config.modules.length > 0) this.#modules ??= await this.#openModules();
    this.#modules?.configure(config);
    const { refused } = this.#wiring;
    this.#wanted = this.#entries(config);
    this.#wiring = wire(this.#wanted);
    for (const [full, reason] of this.#wiring.refused) {
      if (refused.get(full) !== reason) {
        this.#logger.warn(`${full} runs without an optional dependency: ${reason}`);
      }
    }
    const plan = planOf(this.#nodes, this.#wanted, this.#wiring);
    await this.#replace(plan.close);
    this.#modules?.dismiss();
    this.#parts.remotes?.dismiss();
    this.#arrange(config.revision);
    await this.#build(plan.build, overtaken);
    await this.#modulesSettled(overtaken);
    if (overtaken.aborted) return;
    // Only a pass for a new configuration changes the time of the last one.
    if (this.#config !== config) this.#appliedMs = this.#clock.nowMs();
    this.#config = config;
  }

  async #openModules(): Promise<Modules | undefined> {
    const modules = await this.#loadModules?.();
    modules?.follow(() => void this.refresh());
    return modules;
  }

  /** Waits until modules have started or failed to; meanwhile retries of failed resources continue. */
  async #modulesSettled(overtaken: AbortSignal): Promise<void> {
    while (this.#modules && !overtaken.aborted) {
      const late = () => new SvcError("deadline_exceeded", "modules are still starting");
      const { signal, done } = deadline(this.#clock, this.#limits.retryMs, late, overtaken);
      await this.#modules.settled(signal).finally(done);
      if (!signal.aborted) return;
      if (this.#failed.size > 0) await this.#retry(overtaken);
    }
  }

  /** Touches only failed resources, those that wait for them, and those that may use them once they work. */
  async #retry(overtaken: AbortSignal): Promise<void> {
    const scope = retryScope(this.#failed, this.#nodes, this.#wiring);
    await this.#build(planOf(this.#nodes, this.#wanted, this.#wiring, scope).build, overtaken);
  }

  /** Every wanted resource, by full name. */
  #entries(config: MachineConfig): Map<string, Entry> {
    const entries = new Map<string, Entry>();
    const counts = new Map<string, number>();
    for (const resource of config.resources) {
      const { api, name } = resource;
      const count = (counts.get(api) ?? 0) + 1;
      counts.set(api, count);
      const max = this.registry.api(api)?.instancesMax ?? Infinity;
      const surplus = count > max ? `a machine has at most ${max} of ${api}` : undefined;
      entries.set(name.full, this.#entryOf(resource, surplus));
    }
    for (const remote of this.#parts.remotes?.resources ?? []) {
      const { name, fingerprint, problem } = remote;
      const known = this.#nodes.get(name.full)?.config;
      entries.set(name.full, {
        config: known ?? configOfRemote(name),
        source: remote,
        fingerprint,
        needs: [],
        problem,
      });
    }
    return entries;
  }

  #entryOf(config: ResourceConfig, surplus: string | undefined): Entry {
    const explicit = config.dependsOn.map((name) => ({ name, optional: false }));
    const named = config.implicit.map(({ name, optional }) => ({ name, optional }));
    const invalid = config.problems.filter(({ severity }) => severity === "error").map(line).join("; ");
    const { source, needs = [], problem: unavailable, pending, stays } = this.#originOf(config);
    const problem = invalid === "" ? surplus ?? unavailable : `resource config validation error: ${invalid}`;
    const fingerprint = this.#fingerprints.of(config, source);
    const isPending = pending && problem === unavailable;
    const { full } = config.name;
    // A module that takes long to judge a change leaves nobody without the resource.
    const known = isPending && stays && this.#nodes.get(full)?.condition === "ready" &&
      this.#wanted.get(full);
    if (known) return { ...known, pending: true };
    return {
      config,
      source,
      problem,
      pending: isPending,
      fingerprint,
      needs: [...explicit, ...named, ...needs],
    };
  }

  /** The model of a resource: a built-in one, or a module's. */
  #originOf(config: ResourceConfig): Origin {
    try {
      return { source: this.registry.model(config.api, config.model) };
    } catch (error) {
      const offer = this.#modules?.offer(config);
      switch (offer?.kind) {
        case "model":
          return { source: offer.model, needs: offer.needs };
        case "problem":
          return { problem: offer.problem };
        case "pending":
          return { problem: offer.what, pending: true, stays: offer.stays };
      }
      const troubles = this.#modules?.troubles.join(", ") ?? "";
      const hint = troubles === "" ? "" : `; these modules do not run and may have it: ${troubles}`;
      return { problem: `resource build error: ${messageOf(error)}${hint}` };
    }
  }

  /** Gives every wanted resource its node, in order, and records why one cannot be built. */
  #arrange(revision: string): void {
    const old = new Map(this.#nodes);
    this.#nodes.clear();
    this.#bySimple.clear();
    this.#pending.clear();
    for (const [full, { config, fingerprint, source }] of this.#wanted) {
      const node = old.get(full) ?? new GraphNode(config, this.#clock.nowMs(), (text) => this.#bug(text));
      Object.assign(node, { config, fingerprint, revision });
      this.#nodes.set(full, node);
      if (!isRemoteResource(source)) continue;
      const key = `${node.name.api}/${node.name.simple}`;
      this.#bySimple.set(key, [...this.#bySimple.get(key) ?? [], node]);
    }
    for (const full of this.#failed) if (!this.#wanted.has(full)) this.#failed.delete(full);
    for (const full of this.#loggedFailures.keys()) {
      if (!this.#wanted.has(full)) this.#loggedFailures.delete(full);
    }
    this.#watching = [...this.#wanted].filter(([, { source }]) => weakRuleOf(source)).map(([full]) => full);
    for (const [full, node] of this.#nodes) {
      const reason = obstacle(full, this.#wanted, this.#wiring);
      if (reason === undefined) continue;
      this.#failed.delete(full);
      if (this.#wanted.get(full)!.pending) this.#wait(node);
      else this.#fail(node, reason);
    }
  }

  /**
   * Builds group after group, then rebuilds holders of newly available optional dependencies; ends early if it is
   * outdated.
   */
  async #build(groups: Groups, overtaken: AbortSignal): Promise<void> {
    for (let left = groups; left.length > 0 && !overtaken.aborted;) {
      for (const group of left) {
        if (!overtaken.aborted) await this.#buildGroup(group, overtaken);
      }
      if (overtaken.aborted) return;
      const scope = unsettled(left.flat(), this.#nodes, this.#wiring);
      const plan = planOf(this.#nodes, this.#wanted, this.#wiring, scope);
      await this.#replace(plan.close);
      left = plan.build;
    }
    this.#tell();
  }

  async #buildGroup(group: readonly string[], overtaken: AbortSignal): Promise<void> {
    const lanes = new Map<string, Promise<void>>();
    const attempts = group.map((full) => {
      const { api } = this.#nodes.get(full)!.name;
      if (this.registry.api(api)?.instancesMax === undefined) return this.#attempt(full, overtaken);
      const lane = (lanes.get(api) ?? Promise.resolve()).then(() => this.#attempt(full, overtaken));
      lanes.set(api, lane);
      return lane;
    });
    try {
      await race(Promise.all(attempts), overtaken);
    } catch (error) {
      if (!overtaken.aborted) throw error;
    }
  }

  async #attempt(full: string, overtaken: AbortSignal): Promise<void> {
    if (overtaken.aborted) return;
    const node = this.#nodes.get(full)!;
    if (node.condition !== "down") return await node.building?.done;
    this.#failed.delete(full);
    const holds = new Set<string>();
    for (const used of this.#wiring.uses.get(full)!) {
      const other = this.#nodes.get(used)!;
      if (other.instance) holds.add(used);
      else if (!this.#wiring.optional.get(full)?.has(used)) {
        return this.#pending.has(used) ? this.#wait(node) : this.#fail(node, waitsFor(other), other);
      }
    }
    const slow = node.isSlow;
    await this.#builder.enter(slow);
    // The next pass must see every unfinished build, so no build starts after this one was overtaken.
    if (overtaken.aborted) return this.#builder.leave(slow);
    const givenUp = new AbortController();
    const done = this.#make(node, holds, givenUp.signal).finally(() => this.#builder.leave(slow));
    const giveUp = () => givenUp.abort(new SvcError("canceled", `${full} is no longer wanted as it was`));
    node.build({ done, giveUp }, holds, this.#clock.nowMs());
    await done;
  }

  async #make(node: GraphNode, holds: ReadonlySet<string>, givenUp: AbortSignal): Promise<void> {
    const { source, config } = this.#wanted.get(node.name.full)!;
    const resources = [...holds].map((full) => this.#nodes.get(full)!.instance!);
    const activity = node.wasBuilt ? "resource_rebuild" : "resource_construct";
    const ended = isRemoteResource(source)
      ? undefined
      : this.#parts.activities?.begin(activity, { resource: node.name.full });
    try {
      const instance = await this.#builder.make(node.name, (signal) => {
        return isRemoteResource(source)
          ? source.client()
          : this.#construct(source!, config, resources, signal);
      }, givenUp);
      if (givenUp.aborted) return this.#builder.discard(Promise.resolve(instance));
      node.ready(instance, this.#clock.nowMs());
      ended?.();
      this.#changed = true;
      const last = this.#loggedFailures.get(node.name.full);
      this.#loggedFailures.delete(node.name.full);
      if (last?.level === "error") this.#logger.info(`${node.name} is healthy again`);
    } catch (error) {
      ended?.({ error: messageOf(error) });
      if (givenUp.aborted) return;
      this.#failed.add(node.name.full);
      if (SvcError.from(error).code === "deadline_exceeded") node.tooSlow();
      this.#fail(node, `resource build error: ${chainOf(error)}`);
    }
  }

  #construct(
    model: AnyModel | RunningModel,
    config: ResourceConfig,
    resources: readonly Resource[],
    signal: AbortSignal,
  ): Resource | Promise<Resource> {
    if (isModuleModel(model)) return model.build(config, resources.map(({ name }) => name), signal);
    const { name, decoded } = config;
    const weak = () => this.#weakDependencies(model, name.full);
    const view = {
      api: (name: string) => this.registry.api(name),
      find: (api: string, short: string) => this.find(api, short),
      get weak() {
        return weak();
      },
      serviceConfigs: (name: ResourceName, api: string) => this.#serviceConfigs(name, api),
      frames: this.frames,
    };
    return model.construct({
      name,
      attributes: decoded,
      dependencies: new Dependencies(name, resources, view),
      logger: this.#parts.logs.logger(resourceLogger(name), resourceAliases(name)),
      clock: this.#clock,
      host: this.#parts.host,
      uploader: this.#parts.uploader,
      signal,
    });
  }

  /** A remote's resources depend on the remote. */
  #serviceConfigs({ full, short, isRemote }: ResourceName, api: string): JsonObject[] {
    const remote = isRemote && this.#target?.remotes.find(({ name }) => short.startsWith(`${name}:`));
    const all = (remote ? remote : this.#wanted.get(full)?.config)?.serviceConfigs ?? [];
    return all.filter(({ type }) => type === api).map(({ attributes }) => attributes);
  }

  #weakDependencies({ weakDependencies }: AnyModel, own: string): Resource[] {
    const weak: Resource[] = [];
    for (const [full, { instance, name }] of this.#nodes) {
      if (instance && full !== own && weakDependencies?.(name.api)) weak.push(instance);
    }
    return weak;
  }

  /** Notifies resources that observe others, without waiting for them. */
  #tell(): void {
    if (!this.#changed) return;
    this.#changed = false;
    for (const full of this.#watching) {
      const instance = this.#nodes.get(full)?.instance;
      if (!instance?.weakDependenciesChanged) continue;
      const weak = this.#weakDependencies(this.#wanted.get(full)!.source as AnyModel, full);
      const last = this.#lastWeak.get(instance);
      if (last?.size === weak.length && weak.every((one) => last.has(one))) continue;
      this.#lastWeak.set(instance, new Set(weak));
      void Promise.resolve().then(() => instance.weakDependenciesChanged!()).catch((error) => {
        this.#logger.error(`${full} failed to handle a change of the visible resources: ${chainOf(error)}`);
      });
    }
  }

  /** Stops all that moves, then closes. At the end of the program that has been done. */
  async #replace(groups: Groups): Promise<void> {
    const instances = groups.flat().flatMap((full) => this.#nodes.get(full)!.instance ?? []);
    await stopBeforeClosing(instances, this.#clock, this.#logger);
    await this.#close(groups);
  }

  async #close(groups: Groups): Promise<void> {
    for (const group of groups) {
      await Promise.all(group.map(async (full) => {
        const node = this.#nodes.get(full)!;
        const wanted = this.#wanted.has(full);
        const instance = wanted ? node.release(this.#clock.nowMs()) : node.remove(this.#clock.nowMs());
        this.#changed ||= instance !== undefined;
        if (instance) await this.#builder.close(instance);
        if (!wanted) this.#nodes.delete(full);
      }));
    }
  }

  /** Postpones a node until a module has answered; an unhealthy one stays unhealthy until it works. */
  #wait(node: GraphNode): void {
    this.#pending.add(node.name.full);
    node.configure(this.#clock.nowMs());
  }

  /** Marks a node unhealthy; logs a reason once, however often it is retried. */
  #fail(node: GraphNode, reason: string, because?: GraphNode): void {
    node.fail(reason, this.#clock.nowMs(), because);
    const error = node.error!;
    const { full, isRemote } = node.name;
    // The connection logs an absent remote once for all its resources; a missing dependency may be one of its.
    const mayCome = this.#parts.remotes?.isConnecting && error.includes(UNRESOLVED);
    const level = isRemote || mayCome ? "debug" : "error";
    const last = this.#loggedFailures.get(full);
    if (last?.error === error && (last.level === level || level === "debug")) return;
    this.#loggedFailures.set(full, { level, error });
    this.#logger[level](`${full} is unhealthy: ${error}`);
  }

  #bug(message: string): void {
    this.#logger.error(`Bug: ${message}`);
  }
}

/** The inputs of a construction as comparable text: a difference means a rebuild. */
class Fingerprints {
  readonly #texts = new WeakMap<ResourceConfig, string>();
  readonly #models = new WeakMap<AnyModel | RunningModel, number>();
  #count = 0;

  of(config: ResourceConfig, model: AnyModel | RunningModel | undefined): string {
    let text = this.#texts.get(config);
    if (text === undefined) {
      const { attributes, dependsOn, serviceConfigs } = config;
      text = JSON.stringify([config.model, attributes, dependsOn, serviceConfigs]);
      this.#texts.set(config, text);
    }
    if (model && !this.#models.has(model)) this.#models.set(model, ++this.#count);
    return `${model ? this.#models.get(model) : 0} ${text}`;
  }
}

function isRemoteResource(source: Entry["source"]): source is RemoteResource {
  return source !== undefined && "client" in source;
}

function isModuleModel(source: Entry["source"]): source is RunningModel {
  return source !== undefined && "module" in source;
}

function weakRuleOf(source: Entry["source"]): AnyModel["weakDependencies"] {
  return source && !isRemoteResource(source) && !isModuleModel(source) ? source.weakDependencies : undefined;
}

/** The stand-in for a remote's resource where a configuration is needed. */
function configOfRemote(name: ResourceName): ResourceConfig {
  return {
    name,
    path: "remotes",
    kind: name.api.split(":")[1] as ResourceConfig["kind"],
    api: name.api,
    model: "",
    attributes: {},
    dependsOn: [],
    implicit: [],
    serviceConfigs: [],
    problems: [],
  };
}

function waitsFor({ name, state }: GraphNode): string {
  return `resource build error: dependency ${name} is not ready${
    state === "unhealthy" ? "" : `, it is ${state}`
  }`;
}

function line({ path, message }: Problem): string {
  return `${path}: ${message}`;
}
