/**
 * The wanted resources: what a configuration and the connected remotes ask for, each with its model, what it needs, and
 * why it cannot be built.
 */

import { messageOf } from "../../../base/error.ts";
import { comparableJson, type Problem } from "../../../base/schema/schema.ts";
import type { Need } from "../../../resource/graph.ts";
import type { ResourceName } from "../../../resource/name.ts";
import type { AnyModel, Registry } from "../../../resource/registry.ts";
import type { MachineConfig, ResourceConfig } from "../../config/config.ts";
import type { RunningModel } from "../../modules/models.ts";
import type { Modules } from "../../modules/modules.ts";
import type { RemoteResource } from "../offered_resources.ts";
import type { Node } from "./node.ts";
import type { Condition, WantedResource } from "./plan.ts";

/** The inputs of a node's construction. */
export interface WantedEntry extends WantedResource {
  readonly config: ResourceConfig;
  readonly source?: AnyModel | RunningModel | RemoteResource;
  /** A module has yet to say whether it can be built: the problem will disappear or become another one. */
  readonly pending?: boolean;
}

/** By full name: the configuration's in its order, then those of remotes. */
export type WantedEntries = ReadonlyMap<string, WantedEntry>;

/** What the entries of a configuration depend on beside it. */
export interface WantedFrom {
  readonly modules: Modules | undefined;
  readonly remotes: readonly RemoteResource[];
  /** The present nodes, and what was wanted before. */
  readonly nodes: ReadonlyMap<string, Pick<Node, "config"> & { readonly condition: Condition }>;
  readonly last: WantedEntries;
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

/** Computes the entries of one configuration after the other; equal inputs get equal fingerprints. */
export class WantedResources {
  readonly #fingerprints = new Fingerprints();

  constructor(private readonly registry: Registry) {}

  list(config: MachineConfig, from: WantedFrom): WantedEntries {
    const entries = new Map<string, WantedEntry>();
    const counts = new Map<string, number>();
    for (const resource of config.resources) {
      const { api, name } = resource;
      const count = (counts.get(api) ?? 0) + 1;
      counts.set(api, count);
      const max = this.registry.api(api)?.instancesMax ?? Infinity;
      const surplus = count > max ? `a machine has at most ${max} of ${api}` : undefined;
      entries.set(name.full, this.#configured(resource, surplus, from));
    }

    for (const remote of from.remotes) {
      const { name, fingerprint, problem } = remote;
      const known = from.nodes.get(name.full)?.config;
      // Modules know its users' dependencies by their names for clients: those would mean the local resource.
      const hidden = entries.has(`${name.api}/${name.simple}`) ? " hidden" : "";
      entries.set(name.full, {
        config: known ?? configOfRemote(name),
        source: remote,
        fingerprint: fingerprint + hidden,
        needs: [],
        problem,
      });
    }
    return entries;
  }

  #configured(config: ResourceConfig, surplus: string | undefined, from: WantedFrom): WantedEntry {
    const explicit = config.dependsOn.map((name) => ({ name, optional: false }));
    const named = config.implicit.map(({ name, optional }) => ({ name, optional }));
    const invalid = config.problems.filter(({ severity }) => severity === "error").map(line).join("; ");
    const { source, needs = [], problem: unavailable, pending, stays } = this.#originOf(config, from.modules);
    const problem = invalid === "" ? surplus ?? unavailable : `resource config validation error: ${invalid}`;
    const fingerprint = this.#fingerprints.of(config, source);
    const isPending = pending && problem === unavailable;

    const { full } = config.name;
    // Keeps the present instance while a module is still validating the change.
    const known = isPending && stays && from.nodes.get(full)?.condition === "ready" && from.last.get(full);
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
  #originOf(config: ResourceConfig, modules: Modules | undefined): Origin {
    try {
      return { source: this.registry.model(config.api, config.model) };
    } catch (error) {
      // A built-in model whose code cannot be loaded: no module takes its place.
      if (this.registry.has(config.api, config.model)) {
        return { problem: `resource build error: ${messageOf(error)}` };
      }
      const offer = modules?.offer(config);
      switch (offer?.kind) {
        case "model":
          return { source: offer.model, needs: offer.needs };
        case "problem":
          return { problem: offer.problem };
        case "pending":
          return { problem: offer.what, pending: true, stays: offer.stays };
      }
      const troubles = modules?.troubles.join(", ") ?? "";
      const hint = troubles === "" ? "" : `; these modules do not run and may have it: ${troubles}`;
      return { problem: `resource build error: ${messageOf(error)}${hint}` };
    }
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
      text = comparableJson([config.model, attributes, dependsOn, serviceConfigs]);
      this.#texts.set(config, text);
    }
    if (model && !this.#models.has(model)) this.#models.set(model, ++this.#count);
    return `${model ? this.#models.get(model) : 0} ${text}`;
  }
}

export function isRemoteResource(source: WantedEntry["source"]): source is RemoteResource {
  return source !== undefined && "client" in source;
}

export function isModuleModel(source: WantedEntry["source"]): source is RunningModel {
  return source !== undefined && "module" in source;
}

/** The built-in model that observes other resources, if `source` is one. */
export function observingModel(source: WantedEntry["source"]): AnyModel | undefined {
  if (!source || isRemoteResource(source) || isModuleModel(source)) return undefined;
  return source.weakDependencies ? source : undefined;
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

function line({ path, message }: Problem): string {
  return `${path}: ${message}`;
}
