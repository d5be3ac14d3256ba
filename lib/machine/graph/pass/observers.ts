/**
 * Resources that observe others, such as a service that lists all cameras: each hears when the resources that it may
 * see come and go, without anybody waiting for it.
 */

import { chainOf } from "../../../base/error.ts";
import type { Logger } from "../../../base/log/log.ts";
import type { AnyModel } from "../../../resource/registry.ts";
import type { Resource } from "../../../resource/resource.ts";
import type { ResourceGraph } from "./resource_graph.ts";
import { observingModel } from "./wanted.ts";

export class Observers {
  /** The last notice to each of them. */
  readonly #last = new WeakMap<Resource, ReadonlySet<Resource>>();
  #watching: readonly string[] = [];
  #changed = false;

  constructor(
    private readonly graph: ResourceGraph,
    private readonly logger: Logger,
  ) {}

  /** Finds the observers among the wanted resources. */
  arrange(): void {
    const all = [...this.graph.wanted];
    this.#watching = all.filter(([, { source }]) => observingModel(source)).map(([full]) => full);
  }

  /** An instance has come or gone. */
  noteChange(): void {
    this.#changed = true;
  }

  /** Notifies the observers, if instances have changed since the last time. */
  notify(): void {
    if (!this.#changed) return;
    this.#changed = false;
    for (const full of this.#watching) {
      const instance = this.graph.nodes.get(full)?.instance;
      const model = observingModel(this.graph.entry(full).source);
      if (!instance?.weakDependenciesChanged || !model) continue;

      const seen = this.visible(model, full);
      const last = this.#last.get(instance);
      if (last?.size === seen.length && seen.every((one) => last.has(one))) continue;
      this.#last.set(instance, new Set(seen));
      void Promise.resolve().then(() => instance.weakDependenciesChanged!()).catch((error) => {
        this.logger.error(`${full} failed to handle a change of the visible resources: ${chainOf(error)}`);
      });
    }
  }

  /** The healthy resources that a resource of this model sees; itself is none. */
  visible({ weakDependencies }: AnyModel, own: string): Resource[] {
    const seen: Resource[] = [];
    for (const [full, { instance, name }] of this.graph.nodes) {
      if (instance && full !== own && weakDependencies?.(name.api)) seen.push(instance);
    }
    return seen;
  }
}
