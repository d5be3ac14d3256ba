/**
 * The agent's settings, in rising precedence: built-in defaults, manufacturer defaults, the cloud.
 *
 * One bad value never affects another. A key (or an entry of `additional_networks`) with a bad value keeps its last
 * good value, or takes its default, and the bad value is reported with its path. `decideSettings` is pure; its caller
 * stores the good values in a file that survives a power loss.
 *
 * The room owns the agent's inputs: its credentials, and the settings of the device with their defaults.
 */

import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import { parseJsonc } from "../../base/schema/jsonc.ts";
import {
  type ConfigField,
  DecodeContext,
  isObject,
  type Json,
  type JsonObject,
  type Problem,
  type Shape,
  snake,
} from "../../base/schema/schema.ts";
import {
  type AdditionalNetwork,
  additionalNetworkField,
  type AdvancedSettings,
  NETWORKS,
  type NetworkSettings,
  SECTIONS,
  type SystemSettings,
} from "./settings_fields.ts";

export type { AdditionalNetwork, AdvancedSettings, NetworkSettings, SystemSettings };

export interface AgentSettings {
  readonly advanced: AdvancedSettings;
  readonly network: NetworkSettings;
  readonly additionalNetworks: { readonly [name: string]: AdditionalNetwork };
  readonly system: SystemSettings;
}

/** The values of one source, by section and published key; all of them are valid. */
export type SettingsLayer = { readonly [section: string]: JsonObject };

/** The values of the last decision, which stand in for unreadable or bad ones. */
export interface LastGood {
  readonly defaults: SettingsLayer;
  readonly cloud: SettingsLayer;
}

export interface SettingsInput {
  /** The manufacturer's defaults; `undefined` if they cannot be read, so that the last good ones apply. */
  readonly defaults?: Json;
  /** The cloud's sections; `undefined` until the cloud has answered, so that the last good ones apply. */
  readonly cloud?: Json;
  readonly lastGood?: LastGood;
}

export interface Decided {
  readonly settings: AgentSettings;
  readonly problems: Problem[];
  readonly lastGood: LastGood;
}

/** Never throws: every input gives usable settings. */
export function decideSettings({ defaults, cloud, lastGood }: SettingsInput): Decided {
  const problems: Problem[] = [];
  const good: LastGood = {
    defaults: goodLayer(
      withSections(defaults),
      lastGood?.defaults ?? {},
      new DecodeContext("defaults", problems),
    ),
    cloud: goodLayer(cloud, lastGood?.cloud ?? {}, new DecodeContext("cloud", problems)),
  };
  return { settings: merge(good, new DecodeContext("", problems)), problems, lastGood: good };
}

/** The problems in the `agent` section of a machine's configuration, except in the versions that it chooses. */
export function settingsProblems(agent: unknown): Problem[] {
  const problems: Problem[] = [];
  if (agent === undefined || agent === null) return problems;
  const cloud = goodLayer(agent, {}, new DecodeContext("agent", problems));
  merge({ defaults: {}, cloud }, new DecodeContext("agent", problems));
  return problems;
}

type Section = keyof typeof SECTIONS;

/** Pairs of keys in one section: if the second is set, the first has no effect. */
const OVERRULED = [
  ["hotspot_prefix", "hotspot_ssid"],
  ["bluetooth_trust_all", "disable_bt_provisioning"],
] as const;

const SECTION_NAMES = [...Object.keys(SECTIONS), NETWORKS];

/** The good values of a source; the last good value replaces a bad one. */
function goodLayer(source: unknown, last: SettingsLayer, at: DecodeContext): SettingsLayer {
  // The stored values are checked again: another version of the agent may have written them.
  if (source === undefined) source = last;
  if (!isObject(source)) {
    at.wanted("an object", source);
    source = last;
  }
  const given = source as Record<string, unknown>;
  for (const key of Object.keys(given).filter((one) => !SECTION_NAMES.includes(one))) {
    // The cloud resolves this key; devices do not need it.
    if (key !== "version_control") warnUnknown(key, SECTION_NAMES, at);
  }
  const layer: Record<string, JsonObject> = {};
  for (const name of SECTION_NAMES) {
    const fields = fieldsOf(name);
    const before = isObject(last[name]) ? last[name] : {};
    const section = given[name] ?? {};
    const here = at.at(name);
    if (!isObject(section)) here.wanted("an object", section);
    const values = isObject(section) ? section as JsonObject : before;
    layer[name] = goodSection(values, before, fields, here);
    for (const [key, other] of OVERRULED) {
      if (layer[name][key] && layer[name][other]) here.at(key).warn(`has no effect with ${other}`);
    }
  }
  return layer;
}

interface SectionFields {
  readonly names: readonly string[];
  /** The field and the published name for a key, in any accepted spelling. */
  find(key: string): { readonly name: string; readonly field: ConfigField<unknown> } | undefined;
}

function goodSection(
  values: JsonObject,
  last: JsonObject,
  fields: SectionFields,
  at: DecodeContext,
): JsonObject {
  const good: JsonObject = {};
  const names = new Set<string>();
  for (const [key, value] of Object.entries(values)) {
    const known = fields.find(key);
    if (!known) {
      warnUnknown(key, fields.names, at);
      continue;
    }
    // The published rule: an empty value counts as not set. False and empty entries of a list are values.
    if (saysNothing(value) || (names.has(known.name) && key !== known.name)) continue;
    names.add(known.name);
    const probe = at.apart(at.at(key).path);
    known.field.decode(value, probe);
    at.problems.push(...probe.problems);

    const stale = last[known.name];
    if (!probe.failed) good[known.name] = value;
    else if (stale !== undefined) {
      const again = new DecodeContext();
      known.field.decode(stale, again);
      if (!again.failed) good[known.name] = stale;
    }
  }
  return good;
}

/** The JSON Schema of the settings, for editors and forms. */
export function settingsSchema(): JsonObject {
  const version = (program: string): JsonObject => ({
    type: "string",
    description: `of ${program}: "stable", "dev", a version such as 1.2.3, or an http, https or file URL`,
  });
  const versions = ["svc-agent", "svc-server"].map((program) => [program, version(program)]);
  const sections = Object.entries(SECTIONS).map(([name, { field }]) => [name, field.jsonSchema()]);
  return {
    type: "object",
    description: "settings of the agent",
    properties: {
      version_control: { type: "object", properties: Object.fromEntries(versions) },
      ...Object.fromEntries(sections),
      [NETWORKS]: { type: "object", additionalProperties: additionalNetworkField.jsonSchema() },
    },
  };
}

function saysNothing(value: Json): boolean {
  return value === null || value === "" || value === 0 ||
    (isObject(value) && Object.keys(value).length === 0) || (Array.isArray(value) && value.length === 0);
}

function fieldsOf(section: string): SectionFields {
  if (section === NETWORKS) return { names: [], find: (name) => ({ name, field: additionalNetworkField }) };
  const known = new Map(namesOf(SECTIONS[section as Section].shape));
  return { names: [...known.keys()], find: (key) => known.get(key) ?? known.get(key.toLowerCase()) };
}

function* namesOf(shape: Shape): Generator<[string, { name: string; field: ConfigField<unknown> }]> {
  for (const [property, field] of Object.entries(shape)) {
    const name = field.spec.key ?? snake(property);
    for (const key of [name, ...(field.spec.aliases ?? [])]) yield [key, { name, field }];
  }
}

function warnUnknown(key: string, known: readonly string[], at: DecodeContext): void {
  const likely = at.suggestions.of(key, known);
  at.at(key).warn(`unknown key, ignored${likely ? `; did you mean "${likely}"?` : ""}`);
}

function merge({ defaults, cloud }: LastGood, at: DecodeContext): AgentSettings {
  const section = <N extends Section>(name: N) => {
    const merged: JsonObject = { ...defaults[name], ...cloud[name] };
    // Merges objects whose keys the user chooses entry by entry.
    for (const [key, value] of Object.entries(merged)) {
      const below = defaults[name]?.[key];
      if (isObject(value) && isObject(below)) merged[key] = { ...below, ...value } as JsonObject;
    }
    return SECTIONS[name].field.decode(merged, new DecodeContext()) as never;
  };
  const networks = Object.entries({ ...defaults[NETWORKS], ...cloud[NETWORKS] });
  return {
    advanced: section("advanced_settings"),
    network: together(section("network_configuration"), at),
    additionalNetworks: Object.fromEntries(
      networks.map(([name, one]) => [name, additionalNetworkField.decode(one, new DecodeContext())!]),
    ),
    system: section("system_configuration"),
  };
}

/** Ensures that the hotspot starts before the offline reboot; otherwise nobody could use the hotspot. */
function together(network: NetworkSettings, at: DecodeContext): NetworkSettings {
  const { deviceRebootAfterOfflineMs: rebootMs, offlineBeforeStartingHotspotMs: hotspotMs } = network;
  if (rebootMs > 0 && rebootMs <= hotspotMs) {
    at.at("network_configuration").at("device_reboot_after_offline_minutes").warn(
      `found ${rebootMs / 60_000} minutes, wanted more than the ${hotspotMs / 60_000} of ` +
        "offline_before_starting_hotspot_minutes: the device is rebooted before its hotspot starts",
    );
  }
  return network;
}

/** The old provisioning file has the keys of the network section at its top level. */
function withSections(json: Json | undefined): Json | undefined {
  if (!isObject(json) || SECTION_NAMES.some((name) => name in json)) return json;
  const network = fieldsOf("network_configuration");
  return Object.keys(json).some((key) => network.find(key))
    ? { network_configuration: json as JsonObject }
    : json;
}

/** Limit of a defaults file, far above any real one. */
const DEFAULTS_BYTES_MAX = 1024 * 1024;

/**
 * Reads the manufacturer's defaults, comments allowed. A missing file counts as an empty one; a bad file is a problem.
 */
export async function readDefaults(
  host: ReadFiles,
  path: string,
): Promise<{ defaults?: Json; problems: Problem[] }> {
  const problems: Problem[] = [];
  try {
    const sizeBytes = await host.fileSize(path) ?? 0;
    if (sizeBytes > DEFAULTS_BYTES_MAX) {
      throw new SvcError(
        "invalid_argument",
        `${path}: found ${sizeBytes} bytes, wanted at most ${DEFAULTS_BYTES_MAX}`,
      );
    }
    const defaults = parseJsonc(await host.readFile(path), { file: path, problems });
    return { defaults, problems };
  } catch (error) {
    if (SvcError.from(error).code === "not_found") return { defaults: {}, problems };
    problems.push({ severity: "error", path: "defaults", message: chainOf(error) });
    return { problems };
  }
}

type KeepHost = ReadFiles & WriteFiles;

/** The file holds passwords. */
const MODE = 0o600;

/** Reads the last good values; `undefined` if there are none, and the cloud's next answer replaces them. */
export async function readLastGood(host: KeepHost, base: string): Promise<LastGood | undefined> {
  try {
    const json: unknown = JSON.parse(await host.readTextFile(keptAt(base)));
    if (isObject(json) && isObject(json.defaults) && isObject(json.cloud)) return json as unknown as LastGood;
  } catch {
    // A missing file and an unusable file are the same to the caller.
  }
  return undefined;
}

/** The settings that apply until the cloud answers: its last good ones, over those of the manufacturer. */
export async function settingsBeforeCloud(
  host: KeepHost,
  base: string,
  defaultsPath: string,
): Promise<AgentSettings> {
  const { defaults } = await readDefaults(host, defaultsPath);
  return decideSettings({ defaults, lastGood: await readLastGood(host, base) }).settings;
}

/** Replaces the file; a power loss leaves the old one or the new one. Throws if it cannot write. */
export async function writeLastGood(host: KeepHost, base: string, lastGood: LastGood): Promise<void> {
  await host.makeFolder(`${base}/state`);
  await host.writeFile(keptAt(base), JSON.stringify(lastGood), { mode: MODE });
}

function keptAt(base: string): string {
  return `${base}/state/settings.json`;
}
