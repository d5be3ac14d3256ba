/**
 * The resources that a module holds for its machine.
 *
 * Owns every resource from its construction to its close. A resource is closed before another one of its name is built,
 * and a resource that is finished too late is closed at once.
 */

import type { ComponentConfig } from "../../proto/gen/robot_config_pb.ts";
import type { Clock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import { type Level, type Logs, parseLevel } from "../base/log/log.ts";
import { DecodeContext, type JsonObject, type NamedResource } from "../base/schema/schema.ts";
import { parseApi, ResourceName } from "../resource/name.ts";
import { type AnyApi, Dependencies } from "../resource/registry.ts";
import type { Resource } from "../resource/resource.ts";
import type { Channel } from "../wire/rpc/channel.ts";
import { type AnyModuleModel, completed } from "./model.ts";

export interface ModuleResourcesParts {
  readonly models: readonly AnyModuleModel[];
  /** Every API that the module knows. */
  readonly apis: ReadonlyMap<string, AnyApi>;
  readonly logs: Logs;
  /** Name of the module's own logger; the loggers of its resources are below it. */
  readonly loggerName: string;
  /** Level of resources without one of their own. */
  readonly logLevel: Level;
  readonly clock: Clock;
  /** The channel to the machine. */
  readonly machine: () => Channel | undefined;
}

/** The answer to a validation. */
export interface Needs {
  readonly required: readonly string[];
  readonly optional: readonly string[];
}

export class ModuleResources {
  readonly #resources = new Map<string, Resource>();
  /** Serializes the operations on a resource. */
  readonly #turns = new Map<string, Promise<unknown>>();

  /** By the names of the resources' loggers. */
  readonly #levels = new Map<string, Level>();

  constructor(private readonly parts: ModuleResourcesParts) {
    this.#setLevels();
  }

  /** The resource. Throws `not_found` if the machine has not added it. */
  find(api: string, short: string): Resource {
    const name = ResourceName.of(api, short);
    const found = this.#resources.get(name.full);
    if (found) return found;
    throw new SvcError("not_found", `this module has no resource ${name}`);
  }

  /** Throws `invalid_argument` with every problem in the attributes. */
  check(config: ComponentConfig): Needs {
    const { named } = this.#decoded(config);
    const names = (optional: boolean) => [
      ...new Set(named.filter((one) => one.optional === optional).map((one) => this.#fullName(one))),
    ];
    return { required: names(false), optional: names(true) };
  }

  /** Builds a resource, replacing one of the same name. `dependencies` are full names. */
  add(config: ComponentConfig, dependencies: readonly string[], signal: AbortSignal): Promise<void> {
    const name = nameOf(config);
    return this.#inTurn(name.full, async () => {
      await this.#close(name.full);
      signal.throwIfAborted();
      const resource = await this.#construct(name, config, dependencies, signal);
      if (!signal.aborted) return void this.#resources.set(name.full, resource);
      await resource.close();
      throw signal.reason;
    });
  }

  /** Closes a resource; throws `not_found` if there is none. */
  remove(full: string): Promise<void> {
    return this.#inTurn(full, async () => {
      if (!await this.#close(full)) throw new SvcError("not_found", `this module has no resource ${full}`);
    });
  }

  /** Closes everything, the newest first, because it may depend on older ones. */
  async close(): Promise<void> {
    for (const full of [...this.#resources.keys()].reverse()) {
      await this.#inTurn(full, () => this.#close(full)).catch(() => {});
    }
  }

  async #construct(
    name: ResourceName,
    config: ComponentConfig,
    dependencies: readonly string[],
    signal: AbortSignal,
  ): Promise<Resource> {
    const { clock, logs, loggerName } = this.parts;
    const { model, attributes } = this.#decoded(config);
    const logger = logs.logger(`${loggerName}.${name}`);
    const level = parseLevel(config.logConfiguration?.level ?? "");
    if (level) this.#levels.set(logger.name, level);
    else this.#levels.delete(logger.name);
    this.#setLevels();

    const others = dependencies.flatMap((full) => this.#dependency(ResourceName.parse(full)) ?? []);
    const made = await model.construct({
      name,
      attributes,
      dependencies: new Dependencies(name, others),
      logger,
      clock,
      signal,
    });
    return completed(made, name);
  }

  #setLevels(): void {
    const { logs, logLevel } = this.parts;
    const own = [...this.#levels].map(([pattern, level]) => ({ pattern, level }));
    logs.configure([{ pattern: "*", level: logLevel }, ...own], false);
  }

  /** A resource of the machine; `undefined` if this module does not know its type. */
  #dependency(name: ResourceName): Resource | undefined {
    const channel = this.parts.machine();
    const api = this.parts.apis.get(name.api);
    if (!channel) throw new SvcError("failed_precondition", "the machine has not said where it is");
    return api?.client(name, channel);
  }

  #decoded(config: ComponentConfig) {
    const name = nameOf(config);
    const model = this.parts.models.find((one) => one.api.name === name.api && one.name === config.model);
    if (!model) {
      const known = this.parts.models.map((one) => `${one.api.name} ${one.name}`).join(", ");
      throw new SvcError(
        "not_found",
        `this module has no model ${config.model} of ${name.api}, it has: ${known}`,
      );
    }

    const at = new DecodeContext("attributes");
    const attributes = model.attributes.decode((config.attributes ?? {}) as JsonObject, at);
    const errors = at.problems.filter(({ severity }) => severity === "error");
    if (errors.length > 0) {
      const problems = errors.map(({ path, message }) => `${path}: ${message}`).join("; ");
      throw new SvcError("invalid_argument", problems);
    }

    return { model, attributes, named: at.named };
  }

  /** The full name if the field gives the type and only one API has it, else the short name. */
  #fullName({ name, type }: NamedResource): string {
    if (type === undefined || name.includes("/")) return name;
    const fitting = [...this.parts.apis.keys()].filter((api) => parseApi(api).type === type);
    const [only, ...others] = fitting;
    return only !== undefined && others.length === 0 ? ResourceName.of(only, name).full : name;
  }

  async #close(full: string): Promise<boolean> {
    const resource = this.#resources.get(full);
    if (!resource) return false;
    this.#resources.delete(full);
    await resource.close();
    return true;
  }

  async #inTurn<T>(full: string, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(full) ?? Promise.resolve();
    const mine = before.then(work, work);
    const over = mine.catch(() => {});
    this.#turns.set(full, over);
    try {
      return await mine;
    } finally {
      if (this.#turns.get(full) === over) this.#turns.delete(full);
    }
  }
}

/** Older machines send the namespace and the type separately instead of the API. */
function nameOf({ api, namespace, type, name }: ComponentConfig): ResourceName {
  const full = `${api === "" ? `${namespace}:component:${type}` : api}/${name}`;
  return ResourceName.parse(full);
}
