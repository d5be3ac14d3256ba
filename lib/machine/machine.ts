/**
 * The machine: the resources of one configuration, built, looked up, retried and closed.
 *
 * It owns every instance from construction to close. `apply` brings it from what stands to a configuration by the
 * steps of a plan, one pass at a time; a resource that fails is unhealthy with its reason and is tried again, and
 * the others go on. Nothing here knows of transport.
 */

import { type Clock, deadline, race } from "../base/clock.ts";
import { chainOf, SvcError } from "../base/error.ts";
import type { Host } from "../base/host.ts";
import type { Logger, Logs } from "../base/log.ts";
import type { Problem } from "../base/schema.ts";
import { ResourceName } from "../resource/name.ts";
import { type AnyModel, Dependencies, type Registry } from "../resource/registry.ts";
import type { Resource } from "../resource/resource.ts";
import type { MachineConfig, ResourceConfig } from "./config.ts";
import { type Plan, planOf, type Standing, type Wanted } from "./plan.ts";

export type NodeState = "unconfigured" | "configuring" | "ready" | "unhealthy" | "removing";

/** One resource as the machine sees it. */
export interface Node {
  readonly name: ResourceName;
  readonly state: NodeState;
  /** Why it is unhealthy. */
  readonly error?: string;
  readonly updatedMs: number;
  /** Of the configuration it was last built from, or found unchanged in. */
  readonly revision: string;
  readonly config: ResourceConfig;
  readonly uses: ReadonlySet<string>;
  readonly instance?: Resource;
}

type MutableNode = { -readonly [K in keyof Node]: Node[K] };

export interface MachineLimits {
  /** Resources built at once within a group. */
  readonly concurrentBuilds: number;
  readonly buildTimeoutMs: number;
  readonly closeTimeoutMs: number;
  /** Between two attempts at what is unhealthy. */
  readonly retryMs: number;
}

export const MACHINE_LIMITS: MachineLimits = {
  concurrentBuilds: 10,
  buildTimeoutMs: 120_000,
  closeTimeoutMs: 30_000,
  retryMs: 5_000,
};

export interface MachineParts {
  readonly registry: Registry;
  readonly logs: Logs;
  readonly clock: Clock;
  readonly host: Host;
  readonly limits?: Partial<MachineLimits>;
}

export class Machine {
  readonly registry: Registry;
  readonly #logs: Logs;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #host: Host;
  readonly #limits: MachineLimits;
  readonly #nodes = new Map<string, MutableNode>();
  readonly #closing = new AbortController();
  #config: MachineConfig | undefined;
  #appliedMs = 0;
  #pass: Promise<void> = Promise.resolve();
  #passes = 0;
  #callOffRetry: () => void = () => {};

  constructor({ registry, logs, clock, host, limits }: MachineParts) {
    this.registry = registry;
    this.#logs = logs;
    this.#logger = logs.logger("rdk.resource_manager");
    this.#clock = clock;
    this.#host = host;
    this.#limits = { ...MACHINE_LIMITS, ...limits };
  }

  /** A pass is under way. */
  get busy(): boolean {
    return this.#passes > 0;
  }

  /** The configuration in force, and since when; none before the first pass has ended. */
  get config(): MachineConfig | undefined {
    return this.#config;
  }

  get appliedMs(): number {
    return this.#appliedMs;
  }

  /** Every resource, in the order of the configuration. */
  get nodes(): Iterable<Node> {
    return this.#nodes.values();
  }

  /** The healthy instances. */
  get resources(): Resource[] {
    return [...this.#nodes.values()].filter((node) => node.state === "ready").map((node) => node.instance!);
  }

  /** The instance behind a client's name. Throws `unknown` (the published code) where it is missing or unhealthy. */
  find(api: string, short: string): Resource {
    const node = this.#nodes.get(`${api}/${short}`);
    if (!node) throw new SvcError("unknown", `no node found with api ${api} and name ${short}`);
    if (node.state === "ready") return node.instance!;
    const reason = node.error ?? `it is ${node.state}`;
    throw new SvcError("unknown", `resource ${node.name} not available; reason=${reason}`);
  }

  /** Brings the machine to `config`; resolves when every resource is ready or unhealthy. */
  apply(config: MachineConfig): Promise<void> {
    return this.#enqueue(() => this.#run(config));
  }

  /** Closes everything, dependents first. Idempotent. */
  async close(): Promise<void> {
    this.#closing.abort(new SvcError("unavailable", "the machine is shutting down"));
    this.#callOffRetry();
    await this.#enqueue(async () => {
      for (const group of planOf(this.#standing(), new Map()).close) await this.#closeGroup(group);
      this.#nodes.clear();
    });
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    this.#passes++;
    const pass = this.#pass.then(work).finally(() => this.#passes--);
    this.#pass = pass.catch(() => {});
    return pass;
  }

  async #run(config: MachineConfig): Promise<void> {
    this.#callOffRetry();
    const configs = new Map(config.resources.map((resource) => [resource.name.full, resource]));
    const plan = planOf(this.#standing(), new Map([...configs].map(([full, one]) => [full, wantedOf(one)])));
    for (const group of plan.close) await this.#closeGroup(group);
    this.#arrange(configs, plan, config.revision);
    for (const group of plan.build) await this.#buildGroup(group);
    this.#config = config;
    this.#appliedMs = this.#clock.nowMs();
    this.#scheduleRetry(config);
  }

  #standing(): Map<string, Standing> {
    return new Map(
      [...this.#nodes].map(([full, { config, uses, state }]) => [
        full,
        { fingerprint: fingerprint(config), uses, healthy: state === "ready" },
      ]),
    );
  }

  /** Gives every wanted resource its node, in the order of the configuration. */
  #arrange(configs: Map<string, ResourceConfig>, plan: Plan, revision: string): void {
    const old = new Map(this.#nodes);
    this.#nodes.clear();
    for (const [full, config] of configs) {
      const uses = plan.uses.get(full)!;
      const node = old.get(full) ?? this.#fresh(config, uses);
      Object.assign(node, { config, uses, revision });
      this.#nodes.set(full, node);
      const blocked = plan.blocked.get(full);
      if (blocked !== undefined) this.#fail(node, blocked);
    }
  }

  #fresh(config: ResourceConfig, uses: ReadonlySet<string>): MutableNode {
    const updatedMs = this.#clock.nowMs();
    return { name: config.name, state: "unconfigured", updatedMs, revision: "", config, uses };
  }

  async #buildGroup(group: readonly string[]): Promise<void> {
    const waiting = [...group];
    const worker = async () => {
      for (let full = waiting.shift(); full !== undefined; full = waiting.shift()) {
        await this.#build(this.#nodes.get(full)!);
      }
    };
    await Promise.all(Array.from({ length: this.#limits.concurrentBuilds }, worker));
  }

  async #build(node: MutableNode): Promise<void> {
    if (this.#closing.signal.aborted) return;
    // One that is tried again stays visibly unhealthy, with its reason, until it works.
    if (node.state !== "unhealthy") this.#move(node, "configuring");
    try {
      const instance = await this.#construct(node);
      node.instance = instance;
      this.#move(node, "ready");
    } catch (error) {
      this.#fail(node, chainOf(error));
    }
  }

  async #construct(node: Node): Promise<Resource> {
    const { config, name } = node;
    const invalid = config.problems.filter((problem) => problem.severity === "error");
    if (invalid.length > 0) {
      throw new SvcError("invalid_argument", `resource config validation error: ${invalid.map(line).join("; ")}`);
    }
    const model: AnyModel = this.registry.model(config.api, config.model);
    const resources = [...node.uses].map((full) => this.#dependency(full));
    const { buildTimeoutMs } = this.#limits;
    const late = () => new SvcError("deadline_exceeded", `${name} was not built within ${buildTimeoutMs} ms`);
    const { signal, done } = deadline(this.#clock, buildTimeoutMs, late, this.#closing.signal);
    try {
      const construction = {
        name,
        attributes: config.decoded,
        dependencies: new Dependencies(name, resources, (api, short) => this.find(api, short)),
        logger: this.#logs.logger(`rdk.resource_manager.${name}`),
        clock: this.#clock,
        host: this.#host,
        signal,
      };
      const work = Promise.resolve().then(() => model.construct(construction)) as Promise<Resource>;
      return await race(work, signal, (instance) => void this.#closeInstance(instance));
    } catch (cause) {
      throw new SvcError(SvcError.from(cause).code, `resource build error: ${chainOf(cause)}`, { cause });
    } finally {
      done();
    }
  }

  #dependency(full: string): Resource {
    const node = this.#nodes.get(full)!;
    if (node.state === "ready") return node.instance!;
    const reason = node.error ?? `it is ${node.state}`;
    throw new SvcError("failed_precondition", `resource build error: dependency ${full} is not ready: ${reason}`);
  }

  async #closeGroup(group: readonly string[]): Promise<void> {
    await Promise.all(group.map(async (full) => {
      const node = this.#nodes.get(full)!;
      const { instance } = node;
      if (!instance) return;
      this.#move(node, "removing");
      await this.#closeInstance(instance);
      node.instance = undefined;
      this.#move(node, "unconfigured");
    }));
  }

  async #closeInstance(instance: Resource): Promise<void> {
    const { closeTimeoutMs } = this.#limits;
    const late = () => new SvcError("deadline_exceeded", `it did not close within ${closeTimeoutMs} ms`);
    const { signal, done } = deadline(this.#clock, closeTimeoutMs, late);
    try {
      await race(Promise.resolve().then(() => instance.close()), signal);
    } catch (error) {
      this.#logger.error(`cannot close ${instance.name}: ${chainOf(error)}`);
    } finally {
      done();
    }
  }

  #move(node: MutableNode, state: NodeState): void {
    node.state = state;
    node.error = undefined;
    node.updatedMs = this.#clock.nowMs();
  }

  /** Marks a node unhealthy; the log tells a reason once, however often it is tried again. */
  #fail(node: MutableNode, reason: string): void {
    if (node.state === "unhealthy" && node.error === reason) return;
    this.#move(node, "unhealthy");
    node.error = reason;
    this.#logger.error(`${node.name} is unhealthy: ${reason}`);
  }

  #scheduleRetry(config: MachineConfig): void {
    const unhealthy = [...this.#nodes.values()].some((node) => node.state === "unhealthy");
    if (!unhealthy || this.#closing.signal.aborted) return;
    this.#callOffRetry = this.#clock.after(this.#limits.retryMs, () => {
      void this.#enqueue(() => this.#closing.signal.aborted ? Promise.resolve() : this.#run(this.#config ?? config));
    });
  }
}

/** What a resource is built from: a change of it means building anew. */
function fingerprint({ model, attributes, dependsOn, serviceConfigs }: ResourceConfig): string {
  return JSON.stringify([model, attributes, dependsOn, serviceConfigs]);
}

function wantedOf(config: ResourceConfig): Wanted {
  const explicit = config.dependsOn.map((name) => ({ name, optional: false }));
  const named = config.implicit.map(({ name, optional }) => ({ name, optional }));
  return { fingerprint: fingerprint(config), needs: [...explicit, ...named] };
}

function line({ path, message }: Problem): string {
  return `${path}: ${message}`;
}
