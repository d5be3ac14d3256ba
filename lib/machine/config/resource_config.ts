/**
 * One resource of a configuration: its entry in `components` or `services`, decoded against the registry.
 *
 * Every entry with a name and an API becomes a `ResourceConfig`: its errors stay with it and make it unhealthy,
 * nothing else. So does an entry with a name that is not allowed, as with the published runtime. An entry without
 * a name or an API is left out.
 */

import { messageOf } from "../../base/error.ts";
import { escapedBlanks, escapedLine } from "../../base/escape.ts";
import type { Level } from "../../base/log/log.ts";
import {
  any,
  anyObject,
  ConfigField,
  DecodeContext,
  type Infer,
  isObject,
  type Json,
  type JsonObject,
  list,
  type NamedResource,
  object,
  orNothing,
  type Problem,
  respelled,
  text,
} from "../../base/schema/schema.ts";
import { frameField } from "../../geometry/schema.ts";
import { NAME_LENGTH_MAX, parseApi, parseModel, ResourceName } from "../../resource/name.ts";
import type { AnyModel, ModelName, Registry } from "../../resource/registry.ts";
import { fillPlaceholders, type PlaceholderSource } from "./placeholder.ts";
import { logConfigurationField, nameRow, serviceConfigField } from "./settings.ts";

export type ResourceSection = "components" | "services";

export type ServiceConfig = NonNullable<Infer<typeof serviceConfigField>>;

export interface ResourceConfig {
  readonly name: ResourceName;
  /** Its path: `components.0`. */
  readonly path: string;
  readonly kind: "component" | "service";
  /** `rdk:component:motor` */
  readonly api: string;
  /** `rdk:builtin:gpio` */
  readonly model: string;
  /** As configured, with placeholders replaced. */
  readonly attributes: JsonObject;
  /** The attributes decoded by the model; absent for a model that the registry does not know. */
  readonly decoded?: unknown;
  /** Short or full names from `depends_on`. */
  readonly dependsOn: readonly string[];
  /** Dependencies that the attributes name. */
  readonly implicit: readonly NamedResource[];
  /** As configured; without errors it decodes by `frameRow`. */
  readonly frame?: JsonObject;
  readonly logLevel?: Level;
  /** Its settings for services, such as data capture. */
  readonly serviceConfigs: readonly ServiceConfig[];
  /** Its own problems; an error among them makes it unhealthy. */
  readonly problems: readonly Problem[];
  /** Why the registry does not have the model. A module may. */
  readonly modelProblem?: string;
}

export interface ResourceContext {
  readonly registry: Registry;
  readonly placeholders: PlaceholderSource;
}

const modelField: ConfigField<string | undefined> = new ConfigField<string | undefined>({
  doc: "model: a word for one that is built in, or namespace:family:name",
  json: { anyOf: [{ type: "string" }, { type: "object" }] },
  wanted: "the name of a model",
  read: (value, at) => {
    if (isObject(value)) {
      const { namespace, model_family: family, name } = value;
      value = [namespace, family, name].map((part) => typeof part === "string" ? part : "").join(":");
    }
    if (typeof value !== "string") return at.wanted("the name of a model", value);
    return checked(() => parseModel(value as string), at);
  },
}).emptyIsAbsent();

const dependencyField = text("short or full name of a resource").with((name, at) => {
  const short = /^[a-zA-Z0-9][-\w]*(:[a-zA-Z0-9][-\w]*)*$/;
  return short.test(name) ? name : checked(() => ResourceName.parse(name).full, at);
});

export const resourceField = object({
  name: nameRow("name of the resource").emptyIsAbsent(),
  api: text("rdk:component:<type> or rdk:service:<type>").emptyIsAbsent(),
  namespace: text("old form of the API: its first word").emptyIsAbsent(),
  type: text("old form of the API: its last word").emptyIsAbsent(),
  model: modelField,
  frame: orNothing(frameField, "the frame is ignored"),
  dependsOn: list(dependencyField, "resources to be built first").default([]),
  logConfiguration: logConfigurationField,
  attributes: anyObject("settings of the model").default({}),
  serviceConfigs: list(serviceConfigField, "what services are to do with it").default([]),
  uiFolder: any("where web pages show it; machines ignore it"),
}, "a resource");

type Entry = NonNullable<Infer<typeof resourceField>>;

/** An entry of a section, read as far as its model, whose code decodes its attributes. */
export interface ResourceEntry {
  readonly place: DecodeContext;
  /** Absent for an entry that is left out. */
  readonly named?: NamedEntry;
}

interface NamedEntry {
  readonly name: ResourceName;
  readonly entry: Entry;
  /** The entry as configured, with the usual spelling of its keys. */
  readonly raw: JsonObject;
  readonly model?: string;
}

/** The entries of one section; their problems stay with them. */
export function readResources(
  section: ResourceSection,
  entries: readonly Json[],
  at: DecodeContext,
): ResourceEntry[] {
  return entries.map((json, index) => {
    const place = at.apart(`${section}.${index}`);
    const entry = resourceField.required().decode(json, place);
    const raw = respelled(json, resourceField);
    const name = entry && nameOf(entry, raw, section, place);
    return { place, named: name && { name, entry, raw, model: modelOf(entry, raw, name, place) } };
  });
}

/** The models that the entries name. */
export function modelNames(entries: readonly ResourceEntry[]): ModelName[] {
  return entries.flatMap(({ named }) =>
    named?.model === undefined ? [] : [{ api: named.name.api, model: named.model }]
  );
}

/**
 * The resources of entries whose models the registry has loaded. Reports every problem to `at`, also those of entries
 * that are left out.
 */
export function decodeResources(
  entries: readonly ResourceEntry[],
  context: ResourceContext,
  at: DecodeContext,
): ResourceConfig[] {
  const resources: ResourceConfig[] = [];
  for (const { named, place } of entries) {
    if (named) resources.push(resourceOf(named, context, place));
    else leaveOut(place.problems);
    for (const problem of place.problems) at.problems.push(problem);
  }
  return resources;
}

/** The consequence of an error for its entry. */
const IGNORED = " (this entry is ignored)";

/** Adds the consequence for the entry to its errors. */
export function leaveOut(problems: Problem[]): void {
  for (const [index, problem] of problems.entries()) {
    if (problem.severity !== "error") continue;
    problems[index] = { ...problem, message: `${problem.message}${IGNORED}` };
  }
}

/** The same problems of a configuration that is refused as a whole, so that no entry is ignored. */
export function withoutConsequences(problems: readonly Problem[]): Problem[] {
  return problems.map((problem) => {
    const { message } = problem;
    return message.endsWith(IGNORED) ? { ...problem, message: message.slice(0, -IGNORED.length) } : problem;
  });
}

/** One unhealthy resource replaces resources with the same name: they cannot be told apart. */
export function mergeNamesakes(resources: readonly ResourceConfig[], at: DecodeContext): ResourceConfig[] {
  const firsts = new Map<string, ResourceConfig>();
  const clashes = new Map<string, Problem[]>();
  for (const resource of resources) {
    const { full } = resource.name;
    const first = firsts.get(full);
    if (!first) {
      firsts.set(full, resource);
      continue;
    }
    const message =
      `${first.path} and ${resource.path} are both ${full}, neither can be used until one is renamed`;
    const problem: Problem = { severity: "error", path: `${resource.path}.name`, message };
    at.problems.push(problem);
    clashes.set(full, [...clashes.get(full)?.slice(0, CLASHES_SHOWN - 1) ?? [], problem]);
  }

  return [...firsts.values()].map((first) => {
    const clash = clashes.get(first.name.full);
    return clash ? { ...first, problems: [...first.problems, ...clash] } : first;
  });
}

/** The reason of a resource names at most this many namesakes. */
const CLASHES_SHOWN = 3;

/** Undecodable values are reported already; the functions below report only absent ones. */
function absent(raw: JsonObject, key: string): boolean {
  return raw[key] === undefined || raw[key] === null || raw[key] === "";
}

function nameOf(
  entry: Entry,
  raw: JsonObject,
  section: ResourceSection,
  at: DecodeContext,
): ResourceName | undefined {
  const kind = section === "components" ? "component" : "service";
  const api = apiOf(entry, raw, kind, at);
  if (kind === "component" && absent(raw, "name")) {
    at.at("name").error("missing required field, wanted a name");
  }
  const short = kind === "service" && absent(raw, "name") ? "builtin" : entry.name ?? refusedName(raw);
  return api !== undefined && short !== undefined ? ResourceName.of(api, short) : undefined;
}

/**
 * The name by which an entry with a refused name is shown: as it is written, but never one that could be the name
 * of another resource. Colons and slashes separate the parts of names; a long name ends with "…".
 */
function refusedName({ name }: JsonObject): string | undefined {
  if (typeof name !== "string" || name === "") return undefined;
  const shown = escapedBlanks(escapedLine(name)).replaceAll(/[:/]/g, "?");
  const letters = [...shown];
  return letters.length > NAME_LENGTH_MAX ? `${letters.slice(0, NAME_LENGTH_MAX - 1).join("")}…` : shown;
}

function apiOf(
  entry: Entry,
  raw: JsonObject,
  kind: ResourceConfig["kind"],
  at: DecodeContext,
): string | undefined {
  const { api, namespace = "rdk", type } = entry;
  const key = absent(raw, "api") ? "type" : "api";
  if (absent(raw, key)) return at.at("api").error(`missing required field, wanted rdk:${kind}:<type>`);
  const old = type === undefined || type.includes(":") ? type : `${namespace}:${kind}:${type}`;
  const full = key === "api" ? api : old;
  const parsed = full === undefined ? undefined : checked(() => parseApi(full), at.at(key));
  if (parsed && parsed.kind !== kind) at.at(key).warn(`${full} belongs in "${parsed.kind}s"`);
  return parsed && full;
}

function modelOf(
  { model }: Entry,
  raw: JsonObject,
  { api }: ResourceName,
  at: DecodeContext,
): string | undefined {
  if (!absent(raw, "model")) return model;
  if (parseApi(api).kind === "service") return "rdk:builtin:builtin";
  return at.at("model").error("missing required field, wanted the name of a model");
}

function resourceOf(
  { name, entry, raw, model }: NamedEntry,
  { registry, placeholders }: ResourceContext,
  at: DecodeContext,
): ResourceConfig {
  const known = model === undefined ? undefined : lookUp(registry, name.api, model);
  const settings = attributesOf(entry, raw, known, placeholders, at.at("attributes"));
  checkServiceConfigs(entry.serviceConfigs, registry, at);

  return {
    name,
    path: at.path,
    kind: parseApi(name.api).kind,
    api: name.api,
    model: model ?? "",
    ...settings,
    dependsOn: entry.dependsOn,
    // A resource with an error is not built: the error is its reason, not its dependencies.
    implicit: at.failed ? [] : at.named,
    frame: entry.frame && isObject(raw.frame) ? raw.frame as JsonObject : undefined,
    logLevel: entry.logConfiguration?.level,
    serviceConfigs: entry.serviceConfigs,
    problems: at.problems,
    modelProblem: typeof known === "string" ? known : undefined,
  };
}

/** A problem with a service's settings does not affect the resource itself. */
function checkServiceConfigs(configs: readonly ServiceConfig[], registry: Registry, at: DecodeContext): void {
  for (const [index, { type, attributes }] of configs.entries()) {
    const place = at.apart(`${at.path}.service_configs.${index}.attributes`);
    registry.api(type)?.serviceConfig?.decode(attributes, place);
    for (const problem of place.problems) at.problems.push({ ...problem, severity: "warning" });
  }
}

/** Attributes are decoded only if they are complete: consequences of a gap would only confuse. */
function attributesOf(
  { attributes }: Entry,
  raw: JsonObject,
  model: AnyModel | string | undefined,
  placeholders: PlaceholderSource,
  at: DecodeContext,
): Pick<ResourceConfig, "attributes" | "decoded"> {
  const filling = at.apart(at.path);
  const filled = fillPlaceholders(attributes, placeholders, filling);
  for (const problem of filling.problems) at.problems.push(problem);
  const whole = (absent(raw, "attributes") || isObject(raw.attributes)) && !filling.failed;
  const decoded = whole && typeof model === "object"
    ? model.attributes.decode(filled, at.ofAttributes)
    : undefined;
  return { attributes: filled, decoded };
}

/** The model, or the reason why there is none. */
function lookUp(registry: Registry, api: string, model: string): AnyModel | string {
  try {
    return registry.model(api, model);
  } catch (error) {
    return messageOf(error);
  }
}

function checked<T>(parse: () => T, at: DecodeContext): T | undefined {
  try {
    return parse();
  } catch (error) {
    return at.error(messageOf(error));
  }
}
