/**
 * The models of one run of a module: its answers about configurations, and the resources that it builds.
 *
 * Owns the conversation about resources: ValidateConfig, AddResource, RemoveResource. A slow validation delays no one:
 * until its answer the resource is pending. A module's resource is reached like one behind any other channel; closing
 * it removes it from the module.
 */

import type { ComponentConfigSchema } from "../../../proto/gen/robot_config_pb.ts";
import { frameMessage } from "../../cloud_client/frame_message.ts";
import { type Clock, race } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { comparableJson } from "../../base/schema/schema.ts";
import type { Need } from "../../resource/graph.ts";
import { parseApi, ResourceName } from "../../resource/name.ts";
import type { AnyApi, Registry } from "../../resource/registry.ts";
import type { Resource } from "../../resource/resource.ts";
import type { CallOptions } from "../../wire/rpc/channel.ts";
import type { JsonObject as Struct, MessageInitShape } from "../../wire/rpc/proto.ts";
import type { ResourceConfig } from "../config/config.ts";
import { ForeignApis } from "./foreign_apis.ts";
import type { ModuleProcess } from "./process.ts";
import type { ModuleLimits } from "./limits.ts";

/** Time limit of a removal. */
const REMOVE_TIMEOUT_MS = 20_000;
/**
 * Names in modules' answers that are not resources: modules reach the frame system through the machine itself. Modules
 * in Go use their library's constants, which are full names: `rdk:service:framesystem/$framesystem`.
 */
const NO_RESOURCE = /^framesystem$|^(.*\/)?\$framesystem$|^rdk-internal:/;
/** Limit of a resource's dependencies. */
const NEEDS_MAX = 1_000;

/** A module's model in its present run; every start replaces it. */
export interface RunningModel {
  /** The module's name. */
  readonly module: string;
  /** Builds the resource with these resources, by the names that clients use, until `signal` aborts. */
  build(
    config: ResourceConfig,
    dependencies: readonly ResourceName[],
    signal: AbortSignal,
  ): Promise<Resource>;
}

/** A module's answer to the configuration of a resource. */
export type Offer =
  | { readonly kind: "model"; readonly model: RunningModel; readonly needs: readonly Need[] }
  /** The resource cannot be built now, with the reason. */
  | { readonly kind: "problem"; readonly problem: string }
  /**
   * The answer is still open. `stays`: the resource that this module built from the previous configuration may stay
   * until then.
   */
  | { readonly kind: "pending"; readonly what: string; readonly stays?: boolean };

export interface ModuleModelsParts {
  readonly name: string;
  readonly process: ModuleProcess;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whether the module changes resources in place. */
  readonly reconfigures: boolean;
  /** Time limit of building a resource. */
  readonly buildTimeoutMs: number;
  readonly limits: Pick<ModuleLimits, "validateTimeoutMs" | "retryMs">;
  /** Called when an offer has changed. */
  readonly changed: () => void;
}

interface AddRequest {
  readonly config: MessageInitShape<typeof ComponentConfigSchema>;
  readonly dependencies: string[];
}

interface Validation {
  readonly key: string;
  readonly model: string;
  offer: Offer;
}

export class ModuleModels {
  readonly #models = new Map<string, RunningModel>();
  readonly #foreign: ForeignApis;
  /** Its validation of each resource, by full name. */
  readonly #validations = new Map<string, Validation>();
  /** Resources that the module may hold: added, and not certainly removed. */
  readonly #added = new Set<string>();
  /** Resources closed here that remain in the module, which will get their new configuration; by full name, their model. */
  readonly #kept = new Map<string, string>();

  private constructor(private readonly parts: ModuleModelsParts) {
    const { name, process, registry, logger } = parts;
    const services = () => Promise.resolve(process.services);
    this.#foreign = new ForeignApis({
      ...parts,
      peer: `module "${name}"`,
      channel: process.channel,
      services,
    });

    const build: RunningModel["build"] = (config, dependencies, signal) =>
      this.#build(config, dependencies, signal);
    for (const { api, model } of process.models) {
      this.#models.set(`${api} ${model}`, { module: name, build });
      if (!registry.has(api, model)) continue;
      logger.warn(`${model} of ${api} is built in; that of module "${name}" is not used`);
    }
  }

  /** Learns the APIs that only the module knows. */
  static async learn(parts: ModuleModelsParts): Promise<ModuleModels> {
    const { registry, process } = parts;
    const models = new ModuleModels(parts);
    const unknown = [...process.services.keys()].filter((api) => !registry.api(api));
    await models.#foreign.learn(new Set(unknown), process.ended);
    return models;
  }

  get foreignApis(): Iterable<AnyApi> {
    return this.#foreign.all;
  }

  has(api: string, model: string): boolean {
    return this.#models.has(`${api} ${model}`);
  }

  /** Whether no answer of the module is awaited. */
  get isSettled(): boolean {
    return [...this.#validations.values()].every(({ offer }) => offer.kind !== "pending");
  }

  /** The module's offer for a configuration of one of its models; the first call asks the module. */
  offer(config: ResourceConfig): Offer {
    const { name: { full }, attributes, model, dependsOn, frame, logLevel, serviceConfigs } = config;
    // A change of any of these, which the module gets, builds the resource anew.
    const key = comparableJson([model, attributes, dependsOn, frame, logLevel, serviceConfigs]);
    const known = this.#validations.get(full);
    if (known?.key === key) return known.offer;
    const what = `module "${this.parts.name}" is validating its configuration`;
    const validation: Validation = {
      key,
      model,
      offer: { kind: "pending", what, stays: known !== undefined },
    };
    this.#validations.set(full, validation);
    void this.#validate(config, validation);
    return validation.offer;
  }

  /** Drops the validations of resources that no longer exist; `wanted` has the model of each that does. */
  keep(wanted: ReadonlyMap<string, string>): void {
    for (const full of this.#validations.keys()) if (!wanted.has(full)) this.#validations.delete(full);
    for (const [full, model] of this.#kept) {
      if (wanted.get(full) !== model) void this.#remove(full).catch(() => {});
    }
  }

  /** Asks the module about a configuration until the module accepts it, or the question is void. */
  async #validate(config: ResourceConfig, validation: Validation): Promise<void> {
    const { clock, process: { ended }, limits, changed } = this.parts;
    const isCurrent = () => !ended.aborted && this.#validations.get(config.name.full) === validation;
    const { api, model } = config;
    const found = { ...this.#models.get(`${api} ${model}`)! };
    while (isCurrent()) {
      const before = JSON.stringify(validation.offer);
      try {
        validation.offer = { kind: "model", model: found, needs: await this.#needs(config) };
      } catch (error) {
        const problem = `modular resource config validation error: ${chainOf(error)}`;
        validation.offer = { kind: "problem", problem };
      }
      if (!isCurrent()) return;
      if (validation.offer.kind === "problem" && this.#kept.has(config.name.full)) {
        void this.#remove(config.name.full).catch(() => {});
      }
      if (JSON.stringify(validation.offer) !== before) changed();
      if (validation.offer.kind === "model") return;
      await clock.sleep(limits.retryMs, ended).catch(() => {});
    }
  }

  async #needs(config: ResourceConfig): Promise<Need[]> {
    const { process: { rpc, ended }, limits } = this.parts;
    try {
      const request = { config: configMessage(config) };
      const options = { timeoutMs: limits.validateTimeoutMs, signal: ended };
      const { dependencies, optionalDependencies } = await race(rpc.validateConfig(request, options), ended);
      const needs = [
        ...dependencies.map((name) => ({ name, optional: false })),
        ...optionalDependencies.map((name) => ({ name, optional: true })),
      ];
      if (needs.length > NEEDS_MAX) {
        throw new SvcError(
          "invalid_argument",
          `it names ${needs.length} dependencies, wanted at most ${NEEDS_MAX}`,
        );
      }
      return needs.filter(({ name }) => !NO_RESOURCE.test(name));
    } catch (error) {
      if (SvcError.from(error).code === "unimplemented") return [];
      throw error;
    }
  }

  async #build(
    config: ResourceConfig,
    dependencies: readonly ResourceName[],
    signal: AbortSignal,
  ): Promise<Resource> {
    const { registry, process: { rpc, channel }, name: module, buildTimeoutMs: timeoutMs } = this.parts;
    const { api: apiName, name: { full, short } } = config;
    const api = registry.api(apiName) ?? this.#foreign.get(apiName);
    if (!api) {
      throw new SvcError("unavailable", `module "${module}" did not describe the service of ${apiName}`);
    }

    const request = { config: configMessage(config), dependencies: dependencies.map(({ full }) => full) };
    const options = { signal, timeoutMs };
    try {
      const isChanged = this.#kept.delete(full) && await this.#reconfigure(request, options);
      if (!isChanged) {
        if (this.#added.has(full)) await this.#remove(full).catch(() => {});
        this.#added.add(full);
        await race(rpc.addResource(request, options), signal);
      }
    } catch (error) {
      // The module may still be working on it.
      if (signal.aborted || SvcError.from(error).code === "deadline_exceeded") {
        void this.#remove(full).catch(() => {});
      }
      throw error;
    }

    const instance: Resource = api.client(ResourceName.of(apiName, short), channel);
    const built = this.#validations.get(full);
    let closed: Promise<void> | undefined;
    return Object.assign(instance, { close: () => closed ??= this.#close(full, built) });
  }

  /** Returns whether the module has changed the resource in place; otherwise it is built anew. */
  async #reconfigure(
    request: AddRequest,
    options: CallOptions & { readonly signal: AbortSignal },
  ): Promise<boolean> {
    try {
      await race(this.parts.process.rpc.reconfigureResource(request, options), options.signal);
      return true;
    } catch (error) {
      options.signal.throwIfAborted();
      this.parts.logger.debug(`${request.config.name} is rebuilt instead of changed: ${chainOf(error)}`);
      return false;
    }
  }

  /** Removes a resource from the module, unless the module is about to get its new configuration. */
  async #close(full: string, built: Validation | undefined): Promise<void> {
    const wanted = this.#validations.get(full);
    const isChanging = wanted && wanted !== built && wanted.model === built?.model &&
      wanted.offer.kind !== "problem";
    if (this.parts.reconfigures && isChanging) this.#kept.set(full, wanted.model);
    else await this.#remove(full);
  }

  /** An ended process holds no resources. */
  async #remove(full: string): Promise<void> {
    const { rpc, ended } = this.parts.process;
    this.#kept.delete(full);
    if (ended.aborted) return;
    try {
      await race(rpc.removeResource({ name: full }, { timeoutMs: REMOVE_TIMEOUT_MS, signal: ended }), ended);
      this.#added.delete(full);
    } catch (error) {
      if (!ended.aborted) throw error;
    }
  }
}

function configMessage(config: ResourceConfig): MessageInitShape<typeof ComponentConfigSchema> {
  const { name: { short }, api, model, attributes, dependsOn, frame, logLevel, serviceConfigs } = config;
  const { namespace, type } = parseApi(api);
  return {
    name: short,
    api,
    namespace,
    type,
    model,
    attributes: attributes as Struct,
    dependsOn: [...dependsOn],
    frame: frameMessage(frame),
    // Without a level of its own: modules in Go and C++ warn of an empty one.
    logConfiguration: logLevel === undefined ? undefined : { level: logLevel },
    serviceConfigs: serviceConfigs.map((one) => ({ type: one.type, attributes: one.attributes as Struct })),
  };
}
