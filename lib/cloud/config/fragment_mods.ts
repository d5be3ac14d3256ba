/**
 * Changes to the content of fragments: `[{"fragment_id", "mods": [{"$set": {path: value}}, {"$unset": {path: ""}}]}]`.
 *
 * A path such as `components.motor1.attributes.max_rpm` names entries of lists by their `name`. Lists are changed in
 * place, and each list is indexed once, so that the cost grows only with the number of changes.
 */

import { type DecodeContext, isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";
import { clipped, LEVELS_MAX, type ResolutionBudget } from "./resolution_budget.ts";
import { assert } from "../../base/error.ts";

/** One change: of the value at a path, or its removal. */
export interface FragmentMod {
  readonly path: string;
  readonly keys: readonly string[];
  /** `undefined` removes. */
  readonly value: Json | undefined;
  readonly at: DecodeContext;
}

/** The changes to each fragment, by its id, in their order. */
export function changesOf(
  mods: Json | undefined,
  at: DecodeContext,
): ReadonlyMap<string, readonly FragmentMod[]> {
  const changes = new Map<string, FragmentMod[]>();
  if (mods === undefined || mods === null) return changes;
  if (!Array.isArray(mods)) return at.wanted("a list of changes", mods) ?? changes;
  for (const [index, one] of mods.entries()) {
    const place = at.at(index);
    if (!isObject(one) || typeof one.fragment_id !== "string" || !Array.isArray(one.mods)) {
      place.wanted('{"fragment_id": …, "mods": […]}', one);
      continue;
    }
    const list = changes.getOrInsertComputed(one.fragment_id, () => []);
    for (const mod of one.mods as Json[]) {
      if (!isObject(mod)) {
        place.wanted('{"$set": …} or {"$unset": …}', mod);
        continue;
      }
      const { $set: set, $unset: unset, ...others } = mod as JsonObject;
      for (const operator of Object.keys(others)) {
        place.error(`found "${clipped(operator)}", wanted $set or $unset`);
      }
      for (const [path, value] of Object.entries(isObject(set) ? set as JsonObject : {})) {
        addChange(list, path, value, place);
      }
      for (const path of Object.keys(isObject(unset) ? unset : {})) {
        addChange(list, path, undefined, place);
      }
    }
  }
  return changes;
}

function addChange(list: FragmentMod[], path: string, value: Json | undefined, at: DecodeContext): void {
  const keys = path.split(".", LEVELS_MAX + 1);
  const shown = clipped(path);
  if (keys.length > LEVELS_MAX) {
    return at.error(`${shown}: a path of more than ${LEVELS_MAX} words, wanted at most ${LEVELS_MAX}`);
  }
  if (keys.includes("__proto__")) return at.error(`${shown}: "__proto__" is not a setting`);
  list.push({ path: shown, keys, value, at });
}

/** Where a value is: in an object or a list, with the index of a list's entries. */
type Holder = JsonObject | NamedEntries;

/** The prefix of an import, and those of the other imports of the same fragment. */
export interface Prefixes {
  readonly own: string;
  readonly others: readonly string[];
}

/** Applies changes to a configuration in place, before it gets its prefix: a path may name an entry with it, too. */
export class FragmentChanges {
  readonly #lists = new Map<Json[], NamedEntries>();

  constructor(
    private readonly config: JsonObject,
    private readonly budget: ResolutionBudget,
    private readonly prefixes: Prefixes = { own: "", others: [] },
  ) {}

  apply(mods: readonly FragmentMod[]): void {
    for (const mod of mods) {
      this.budget.spend(mod.keys.length);
      const [, name = ""] = mod.keys;
      if (!this.prefixes.others.some((one) => begins(name, one))) this.#apply(mod);
    }
    for (const list of this.#lists.values()) list.close();
  }

  #apply({ path, keys, value, at }: FragmentMod): void {
    const last = keys.at(-1);
    assert(last !== undefined, `a change of a fragment names nothing: ${path}`);
    const copy = value === undefined ? undefined : this.budget.copy(value);
    let holder: Holder = this.config;
    /** The list whose entry the holder is. */
    let entry: { readonly list: NamedEntries; readonly index: number } | undefined;
    for (const key of keys.slice(0, -1)) {
      const step = this.#enter(holder, key);
      if (!step) return at.error(`${path}: there is nothing named "${clipped(key)}" in the fragment`);
      ({ holder, entry } = step);
    }
    if (holder instanceof NamedEntries) {
      if (!holder.put(last, copy)) {
        at.error(`${path}: there is nothing named "${clipped(last)}" in the fragment`);
      }
      return;
    }
    const before = holder.name;
    if (copy === undefined) delete holder[last];
    else holder[last] = copy;
    if (last === "name") entry?.list.renamed(entry.index, before, copy);
  }

  /** The value of a key as a holder; makes an object if there is none. */
  #enter(holder: Holder, key: string) {
    if (holder instanceof NamedEntries) {
      const index = holder.find(key);
      const found = index === undefined ? undefined : holder.list[index];
      if (index === undefined || !isObject(found)) return undefined;
      return { holder: found as JsonObject, entry: { list: holder, index } };
    }
    const own = Object.hasOwn(holder, key) ? holder[key] : undefined;
    if (Array.isArray(own)) {
      const list = this.#lists.getOrInsertComputed(own, () => new NamedEntries(own, this.prefixes.own));
      return { holder: list, entry: undefined };
    }
    const inner: JsonObject = isObject(own) ? own as JsonObject : {};
    holder[key] = inner;
    return { holder: inner, entry: undefined };
  }
}

/** A list whose entries are found by name; if several have the same name, the first. */
class NamedEntries {
  /** The entries of each name, from the first on. */
  readonly #places = new Map<string, number[]>();
  readonly #removed = new Set<number>();

  constructor(readonly list: Json[], private readonly prefix: string) {
    for (const [index, one] of list.entries()) this.#note(index, nameOf(one));
  }

  find(name: string): number | undefined {
    const found = this.#places.get(name)?.[0];
    if (found !== undefined || !begins(name, this.prefix)) return found;
    return this.#places.get(name.slice(this.prefix.length + 1))?.[0];
  }

  /** Replaces an entry, or removes it; false if there is none. */
  put(name: string, value: Json | undefined): boolean {
    const index = this.find(name);
    if (index === undefined) return false;
    this.#forget(index, nameOf(this.list[index]) ?? name);
    if (value === undefined) {
      this.#removed.add(index);
      return true;
    }
    this.list[index] = value;
    this.#note(index, nameOf(value));
    return true;
  }

  renamed(index: number, before: Json | undefined, now: Json | undefined): void {
    if (typeof before === "string") this.#forget(index, before);
    this.#note(index, typeof now === "string" ? now : undefined);
  }

  /** Closes the gaps of removed entries. */
  close(): void {
    if (this.#removed.size === 0) return;
    let kept = 0;
    for (const [index, one] of this.list.entries()) if (!this.#removed.has(index)) this.list[kept++] = one;
    this.list.length = kept;
  }

  #note(index: number, name: string | undefined): void {
    if (name === undefined) return;
    const places = this.#places.getOrInsertComputed(name, () => []);
    const before = places.findLastIndex((place) => place <= index);
    places.splice(before + 1, 0, index);
  }

  #forget(index: number, name: string): void {
    const places = this.#places.get(name);
    const at = places?.indexOf(index) ?? -1;
    if (at >= 0) places!.splice(at, 1);
  }
}

function begins(name: string, prefix: string): boolean {
  return prefix !== "" && name.startsWith(`${prefix}-`);
}

function nameOf(value: Json | undefined): string | undefined {
  return isObject(value) && typeof value.name === "string" ? value.name : undefined;
}
