/**
 * Makes and reverts the change of a rollout in the configuration of a part.
 *
 * Pure. Only the one setting changes, so that edits by people stay, and reverting restores the exact former text if
 * nobody has edited anything.
 */

import { SvcError } from "../../base/error.ts";
import { isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";
import { versionKeyOf } from "../fleet/agent_versions.ts";
import { PROGRAMS, type ReleasedProgram } from "../packages/releases.ts";

export const CHANGE_KINDS = ["fragment", "module", ...PROGRAMS] as const;

export interface RolloutChange {
  readonly kind: typeof CHANGE_KINDS[number];
  /** The id of the fragment or module; empty for a program. */
  readonly id: string;
  readonly version: string;
}

/** The former setting: entries of a list, or the version of a program. */
export type Undo =
  | { readonly entries: readonly Json[] }
  | { readonly version: Json | null; readonly had: "nothing" | "agent" | "version_control" | "version" };

export interface ChangedConfig {
  readonly config: JsonObject;
  readonly undo: Undo;
}

/** Why a rollout leaves a part alone. */
export const HAS_IT = "its configuration has this version already";

const TEXT_CHARS_MAX = 200;

/** Throws `invalid_argument` for an impossible change. */
export function checkedChange(change: { kind: string; id: string; version: string }): RolloutChange {
  const kind = CHANGE_KINDS.find((one) => one === change.kind);
  if (!kind) {
    const wanted = CHANGE_KINDS.join(", ");
    throw new SvcError(
      "invalid_argument",
      `change.kind: found ${JSON.stringify(change.kind)}, wanted ${wanted}`,
    );
  }
  for (const [name, value] of [["id", change.id], ["version", change.version]] as const) {
    const isNeeded = name === "version" || isListed(kind);
    if (value.length > TEXT_CHARS_MAX || isNeeded && value.trim() === "") {
      throw new SvcError("invalid_argument", `change.${name}: wanted 1 to ${TEXT_CHARS_MAX} characters`);
    }
  }
  return { kind, id: isListed(kind) ? change.id : "", version: change.version.trim() };
}

/** The configuration with the change, or the reason why it needs none. */
export function changed(config: JsonObject, change: RolloutChange): ChangedConfig | string {
  if (!isListed(change.kind)) return withProgram(config, change.kind as ReleasedProgram, change.version);

  const { list, isOf, withVersion } = LISTED[change.kind as ListedKind];
  const all = entriesOf(config, list);
  const own = all.filter((one) => isOf(one, change.id));
  if (own.length === 0) return `its configuration does not name ${change.kind} ${change.id} itself`;
  const entries = all.map((one) => isOf(one, change.id) ? withVersion(one, change.version) : one);
  if (JSON.stringify(entries) === JSON.stringify(all)) return HAS_IT;
  return { config: { ...config, [list]: entries }, undo: { entries: own } };
}

/** The configuration without the change; `undefined` if somebody has changed the same setting since. */
export function undone(config: JsonObject, change: RolloutChange, undo: Undo): JsonObject | undefined {
  if (!("entries" in undo)) {
    return withoutProgram(config, change.kind as ReleasedProgram, change.version, undo);
  }

  const { list, isOf, withVersion } = LISTED[change.kind as ListedKind];
  const all = entriesOf(config, list);
  const own = all.filter((one) => isOf(one, change.id));
  const made = undo.entries.map((one) => withVersion(one, change.version));
  if (JSON.stringify(own) !== JSON.stringify(made)) return undefined;
  const before = [...undo.entries];
  return { ...config, [list]: all.map((one) => isOf(one, change.id) ? before.shift()! : one) };
}

type ListedKind = "fragment" | "module";

interface Listed {
  readonly list: string;
  isOf(entry: Json, id: string): boolean;
  withVersion(entry: Json, version: string): Json;
}

const LISTED: { readonly [K in ListedKind]: Listed } = {
  fragment: {
    list: "fragments",
    isOf: (entry, id) => entry === id || isObject(entry) && entry.id === id,
    withVersion: (entry, version) =>
      isObject(entry) ? { ...entry as JsonObject, version } : { id: entry, version } as JsonObject,
  },
  module: {
    list: "modules",
    isOf: (entry, id) => isObject(entry) && entry.module_id === id,
    withVersion: (entry, version) => ({ ...entry as JsonObject, version }),
  },
};

function isListed(kind: RolloutChange["kind"]): kind is ListedKind {
  return kind in LISTED;
}

function entriesOf(config: JsonObject, list: string): Json[] {
  const found = config[list];
  return Array.isArray(found) ? found : [];
}

function withProgram(config: JsonObject, name: ReleasedProgram, version: string): ChangedConfig | string {
  const { agent, versions } = sectionsOf(config);
  const key = versionKeyOf(agent ?? {}, name);
  const before = versions && Object.hasOwn(versions, key) ? versions[key] : undefined;
  if (before === version) return HAS_IT;

  const had = before === undefined ? hadOf(config) : "version";
  const section = { ...agent, version_control: { ...versions, [key]: version } };
  return { config: { ...config, agent: section }, undo: { version: before ?? null, had } };
}

function withoutProgram(
  config: JsonObject,
  name: ReleasedProgram,
  version: string,
  { version: before, had }: Extract<Undo, { had: unknown }>,
): JsonObject | undefined {
  const { agent, versions } = sectionsOf(config);
  const key = versionKeyOf(agent ?? {}, name);
  if (!agent || !versions || versions[key] !== version) return undefined;
  if (had === "version") {
    return { ...config, agent: { ...agent, version_control: { ...versions, [key]: before } } };
  }

  // Removes sections that the change has created, unless somebody has added more to them.
  const { [key]: _, ...otherVersions } = versions;
  const { version_control: __, ...otherSettings } = agent;
  const keepsVersions = had === "version_control" || Object.keys(otherVersions).length > 0;
  const section = keepsVersions ? { ...agent, version_control: otherVersions } : otherSettings;
  if (had !== "nothing" || Object.keys(section).length > 0) return { ...config, agent: section };
  const { agent: ___, ...rest } = config;
  return rest;
}

function sectionsOf({ agent }: JsonObject) {
  const own = isObject(agent) ? agent as JsonObject : undefined;
  const versions = isObject(own?.version_control) ? own.version_control as JsonObject : undefined;
  return { agent: own, versions };
}

function hadOf(config: JsonObject): "nothing" | "agent" | "version_control" {
  const { agent, versions } = sectionsOf(config);
  if (!agent) return "nothing";
  return versions ? "version_control" : "agent";
}
