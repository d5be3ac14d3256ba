/**
 * The executor: carries out the steps of a plan on the resource graph. It builds dependencies first, rebuilds holders
 * of optional dependencies that have become available, and closes dependents first.
 */

import { type Clock, race } from "../../../base/clock.ts";
import { chainOf, messageOf, SvcError } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/schema/schema.ts";
import type { Logger, Logs } from "../../../base/log/log.ts";
import { type AnyModel, Dependencies, type ModelHost, type Registry } from "../../../resource/registry.ts";
import type { FrameView } from "../../../resource/frame_view.ts";
import type { ResourceName } from "../../../resource/name.ts";
import type { Resource } from "../../../resource/resource.ts";
import type { Uploader } from "../../../resource/uploader.ts";
import { resourceAliases, type ResourceConfig, resourceLogger } from "../../config/config.ts";
import type { RunningModel } from "../../modules/models.ts";
import { stopBeforeClosing } from "../stop.ts";
import type { Activities } from "../../../base/log/activities.ts";
import type { Builder } from "./builder.ts";
import type { Failures } from "./failures.ts";
import type { GraphNode } from "./node.ts";
import type { Observers } from "./observers.ts";
import type { Plan } from "./plan.ts";
import type { ResourceGraph } from "./resource_graph.ts";
import { isModuleModel, isRemoteResource } from "./wanted.ts";

export interface ExecutorParts {
  readonly graph: ResourceGraph;
  readonly failures: Failures;
  readonly observers: Observers;
  readonly builder: Builder;
  /** What models get at their construction. */
  readonly registry: Registry;
  readonly frames: FrameView;
  readonly logs: Logs;
  readonly clock: Clock;
  readonly host: ModelHost;
  readonly uploader?: Uploader;
  readonly packages?: RequiredPackages;
  readonly activities?: Activities;
  readonly logger: Logger;
}

/** The packages of the configuration. */
export interface RequiredPackages {
  /** Rejects with the reason while attributes name files of a package that is not there yet. */
  require(attributes: JsonObject): Promise<void>;
}

type Groups = Plan["build"];

export class PlanExecutor {
  constructor(private readonly parts: ExecutorParts) {}

  /** Builds group after group, then what these make possible; ends early if the pass is overtaken. */
  async build(groups: Groups, overtaken: AbortSignal): Promise<void> {
    for (let left = groups; left.length > 0 && !overtaken.aborted;) {
      for (const group of left) {
        if (!overtaken.aborted) await this.#buildGroup(group, overtaken);
      }
      if (overtaken.aborted) return;
      const plan = this.parts.graph.remainingPlan(left.flat());
      await this.replace(plan.close);
      left = plan.build;
    }
    this.parts.observers.notify();
  }

  /** Stops all that moves, then closes. */
  async replace(groups: Groups): Promise<void> {
    const { graph, clock, logger } = this.parts;
    const instances = groups.flat().flatMap((full) => graph.node(full).instance ?? []);
    await stopBeforeClosing(instances, clock, logger);
    await this.close(groups);
  }

  /** Closes group after group, and removes the nodes that are no longer wanted. */
  async close(groups: Groups): Promise<void> {
    const { graph, observers, builder, clock } = this.parts;
    for (const group of groups) {
      await Promise.all(group.map(async (full) => {
        const node = graph.node(full);
        const wanted = graph.wanted.has(full);
        const instance = wanted ? node.release(clock.nowMs()) : node.remove(clock.nowMs());
        if (instance) {
          observers.noteChange();
          await builder.close(instance);
        }
        if (!wanted) graph.remove(full);
      }));
    }
  }

  /** Builds of an API with a limit of instances run one after the other. */
  async #buildGroup(group: readonly string[], overtaken: AbortSignal): Promise<void> {
    const { graph, registry } = this.parts;
    const lanes = new Map<string, Promise<void>>();
    const attempts = group.map((full) => {
      const { api } = graph.node(full).name;
      if (registry.api(api)?.instancesMax === undefined) return this.#attempt(full, overtaken);
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
    const { graph, failures, builder, clock } = this.parts;
    const node = graph.node(full);
    if (node.condition !== "down") return await node.building?.done;

    failures.begin(node);
    const holds = new Set<string>();
    for (const used of graph.wiring.uses.get(full)!) {
      const other = graph.node(used);
      if (other.instance) holds.add(used);
      else if (!graph.wiring.optional.get(full)?.has(used)) {
        return failures.isPending(used) ? failures.wait(node) : failures.fail(node, waitsFor(other), other);
      }
    }

    const slow = node.isSlow;
    await builder.enter(slow);
    // The next pass must see every unfinished build, so no build starts after this one was overtaken.
    if (overtaken.aborted) return builder.leave(slow);
    const givenUp = new AbortController();
    const done = this.#make(node, holds, givenUp.signal).finally(() => builder.leave(slow));
    const giveUp = () => givenUp.abort(new SvcError("canceled", `${full} is no longer wanted as it was`));
    node.build({ done, giveUp }, holds, clock.nowMs());
    await done;
  }

  async #make(node: GraphNode, holds: ReadonlySet<string>, givenUp: AbortSignal): Promise<void> {
    const { graph, failures, observers, builder, clock, activities, packages } = this.parts;
    const { source, config } = graph.entry(node.name.full);
    const resources = [...holds].map((full) => graph.node(full).instance!);
    const activity = node.wasBuilt ? "resource_rebuild" : "resource_construct";
    const ended = isRemoteResource(source)
      ? undefined
      : activities?.begin(activity, { resource: node.name.full });
    try {
      const instance = await builder.make(node.name, async (signal) => {
        if (isRemoteResource(source)) return source.client();
        await packages?.require(config.attributes);
        return await this.#construct(source!, config, resources, signal);
      }, givenUp);
      if (givenUp.aborted) return builder.discard(Promise.resolve(instance));
      node.ready(instance, clock.nowMs());
      ended?.();
      observers.noteChange();
      failures.recover(node);
    } catch (error) {
      ended?.({ error: messageOf(error) });
      if (givenUp.aborted) return;
      if (SvcError.from(error).code === "deadline_exceeded") node.tooSlow();
      failures.failBuild(node, `resource build error: ${chainOf(error)}`);
    }
  }

  #construct(
    model: AnyModel | RunningModel,
    config: ResourceConfig,
    resources: readonly Resource[],
    signal: AbortSignal,
  ): Resource | Promise<Resource> {
    const { graph, observers, registry, frames, logs, clock, host, uploader } = this.parts;
    if (isModuleModel(model)) {
      return model.build(config, resources.map(({ name }) => graph.clientName(name)), signal);
    }
    const { name, decoded } = config;
    const view = {
      api: (name: string) => registry.api(name),
      find: (api: string, short: string) => graph.find(api, short),
      clientName: (name: ResourceName) => graph.clientName(name).short,
      get weak() {
        return observers.visible(model, name.full);
      },
      serviceConfigs: (name: ResourceName, api: string) => graph.serviceConfigs(name, api),
      frames,
    };
    return model.construct({
      name,
      attributes: decoded,
      dependencies: new Dependencies(name, resources, view),
      logger: logs.logger(resourceLogger(name), resourceAliases(name)),
      clock,
      host,
      uploader,
      signal,
    });
  }
}

function waitsFor({ name, state }: GraphNode): string {
  return `resource build error: dependency ${name} is not ready${
    state === "unhealthy" ? "" : `, it is ${state}`
  }`;
}
