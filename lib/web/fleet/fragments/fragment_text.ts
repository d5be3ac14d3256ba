/** Fragments and their uses in the configurations of parts. Pure. */

import type { SchemaValue } from "../../machine/views/configuration/schema.ts";

type JsonObject = { readonly [key: string]: SchemaValue };

/** By the numbers of the published FragmentVisibility. */
export const FRAGMENT_AUDIENCES: readonly (readonly [value: number, word: string])[] = [
  [1, "private"],
  [2, "public"],
  [3, "public, not listed"],
];

export function visibilityWord(value: number): string {
  return FRAGMENT_AUDIENCES.find(([one]) => one === value)?.[1] ?? "private";
}

export interface FragmentVariable {
  readonly name: string;
  /** Absent where every use must give a value. */
  readonly fallback?: SchemaValue;
  /** `components.0.attributes.speed` */
  readonly places: readonly string[];
}

/** The variables of a fragment, by name; none of a text that is no JSON. */
export function variablesIn(text: string): FragmentVariable[] {
  const found = new Map<string, FragmentVariable>();
  const visit = (value: SchemaValue, path: string) => {
    if (typeof value !== "object" || value === null) return;
    const variable = memberOf(value, "$variable");
    const name = variable === undefined ? undefined : memberOf(variable, "name");
    if (typeof name === "string") {
      const known = found.get(name);
      const fallback = known?.fallback ?? memberOf(variable!, "default_value");
      found.set(name, { name, fallback, places: [...known?.places ?? [], path] });
      return;
    }
    for (const [key, inner] of Object.entries(value)) visit(inner, path === "" ? key : `${path}.${key}`);
  };
  const parsed = parsedObject(text);
  if (parsed) visit(parsed, "");
  return [...found.values()].sort((a, b) => a.name < b.name ? -1 : 1);
}

/** How a part uses a fragment. */
export interface PartUse {
  /** A revision or a tag; empty for the newest. */
  readonly version: string;
  readonly variables: JsonObject;
  /** The changes to its content: `[{"$set": {…}}]`. */
  readonly mods: readonly SchemaValue[];
}

/** The uses of a fragment in a configuration. Overrides are common to all of them. */
export function usesIn(text: string, fragmentId: string): PartUse[] {
  const config = parsedObject(text) ?? {};
  const mods = listOf(config.fragment_mods).filter((one) => memberOf(one, "fragment_id") === fragmentId)
    .flatMap((one) => listOf(memberOf(one, "mods")));
  return listOf(config.fragments).filter((one) => idOf(one) === fragmentId).map((one) => {
    const version = memberOf(one, "version");
    return {
      version: typeof version === "string" || typeof version === "number" ? String(version) : "",
      variables: objectOf(memberOf(one, "variables")),
      mods,
    };
  });
}

/**
 * The configuration with this as the only use of the fragment; `undefined` takes it out. Everything else stays. Throws
 * for a text that is no object.
 */
export function withUse(text: string, fragmentId: string, use: PartUse | undefined): string {
  const config = parsedObject(text);
  if (!config) throw new Error("the configuration of the part is no JSON object");
  const list = listOf(config.fragments);
  const at = list.findIndex((one) => idOf(one) === fragmentId);
  const entry = use && entryOf(fragmentId, use, list[at]);
  const others = list.filter((one) => idOf(one) !== fragmentId);
  const fragments = entry === undefined
    ? others
    : [...others.slice(0, at < 0 ? others.length : at), entry, ...others.slice(at < 0 ? others.length : at)];
  const otherMods = listOf(config.fragment_mods).filter((one) => memberOf(one, "fragment_id") !== fragmentId);
  const mods = use && use.mods.length > 0
    ? [...otherMods, { fragment_id: fragmentId, mods: use.mods }]
    : otherMods;
  const next: Record<string, SchemaValue> = { ...config, fragments, fragment_mods: mods };
  if (fragments.length === 0) delete next.fragments;
  if (mods.length === 0) delete next.fragment_mods;
  return `${JSON.stringify(next, null, 2)}\n`;
}

/** The id alone where nothing else is said. Whatever else the entry said before stays, such as its prefix. */
function entryOf(id: string, { version, variables }: PartUse, before: SchemaValue | undefined): SchemaValue {
  const { version: _version, variables: _variables, ...others } = objectOf(before);
  const entry = {
    ...others,
    id,
    ...version === "" ? {} : { version },
    ...Object.keys(variables).length === 0 ? {} : { variables },
  };
  return Object.keys(entry).length === 1 ? id : entry;
}

/** What a person types as a variable: JSON, or else a text. */
export function typedValue(typed: string): SchemaValue {
  try {
    return JSON.parse(typed);
  } catch {
    return typed;
  }
}

/** As `typedValue` reads it. */
export function valueText(value: SchemaValue): string {
  if (typeof value !== "string") return JSON.stringify(value);
  return typedValue(value) === value ? value : JSON.stringify(value);
}

function parsedObject(text: string): JsonObject | undefined {
  try {
    const value: SchemaValue = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? value as JsonObject
      : undefined;
  } catch {
    return undefined;
  }
}

function idOf(entry: SchemaValue): SchemaValue | undefined {
  return typeof entry === "string" ? entry : memberOf(entry, "id");
}

function memberOf(value: SchemaValue, key: string): SchemaValue | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return Object.hasOwn(value, key) ? (value as JsonObject)[key] : undefined;
}

function listOf(value: SchemaValue | undefined): readonly SchemaValue[] {
  return Array.isArray(value) ? value : [];
}

function objectOf(value: SchemaValue | undefined): JsonObject {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? value as JsonObject : {};
}
