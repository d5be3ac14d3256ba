/**
 * Modules: other programs that provide models.
 *
 * Keeps a module for each entry of the configuration and returns their offers for resources. No caller waits for a
 * module: a changed offer is announced, and the caller asks again. A module that is removed or changed stays until its
 * resources are closed; its replacement starts after its end.
 *
 * The room owns modules: their processes, sockets, the conversation with them, and their output.
 */

import type { Environment } from "../../base/host.ts";
import { SvcError } from "../../base/error.ts";
import { logPattern, type Logs } from "../../base/log/log.ts";
import { comparableJson } from "../../base/schema/schema.ts";
import type { AnyApi } from "../../resource/registry.ts";
import type { ServiceTable } from "../../wire/rpc/service.ts";
import { envDurationMs } from "../config/env_duration.ts";
import { homeFolder } from "../config/placeholder.ts";
import type { MachineConfig, ModuleConfig, ResourceConfig } from "../config/config.ts";
import { Module, type ModuleParts, type ModuleStatus, type WantedModule } from "./module.ts";
import { ModuleGroups } from "./groups.ts";
import { ModuleParent } from "./parent.ts";
import type { Offer } from "./models.ts";
import { MODULE_LIMITS, type ModuleLimits } from "./limits.ts";

export interface ModulesParts extends Omit<ModuleParts, "limits"> {
  readonly limits?: Partial<ModuleLimits>;
  /** Whether modules write debug lines, unless their own level says otherwise. */
  readonly debug: boolean;
  /** All modules use TCP, regardless of their entries. */
  readonly tcpMode?: boolean;
  /** The installed version of a module's package, if its configuration gives a word or a range. */
  readonly releaseOf?: (config: ModuleConfig) => string | undefined;
}

/** Variables for another start timeout; the second is the published name. */
const START_TIMEOUT_VARIABLES = ["SVC_MODULE_STARTUP_TIMEOUT", "VIAM_MODULE_STARTUP_TIMEOUT"] as const;

/** Variables that make all modules use TCP; the second is the published name. */
const TCP_VARIABLES = ["SVC_TCP_SOCKETS", "VIAM_TCP_SOCKETS"] as const;

/** A model that a module provides, as clients list it. */
export interface ProvidedModel {
  readonly module: string;
  readonly api: string;
  readonly model: string;
  readonly isLocal: boolean;
}

export interface OpenParts
  extends Pick<ModuleParts, "registry" | "clock" | "activities" | "buildTimeoutMs" | "required"> {
  readonly host: ModuleParts["host"] & Environment;
  readonly logs: Logs;
  readonly debug: boolean;
  readonly untrusted: boolean;
  /** All services of the machine, for modules to call. */
  readonly table: () => ServiceTable;
  readonly releaseOf: ModulesParts["releaseOf"];
}

/** Opens the modules of a machine. The environment gives its home folder and the modules' start timeout. */
export function openModules({ logs, table, ...parts }: OpenParts): Modules {
  const { host, clock } = parts;
  const env = (name: string) => host.env(name);
  const logger = logs.logger("rdk.modmanager");
  const startTimeoutMs = envDurationMs(START_TIMEOUT_VARIABLES, MODULE_LIMITS.startTimeoutMs, env, logger);
  const parent = new ModuleParent({ table, host, clock, logger });
  const groups = new ModuleGroups({ host, clock, logger });

  // Deno has no Unix sockets on Windows.
  const tcpMode = host.platform().os === "windows" ||
    TCP_VARIABLES.some((one) => /^(true|yes|1)$/i.test(env(one) ?? ""));
  return new Modules({
    ...parts,
    logs,
    parent,
    groups,
    tcpMode,
    home: homeFolder(env),
    limits: { startTimeoutMs },
  });
}

export class Modules {
  readonly #parts: ModuleParts & ModulesParts;
  readonly #modules = new Map<string, Module>();
  /** Modules that end once their resources are closed, with the function that releases each. */
  readonly #leaving = new Map<Module, () => void>();
  /** Those that the present pass knows of: the pass closes their resources. */
  #dismissed: readonly Module[] = [];
  /** Resolvers of the callers that wait for a change. */
  readonly #waiting: (() => void)[] = [];
  /** The names in the newest configuration, usable or not. */
  #named: ReadonlySet<string> = new Set();
  /** Warnings that were given about a model of two modules. */
  #doubles: { readonly of: readonly [string, string]; readonly warning: string }[] = [];
  #changed = () => {};

  constructor(parts: ModulesParts) {
    this.#parts = { ...parts, limits: { ...MODULE_LIMITS, ...parts.limits } };
  }

  get statuses(): ModuleStatus[] {
    const leaving = [...this.#leaving.keys()].filter(({ name }) => !this.#modules.has(name));
    return [...this.#modules.values(), ...leaving].map(({ status }) => status);
  }

  get models(): ProvidedModel[] {
    return [...this.#modules.values()].flatMap(({ name, wanted: { config }, models }) =>
      models.map((one) => ({ ...one, module: name, isLocal: config.type === "local" }))
    );
  }

  /** The programs of local modules, as configured. */
  get localPrograms(): { readonly name: string; readonly program: string }[] {
    return [...this.#modules.values()].flatMap(({ name, wanted: { config } }) =>
      config.type === "local" && config.executablePath ? [{ name, program: config.executablePath }] : []
    );
  }

  /** Resource use of each module's process, for diagnostics. */
  get figures(): { readonly [metric: string]: number } {
    const figures: { [metric: string]: number } = {};
    for (const { name, process } of this.#modules.values()) {
      const found = process && this.#parts.host.figuresOf(process.pid);
      if (!found) continue;
      figures[`proc.modules.${name}.resident_bytes`] = found.residentBytes;
      figures[`proc.modules.${name}.cpu_total_us`] = found.cpuUs;
    }
    return figures;
  }

  /** The APIs that only modules know; of two modules with the same API, the first counts. */
  get foreignApis(): AnyApi[] {
    const apis = new Map<string, AnyApi>();
    for (const module of this.#modules.values()) {
      for (const api of module.foreignApis) if (!apis.has(api.name)) apis.set(api.name, api);
    }
    return [...apis.values()];
  }

  /** Calls `changed` at every change except those by `configure`. */
  follow(changed: () => void): void {
    this.#changed = changed;
  }

  /** Sets the modules to those of this configuration. Does not wait for them. */
  configure(config: MachineConfig): void {
    const old = new Map(this.#modules);
    this.#named = new Set(config.moduleNames);
    this.#modules.clear();
    const models = new Map(config.resources.map(({ name, model }) => [name.full, model]));
    for (const wanted of wantedModules(config, this.#parts)) {
      const { name } = wanted.config;
      const known = old.get(name);
      const same = known && comparableJson(known.wanted) === comparableJson(wanted);
      if (same) old.delete(name);
      this.#modules.set(name, same ? known : this.#succeed(wanted, known));
      this.#modules.get(name)!.keep(models);
    }
    this.#doubles = this.#doubles.filter(({ of }) => of.every((name) => this.#modules.has(name)));
    for (const module of old.values()) if (!this.#leaving.has(module)) void this.#withdraw(module);
    this.#dismissed = [...this.#leaving.keys()];
  }

  /** Ends the modules that `configure` has withdrawn; call it when their resources are closed. */
  dismiss(): void {
    for (const module of this.#dismissed) this.#leaving.get(module)?.();
  }

  /** The modules' offer for a resource; `undefined` if no module has its model. */
  offer(resource: ResourceConfig): Offer | undefined {
    for (const module of this.#modules.values()) {
      const offer = module.offer(resource);
      if (offer) return offer;
    }
    // A module without a list of models so far may have this one.
    const unsettled = [...this.#modules.values()].filter(({ isSettled, status }) =>
      !isSettled && status.state !== "ready"
    );
    if (unsettled.length === 0) return undefined;
    const names = unsettled.map(({ name }) => `"${name}"`).join(", ");
    return { kind: "pending", what: `modules are starting: ${names}` };
  }

  /** Why modules that might have a model do not run, for the error about a model that nobody has. */
  get troubles(): string[] {
    return this.statuses.filter(({ state }) => state === "unhealthy").map(({ name, error }) =>
      `"${name}" (${error})`
    );
  }

  /** Resolves when no module is pending. */
  async settled(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && [...this.#modules.values()].some(({ isSettled }) => !isSettled)) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.push(resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
      await promise;
    }
  }

  /** Restarts a module with its resources; resolves when it is ready. `undefined` if there is no such module. */
  restart(
    match: (one: { readonly name: string; readonly id?: string }) => boolean,
  ): Promise<void> | undefined {
    const all = [...this.#modules.values()];
    const module = all.find(({ name, wanted }) => match({ name, id: wanted.config.moduleId }));
    return module && this.#restart(module);
  }

  async #restart(module: Module): Promise<void> {
    const next = this.#succeed(module.wanted, module);
    this.#modules.set(module.name, next);
    this.#tell();
    await next.begun;
    if (next.status.state === "unhealthy") throw new SvcError("unavailable", next.status.error!);
  }

  /** Ends the pauses of modules that could not start. */
  retryNow(): void {
    for (const module of this.#modules.values()) module.retryNow();
  }

  async close(): Promise<void> {
    this.#changed = () => {};
    for (const module of this.#modules.values()) void this.#withdraw(module);
    this.#modules.clear();
    const ends = [...this.#leaving.keys()].map((module) => module.close());
    for (const release of this.#leaving.values()) release();
    await Promise.all(ends);
    await this.#parts.parent.close();
    await this.#parts.groups.close();
  }

  /** Creates a module that starts after the end of its predecessor, if there is one. */
  #succeed(wanted: WantedModule, known: Module | undefined): Module {
    const before = known ? this.#withdraw(known) : this.#ending(wanted.config.name);
    return new Module(wanted, this.#parts, () => this.#tell(), before);
  }

  /** Resolves at the end of the leaving module of this name. */
  async #ending(name: string): Promise<void> {
    const one = [...this.#leaving.keys()].find((leaving) => leaving.name === name);
    await one?.ended;
  }

  async #withdraw(module: Module): Promise<void> {
    module.withdraw();
    const released = Promise.withResolvers<void>();
    this.#leaving.set(module, released.resolve);
    await released.promise;
    await module.close();
    this.#leaving.delete(module);
    if (!this.#named.has(module.name)) await module.removeData();
  }

  /** Of two modules with the same model the first of the configuration counts, whichever is ready first. */
  #warnOfDoubles(): void {
    const owners = new Map<string, string>();
    for (const { module, api, model } of this.models) {
      const key = `${model} of ${api}`;
      const owner = owners.get(key) ?? module;
      owners.set(key, owner);
      const warning = `modules "${owner}" and "${module}" both have ${key}; that of "${owner}" is used`;
      if (owner === module || this.#doubles.some((one) => one.warning === warning)) continue;
      this.#doubles.push({ of: [owner, module], warning });
      this.#parts.logs.logger("rdk.modmanager").warn(warning);
    }
  }

  #tell(): void {
    this.#warnOfDoubles();
    for (const resolve of this.#waiting.splice(0)) resolve();
    this.#changed();
  }
}

/** Each module's settings, with the settings from elsewhere that modules get. */
function wantedModules(
  { modules, cloud, auth, log, tracing, ...config }: MachineConfig,
  { debug, tcpMode = false, releaseOf }: ModulesParts,
): WantedModule[] {
  const [first] = Object.entries(auth.apiKeys ?? {}).sort(([one], [other]) => one < other ? -1 : 1);
  const key = first && { id: first[0], key: first[1].reveal() };
  const machine = cloud && {
    partId: cloud.id,
    machineId: cloud.machineId,
    locationId: cloud.locationId,
    organizationId: cloud.primaryOrgId,
    fqdn: cloud.fqdn,
    appAddress: cloud.appAddress,
  };
  const usual = debug || config.debug ? "debug" : undefined;
  const byName = (name: string) => log.findLast(({ pattern }) => logPattern(pattern).test(name))?.level;
  return modules.map((entry) => {
    const config = { ...entry, tcpMode: entry.tcpMode || tcpMode };
    const logLevel = config.logLevel ?? byName(config.name) ?? usual;
    return { config, release: releaseOf?.(config), machine, tracing: tracing.enabled, key, logLevel };
  });
}
