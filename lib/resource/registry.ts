/**
 * The parts from which a machine is built: APIs (kinds of resources, with their services) and models (drivers
 * of an API).
 *
 * Both are plain values in explicit lists. `Registry` checks the lists once and finds entries by name. A list has a
 * model itself, or its name and how to load it: the code of such a model is loaded when a configuration names it.
 */

import type { Devices, Environment, Platform, PulseHost } from "../base/host.ts";
import type { Files } from "../base/files/files.ts";
import type { PipeHost, SpawnHost } from "../base/process.ts";
import type { Clock } from "../base/clock.ts";
import { assert, chainOf, SvcError } from "../base/error.ts";
import type { Logger } from "../base/log/log.ts";
import type { ConfigField, JsonObject, Problem } from "../base/schema/schema.ts";
import { suggest } from "../base/schema/suggest.ts";
import type { Channel } from "../wire/rpc/channel.ts";
import type { DescService } from "../wire/rpc/proto.ts";
import type { Service } from "../wire/rpc/service.ts";
import { elsewhereReason } from "./elsewhere.ts";
import type { Facets } from "./facets.ts";
import type { FrameView } from "./frame_view.ts";
import { parseModel, ResourceName } from "./name.ts";
import type { Resource } from "./resource.ts";
import type { Uploader } from "./uploader.ts";

/** How names of models begin that the runtime itself has. */
const BUILT_IN = "rdk:";

/** A kind of resource. */
export interface Api<R extends Resource = Resource> extends Facets<R> {
  /** `rdk:component:motor` */
  readonly name: string;
  /** The gRPC service of the API. */
  readonly desc: DescService;
  /** The API's service over the machine's resources; `find` throws for an unknown name. */
  serve(find: (name: string) => R): Service;
  /** A resource of this API behind a channel. */
  client(name: ResourceName, channel: Channel): R;
  /** A machine builds at most this many resources of the API, one after the other. */
  readonly instancesMax?: number;
  /**
   * The attributes that other resources and remotes may set for a service of this API in their
   * `service_configs`.
   */
  readonly serviceConfig?: ConfigField<unknown>;
  /**
   * The model of the resource that a machine adds, with default settings, if its configuration has none of this API. A
   * machine without the model adds nothing.
   */
  readonly byDefault?: string;
}

/** An API of any resource. */
// deno-lint-ignore no-explicit-any
export type AnyApi = Api<any>;

/** The parts of the host that a driver may use. */
export interface ModelHost extends Files, Devices, PulseHost, Environment, Platform, SpawnHost, PipeHost {}

/** The inputs from which a driver is built. */
export interface Construction<A> {
  readonly name: ResourceName;
  readonly attributes: A;
  readonly dependencies: Dependencies;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly host: ModelHost;
  /** Accepts captured data; absent without a control plane. */
  readonly uploader?: Uploader;
  /** Aborts when the machine no longer waits for the resource. */
  readonly signal: AbortSignal;
}

/** Pulses that a resource puts on a pin. */
export interface PwmSignal {
  readonly pin: string;
  /** Absent if any frequency is acceptable. */
  readonly frequencyHz?: number;
}

/** A resource as the whole configuration's rule sees it. */
export interface ConfiguredResource {
  /** Its path in the configuration: `components.0`. */
  readonly path: string;
  readonly name: ResourceName;
  readonly api: string;
  readonly model: string;
  /** The decoded attributes; absent if they could not be decoded. */
  readonly decoded?: unknown;
}

/** The rules of a program for a whole configuration; a problem makes all of it unusable. */
export type ConfigRule = (
  config: { readonly resources: readonly ConfiguredResource[]; readonly modules: readonly unknown[] },
  registry: Registry,
) => readonly Problem[];

/** A driver of an API. */
export interface Model<R extends Resource = Resource, A = unknown> {
  readonly api: Api<R>;
  /** `rdk:builtin:gpio` */
  readonly name: string;
  /** One line for people. */
  readonly doc: string;
  readonly attributes: ConfigField<A>;
  /**
   * Weak dependencies: the APIs of the resources that the model works with if they exist (`dependencies.weak`). The
   * model neither waits for these resources nor holds them, so they come and go without it.
   */
  readonly weakDependencies?: (api: string) => boolean;
  /** If true, callers run programs of their own choice through it; `-untrusted-env` disables it. */
  readonly runsPrograms?: boolean;
  /** The pulses that a resource with these attributes makes, for rules about all of them. */
  readonly pwm?: (attributes: A) => readonly PwmSignal[];
  construct(from: Construction<A>): R | Promise<R>;
}

// deno-lint-ignore no-explicit-any
export type AnyModel = Model<any, any>;

/** Infers a model's types from its parts. */
export function model<R extends Resource, A>(definition: Model<R, A>): Model<R, A> {
  return definition;
}

/** A model whose code is loaded when it is needed. */
export interface ModelEntry {
  readonly api: AnyApi;
  /** `rdk:builtin:gpio` */
  readonly name: string;
  /** Imports the file of the model, which has the same API and name. */
  load(): Promise<AnyModel>;
}

export type ListedModel = AnyModel | ModelEntry;

/** The entries of an API's models, each by the name that a configuration gives it: `gpio`, `svc:lidar:replay`. */
export function modelEntries<R extends Resource>(
  api: Api<R>,
  // deno-lint-ignore no-explicit-any
  models: { readonly [name: string]: () => Promise<Model<R, any>> },
): ModelEntry[] {
  return Object.entries(models).map(([name, load]) => ({ api, name: parseModel(name), load }));
}

/** The same models, of which those that run programs cannot be built, for a machine whose callers are not trusted. */
export function withoutPrograms(models: readonly ListedModel[]): readonly ListedModel[] {
  const refusing = (model: AnyModel) => model.runsPrograms ? { ...model, construct: refuse } : model;
  return models.map((one) =>
    isEntry(one) ? { ...one, load: async () => refusing(await one.load()) } : refusing(one)
  );
}

function isEntry(model: ListedModel): model is ModelEntry {
  return "load" in model;
}

function refuse({ name }: Construction<unknown>): never {
  throw new SvcError("permission_denied", `${name} would run programs, which -untrusted-env disables`);
}

/** A resource's view of its machine. It holds nothing and always shows the present state. */
export interface View {
  /** The API of this name, if it is built into the machine. */
  api(name: string): AnyApi | undefined;
  find(api: string, name: string): Resource;
  /** The short name by which clients know a resource: without its remote, unless a local resource has that name. */
  clientName(name: ResourceName): string;
  /** The weak dependencies that exist. */
  readonly weak: readonly Resource[];
  /** The settings that a resource's configuration gives for services of an API. */
  serviceConfigs(resource: ResourceName, api: string): readonly JsonObject[];
  readonly frames?: FrameView;
}

/** The resources that one resource may use. */
export class Dependencies {
  /** Those of `owner`. */
  constructor(
    private readonly owner: ResourceName,
    private readonly resources: readonly Resource[],
    private readonly view?: View,
  ) {}

  /** The resource of `api` named `name` (short or full). Throws `failed_precondition` if there is none. */
  get<R extends Resource>(api: Api<R>, name: string): R {
    const found = this.find(api, name);
    if (found) return found;
    const there = this.resources.map((resource) => resource.name.full).join(", ") || "none";
    const wanted = ResourceName.of(api.name, name);
    throw new SvcError(
      "failed_precondition",
      `${this.owner} needs ${wanted}, its dependencies are: ${there}`,
    );
  }

  /** The dependency with this API and name; `undefined` if there is none. */
  find<R extends Resource>(api: Api<R>, name: string): R | undefined {
    const ofApi = this.resources.filter((one) => one.name.api === api.name);
    const exact = ofApi.find((one) => one.name.short === name || one.name.full === name);
    const simple = name.startsWith(`${api.name}/`) ? name.slice(api.name.length + 1) : name;
    return (exact ?? ofApi.find((one) => one.name.simple === simple)) as R | undefined;
  }

  /**
   * Any resource of the machine at this moment, for names that come from a request instead of the
   * configuration. Do not keep it: it may be closed and built anew. Throws `unknown`, the published code, if
   * there is none.
   */
  lookUp<R extends Resource>(api: Api<R>, name: string): R {
    const found = this.find(api, name);
    const { short, full, simple } = found?.name ?? {};
    // A request's "cam" is this machine's, also if the resource uses a remote's "cam".
    const isOther = found && short !== name && full !== name && this.clientName(found) !== simple;
    const one = isOther || !found ? this.view?.find(api.name, simple ?? name) : found;
    if (one) return one as R;
    throw new SvcError("unknown", `no node found with api ${api.name} and name ${name}`);
  }

  /** The weak dependencies that exist at this moment. Do not keep them. */
  get weak(): readonly Resource[] {
    return this.view?.weak ?? [];
  }

  /** The settings for services of an API in the configuration of a resource that the model sees. */
  serviceConfigs(resource: Resource, api: AnyApi): readonly JsonObject[] {
    return this.view?.serviceConfigs(resource.name, api.name) ?? [];
  }

  /** The short name by which clients know a resource. */
  clientName({ name }: Resource): string {
    return this.view?.clientName(name) ?? name.simple;
  }

  /** The frame of a resource, if it has one. */
  frameOf({ name }: Resource): string | undefined {
    return this.view?.frames?.frameOf(name);
  }

  /** The type of a resource, if it is built into the machine. */
  apiOf(resource: Resource): AnyApi | undefined {
    return this.view?.api(resource.name.api);
  }

  /** The places of all parts. Throws `failed_precondition` outside of a machine. */
  get frames(): FrameView {
    if (this.view?.frames) return this.view.frames;
    throw new SvcError("failed_precondition", `${this.owner} needs the frame system of its machine`);
  }

  /** Every dependency of an API. */
  all<R extends Resource>(api: Api<R>): R[] {
    return this.resources.filter((one) => one.name.api === api.name) as R[];
  }
}

/** The API and the name of a model. */
export interface ModelName {
  readonly api: string;
  readonly model: string;
}

/** A model of the list, and its code as far as it is loaded. */
interface Listed {
  readonly listed: ListedModel;
  /** The same promise for all who want the code meanwhile; it never rejects. */
  loading?: Promise<void>;
  model?: AnyModel;
  /** Why the code could not be loaded. */
  problem?: SvcError;
}

export class Registry {
  readonly #apis = new Map<string, AnyApi>();
  /** By API and name, sorted. */
  readonly #models: ReadonlyMap<string, Listed>;
  #byService: ReadonlyMap<string, AnyApi> | undefined;

  /** `rules`: what the program wants of every configuration. */
  constructor(
    apis: readonly AnyApi[],
    models: readonly ListedModel[],
    readonly rules: readonly ConfigRule[] = [],
  ) {
    for (const api of apis) {
      assert(!this.#apis.has(api.name), `API ${api.name} is listed twice`);
      this.#apis.set(api.name, api);
    }
    const sorted = models.map((listed) => ({ key: `${listed.api.name} ${listed.name}`, listed }))
      .sort((a, b) => a.key < b.key ? -1 : 1);
    const byName = new Map<string, Listed>();
    for (const { key, listed } of sorted) {
      assert(this.#apis.get(listed.api.name) === listed.api, `model ${key} is of an API that is not listed`);
      assert(!byName.has(key), `model ${key} is listed twice`);
      byName.set(key, { listed, model: isEntry(listed) ? undefined : listed });
    }
    this.#models = byName;
  }

  get apis(): AnyApi[] {
    return [...this.#apis.values()];
  }

  /** The names of all models, sorted by API, then by model. */
  get names(): ModelName[] {
    return [...this.#models.values()].map(({ listed: { api, name } }) => ({ api: api.name, model: name }));
  }

  api(name: string): AnyApi | undefined {
    return this.#apis.get(name);
  }

  /** The API to which a service belongs. */
  apiOfService({ typeName }: DescService): AnyApi | undefined {
    this.#byService ??= new Map(this.apis.map((api) => [api.desc.typeName, api]));
    return this.#byService.get(typeName);
  }

  has(api: string, model: string): boolean {
    return this.#models.has(`${api} ${model}`);
  }

  /**
   * Loads the code of these models, as far as it is not there; names that the registry does not know are left out. A
   * failure is the error of `model` until a later call succeeds.
   */
  async load(names: Iterable<ModelName>): Promise<void> {
    const wanted = new Set<Listed>();
    for (const { api, model } of names) {
      const found = this.#models.get(`${api} ${model}`);
      if (found && !found.model) wanted.add(found);
    }
    await Promise.all([...wanted].map((one) => one.loading ??= loadInto(one)));
  }

  /** The model, which `load` has loaded. For an unknown name, throws `not_found` with the likely intended name. */
  model(api: string, name: string): AnyModel {
    const found = this.#models.get(`${api} ${name}`);
    if (!found) {
      const hint = this.#hint(api, name);
      throw new SvcError("not_found", `no model ${name} is registered for API ${api}; ${hint}`);
    }
    if (found.model) return found.model;
    if (found.problem) throw found.problem;
    throw new SvcError("internal", `Bug: model ${name} of ${api} is used before its code is loaded`);
  }

  /** Every model with its code, sorted by API, then by model. Throws if the code of one cannot be loaded. */
  async all(): Promise<AnyModel[]> {
    await this.load(this.names);
    return this.names.map(({ api, model }) => this.model(api, model));
  }

  #hint(api: string, name: string): string {
    const reason = elsewhereReason(api, name);
    if (reason !== undefined) return reason;
    const known = this.names.filter((one) => one.api === api).map(({ model }) => model);
    const likely = nearest(name, known);
    if (!name.startsWith(BUILT_IN)) {
      const asked = likely ? `, or did you mean ${likely}?` : "?";
      return `a module may bring it: is it in "modules"${asked}`;
    }
    if (likely) return `did you mean ${likely}?`;
    if (known.length > 0) return `known models of this API: ${known.join(", ")}`;
    const likelyApi = this.#apis.has(api) ? undefined : nearest(api, [...this.#apis.keys()]);
    return likelyApi ? `did you mean API ${likelyApi}?` : "no configured module provides this API either";
  }

  /** The content of the `-dump-resources` file: sorted, in the published shape. */
  async dump(): Promise<{ api: string; model: string; attribute_schema: JsonObject }[]> {
    return (await this.all()).map((model) => ({
      api: model.api.name,
      model: model.name,
      attribute_schema: {
        $schema: "https://json-schema.org/draft/2020-12/schema",
        ...model.attributes.jsonSchema(),
      },
    }));
  }
}

async function loadInto(target: Listed): Promise<void> {
  const { listed } = target;
  const { api, name } = listed;
  try {
    const model = isEntry(listed) ? await listed.load() : listed;
    const isSame = model.api === api && model.name === name;
    assert(isSame, `the file has model ${model.name} of ${model.api.name}`);
    target.model = model;
  } catch (cause) {
    const what = `the code of model ${name} of API ${api.name} cannot be loaded`;
    target.problem = new SvcError("unavailable", `${what}: ${chainOf(cause)}`, { cause });
  } finally {
    target.loading = undefined;
  }
}

/** Compares only the last word, because full names share their beginnings. */
function nearest(name: string, known: readonly string[]): string | undefined {
  const last = (full: string) => full.slice(full.lastIndexOf(":") + 1);
  const likely = suggest(last(name), known.map(last));
  return known.find((one) => last(one) === likely);
}
