/**
 * The resource graph: the nodes of a machine by their names, what is wanted of them, and how they depend on each other.
 *
 * It owns the nodes; the plans from the present to the wanted ones are its answers. Clients know a remote's resource by
 * a name without the remote, which others may have too.
 */

import type { Clock } from "../../../base/clock.ts";
import { SvcError } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/schema/schema.ts";
import { type ResolvedDependencies, resolveDependencies } from "../../../resource/graph.ts";
import { ResourceName } from "../../../resource/name.ts";
import type { Resource } from "../../../resource/resource.ts";
import type { MachineConfig } from "../../config/config.ts";
import type { Relays } from "../relays.ts";
import type { Remotes } from "../remotes.ts";
import { GraphNode, type NodeReachability } from "./node.ts";
import { type Plan, planOf, retryScope, unsettled } from "./plan.ts";
import { isRemoteResource, type WantedEntries, type WantedEntry } from "./wanted.ts";

export class ResourceGraph {
  readonly #nodes = new Map<string, GraphNode>();
  /** The remotes' nodes by the names that clients use. */
  readonly #bySimple = new Map<string, GraphNode[]>();
  #wanted: WantedEntries = new Map();
  #wiring = resolveDependencies(new Map());
  #remotes: MachineConfig["remotes"] = [];

  constructor(
    private readonly clock: Clock,
    /** Receives what must not happen. */
    private readonly bug: (message: string) => void,
  ) {}

  /** Every node by full name, in the order of the configuration, then those of remotes. */
  get nodes(): ReadonlyMap<string, GraphNode> {
    return this.#nodes;
  }

  get wanted(): WantedEntries {
    return this.#wanted;
  }

  get wiring(): ResolvedDependencies {
    return this.#wiring;
  }

  node(full: string): GraphNode {
    return this.#nodes.get(full)!;
  }

  entry(full: string): WantedEntry {
    return this.#wanted.get(full)!;
  }

  /** The healthy instances. */
  get instances(): Resource[] {
    const instances: Resource[] = [];
    for (const { instance } of this.#nodes.values()) if (instance) instances.push(instance);
    return instances;
  }

  /** Wants other entries from now on. Returns the optional dependencies that were not refused before, with the reason. */
  want(
    wanted: WantedEntries,
    remotes: MachineConfig["remotes"],
  ): (readonly [full: string, reason: string])[] {
    const { refused } = this.#wiring;
    this.#wanted = wanted;
    this.#remotes = remotes;
    this.#wiring = resolveDependencies(wanted);
    return [...this.#wiring.refused].filter(([full, reason]) => refused.get(full) !== reason);
  }

  /** The steps to the wanted resources. */
  plan(): Plan {
    return planOf(this.#nodes, this.#wanted, this.#wiring);
  }

  /** Only those of failed resources, those that wait for them, and those that may use them once they work. */
  retryPlan(failed: Iterable<string>): Plan {
    return planOf(this.#nodes, this.#wanted, this.#wiring, retryScope(failed, this.#nodes, this.#wiring));
  }

  /** What remains after `built` were built: holders of newly available optional dependencies, and their users. */
  remainingPlan(built: Iterable<string>): Plan {
    return planOf(this.#nodes, this.#wanted, this.#wiring, unsettled(built, this.#nodes, this.#wiring));
  }

  /** Gives every wanted resource its node, in order; unwanted nodes are gone. */
  arrange(revision: string): void {
    const old = new Map(this.#nodes);
    this.#nodes.clear();
    this.#bySimple.clear();
    for (const [full, { config, fingerprint, source }] of this.#wanted) {
      const node = old.get(full) ?? new GraphNode(config, this.clock.nowMs(), this.bug);
      Object.assign(node, { config, fingerprint, revision });
      this.#nodes.set(full, node);
      if (!isRemoteResource(source)) continue;
      const key = `${node.name.api}/${node.name.simple}`;
      this.#bySimple.set(key, [...this.#bySimple.get(key) ?? [], node]);
    }
  }

  remove(full: string): void {
    this.#nodes.delete(full);
  }

  reachability(name: ResourceName): NodeReachability {
    const { api, full, simple, isRemote } = name;
    if (!isRemote) return "reachable";
    const source = this.#wanted.get(full)?.source;
    if (!isRemoteResource(source) || source.problem !== undefined) return "disconnected";
    if (this.#isHidden(name)) return "shadowed";
    return this.#bySimple.get(`${api}/${simple}`)!.length === 1 ? "reachable" : "ambiguous";
  }

  /** The name by which clients and modules find a resource: without its remote, unless a local resource hides it. */
  clientName(name: ResourceName): ResourceName {
    return name.isRemote && !this.#isHidden(name) ? ResourceName.of(name.api, name.simple) : name;
  }

  /** Whether a resource of a remote has the name of a local one. */
  #isHidden({ api, simple, isRemote }: ResourceName): boolean {
    return isRemote && this.#nodes.has(`${api}/${simple}`);
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

  /** The healthy resources by the names that clients use, with the machines they come through; without ambiguous ones. */
  listed(remotes: Pick<Remotes, "relaysOf"> | undefined): { name: ResourceName; relays: Relays }[] {
    const listed: { name: ResourceName; relays: Relays }[] = [];
    for (const { name, instance } of this.#nodes.values()) {
      if (!instance || this.reachability(name) !== "reachable") continue;
      const relays = name.isRemote ? remotes!.relaysOf(name) : [];
      listed.push({ name: this.clientName(name), relays });
    }
    return listed;
  }

  /** The attributes that a resource's configuration has for a service. A remote's resources have the remote's. */
  serviceConfigs({ full, short, isRemote }: ResourceName, api: string): JsonObject[] {
    const remote = isRemote && this.#remotes.find(({ name }) => short.startsWith(`${name}:`));
    const all = (remote ? remote : this.#wanted.get(full)?.config)?.serviceConfigs ?? [];
    return all.filter(({ type }) => type === api).map(({ attributes }) => attributes);
  }
}
