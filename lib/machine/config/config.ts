/**
 * The configuration of a machine: from JSON to values, with every problem.
 *
 * Decoding reports all problems at once, each with its path. The place of a problem decides its effect:
 * - an error in a setting of the machine itself (a section of the wrong type, cloud, network, auth, maintenance,
 *   tracing, flags) is fatal: the configuration is refused, and the one in force stays;
 * - an entry of modules, remotes, packages, jobs or log with an error is left out, and so is a resource without a
 *   usable name;
 * - any other error in a component or service makes that resource unhealthy;
 * - with `disable_partial_start`, each of these errors is fatal, too;
 * - unknown keys are warnings.
 *
 * The room owns a machine's configuration: its sources, its meaning, and its problems.
 */

import { logPattern, type LogRule } from "../../base/log/log.ts";
import { messageOf } from "../../base/error.ts";
import {
  bool,
  ConfigField,
  DecodeContext,
  type Infer,
  isObject,
  type Json,
  type JsonObject,
  list,
  object,
  type Problem,
  text,
} from "../../base/schema/schema.ts";
import type { LineColumn } from "../../base/schema/text_places.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { AnyModel, Registry } from "../../resource/registry.ts";
import {
  fillPlaceholders,
  homeFolder,
  NamedPackages,
  packageFolder,
  type PlaceholderSource,
} from "./placeholder.ts";
import {
  decodeResources,
  leaveOut,
  mergeNamesakes,
  modelNames,
  readResources,
  type ResourceConfig,
  type ResourceEntry,
  resourceField,
  withoutConsequences,
} from "./resource_config.ts";
import {
  authField,
  cloudField,
  foreignFields,
  type JobConfig,
  jobField,
  logField,
  maintenanceField,
  type ModuleConfig,
  moduleField,
  networkField,
  type PackageConfig,
  packageField,
  type RemoteConfig,
  remoteField,
  tracingField,
} from "./settings.ts";

export type { ResourceConfig, ServiceConfig } from "./resource_config.ts";
export type {
  AuthConfig,
  CloudConfig,
  JobConfig,
  MaintenanceConfig,
  ModuleConfig,
  NetworkConfig,
  PackageConfig,
  RemoteConfig,
  TracingConfig,
} from "./settings.ts";

export interface MachineConfig extends Settings {
  readonly modules: readonly ModuleConfig[];
  /** The names of all entries of `modules`, also of those left out because of an error. */
  readonly moduleNames: readonly string[];
  readonly remotes: readonly RemoteConfig[];
  readonly packages: readonly PackageConfig[];
  readonly jobs: readonly JobConfig[];
  /** Components, then services, then default services; names are unique. */
  readonly resources: readonly ResourceConfig[];
  /**
   * From top to bottom, the last match wins: first `log`, then the settings of services, of components, and of jobs.
   */
  readonly log: readonly LogRule[];
  /** The patterns under `log`, without those of single resources or jobs. */
  readonly logPatterns: readonly string[];
}

export interface ConfigSurroundings {
  readonly env: (name: string) => string | undefined;
  /** The folder of a package; by default the published place under the home folder. */
  readonly packages?: (one: PackageConfig) => string;
}

export interface DecodedConfig {
  readonly config: MachineConfig;
  /** Every problem, those of single resources included. */
  readonly problems: readonly Problem[];
  /** Whether the configuration is refused. */
  readonly fatal: boolean;
}

/** The name of a resource's logger. */
export function resourceLogger(name: ResourceName): string {
  return `rdk.resource_manager.${name}`;
}

/** The names by which patterns select a resource's logger: `rdk.components.motor` and `rdk.components.motor.left`. */
export function resourceAliases({ api, short }: ResourceName): string[] {
  const [namespace, kind, type] = api.split(":");
  const all = `${namespace}.${kind}s.${type}`;
  return [all, `${all}.${short}`];
}

/** The name of a job's logger. */
export function jobLogger(name: string): string {
  return `rdk.job_manager.${name}`;
}

/** A list whose entries are decoded later. */
function entries<T>(item: ConfigField<T>, doc: string): ConfigField<readonly Json[]> {
  const { spec } = list(item, doc);
  const read = (value: unknown, at: DecodeContext) =>
    Array.isArray(value) ? value : at.wanted("an array", value);
  return new ConfigField<readonly Json[] | undefined>({ ...spec, read }).default([]);
}

/** Single-valued settings: each field is a property of `MachineConfig`. */
const settingFields = {
  network: networkField,
  auth: authField,
  cloud: cloudField,
  maintenance: maintenanceField,
  debug: bool("debug logs everywhere, overriding all other levels").default(false),
  disablePartialStart: bool(
    "refuse the configuration if anything in it has an error; otherwise the machine goes without that part",
  ).default(false),
  disableLogDeduplication: bool("write every repeated log line").default(false),
  enableWebProfile: bool("serve profiles of the program").default(false),
  tracing: tracingField,
  revision: text("the configuration's own name").default(""),
};

type Settings = { readonly [K in keyof typeof settingFields]: Infer<(typeof settingFields)[K]> };

/** The whole file; the entries of its lists are decoded one by one later. */
const machineField = object({
  components: entries(resourceField, "hardware, or its simulation"),
  services: entries(resourceField, "software on top of components"),
  modules: entries(moduleField, "programs that provide more models"),
  remotes: entries(remoteField, "other machines whose resources this machine uses"),
  packages: entries(packageField, "files to download"),
  jobs: entries(jobField, "scheduled calls"),
  log: entries(logField, "log levels, the last match wins"),
  ...settingFields,
  ...foreignFields,
}, "Configuration of a machine").orEmpty().required();

/** Decodes a configuration and reports every problem in it. Loads the code of the models that it names. */
export async function decodeConfig(
  json: unknown,
  registry: Registry,
  { env, packages = (one) => packageFolder(homeFolder(env), one) }: ConfigSurroundings,
): Promise<DecodedConfig> {
  const at = new DecodeContext();
  const file = machineField.decode(json, at);
  const fatal = at.failed;
  if (!fatal) warnIfOpen(file, at);
  const packageConfigs = decodeEntries("packages", file.packages, packageField, at);
  const placeholders = { env, packages: new NamedPackages(packageConfigs), folderOf: packages };
  const context = { registry, placeholders };
  const componentEntries = readResources("components", file.components, at);
  const serviceEntries = readResources("services", file.services, at);
  const entries = [...componentEntries, ...serviceEntries];
  const defaults = readResources("services", defaultServices(entries, registry), new DecodeContext());
  await registry.load(modelNames([...entries, ...defaults]));

  const components = decodeResources(componentEntries, context, at);
  const services = decodeResources(serviceEntries, context, at);
  const configured = mergeNamesakes([...components, ...services], at);
  const resources = [...configured, ...decodeResources(defaults, context, new DecodeContext())];
  const modules = decodeModules(file.modules, placeholders, at);
  if (modules.length === 0) reportUnknownModels(resources, at);
  const jobs = decodeEntries("jobs", file.jobs, jobField, at);

  const rules = logRules(file.log, at);
  const config: MachineConfig = {
    ...settingsIn(file),
    modules,
    moduleNames: file.modules.flatMap((one) =>
      isObject(one) && typeof one.name === "string" ? [one.name] : []
    ),
    remotes: decodeEntries("remotes", file.remotes, remoteField, at),
    packages: packageConfigs,
    jobs,
    resources,
    log: [
      ...rules,
      ...ownRules(services),
      ...ownRules(components),
      ...jobRules(jobs),
    ],
    logPatterns: rules.map(({ pattern }) => pattern),
  };
  const broken = registry.rules.flatMap((rule) => rule(config, registry));
  const problems = [...at.problems, ...broken];
  if (!fatal && file.disablePartialStart && problems.some(({ severity }) => severity === "error")) {
    return { config, problems: [...withoutConsequences(problems), PARTIAL], fatal: true };
  }
  return { config, problems, fatal: fatal || broken.length > 0 };
}

/** Why errors that only cost a part otherwise refuse the whole configuration. */
const PARTIAL: Problem = {
  severity: "error",
  path: "disable_partial_start",
  message: "it is true, so an error in any part refuses the whole configuration",
};

function settingsIn(file: Settings): Settings {
  const names = Object.keys(settingFields) as (keyof Settings)[];
  return Object.fromEntries(names.map((name) => [name, file[name]])) as Partial<Settings> as Settings;
}

const ALL_INTERFACES = ["", "0.0.0.0", "::"];

/** Default services: one for each API without a configured one. */
function defaultServices(configured: readonly ResourceEntry[], registry: Registry): JsonObject[] {
  const there = new Set(configured.map(({ named }) => named?.name.api));
  return registry.apis.flatMap(({ name: api, byDefault: model }) =>
    model === undefined || there.has(api) || !registry.has(api, model) ? [] : [{ api, model }]
  );
}

/** The control plane tells a managed machine who may call it; an unmanaged machine only knows its configuration. */
function warnIfOpen({ network, auth, cloud }: Infer<typeof machineField>, at: DecodeContext): void {
  if (cloud || auth.apiKeys || auth.publicKeys.length || auth.tlsAuthEntities.length) return;
  if (auth.userPermissions.length > 0) {
    const problem = "no auth.handlers: no caller can show who it is, so all calls are refused";
    return at.at("auth.user_permissions").warn(problem);
  }
  if (!ALL_INTERFACES.includes(network.bindAddress.host)) return;
  at.at("network.bind_address").warn(
    "every interface, and no auth.handlers: everybody who reaches this computer can move the machine",
  );
}

/** The entries of a list without errors; of several with the same name only the first. */
function decodeEntries<T>(
  section: string,
  entries: readonly Json[],
  field: ConfigField<T>,
  at: DecodeContext,
  step: (one: NonNullable<T>, place: DecodeContext) => NonNullable<T> = (one) => one,
): NonNullable<T>[] {
  const names = new Map<unknown, string>();
  const decoded: NonNullable<T>[] = [];
  for (const [index, entry] of entries.entries()) {
    const place = at.apart(`${section}.${index}`);
    const one = field.required().decode(entry, place) as NonNullable<T> | undefined;
    const filled = one && step(one, place);
    const name = (one as { name?: string } | undefined)?.name;
    const earlier = names.get(name);
    if (name !== undefined && earlier !== undefined) {
      place.at("name").error(`"${name}" is also the name of ${earlier}`);
    }
    if (filled && !place.failed) {
      decoded.push(filled);
      names.set(name, place.path);
    }
    leaveOut(place.problems);
    for (const problem of place.problems) at.problems.push(problem);
  }

  return decoded;
}

function decodeModules(
  entries: readonly Json[],
  source: PlaceholderSource,
  at: DecodeContext,
): ModuleConfig[] {
  const programs = new Map<string, string>();
  return decodeEntries("modules", entries, moduleField, at, (module, place) => {
    const path = place.at("executable_path");
    const { executablePath } = module;
    const program = executablePath && fillPlaceholders(executablePath, source, path);
    const earlier = programs.get(program ?? "");
    if (program && earlier) path.error(`"${program}" is also the program of ${earlier}`);
    if (program) programs.set(program, place.path);
    return {
      ...module,
      executablePath: program,
      env: fillPlaceholders({ ...module.env }, source, place.at("env")),
    };
  });
}

/** Bad patterns and levels do not affect how the machine runs, so they are warnings. */
function logRules(entries: readonly Json[], at: DecodeContext): LogRule[] {
  const place = at.apart("");
  const rules = decodeEntries("log", entries, logField, place, (rule, rulePlace) => {
    try {
      logPattern(rule.pattern);
    } catch (error) {
      rulePlace.at("pattern").error(messageOf(error));
    }
    return rule;
  });
  for (const problem of place.problems) at.problems.push({ ...problem, severity: "warning" });
  return rules.filter((rule) => rule.level !== undefined);
}

function ownRules(resources: readonly ResourceConfig[]): LogRule[] {
  return resources.flatMap(({ name, logLevel }) =>
    logLevel ? [{ pattern: resourceLogger(name), level: logLevel }] : []
  );
}

function jobRules(jobs: readonly JobConfig[]): LogRule[] {
  return jobs.flatMap(({ name, logConfiguration }) =>
    logConfiguration?.level ? [{ pattern: jobLogger(name), level: logConfiguration.level }] : []
  );
}

/** Without modules, only built-in models exist. */
function reportUnknownModels(resources: readonly ResourceConfig[], at: DecodeContext): void {
  for (const { path, modelProblem } of resources) {
    if (modelProblem) at.problems.push({ severity: "error", path: `${path}.model`, message: modelProblem });
  }
}

const PROBLEMS_SHOWN = 100;
const PATH_SHOWN = 200;

/**
 * For people: `<file>: <path>: <message>`, one problem per line, errors first. With `where` the place follows the file:
 * `<file>:<line>:<column>`, which editors open.
 */
export function formatProblems(
  problems: readonly Problem[],
  file: string,
  where: (path: string) => LineColumn | undefined = () => undefined,
): string {
  const sorted = problems.toSorted((a, b) =>
    Number(a.severity === "warning") - Number(b.severity === "warning")
  );
  const lines = sorted.slice(0, PROBLEMS_SHOWN).map(({ severity, path, message }) => {
    const place = where(path);
    const begun = place ? `${file}:${place.line}:${place.column}` : file;
    const shown = path === "" ? [] : [path.slice(0, PATH_SHOWN)];
    return [begun, ...shown, severity === "warning" ? `warning: ${message}` : message].join(": ");
  });
  if (sorted.length > PROBLEMS_SHOWN) {
    lines.push(`${file}: and ${sorted.length - PROBLEMS_SHOWN} more problems`);
  }

  return lines.join("\n");
}

/** A printable form: stars for secrets, attributes as configured. */
export function configJson({ resources, ...config }: MachineConfig): string {
  const shown = resources.map(({ name, model, attributes, dependsOn, frame, serviceConfigs }) => {
    return { name: name.full, model, attributes, dependsOn, frame, serviceConfigs };
  });
  return JSON.stringify({ ...config, resources: shown }, null, 2);
}

/** JSON Schema (2020-12) of the whole file, with the attributes of every model of the registry, whose code it loads. */
export async function machineSchema(registry: Registry): Promise<JsonObject> {
  const all = await registry.all();
  const schema = machineField.jsonSchema();
  const properties = schema.properties as JsonObject;
  for (const [section, kind] of [["components", "component"], ["services", "service"]] as const) {
    const models = all.filter((model) => model.api.name.split(":")[1] === kind);
    properties[section] = { ...properties[section] as JsonObject, items: entrySchema(models) };
  }
  return { $schema: "https://json-schema.org/draft/2020-12/schema", title: "svc-server", ...schema };
}

function entrySchema(models: readonly AnyModel[]): JsonObject {
  const entry = resourceField.jsonSchema();
  const apis = [...new Set(models.map((model) => model.api.name))];
  const properties: JsonObject = {
    ...entry.properties as JsonObject,
    api: { anyOf: [{ enum: apis }, { type: "string" }] },
  };
  const modelNames = apis.map((api): Json => {
    const names = models.filter((model) => model.api.name === api).flatMap(namesOf);
    const model: Json = { anyOf: [{ enum: names }, { type: ["string", "object"] }] };
    return { if: is({ api: { const: api } }), then: { properties: { model } } };
  });
  const attributes = models.map((model): Json => {
    const schema = model.attributes.jsonSchema();
    const needed: JsonObject = schema.required === undefined ? {} : { required: ["attributes"] };
    const condition = is({ api: { const: model.api.name }, model: { enum: namesOf(model) } });
    return { if: condition, then: { properties: { attributes: schema }, ...needed } };
  });
  return { ...entry, properties, allOf: [...modelNames, ...attributes] };
}

function is(properties: JsonObject): JsonObject {
  return { properties, required: Object.keys(properties) };
}

/** The spellings of a model: a built-in one also by its last word. */
function namesOf({ name }: AnyModel): string[] {
  return name.startsWith("rdk:builtin:") ? [name.slice("rdk:builtin:".length), name] : [name];
}
