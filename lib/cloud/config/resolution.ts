/**
 * Resolving: a configuration and the fragments that it names become one configuration.
 *
 * Lists are joined; for anything else the outer value wins. Entries that cannot be resolved are reported and left out,
 * so that one bad fragment does not affect the others of a machine.
 *
 * The work is limited before it is done. Each fragment is read once; each inclusion copies its content once per level,
 * and every copied value counts towards one budget. A configuration over the budget is refused as a whole.
 */

import { starred } from "../../base/schema/json_secrets.ts";
import {
  DecodeContext,
  isObject,
  type Json,
  type JsonObject,
  type Problem,
} from "../../base/schema/schema.ts";
import { overLimit } from "../access/limits.ts";
import { changesOf, FragmentChanges, type FragmentMod } from "./fragment_mods.ts";
import { addPrefix, importPrefixOf } from "./fragment_prefix.ts";
import { packagesIn, type PackageUse } from "./package_uses.ts";
import { clipped, requireFragments, ResolutionBudget, type ResolutionLimits } from "./resolution_budget.ts";

/** A fragment at a version: a revision or a tag; empty for the newest. */
export interface FragmentVersion {
  readonly id: string;
  readonly version: string;
}

/** The text of a fragment that the configuration's organization may use. */
export interface FragmentText extends FragmentVersion {
  readonly revision: number;
  /** Whether it belongs to the organization itself. */
  readonly own: boolean;
  readonly letters: number;
  /** Absent if it would exceed the requested number of letters. */
  readonly text?: string;
}

/** A configuration in its stored form. */
export interface ConfigText {
  readonly text: string;
  /** The fragments that it names itself. */
  readonly imports: readonly FragmentVersion[];
  /** The items of the registry that it names itself. */
  readonly packages: readonly PackageUse[];
}

/** Finds fragments, without the texts that exceed `lettersMax` together. A missing one is absent from the answer. */
export type FindFragments = (
  wanted: readonly FragmentVersion[],
  lettersMax: number,
) => Promise<readonly FragmentText[]>;

/** A fragment that a configuration names itself. */
export interface FragmentImport extends FragmentVersion {
  /** Whether it, or a fragment in it, holds a secret. */
  readonly secret: boolean;
}

export interface Resolution {
  /** The configuration with its fragments filled in. */
  readonly config: JsonObject;
  readonly problems: readonly Problem[];
  /** Every fragment in it, nested ones included, each revision once. */
  readonly used: readonly { readonly id: string; readonly revision: number }[];
  readonly imports: readonly FragmentImport[];
  /** Whether the configuration itself holds a secret. */
  readonly secret: boolean;
}

export interface ResolutionOptions {
  readonly limits: ResolutionLimits;
  /** The fragment whose content the configuration is. */
  readonly within?: string;
  /** Puts stars in place of the secrets of all fragments. */
  readonly masked?: boolean;
  /** Only finds the fragments, and fills none in. */
  readonly findOnly?: boolean;
}

/** Limit of fragments nested in fragments. */
const NESTED_MAX = 5;
const PROBLEMS_MAX = 1_000;

/** Throws `resource_exhausted` if the configuration exceeds a limit. */
export async function resolve(
  config: JsonObject,
  find: FindFragments,
  { limits, within, masked = false, findOnly = false }: ResolutionOptions,
): Promise<Resolution> {
  const budget = new ResolutionBudget(limits);
  budget.count(config);
  const found = await gather(config, find, limits);
  if (masked) { for (const one of found.values()) one.config = maskedFragment(one.config); }
  const used = [...new Map([...found.values()].map((one) => [`${one.id} ${one.revision}`, one])).values()];
  const at = new BoundedContext();
  const resolved = findOnly ? {} : new Filling(found, budget, within ? [within] : []).fill(config, at);
  // Counts the result, because a change may have put any value anywhere.
  new ResolutionBudget(limits).count(resolved);
  return {
    config: resolved,
    problems: at.problems,
    used: used.map(({ id, revision }) => ({ id, revision })),
    imports: namedBy(config).map((one) => ({ ...one, secret: hidesIn(one, found) })),
    secret: hasSecrets(config),
  };
}

/** The stored form of a configuration. */
export function configText(config: JsonObject): ConfigText {
  return { text: JSON.stringify(config), imports: namedBy(config), packages: packagesIn(config) };
}

export interface FragmentEntry extends FragmentVersion {
  readonly variables: JsonObject;
  /** What its names begin with; empty for nothing. */
  readonly prefix: string;
  /** Whether it stays out of the configuration for now. */
  readonly disabled: boolean;
}

/** The fragments that a configuration names itself; reports entries that name none. */
export function importsOf(
  { fragments }: JsonObject,
  at: DecodeContext = new BoundedContext(),
): FragmentEntry[] {
  if (fragments === undefined || fragments === null) return [];
  if (!Array.isArray(fragments)) return at.wanted("a list of fragments", fragments) ?? [];
  return fragments.flatMap((one, index): FragmentEntry[] => {
    if (typeof one === "string") {
      return [{ id: one, version: "", variables: {}, prefix: "", disabled: false }];
    }
    if (isObject(one) && typeof one.id === "string") {
      const { id, version, variables, disabled = false } = one as JsonObject;
      if (typeof disabled !== "boolean" && disabled !== null) {
        at.at(index).at("disabled").wanted("true or false", disabled);
      }
      return [{
        id: id as string,
        version: typeof version === "string" || typeof version === "number" ? String(version) : "",
        variables: isObject(variables) ? variables as JsonObject : {},
        prefix: importPrefixOf(one as JsonObject, at.at(index)),
        disabled: disabled === true,
      }];
    }
    return at.at(index).wanted('the id of a fragment or {"id": …}', one) ?? [];
  });
}

interface Found extends FragmentText {
  config: JsonObject;
  readonly names: readonly FragmentVersion[];
  readonly secret: boolean;
}

type FoundFragments = ReadonlyMap<string, Found>;

function keyOf({ id, version }: FragmentVersion): string {
  return JSON.stringify([id, version]);
}

/** The fragments that a configuration names itself, each version once. */
function namedBy(config: JsonObject): FragmentVersion[] {
  const named = importsOf(config).map(({ id, version }) => ({ id, version }));
  return [...new Map(named.map((one) => [keyOf(one), one])).values()];
}

/** Every fragment that may be reached from a configuration, level by level, each version once. */
async function gather(
  config: JsonObject,
  find: FindFragments,
  limits: ResolutionLimits,
): Promise<FoundFragments> {
  const found = new Map<string, Found>();
  const asked = new Set<string>();
  let letters = 0;
  let level = [namedBy(config)];
  for (let nested = 0; nested <= NESTED_MAX && level.length > 0; nested++) {
    const wanted = new Map<string, FragmentVersion>();
    for (const one of level) {
      for (const named of one) {
        const key = keyOf(named);
        if (asked.has(key)) continue;
        asked.add(key);
        wanted.set(key, named);
        requireFragments(limits, asked.size);
      }
    }
    if (wanted.size === 0) break;
    const texts = await find([...wanted.values()], limits.lettersPerConfiguration - letters);
    level = texts.map((one) => {
      letters += one.letters;
      if (one.text === undefined || letters > limits.lettersPerConfiguration) {
        throw overLimit(limits, "lettersPerConfiguration", `its fragments have ${letters} together`);
      }
      const parsed = JSON.parse(one.text) as JsonObject;
      new ResolutionBudget(limits).count(parsed);
      const names = namedBy(parsed);
      found.set(keyOf(one), { ...one, text: undefined, config: parsed, names, secret: hasSecrets(parsed) });
      return names;
    });
  }
  return found;
}

/** A fragment with stars for its secrets. Variables stay: their values come from those who use the fragment. */
function maskedFragment(config: JsonObject): JsonObject {
  return withVariableNames(config, starred(config)) as JsonObject;
}

function withVariableNames(value: Json, masked: Json): Json {
  if (Array.isArray(value)) {
    return value.map((one, at) => withVariableNames(one, (masked as Json[])[at] ?? null));
  }
  if (!isObject(value)) return masked;
  const [own, stars] = [value as JsonObject, masked as JsonObject];
  if (isObject(own.$variable)) {
    const { default_value: fallback } = stars.$variable as JsonObject;
    return {
      $variable: fallback === undefined ? own.$variable : { ...own.$variable, default_value: fallback },
    };
  }
  return Object.fromEntries(
    Object.entries(own).map(([key, one]) => [key, withVariableNames(one, stars[key] ?? null)]),
  );
}

function hasSecrets(config: JsonObject): boolean {
  return JSON.stringify(maskedFragment(config)) !== JSON.stringify(config);
}

/** Whether a fragment or one that it reaches has secrets. */
function hidesIn(named: FragmentVersion, found: FoundFragments): boolean {
  const seen = new Set<string>();
  const left = [named];
  for (let next = left.pop(); next; next = left.pop()) {
    const one = found.get(keyOf(next));
    if (!one || seen.has(keyOf(next))) continue;
    if (one.secret) return true;
    seen.add(keyOf(next));
    for (const inner of one.names) left.push(inner);
  }
  return false;
}

/** A place with a limited list of problems. */
class BoundedContext extends DecodeContext {
  override at(key: string | number): DecodeContext {
    return new BoundedContext(clippedPath(this.path, key), this.problems);
  }

  override error(message: string): undefined {
    if (this.problems.length < PROBLEMS_MAX) super.error(message);
    return undefined;
  }

  override warn(message: string): void {
    if (this.problems.length < PROBLEMS_MAX) super.warn(message);
  }
}

function clippedPath(path: string, key: string | number): string {
  const word = clipped(String(key));
  return path === "" ? word : `${path}.${word}`;
}

class Filling {
  /** `root`: the fragments around the outermost configuration, which has been counted. */
  constructor(
    private readonly found: FoundFragments,
    private readonly budget: ResolutionBudget,
    private readonly root: readonly string[],
  ) {}

  /** `within`: the fragments around `config`. */
  fill(config: JsonObject, at: DecodeContext, within = this.root): JsonObject {
    const { fragments = null, fragment_mods: mods = null, ...own } = config;
    if (within !== this.root) {
      // The list of fragments is read again at each inclusion.
      this.budget.count(fragments);
      this.budget.count(mods);
    }
    const merged = new Merged(own);
    const place = at.at("fragments");
    const entries = importsOf(config, place);
    const changes = this.#changesTo(entries, mods, at.at("fragment_mods"));
    const earlier = new Set<string>();
    for (const entry of entries.filter(({ disabled }) => !disabled)) {
      this.budget.include();
      const inner = this.#filled(entry, place.at(entry.id), within, earlier);
      if (!inner) continue;
      const others = entries.filter(({ id, prefix }) => id === entry.id && prefix !== entry.prefix);
      const prefixes = { own: entry.prefix, others: others.map(({ prefix }) => prefix) };
      const own = changes.get(entry.id);
      if (own) new FragmentChanges(inner, this.budget, prefixes).apply(own);
      if (entry.prefix !== "") addPrefix(inner, entry.prefix, this.budget);
      merged.add(inner);
    }
    return merged.config;
  }

  /** The changes to each import, by its id. Those to a fragment within an import are changes to that import. */
  #changesTo(entries: readonly FragmentEntry[], mods: Json, at: DecodeContext) {
    const changes = new Map<string, FragmentMod[]>();
    const direct = new Set(entries.map(({ id }) => id));
    let nested: ReadonlyMap<string, string> | undefined;
    for (const [id, own] of changesOf(mods, at)) {
      const found = direct.has(id) ? id : (nested ??= this.#importsByNested(entries)).get(id);
      if (found === undefined) {
        own[0]?.at.warn(`${clipped(id)} is none of the fragments here: nothing is changed`);
      } else for (const mod of own) changes.getOrInsertComputed(found, () => []).push(mod);
    }
    return changes;
  }

  /** By the id of each fragment within the imports, at any level, that of the first import that holds it. */
  #importsByNested(entries: readonly FragmentEntry[]): ReadonlyMap<string, string> {
    const imports = new Map<string, string>();
    const seen = new Set<string>();
    for (const entry of entries) {
      const left: FragmentVersion[] = [entry];
      for (let next = left.pop(); next; next = left.pop()) {
        const key = keyOf(next);
        if (seen.has(key)) continue;
        seen.add(key);
        for (const inner of this.found.get(key)?.names ?? []) {
          this.budget.spend(0);
          imports.getOrInsert(inner.id, entry.id);
          left.push(inner);
        }
      }
    }
    return imports;
  }

  #filled(
    { id, version, variables, prefix }: FragmentEntry,
    at: DecodeContext,
    within: readonly string[],
    earlier: Set<string>,
  ): JsonObject | undefined {
    if (within.includes(id)) return at.error("is in itself");
    if (within.length >= NESTED_MAX) return at.error(`is more than ${NESTED_MAX} fragments deep`);
    const same = JSON.stringify([id, version, variables, prefix]);
    if (earlier.has(same)) {
      const how = prefix === "" ? "the same variables" : `the prefix "${prefix}" and the same variables`;
      return at.error(
        `is listed twice here with ${how}: remove one of the entries, or give it another prefix`,
      );
    }
    earlier.add(same);
    const fragment = this.found.get(keyOf({ id, version }));
    if (!fragment) {
      const which = version === ""
        ? "there is no such fragment"
        : `there is no version "${clipped(version)}" of it`;
      return at.error(`${which} that this organization may use`);
    }
    if (fragment.secret && !fragment.own) {
      return at.error("it holds secrets, and belongs to another organization");
    }
    const inner = this.fill(fragment.config, at, [...within, id]);
    return this.#withVariables(inner, variables, at);
  }

  /** A copy with `{"$variable": {"name", "default_value"}}` replaced. */
  #withVariables(config: JsonObject, variables: JsonObject, at: DecodeContext): JsonObject {
    const copied = this.budget.copy(config, ({ $variable: variable }) => {
      if (!isObject(variable)) return undefined;
      const { name, default_value: fallback } = variable as JsonObject;
      const word = typeof name === "string" ? name : "";
      const found = Object.hasOwn(variables, word) ? variables[word] : fallback;
      if (found === undefined) at.error(`variable "${clipped(word)}" has no value`);
      return found ?? null;
    });
    return isObject(copied) ? copied as JsonObject : {};
  }
}

/** The lists in which the same entry, of several imports of a fragment, counts once. */
const PROGRAMS = ["modules", "packages"];

/** Joins configurations, the outermost first: lists grow; for anything else the first value stays. */
class Merged {
  readonly config: JsonObject;
  /** Lists that belong to `config` alone. */
  readonly #grown = new Map<string, Json[]>();
  /** The entries of those in which each counts once. */
  readonly #known = new Map<string, Set<string>>();

  constructor(outermost: JsonObject) {
    this.config = { ...outermost };
  }

  add(inner: JsonObject): void {
    for (const [key, value] of Object.entries(inner)) {
      if (!Object.hasOwn(this.config, key)) {
        this.config[key] = value;
        continue;
      }
      const own = this.config[key];
      if (!Array.isArray(value) || !Array.isArray(own)) continue;
      const list = this.#grown.getOrInsertComputed(key, () => [...own]);
      const further = PROGRAMS.includes(key) ? this.#unknownOf(value, key, list) : value;
      for (const one of further) list.push(one);
      this.config[key] = list;
    }
  }

  /** The entries that `list` does not have yet. */
  #unknownOf(entries: Json[], key: string, list: readonly Json[]): Json[] {
    const known = this.#known.getOrInsertComputed(key, () => new Set(list.map((one) => JSON.stringify(one))));
    const unknown = entries.filter((one) => !known.has(JSON.stringify(one)));
    for (const one of unknown) known.add(JSON.stringify(one));
    return unknown;
  }
}
