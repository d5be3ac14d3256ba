/**
 * Schemas: one field per setting gives its decoder, default, error, dependency, JSON Schema and documentation.
 *
 * Inside the program a setting has a camelCase name and a type; only the field knows its published name (the snake_case
 * form of the property, unless the field gives another). Decoding reports *every* problem with its path and never
 * throws; JSON `null` counts as absent. Unknown keys are warnings with a likely correction.
 *
 * The room owns how JSON that people write is read, checked, corrected and compared.
 */

import { escapedBlanks } from "../escape.ts";
import { shownUrlsIn } from "../log/shown_url.ts";
import { Suggestions } from "./suggest.ts";

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
/** A JSON object. */
export type JsonObject = { [key: string]: Json };

/** A problem or a warning at a path of a document: `components.0.attributes.pins`. */
export interface Problem {
  readonly severity: "error" | "warning";
  readonly path: string;
  readonly message: string;
}

/** A resource that a setting names and that must be built first. `type` is the resource type word, if known. */
export interface NamedResource {
  readonly name: string;
  readonly type?: string;
  readonly optional: boolean;
  readonly path: string;
}

/** A decoder's position in a document, and the receiver of its reports. */
export class DecodeContext {
  /** @internal */
  constructor(
    /** Such as `components.0.attributes.pins`; empty for the document itself. */
    readonly path: string = "",
    /** @internal */
    readonly problems: Problem[] = [],
    /** @internal */
    readonly named: NamedResource[] = [],
    /**
     * Whether zero values mean the default, as in the attributes that the published runtime decodes.
     *
     * @internal
     */
    readonly zeroIsDefault = false,
    /** @internal */
    readonly suggestions: Suggestions = new Suggestions(),
  ) {}

  /** The position of a property or of an entry of a list. */
  at(key: string | number): DecodeContext {
    const path = this.path === "" ? String(key) : `${this.path}.${key}`;
    return new DecodeContext(path, this.problems, this.named, this.zeroIsDefault, this.suggestions);
  }

  /**
   * The same place, for attributes of a model.
   *
   * @internal
   */
  get ofAttributes(): DecodeContext {
    return new DecodeContext(this.path, this.problems, this.named, true, this.suggestions);
  }

  /**
   * A place of the same document with problems of its own.
   *
   * @internal
   */
  apart(path: string): DecodeContext {
    return new DecodeContext(path, [], [], this.zeroIsDefault, this.suggestions);
  }

  /** Refuses the setting. */
  error(message: string): undefined {
    this.#report("error", message);
    return undefined;
  }

  /** Accepts the setting with a warning. */
  warn(message: string): void {
    this.#report("warning", message);
  }

  /** A message shows every character that looks like a blank, and so does the key if it has one. */
  #report(severity: Problem["severity"], message: string): void {
    const { path, problems } = this;
    const shownPath = escapedBlanks(path);
    const key = shownPath === path
      ? ""
      : ` (the key is written "${shownPath.slice(shownPath.lastIndexOf(".") + 1)}")`;
    problems.push({ severity, path, message: escapedBlanks(message) + key });
  }

  /** Refuses the setting with a message of what it is and what it should be. */
  wanted(wanted: string, found: unknown): undefined {
    return this.error(`found ${found === undefined ? "nothing" : show(found)}, wanted ${wanted}`);
  }

  /** Whether any setting of the document has been refused. */
  get failed(): boolean {
    return this.problems.some((problem) => problem.severity === "error");
  }
}

interface Spec {
  readonly json: JsonObject;
  readonly wanted: string;
  readonly read: (value: unknown, at: DecodeContext) => unknown;
  readonly doc: string;
  readonly required?: boolean;
  /** The decoded value of an absent setting. */
  readonly absent?: (at: DecodeContext) => unknown;
  /** The same in its written form. */
  readonly fallback?: Json;
  /** The written form of a decoded value, if it differs. */
  readonly written?: (value: never) => Json;
  readonly key?: string;
  readonly aliases?: readonly string[];
  /** A value that counts as absent. */
  readonly nothing?: "" | 0;
  /** The zero value of its kind, unless it is a value as good as any: it counts as absent in attributes. */
  readonly zero?: "" | 0;
}

/**
 * One setting of type `T`; `T` includes `undefined` unless the field is required or has a default. A field with a default
 * never decodes to `undefined`, so code that uses the setting has no default of its own.
 */
export class ConfigField<T> {
  /** @internal */
  constructor(
    /** @internal */
    readonly spec: Spec,
  ) {}

  /** The setting must be there. */
  required(): ConfigField<NonNullable<T>> {
    return new ConfigField({ ...this.spec, required: true });
  }

  /**
   * The value of an absent setting and of one that cannot be decoded. `shown` is the written form of the default, if
   * the field cannot derive it.
   */
  default(fallback: NonNullable<T>, shown?: Json): ConfigField<NonNullable<T>> {
    const shownDefault: unknown = shown ??
      (this.spec.written ? this.spec.written(fallback as never) : fallback);
    const written = isJson(shownDefault) && isOfType(shownDefault, this.spec.json.type)
      ? shownDefault
      : undefined;
    return new ConfigField({ ...this.spec, absent: () => fallback, fallback: written });
  }

  /** An absent section equals an empty one: every setting in it has its default. */
  orEmpty(): ConfigField<NonNullable<T>> {
    const { read } = this.spec;
    return new ConfigField({ ...this.spec, absent: (at) => read({}, at) });
  }

  /** An empty text counts as absent, as it does for the published runtime. */
  emptyIsAbsent(): ConfigField<T> {
    return new ConfigField({ ...this.spec, nothing: "" });
  }

  /** 0 counts as absent although the range may exclude it, as it does for the published runtime. */
  zeroIsAbsent(): ConfigField<T> {
    return new ConfigField({ ...this.spec, nothing: 0 });
  }

  /** Its zero value is a value, in attributes too, and an error if the range excludes it. */
  zeroCounts(): ConfigField<T> {
    return new ConfigField({ ...this.spec, zero: undefined });
  }

  /** The published name if it is not the snake_case form of the property. */
  key(key: string): ConfigField<T> {
    return new ConfigField({ ...this.spec, key });
  }

  /** Other published spellings of the same setting. */
  aka(...aliases: string[]): ConfigField<T> {
    return new ConfigField({ ...this.spec, aliases });
  }

  /** The setting names a resource that must be built first; `optional`: it may be missing. */
  names(type?: string, { optional = false } = {}): ConfigField<T> {
    return this.with((value, at) => {
      for (const name of Array.isArray(value) ? value : [value]) {
        if (typeof name === "string" && name !== "") at.named.push({ name, type, optional, path: at.path });
      }
      return value as NonNullable<T>;
    });
  }

  /**
   * A further step after decoding, defaults included: a check (reporting to `at`) or a conversion. It is skipped, with
   * the outcome `undefined`, if the value or a part of it could not be decoded.
   */
  with<U>(
    step: (value: NonNullable<T>, at: DecodeContext) => U | undefined,
  ): ConfigField<U | Extract<T, undefined>> {
    const { read, absent, written: _, ...spec } = this.spec;
    const then = (decoded: unknown, before: number, at: DecodeContext, raw?: unknown) => {
      const bad = at.problems.slice(before).some((problem) => problem.severity === "error");
      if (decoded === undefined || bad) return undefined;
      const unchecked = at.problems.length;
      const taken = step(decoded as NonNullable<T>, at);
      if (spec.json.writeOnly !== true) nameFound(raw, at, unchecked);
      return taken;
    };
    return new ConfigField({
      ...spec,
      read: (value, at) => {
        const before = at.problems.length;
        return then(read(value, at), before, at, value);
      },
      absent: absent && ((at) => then(absent(at), at.problems.length, at)),
    });
  }

  /**
   * Decodes `value`, which may be absent. Reports problems to `at`; an undecodable value becomes the default or,
   * without one, `undefined`.
   *
   * @internal
   */
  decode(value: unknown, at: DecodeContext): T {
    const { required, absent, wanted, read, nothing, zero } = this.spec;
    const isZero = at.zeroIsDefault && value === zero && !(required && value === 0);
    const written = value !== undefined && value !== null && value !== nothing && !isZero;
    if (!written && required) at.error(`missing required field, wanted ${wanted}`);
    return (written ? read(value, at) : undefined) as T ?? absent?.(at) as T;
  }

  /** JSON Schema (2020-12) of what `decode` accepts. */
  jsonSchema(): JsonObject {
    const { json, doc, fallback } = this.spec;
    const schema: JsonObject = { ...json };
    if (doc !== "") schema.description = doc;
    if (fallback !== undefined) schema.default = fallback;
    return schema;
  }
}

/** Adds the refused value, as it is written, to the errors of a check that do not name it. */
function nameFound(raw: unknown, { path, problems }: DecodeContext, from: number): void {
  if (!["string", "number", "boolean"].includes(typeof raw)) return;
  for (const [index, problem] of problems.entries()) {
    const { message } = problem;
    if (index < from || problem.severity !== "error" || problem.path !== path) continue;
    if (message.includes("found ") || message.includes(show(raw))) continue;
    const separator = message.startsWith("wanted ") ? "," : ":";
    problems[index] = {
      ...problem,
      message: `${escapedBlanks(`found ${show(raw)}`)}${separator} ${message}`,
    };
  }
}

/** The type a field decodes to. */
export type Infer<R> = R extends ConfigField<infer T> ? T : never;

/** The fields of an object, by property. */
// deno-lint-ignore no-explicit-any
export type Shape = { readonly [property: string]: ConfigField<any> };

/** A field for a text. `pattern` limits it, and `wanted` says in errors what is expected. */
export function text(
  doc = "",
  { pattern, wanted = "a string" }: { pattern?: RegExp; wanted?: string } = {},
): ConfigField<string | undefined> {
  const json: JsonObject = pattern ? { type: "string", pattern: pattern.source } : { type: "string" };
  const read = (value: unknown, at: DecodeContext) => {
    if (typeof value !== "string" || (pattern && !pattern.test(value))) return at.wanted(wanted, value);
    return value;
  };
  return new ConfigField<string | undefined>({ doc, json, wanted, read, zero: "" });
}

/** A field for `true` or `false`. */
export function bool(doc = ""): ConfigField<boolean | undefined> {
  return fieldOf<boolean>(doc, { type: "boolean" }, "true or false", (value, at) => {
    return typeof value === "boolean" ? value : at.wanted("true or false", value);
  });
}

/** The limits of a number. */
export interface NumberRange {
  /** The least value. */
  min?: number;
  /** The greatest value. */
  max?: number;
  /** Every value is greater than this limit. */
  above?: number;
  /** Refuses a fraction where an integer is wanted, in place of taking the whole part. */
  exact?: boolean;
}

/** A field for a number within `range`. */
export function number(doc = "", range: NumberRange = {}): ConfigField<number | undefined> {
  return numeric(doc, "number", "a number", range);
}

/** A field for an integer within `range`; a fraction is taken as its whole part, with a warning. */
export function integer(doc = "", range: NumberRange = {}): ConfigField<number | undefined> {
  return numeric(doc, "integer", "an integer", range);
}

/** One of a few words, in any letter case. */
export function choice<const W extends string>(doc: string, words: readonly W[]): ConfigField<W | undefined> {
  const wanted = words.length === 1 ? `"${words[0]}"` : `one of ${words.map((w) => `"${w}"`).join(", ")}`;
  const json = { type: "string", enum: [...words] };
  const read = (value: unknown, at: DecodeContext) => {
    const same = (word: W) => typeof value === "string" && word.toLowerCase() === value.toLowerCase();
    const found = words.find(same);
    if (found !== undefined) return found;
    const likely = typeof value === "string" ? at.suggestions.of(value, words) : undefined;
    return at.wanted(likely ? `${wanted}; did you mean "${likely}"?` : wanted, value);
  };
  return new ConfigField<W | undefined>({ doc, json, wanted, read, zero: "" });
}

/** A duration in Go's syntax (`1m30s`, `500ms`), decoded to milliseconds; an empty text counts as absent. */
export function duration(doc = ""): ConfigField<number | undefined> {
  const wanted = 'a duration such as "10s" or "1m30s"';
  const read = (value: unknown, at: DecodeContext) => {
    return (typeof value === "string" ? parseDurationMs(value) : undefined) ?? at.wanted(wanted, value);
  };
  const json: JsonObject = { type: "string", pattern: DURATION.source };
  return new ConfigField<number | undefined>({ doc, json, wanted, read, written: formatDuration })
    .emptyIsAbsent();
}

/** Any JSON, untouched. */
export function any(doc = ""): ConfigField<Json | undefined> {
  return fieldOf<Json>(doc, {}, "a value", (value) => value as Json);
}

/** Any JSON object, untouched. */
export function anyObject(doc = ""): ConfigField<JsonObject | undefined> {
  return fieldOf<JsonObject>(doc, { type: "object" }, "an object", (value, at) => {
    return isObject(value) ? value as JsonObject : at.wanted("an object", value);
  });
}

/** The begin of the description of a published setting without effect. */
export const NOT_SERVED = "not served: ";

/** A setting of the published runtime that has no effect here. A machine that sets it gets `why` as a warning. */
export function unserved(why: string): ConfigField<undefined> {
  const json: JsonObject = { deprecated: true };
  const read = (value: unknown, at: DecodeContext): undefined => {
    // Its zero value asks for nothing.
    if (value !== "" && value !== 0 && value !== false) at.warn(`${NOT_SERVED}${why}`);
  };
  return new ConfigField<undefined>({ doc: `${NOT_SERVED}${why}`, json, wanted: "a value", read });
}

/** A field for a list whose entries are each read by `item`. */
export function list<T>(
  item: ConfigField<T>,
  doc = "",
): ConfigField<readonly NonNullable<T>[] | undefined> {
  const wanted = "an array";
  const present = item.required().zeroCounts();
  return fieldOf<readonly NonNullable<T>[]>(
    doc,
    { type: "array", items: item.jsonSchema() },
    wanted,
    (value, at) => {
      if (!Array.isArray(value)) return at.wanted(wanted, value);
      const items = value.map((one, index) => present.decode(one, at.at(index)));
      return items.filter((one) => one !== undefined);
    },
  );
}

/** An object whose keys the user chooses. */
export function mapOf<T>(
  item: ConfigField<T>,
  doc = "",
): ConfigField<{ readonly [key: string]: NonNullable<T> } | undefined> {
  const json = { type: "object", additionalProperties: item.jsonSchema() };
  const present = item.required().zeroCounts();
  return fieldOf<{ readonly [key: string]: NonNullable<T> }>(doc, json, "an object", (value, at) => {
    if (!isObject(value)) return at.wanted("an object", value);
    const entries = Object.entries(value).map(([key, one]) => [key, present.decode(one, at.at(key))]);
    return Object.fromEntries(entries.filter(([, one]) => one !== undefined));
  });
}

/** An object with known keys. */
export function object<S extends Shape>(
  shape: S,
  doc = "",
): ConfigField<{ readonly [K in keyof S]: Infer<S[K]> } | undefined> {
  const fields = Object.entries(shape).map(([property, field]) => ({
    property,
    field,
    name: field.spec.key ?? snake(property),
  })).map((one) => ({ ...one, keys: [one.name, ...(one.field.spec.aliases ?? [])] }));
  const known = fields.flatMap(({ keys }) => keys);
  const properties: JsonObject = {};
  for (const { field, keys } of fields) for (const key of keys) properties[key] = field.jsonSchema();
  const required = fields.filter(({ field }) => field.spec.required);
  const json: JsonObject = { type: "object", properties };

  const single = required.filter(({ keys }) => keys.length === 1).map(({ name }) => name);
  const either = required.filter(({ keys }) => keys.length > 1)
    .map(({ keys }) => ({ anyOf: keys.map((key) => ({ properties: { [key]: {} }, required: [key] })) }));
  if (single.length > 0) json.required = single;
  if (either.length > 0) json.allOf = either;

  return fieldOf<{ readonly [K in keyof S]: Infer<S[K]> }>(doc, json, "an object", (value, at) => {
    if (!isObject(value)) return at.wanted("an object", value);
    const written = spellings(value, known, at);
    const decoded: Record<string, unknown> = {};
    for (const { property, field, name, keys } of fields) {
      const spelled = keys.flatMap((one) => written.get(one) ?? []);
      const key = spelled.find((one) => value[one] !== undefined && value[one] !== null) ?? spelled[0];
      decoded[property] = field.decode(key === undefined ? undefined : value[key], at.at(key ?? name));
    }
    return decoded as { readonly [K in keyof S]: Infer<S[K]> };
  });
}

/** The same setting, of which a mistake costs only its value: errors are warnings that end with `lost`. */
export function orNothing<T>(field: ConfigField<T>, lost: string): ConfigField<T | undefined> {
  return new ConfigField<T | undefined>({
    ...field.spec,
    read: (value, at) => {
      const own = new DecodeContext(at.path, [], at.named, at.zeroIsDefault);
      const decoded = field.spec.read(value, own);
      for (const problem of own.problems) {
        if (problem.severity === "warning") at.problems.push(problem);
        else at.problems.push({ ...problem, severity: "warning", message: `${problem.message} (${lost})` });
      }
      return own.failed ? undefined : decoded;
    },
  });
}

/** The same object with its keys as the field spells them. */
export function respelled(value: unknown, { spec: { json } }: ConfigField<unknown>): JsonObject {
  if (!isObject(value)) return {};
  const known = Object.keys(json.properties as JsonObject);
  const meant = new Map(
    [...spellings(value, known, new DecodeContext())].map(([key, written]) => [written, key]),
  );
  const entries = Object.entries(value as JsonObject);
  return Object.fromEntries(entries.map(([key, one]) => [meant.get(key) ?? key, one]));
}

const UNITS_MS: { readonly [unit: string]: number } = {
  ns: 1e-6,
  us: 1e-3,
  "µs": 1e-3,
  ms: 1,
  s: 1e3,
  m: 6e4,
  h: 36e5,
};
const DURATION = /^(?:0|[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h))+)$/;
const LONGEST_DURATION = 64;

/** A duration in Go's syntax as milliseconds; `undefined` if it is not one. */
export function parseDurationMs(text: string): number | undefined {
  if (text.length > LONGEST_DURATION || !DURATION.test(text)) return undefined;
  let total = 0;
  for (const [, amount, unit = ""] of text.matchAll(/(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)/g)) {
    total += Number(amount) * (UNITS_MS[unit] ?? NaN);
  }
  return text.startsWith("-") ? -total : total;
}

/** Milliseconds as a duration in Go's syntax: `1m30s`. */
export function formatDuration(ms: number): string {
  const seconds = Math.abs(ms) / 1e3;
  if (seconds < 1) return ms === 0 ? "0s" : `${ms}ms`;
  const parts = [[Math.floor(seconds / 3600), "h"], [Math.floor(seconds / 60) % 60, "m"], [
    seconds % 60,
    "s",
  ]];
  return (ms < 0 ? "-" : "") + parts.filter(([amount]) => amount !== 0).map((part) => part.join("")).join("");
}

/** A value as an error shows it: JSON, cut to a readable length, without the secrets of an address. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? "an empty array" : "an array";
  if (isObject(value)) return "an object";
  const written = typeof value === "number" ? String(value) : JSON.stringify(value) ?? String(value);
  const shown = shownUrlsIn(written);
  return shown.length > 80 ? `${shown.slice(0, 77)}…` : shown;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The same value with the members of its objects in the order of their names. */
export function sortedJson<T extends Json>(value: T): T;
export function sortedJson(value: Json): Json {
  if (Array.isArray(value)) return value.map((item) => sortedJson(item));
  if (!isObject(value)) return value;
  return Object.fromEntries(sortedMembers(value).map(([name, member]) => [name, sortedJson(member)]));
}

/**
 * The JSON text of a value, equal for equal values: members of objects have no order, and come in any order from a
 * program that passes a configuration on.
 */
export function comparableJson(value: unknown): string {
  return JSON.stringify(
    value,
    (_, member) => isObject(member) ? Object.fromEntries(sortedMembers(member)) : member,
  );
}

function sortedMembers<T>(value: { readonly [name: string]: T }): [string, T][] {
  return Object.entries(value).sort(([one], [other]) => one < other ? -1 : 1);
}

/** The published form of a property's name: `maxRpm` is `max_rpm`. */
export function snake(property: string): string {
  return property.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function fieldOf<T>(
  doc: string,
  json: JsonObject,
  wanted: string,
  read: (value: unknown, at: DecodeContext) => T | undefined,
): ConfigField<T | undefined> {
  return new ConfigField({ doc, json, wanted, read });
}

/**
 * How an object spells the known keys: exactly or, if that is missing, in another letter case, which the published
 * runtime accepts too.
 */
function spellings(value: object, known: readonly string[], at: DecodeContext): ReadonlyMap<string, string> {
  const written = new Map<string, string>();
  const unknown: string[] = [];
  for (const key of Object.keys(value)) {
    if (known.includes(key)) written.set(key, key);
    else unknown.push(key);
  }

  const left = unknown.filter((key) => {
    const folded = key.toLowerCase();
    const meant = known.find((one) => one.toLowerCase() === folded && !written.has(one));
    if (meant === undefined) return true;
    written.set(meant, key);
    at.at(key).warn(`taken as "${meant}"`);
  });
  reportUnknown(left, known, at);
  return written;
}

const UNKNOWN_KEYS_MAX = 10;

function reportUnknown(unknown: readonly string[], known: readonly string[], at: DecodeContext): void {
  for (const key of unknown.slice(0, UNKNOWN_KEYS_MAX)) {
    const likely = at.suggestions.of(key, known);
    at.at(key).warn(`unknown key, ignored${likely ? `; did you mean "${likely}"?` : ""}`);
  }
  const more = unknown.length - UNKNOWN_KEYS_MAX;
  if (more > 0) at.warn(`${more} more unknown keys, ignored`);
}

function numeric(
  doc: string,
  type: "number" | "integer",
  noun: string,
  { min, max, above, exact }: NumberRange,
) {
  const json: JsonObject = { type };
  if (min !== undefined) json.minimum = min;
  if (max !== undefined) json.maximum = max;
  if (above !== undefined) json.exclusiveMinimum = above;
  const isBetween = min !== undefined && max !== undefined;
  const limits = [
    isBetween ? `from ${min} to ${max}` : "",
    min !== undefined && !isBetween ? `of at least ${min}` : "",
    max !== undefined && !isBetween ? `of at most ${max}` : "",
    above !== undefined ? `greater than ${above}` : "",
  ].filter((part) => part !== "");
  const wanted = [noun, ...limits].join(" ");

  const fits = (value: number) =>
    (type === "number" ? Number.isFinite(value) : Number.isSafeInteger(value)) &&
    (min === undefined || value >= min) && (max === undefined || value <= max) &&
    (above === undefined || value > above);
  const read = (value: unknown, at: DecodeContext) => {
    if (typeof value !== "number") return at.wanted(wanted, value);
    const taken = type === "integer" && !exact ? Math.trunc(value) + 0 : value;
    if (!fits(taken)) return at.wanted(wanted, value);
    // As the published runtime takes it.
    if (taken !== value) at.warn(`found ${value}, taken as ${taken}: wanted ${wanted}`);
    return taken;
  };
  return new ConfigField<number | undefined>({ doc, json, wanted, read, zero: fits(0) ? undefined : 0 });
}

function isJson(value: unknown): value is Json {
  return value === null || ["string", "number", "boolean"].includes(typeof value) ||
    (Array.isArray(value) && value.every(isJson));
}

function isOfType(value: Json, type: Json | undefined): boolean {
  if (type === undefined) return true;
  return type === (Array.isArray(value) ? "array" : typeof value) ||
    (type === "integer" && Number.isInteger(value));
}
