/**
 * Settings of a part as fields of forms: what the schema declares, what a person types, and the configuration with what
 * they have changed. Pure.
 */

import { valueIn } from "../../machine/views/configuration/entries.ts";
import {
  type Path,
  type Schema,
  type SchemaValue,
  type Setting,
  settingsAt,
  typesOf,
} from "../../machine/views/configuration/schema.ts";

type JsonObject = { readonly [key: string]: SchemaValue };

/** A group of settings, at a place of the configuration. */
export interface SettingsGroup {
  readonly title: string;
  readonly path: readonly string[];
}

export const NETWORKS_PATH = ["agent", "additional_networks"];

export const SETTINGS_GROUPS: readonly SettingsGroup[] = [
  { title: "Versions", path: ["agent", "version_control"] },
  { title: "Networks and hotspot", path: ["agent", "network_configuration"] },
  { title: "System", path: ["agent", "system_configuration"] },
  { title: "Agent and svc-server", path: ["agent", "advanced_settings"] },
  { title: "Address of svc-server", path: ["network"] },
];

/** How a field is filled in. */
export type FieldKind = "choice" | "secret" | "lines" | "text";

export interface SettingsField extends Setting {
  readonly kind: FieldKind;
  readonly path: readonly string[];
  /** As texts, for `choice`. */
  readonly choices: readonly string[];
  readonly placeholder: string;
}

/** The fields of a group. Of several names of one setting, the one in use counts, or else the neutral one. */
export function settingsFieldsOf(
  schema: Schema,
  config: SchemaValue,
  path: readonly string[],
): SettingsField[] {
  const inUse = valueAt(config, path);
  // Names of one setting share its schema.
  const same = Map.groupBy(
    settingsAt(schema, config, path),
    ({ name, schema: own }) => own.description === undefined ? name : JSON.stringify(own),
  );
  return [...same.values()].flatMap((names) => {
    const used = names.find(({ name }) => valueAt(inUse, [name]) !== undefined);
    const shown = used ?? names.find(({ name }) => !name.includes("viam")) ?? names.at(0);
    return shown ? [fieldOf(shown, path)] : [];
  });
}

function fieldOf(setting: Setting, path: readonly string[]): SettingsField {
  const { schema, name } = setting;
  const choices = typesOf(schema).includes("boolean") ? [true, false] : schema.enum ?? [];
  const [only] = typesOf(schema);
  const { default: fallback } = schema;
  const isShown = fallback !== undefined && fallback !== "" && !schema.writeOnly;
  return {
    ...setting,
    kind: kindOf(schema, choices.length > 0),
    path: [...path, name],
    choices: choices.map((one) => textOf(one)),
    placeholder: isShown ? `default: ${textOf(fallback)}` : only ?? "",
  };
}

function kindOf(schema: Schema, hasChoices: boolean): FieldKind {
  if (hasChoices) return "choice";
  if (schema.writeOnly) return "secret";
  return ["array", "object"].includes(typesOf(schema)[0] ?? "") ? "lines" : "text";
}

/** What stands in the field: a line for each entry of a list or an object. */
export function typedOf(value: SchemaValue | undefined, { kind }: Pick<SettingsField, "kind">): string {
  if (value === undefined || value === null) return "";
  if (kind !== "lines" || typeof value !== "object") return textOf(value);
  if (Array.isArray(value)) return value.map((one) => textOf(one)).join("\n");
  return Object.entries(value).map(([key, one]) => `${key}=${textOf(one)}`).join("\n");
}

/** The value of what a person has typed; `undefined` for nothing. Throws what is wrong with it. */
export function valueOfTyped(typed: string, field: SettingsField): SchemaValue | undefined {
  const { schema, kind, name } = field;
  if (kind !== "lines") {
    const wanted = kind === "secret" ? typed : typed.trim();
    return wanted === "" && !field.choices.includes("") ? undefined : valueOrNothing(wanted, field);
  }
  const lines = typed.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  if (lines.length === 0) return undefined;
  if (typesOf(schema).includes("array")) return lines;
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`${name}: found ${line}, wanted NAME=VALUE on each line`);
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}

function valueOrNothing(typed: string, field: SettingsField): SchemaValue | undefined {
  return typed === "" ? undefined : valueIn(typed, field);
}

/** The configuration with a value at a path, or without one there; objects that become empty go, too. */
export function withValue(
  config: SchemaValue | undefined,
  [key = "", ...rest]: Path,
  value: SchemaValue | undefined,
): JsonObject {
  const own = isRecord(config) ? config : {};
  const next: Record<string, SchemaValue> = { ...own };
  const inner = rest.length === 0 ? value : withValue(own[key], rest, value);
  const isEmpty = inner === undefined ||
    rest.length > 0 && isRecord(inner) && Object.keys(inner).length === 0 && value === undefined;
  if (isEmpty) delete next[key];
  else next[key] = inner;
  return next;
}

export function valueAt(value: SchemaValue | undefined, path: Path): SchemaValue | undefined {
  return path.reduce<SchemaValue | undefined>(
    (inner, key) => isRecord(inner) && Object.hasOwn(inner, key) ? inner[key] : undefined,
    value,
  );
}

function isRecord(value: SchemaValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function textOf(value: SchemaValue): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
