/**
 * The resources that do not work: which failed by themselves, which wait for a module, and what the log says of them. A
 * reason is logged once, however often its resource is retried.
 */

import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/log/log.ts";
import { UNRESOLVED } from "../../../resource/graph.ts";
import type { Remotes } from "../remotes.ts";
import type { GraphNode } from "./node.ts";
import { obstacle } from "./plan.ts";
import type { ResourceGraph } from "./resource_graph.ts";

export class Failures {
  readonly #failed = new Set<string>();
  /** Nodes that wait for a module's answer, and their dependents. */
  readonly #pending = new Set<string>();
  /** The last logged reason of each unhealthy node. */
  readonly #logged = new Map<string, { level: "debug" | "error"; error: string }>();

  constructor(
    private readonly clock: Clock,
    private readonly logger: Logger,
    private readonly remotes: Remotes | undefined,
  ) {}

  /** Nodes that failed by themselves: a retry builds them. */
  get failed(): ReadonlySet<string> {
    return this.#failed;
  }

  isPending(full: string): boolean {
    return this.#pending.has(full);
  }

  /** Forgets what is no longer wanted, and marks what cannot be built. */
  arrange({ nodes, wanted, wiring }: ResourceGraph): void {
    this.#pending.clear();
    for (const full of this.#failed) if (!wanted.has(full)) this.#failed.delete(full);
    for (const full of this.#logged.keys()) if (!wanted.has(full)) this.#logged.delete(full);

    for (const [full, node] of nodes) {
      const reason = obstacle(full, wanted, wiring);
      if (reason === undefined) continue;
      this.#failed.delete(full);
      if (wanted.get(full)!.pending) this.wait(node);
      else this.fail(node, reason);
    }
  }

  /** A build of the node begins. */
  begin({ name: { full } }: GraphNode): void {
    this.#failed.delete(full);
  }

  /** Postpones a node until a module has answered; an unhealthy one stays unhealthy until it works. */
  wait(node: GraphNode): void {
    this.#pending.add(node.name.full);
    node.configure(this.clock.nowMs());
  }

  /** Marks a node whose build failed. */
  failBuild(node: GraphNode, reason: string): void {
    this.#failed.add(node.name.full);
    this.fail(node, reason);
  }

  /** Marks a node unhealthy, for a reason of its own or because of another one. */
  fail(node: GraphNode, reason: string, because?: GraphNode): void {
    node.fail(reason, this.clock.nowMs(), because);
    const error = node.error!;
    const { full, isRemote } = node.name;
    // The connection logs an absent remote once for all its resources; a missing dependency may be one of its.
    const mayCome = this.remotes?.isConnecting && error.includes(UNRESOLVED);
    const level = isRemote || mayCome ? "debug" : "error";
    const last = this.#logged.get(full);
    if (last?.error === error && (last.level === level || level === "debug")) return;
    this.#logged.set(full, { level, error });
    this.logger[level](`${full} is unhealthy: ${error}`);
  }

  /** The node works; logs it if the log says that it did not. */
  recover({ name }: GraphNode): void {
    const last = this.#logged.get(name.full);
    this.#logged.delete(name.full);
    if (last?.level === "error") this.logger.info(`${name} is healthy again`);
  }
}
