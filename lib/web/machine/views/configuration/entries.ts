/** New entries of a configuration: what a model wants, and the text with an entry more. Pure. */

import { spanOf, treeOf } from "./document.ts";
import { type Schema, type SchemaValue, type Setting, settingsAt, typesOf, valuesAt } from "./schema.ts";

export type EntrySection = "components" | "services";

export interface Entry {
  readonly name: string;
  readonly api: string;
  readonly model: string;
  readonly attributes?: SchemaValue;
}

/** The APIs of a section and the models of one, as the schema names them. */
export function apisOf(schema: Schema, section: EntrySection): readonly string[] {
  return texts(valuesAt(schema, { [section]: [{}] }, [section, 0, "api"]));
}

export function modelsOf(schema: Schema, section: EntrySection, api: string): readonly string[] {
  const found = texts(valuesAt(schema, { [section]: [{ api }] }, [section, 0, "model"]));
  // Each built-in model is there by its short name, too.
  const long = new Set(found.filter((name) => name.includes(":")).map((name) => name.split(":").at(-1)));
  return found.filter((name) => name.includes(":") || !long.has(name)).sort();
}

export function settingsOf(
  schema: Schema,
  section: EntrySection,
  api: string,
  model: string,
): readonly Setting[] {
  const found = settingsAt(schema, { [section]: [{ api, model, attributes: {} }] }, [
    section,
    0,
    "attributes",
  ]);
  return found.toSorted((a, b) => Number(b.isRequired) - Number(a.isRequired));
}

/** The names of the components and services in a configuration, which may be anything. */
export function resourceNames(document: SchemaValue | undefined): string[] {
  if (typeof document !== "object" || document === null) return [];
  const { components, services } = document as Readonly<Record<string, SchemaValue>>;
  const entries = [components, services].flatMap((list) => Array.isArray(list) ? list as SchemaValue[] : []);
  return entries.flatMap((one) => {
    const { name } = (one ?? {}) as { readonly name?: SchemaValue };
    return typeof name === "string" ? [name] : [];
  });
}

/** What a person has typed into a field, as a value of the setting's type; throws what is wrong with it. */
export function valueIn(typed: string, { name, schema }: Setting): SchemaValue {
  const types = typesOf(schema);
  if (types.includes("string") || types.length === 0 && !/^[[{"]|^(true|false|null|-?\d)/.test(typed)) {
    return typed;
  }
  try {
    return JSON.parse(typed);
  } catch {
    throw new Error(`${name}: found ${typed}, wanted ${types.join(" or ") || "JSON"}`);
  }
}

/** The text of a configuration with an entry more at the end of a section. */
export function withEntry(text: string, section: EntrySection, entry: Entry): string {
  const tree = treeOf(text);
  const written = JSON.stringify(entry, null, 2).replaceAll("\n", "\n    ");
  const list = spanOf(text, tree, [section]);
  if (list && text.slice(list.from, list.from + 1) === "[") {
    const inside = text.slice(list.from + 1, list.to - 1);
    const kept = inside.trimEnd();
    const hasEntries = spanOf(text, tree, [section, 0]) !== undefined;
    const comma = hasEntries && !kept.endsWith(",") ? "," : "";
    return text.slice(0, list.from + 1) + `${kept}${comma}\n    ${written}\n  ` + text.slice(list.to - 1);
  }
  const whole = spanOf(text, tree, []);
  if (!whole || text.slice(whole.from, whole.from + 1) !== "{") {
    throw new Error("the text is no configuration: put its braces in order first");
  }
  const isEmpty = /^\{\s*\}/.test(text.slice(whole.from));
  const member = `\n  "${section}": [\n    ${written}\n  ]${isEmpty ? "\n" : ","}`;
  return text.slice(0, whole.from + 1) + member + text.slice(whole.from + 1);
}

function texts(values: readonly SchemaValue[]): string[] {
  return values.filter((value): value is string => typeof value === "string");
}
