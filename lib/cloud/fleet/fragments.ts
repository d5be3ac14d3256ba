/**
 * Fragments: pieces of configuration that many parts share.
 *
 * A configuration lists them under `fragments`, by id or as `{"id", "variables"}`, and says in `fragment_mods` what is
 * different for it. Resolving gives one configuration with all of it: lists are joined, of anything else the outer one
 * wins. What cannot be resolved is told and left out, so that one bad fragment does not take a machine's others along.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { checkedName } from "./names.ts";
import { isObject, type Json, type JsonObject, Place, type Problem } from "../../base/schema/schema.ts";
import type { Sql } from "../store/store.ts";

export interface Fragment {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly config: JsonObject;
  readonly revision: number;
  readonly createdMs: number;
  readonly updatedMs: number;
}

/** A configuration with its fragments in it. */
export interface Resolved {
  readonly config: JsonObject;
  readonly problems: readonly Problem[];
  /** Every fragment that is in it, the nested ones too. */
  readonly fragments: readonly Fragment[];
}

/** Fragments within fragments. */
const DEPTH_MAX = 5;
const COLUMNS = `SELECT id, organization_id AS "organizationId", name, config, revision,
  created_ms AS "createdMs", updated_ms AS "updatedMs" FROM fragments`;

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

  async create(organizationId: string, name: string, config: JsonObject, nowMs: number): Promise<string> {
    const id = randomUUID();
    await this.sql.query(
      `INSERT INTO fragments (id, organization_id, name, config, revision, created_ms, updated_ms)
       VALUES (?, ?, ?, ?, 1, ?, ?)`,
      id,
      organizationId,
      checkedName(name),
      JSON.stringify(config),
      nowMs,
      nowMs,
    );
    return id;
  }

  async update(id: string, name: string, config: JsonObject, nowMs: number): Promise<void> {
    await this.sql.query(
      "UPDATE fragments SET name = ?, config = ?, revision = revision + 1, updated_ms = ? WHERE id = ?",
      checkedName(name),
      JSON.stringify(config),
      nowMs,
      id,
    );
  }

  /** Removes one that no part's own configuration names. */
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
    const rows = await this.sql.query<{ id: string; config: string }>(
      "SELECT id, config FROM parts WHERE config LIKE ?",
      `%${id}%`,
    );
    return rows.filter(({ config }) =>
      importsOf(JSON.parse(config), new Place()).some((one) => one.id === id)
    )
      .map((row) => row.id);
  }

  /** Fills in the fragments of an organization; those of another one count as missing. */
  async resolve(config: JsonObject, organizationId: string): Promise<Resolved> {
    const fragments: Fragment[] = [];
    const at = new Place();
    const find = async (id: string) => {
      const found = await this.find(id);
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
  readonly variables: JsonObject;
}

function importsOf({ fragments }: JsonObject, at: Place): Import[] {
  if (fragments === undefined || fragments === null) return [];
  if (!Array.isArray(fragments)) return at.wanted("a list of fragments", fragments) ?? [];
  return fragments.flatMap((one, index): Import[] => {
    if (typeof one === "string") return [{ id: one, variables: {} }];
    if (isObject(one) && typeof one.id === "string") {
      const { id, variables } = one as JsonObject;
      return [{ id: id as string, variables: isObject(variables) ? variables as JsonObject : {} }];
    }
    return at.at(index).wanted('the id of a fragment or {"id": …}', one) ?? [];
  });
}

async function fill(
  config: JsonObject,
  at: Place,
  within: readonly string[],
  find: (id: string) => Promise<Fragment | undefined>,
  used: Fragment[],
): Promise<JsonObject> {
  const { fragments: _, fragment_mods: mods, ...own } = config;
  let merged: JsonObject = own;
  for (const { id, variables } of importsOf(config, at.at("fragments"))) {
    const place = at.at("fragments").at(id);
    if (within.includes(id)) place.error("is in itself");
    else if (within.length >= DEPTH_MAX) place.error(`is more than ${DEPTH_MAX} fragments deep`);
    else {
      const fragment = await find(id);
      if (!fragment) {
        place.error("there is no such fragment in this organization");
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

/** Lists are joined; of all else the outer one counts. */
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

/** Finds the object that holds the end of a path such as `components.motor1.attributes.max_rpm`. */
function change(
  config: JsonObject,
  path: string,
  at: Place,
  act: (holder: JsonObject, key: string) => void,
): void {
  const keys = path.split(".");
  if (keys.includes("__proto__")) return at.error(`${path}: "__proto__" is no setting`);
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
