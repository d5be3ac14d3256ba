/**
 * Fragments: pieces of configuration that many parts share.
 *
 * A configuration lists them under `fragments`, by id or as `{"id", "variables"}`, and changes them under
 * `fragment_mods`. Resolving produces one configuration: lists are joined, for anything else the outer value wins.
 * `version` in an entry pins a revision or a tag; without it the newest one counts. Entries that cannot be resolved
 * are reported and left out, so that one bad fragment does not take a machine's others along.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { checkedName } from "../fleet/names.ts";
import { isObject, type Json, type JsonObject, Place, type Problem } from "../../base/schema/schema.ts";
import { places, type Sql, type SqlValue } from "../store/store.ts";

export interface Fragment {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly config: JsonObject;
  readonly revision: number;
  readonly createdMs: number;
  readonly updatedMs: number;
  /** Differs after each change of the fragment or its tags. */
  readonly stamp: number;
}

/** A revision and its predecessor: the two sides of a change. */
export interface FragmentChange {
  readonly revision: number;
  readonly atMs: number;
  readonly who: string;
  readonly config: JsonObject;
  readonly oldName: string;
  readonly old: JsonObject;
}

export interface Tag {
  readonly tag: string;
  readonly revision: number;
}

/** A part whose own configuration names a fragment, with the version there; empty for the newest. */
export interface FragmentUse {
  readonly partId: string;
  readonly machineId: string;
  readonly version: string;
}

/** A configuration with its fragments filled in. */
export interface Resolved {
  readonly config: JsonObject;
  readonly problems: readonly Problem[];
  /** Every fragment in it, nested ones included. */
  readonly fragments: readonly Fragment[];
}

/** Limit of fragments nested in fragments. */
const DEPTH_MAX = 5;
const COLUMNS = `SELECT id, organization_id AS "organizationId", name, config, revision,
  created_ms AS "createdMs", updated_ms AS "updatedMs", stamp FROM fragments`;
/** Each revision `r` beside its predecessor `b`: newest first, below a revision, up to a count. */
const NEWEST_CHANGES = `FROM fragment_revisions r
       JOIN fragment_revisions b ON b.fragment_id = r.fragment_id AND b.revision = r.revision - 1
       WHERE r.fragment_id = ? AND r.revision < ? ORDER BY r.revision DESC LIMIT ?`;
const NUMBER = /^[1-9]\d{0,14}$/;
const TAG = /^(?!\d+$)[\w.-]{1,60}$/;

type Row = Omit<Fragment, "config"> & { config: string };

export class Fragments {
  constructor(private readonly sql: Sql) {}

  async list(organizationId: string): Promise<Fragment[]> {
    return (await this.sql.query<Row>(`${COLUMNS} WHERE organization_id = ? ORDER BY name`, organizationId))
      .map(parsed);
  }

  async find(id: string): Promise<Fragment | undefined> {
    const [row] = await this.sql.query<Row>(`${COLUMNS} WHERE id = ?`, id);
    return row && parsed(row);
  }

  async get(id: string): Promise<Fragment> {
    const found = await this.find(id);
    if (!found) throw new SvcError("not_found", `there is no fragment "${id}"`);
    return found;
  }

  /** A fragment at a version: a revision, or a tag of one; `undefined` if there is no such version. */
  async at(id: string, version: string): Promise<Fragment | undefined> {
    const now = await this.find(id);
    if (!now || version === "") return now;
    const revision = NUMBER.test(version)
      ? Number(version)
      : (await this.tags(id)).find(({ tag }) => tag === version)?.revision;
    const [row] = await this.sql.query<{ name: string; config: string; atMs: number }>(
      `SELECT name, config, at_ms AS "atMs" FROM fragment_revisions WHERE fragment_id = ? AND revision = ?`,
      id,
      revision ?? null,
    );
    return row && revision !== undefined
      ? { ...now, revision, name: row.name, config: JSON.parse(row.config), updatedMs: row.atMs }
      : undefined;
  }

  async create(
    organizationId: string,
    name: string,
    config: JsonObject,
    nowMs: number,
    who = "",
  ): Promise<string> {
    const id = randomUUID();
    await this.#named(
      name,
      `INSERT INTO fragments (id, organization_id, name, config, revision, created_ms, updated_ms)
       VALUES (?, ?, ?, ?, 1, ?, ?)`,
      id,
      organizationId,
      checkedName(name),
      JSON.stringify(config),
      nowMs,
      nowMs,
    );
    await this.#keep(id, who);
    return id;
  }

  async update(id: string, name: string, config: JsonObject, nowMs: number, who = ""): Promise<void> {
    await this.#named(
      name,
      `UPDATE fragments SET name = ?, config = ?, revision = revision + 1, stamp = stamp + 1, updated_ms = ?
       WHERE id = ?`,
      checkedName(name),
      JSON.stringify(config),
      nowMs,
      id,
    );
    await this.#keep(id, who);
  }

  async #named(name: string, text: string, ...values: SqlValue[]): Promise<void> {
    try {
      await this.sql.query(text, ...values);
    } catch (error) {
      if ((error as SvcError).code !== "already_exists") throw error;
      throw new SvcError("already_exists", `there is a fragment "${name}" in this organization already`);
    }
  }

  /** Stores the newest revision in the history. */
  async #keep(id: string, who: string): Promise<void> {
    await this.sql.query(
      `INSERT INTO fragment_revisions (fragment_id, revision, at_ms, who, name, config)
       SELECT id, revision, updated_ms, CAST(? AS TEXT), name, config FROM fragments WHERE id = ?`,
      who,
      id,
    );
  }

  /** Deletes the oldest revisions beyond the given number, except those with a tag and those that parts name. */
  async keepNewest(id: string, count: number): Promise<void> {
    const named = (await this.uses(id)).map(({ version }) => version).filter((one) => NUMBER.test(one));
    await this.sql.query(
      `DELETE FROM fragment_revisions WHERE fragment_id = ?
         AND revision <= (SELECT revision FROM fragments WHERE id = ?) - ?
         AND revision NOT IN (SELECT revision FROM fragment_tags WHERE fragment_id = ?)
         AND revision NOT IN (${places([0, ...named])})`,
      id,
      id,
      count,
      id,
      0,
      ...named.map(Number),
    );
  }

  /** The stored revisions, newest first. */
  revisions(id: string): Promise<{ readonly revision: number; readonly atMs: number }[]> {
    return this.sql.query(
      `SELECT revision, at_ms AS "atMs" FROM fragment_revisions WHERE fragment_id = ? ORDER BY revision DESC`,
      id,
    );
  }

  tags(id: string): Promise<Tag[]> {
    return this.sql.query("SELECT tag, revision FROM fragment_tags WHERE fragment_id = ? ORDER BY tag", id);
  }

  /** Gives a tag to a revision, and takes it from its former revision. */
  async tag(id: string, tag: string, revision: string): Promise<void> {
    if (!TAG.test(tag)) {
      throw new SvcError(
        "invalid_argument",
        `found the tag "${tag}", wanted 1 to 60 letters, digits, "_", "." and "-", and not only digits`,
      );
    }
    const found = NUMBER.test(revision) ? await this.at(id, revision) : undefined;
    if (!found) throw new SvcError("not_found", `fragment "${id}" has no revision "${revision}"`);
    await this.sql.query(
      `INSERT INTO fragment_tags (fragment_id, tag, revision) VALUES (?, ?, ?)
       ON CONFLICT (fragment_id, tag) DO UPDATE SET revision = excluded.revision`,
      id,
      tag,
      found.revision,
    );
    await this.#changed(id);
  }

  /** Throws `failed_precondition` for a tag that parts name. */
  async untag(id: string, tag: string): Promise<void> {
    const uses = (await this.uses(id)).filter(({ version }) => version === tag);
    if (uses.length > 0) {
      throw new SvcError(
        "failed_precondition",
        `tag "${tag}" of fragment "${id}" is named by ${uses.length} parts, wanted none`,
      );
    }
    const text = "DELETE FROM fragment_tags WHERE fragment_id = ? AND tag = ? RETURNING tag";
    if ((await this.sql.query(text, id, tag)).length === 0) {
      throw new SvcError("not_found", `fragment "${id}" has no tag "${tag}"`);
    }
    await this.#changed(id);
  }

  async #changed(id: string): Promise<void> {
    await this.sql.query("UPDATE fragments SET stamp = stamp + 1 WHERE id = ?", id);
  }

  /** How many of the newest changes fit into the given number of letters; at least one. */
  async fitting(id: string, limit: number, lettersMax: number, before = Number.MAX_SAFE_INTEGER) {
    const sizes = await this.sql.query<{ letters: number }>(
      `SELECT LENGTH(r.config) + LENGTH(b.config) AS letters
       ${NEWEST_CHANGES}`,
      id,
      before,
      limit,
    );
    let left = lettersMax;
    const over = sizes.findIndex(({ letters }) => (left -= Number(letters)) < 0);
    return over < 0 ? limit : Math.max(over, 1);
  }

  /** The newest changes, newest first, below revision `before`. */
  async history(id: string, limit: number, before = Number.MAX_SAFE_INTEGER): Promise<FragmentChange[]> {
    const rows = await this.sql.query<
      Omit<FragmentChange, "config" | "old"> & { config: string; old: string }
    >(
      `SELECT r.revision, r.at_ms AS "atMs", r.who, r.config, b.name AS "oldName", b.config AS old
       ${NEWEST_CHANGES}`,
      id,
      before,
      limit,
    );
    return rows.map((row) => ({ ...row, config: JSON.parse(row.config), old: JSON.parse(row.old) }));
  }

  /** Deletes a fragment that no part's own configuration names. */
  async delete(id: string): Promise<void> {
    const parts = await this.users(id);
    if (parts.length > 0) {
      throw new SvcError(
        "failed_precondition",
        `fragment "${id}" is used by ${parts.length} parts, wanted none`,
      );
    }
    await this.sql.query("DELETE FROM fragments WHERE id = ?", id);
  }

  /** The ids of the parts whose own configuration names a fragment. */
  async users(id: string): Promise<string[]> {
    return [...new Set((await this.uses(id)).map(({ partId }) => partId))];
  }

  async uses(id: string): Promise<FragmentUse[]> {
    const rows = await this.sql.query<{ id: string; machineId: string; config: string }>(
      `SELECT id, machine_id AS "machineId", config FROM parts WHERE config LIKE ?`,
      `%${id}%`,
    );
    return rows.flatMap(({ id: partId, machineId, config }) =>
      importsOf(JSON.parse(config), new Place()).filter((one) => one.id === id)
        .map(({ version }) => ({ partId, machineId, version }))
    );
  }

  /** The ids of the machines at these locations that have a part whose own configuration names one of the fragments. */
  async machinesUsing(ids: ReadonlySet<string>, locationIds: readonly string[]): Promise<Set<string>> {
    const machines = new Set<string>();
    if (ids.size === 0 || locationIds.length === 0) return machines;
    const rows = await this.sql.query<{ machineId: string; config: string }>(
      `SELECT p.machine_id AS "machineId", p.config FROM parts p JOIN machines m ON m.id = p.machine_id
       WHERE m.location_id IN (${places(locationIds)}) AND p.config LIKE '%"fragments"%'`,
      ...locationIds,
    );
    for (const { machineId, config } of rows) {
      if (importsOf(JSON.parse(config), new Place()).some(({ id }) => ids.has(id))) machines.add(machineId);
    }
    return machines;
  }

  /** Fills in the fragments of one organization; fragments of another count as missing. */
  async resolve(config: JsonObject, organizationId: string): Promise<Resolved> {
    const fragments: Fragment[] = [];
    const at = new Place();
    const find = async (id: string, version: string) => {
      const found = await this.at(id, version);
      return found?.organizationId === organizationId ? found : undefined;
    };
    const resolved = await fill(config, at, [], find, fragments);
    return { config: resolved, problems: at.problems, fragments };
  }
}

function parsed({ config, ...row }: Row): Fragment {
  return { ...row, config: JSON.parse(config) };
}

interface Import {
  readonly id: string;
  /** A revision or a tag; empty for the newest. */
  readonly version: string;
  readonly variables: JsonObject;
}

function importsOf({ fragments }: JsonObject, at: Place): Import[] {
  if (fragments === undefined || fragments === null) return [];
  if (!Array.isArray(fragments)) return at.wanted("a list of fragments", fragments) ?? [];
  return fragments.flatMap((one, index): Import[] => {
    if (typeof one === "string") return [{ id: one, version: "", variables: {} }];
    if (isObject(one) && typeof one.id === "string") {
      const { id, version, variables } = one as JsonObject;
      return [{
        id: id as string,
        version: typeof version === "string" || typeof version === "number" ? String(version) : "",
        variables: isObject(variables) ? variables as JsonObject : {},
      }];
    }
    return at.at(index).wanted('the id of a fragment or {"id": …}', one) ?? [];
  });
}

async function fill(
  config: JsonObject,
  at: Place,
  within: readonly string[],
  find: (id: string, version: string) => Promise<Fragment | undefined>,
  used: Fragment[],
): Promise<JsonObject> {
  const { fragments: _, fragment_mods: mods, ...own } = config;
  let merged: JsonObject = own;
  for (const { id, version, variables } of importsOf(config, at.at("fragments"))) {
    const place = at.at("fragments").at(id);
    if (within.includes(id)) place.error("is in itself");
    else if (within.length >= DEPTH_MAX) place.error(`is more than ${DEPTH_MAX} fragments deep`);
    else {
      const fragment = await find(id, version);
      if (!fragment) {
        const which = version === "" ? "there is no such fragment" : `there is no version "${version}" of it`;
        place.error(`${which} in this organization`);
        continue;
      }
      used.push(fragment);
      const inner = await fill(fragment.config, place, [...within, id], find, used);
      const filled = withVariables(inner, variables, place) as JsonObject;
      merged = merge(merged, modified(filled, id, mods, at.at("fragment_mods")));
    }
  }
  return merged;
}

/** Joins lists; of anything else the outer value wins. */
function merge(outer: JsonObject, inner: JsonObject): JsonObject {
  const merged: JsonObject = { ...inner, ...outer };
  for (const [key, value] of Object.entries(inner)) {
    const own = outer[key];
    if (Array.isArray(value) && Array.isArray(own)) merged[key] = [...own, ...value];
  }
  return merged;
}

/** Replaces `{"$variable": {"name", "default_value"}}`. */
function withVariables(value: Json, variables: JsonObject, at: Place): Json {
  if (Array.isArray(value)) return value.map((one) => withVariables(one, variables, at));
  if (!isObject(value)) return value;
  const { $variable: variable } = value as JsonObject;
  if (isObject(variable)) {
    const { name, default_value: fallback } = variable as JsonObject;
    const found = Object.hasOwn(variables, String(name)) ? variables[String(name)] : fallback;
    if (found === undefined) at.error(`variable "${name}" has no value`);
    return found ?? null;
  }
  return Object.fromEntries(
    Object.entries(value as JsonObject).map(([key, one]) => [key, withVariables(one, variables, at)]),
  );
}

/** Applies `[{"fragment_id", "mods": [{"$set": {path: value}}, {"$unset": {path: ""}}]}]`. */
function modified(config: JsonObject, id: string, mods: Json | undefined, at: Place): JsonObject {
  if (!Array.isArray(mods)) return config;
  const copy = structuredClone(config);
  for (const [index, one] of mods.entries()) {
    if (!isObject(one) || one.fragment_id !== id || !Array.isArray(one.mods)) continue;
    for (const mod of one.mods as Json[]) {
      const { $set: set, $unset: unset } = isObject(mod) ? mod as JsonObject : {} as JsonObject;
      const place = at.at(index);
      for (const [path, value] of Object.entries(isObject(set) ? set as JsonObject : {})) {
        change(copy, path, place, (holder, key) => holder[key] = value);
      }
      for (const path of Object.keys(isObject(unset) ? unset : {})) {
        change(copy, path, place, (holder, key) => delete holder[key]);
      }
    }
  }
  return copy;
}

/** Finds the object with the last member of a path such as `components.motor1.attributes.max_rpm`. */
function change(
  config: JsonObject,
  path: string,
  at: Place,
  act: (holder: JsonObject, key: string) => void,
): void {
  const keys = path.split(".");
  if (keys.includes("__proto__")) return at.error(`${path}: "__proto__" is not a setting`);
  let holder: Json = config;
  for (const key of keys.slice(0, -1)) {
    if (Array.isArray(holder)) {
      const found: Json | undefined = holder.find((one) => isObject(one) && one.name === key);
      if (found === undefined) return at.error(`${path}: there is nothing named "${key}" in the fragment`);
      holder = found;
    } else {
      const object = holder as JsonObject;
      if (typeof object[key] !== "object" || object[key] === null) object[key] = {};
      holder = object[key];
    }
  }
  const last = keys[keys.length - 1];
  if (!Array.isArray(holder)) return act(holder as JsonObject, last);
  const index = holder.findIndex((one) => isObject(one) && one.name === last);
  if (index < 0) return at.error(`${path}: there is nothing named "${last}" in the fragment`);
  const entries: JsonObject = Object.fromEntries(holder.map((one, at) => [String(at), one]));
  act(entries, String(index));
  holder.splice(0, holder.length, ...Object.values(entries));
}
