/**
 * Which parts and fragments name an item of the registry: as a registry module, or as a package.
 *
 * Owns the tables `part_packages` and `fragment_packages`. Like the record of the uses of fragments it has what the
 * newest texts name themselves; a part that gets an item through a fragment is found through the fragments that it
 * names. An item stands here as the texts name it, by the id or the public name of its organization, because the item
 * may not exist yet.
 */

import { isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";
import { placeholders, type Sql } from "../store/store.ts";
import { isReloaded } from "./config_message.ts";

export interface PackageUse {
  /** `OWNER/NAME`, where the owner is the id or the public name of an organization. */
  readonly item: string;
  /** As it stands there; empty for none. */
  readonly version: string;
  /** The entry that makes a machine fetch it, such as `modules.0`; absent if no entry does. */
  readonly path?: string;
}

/** A part that gets an item. */
export interface UsingPart {
  readonly partId: string;
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
  readonly version: string;
  /** The fragment in the part's configuration that brings the item; empty for none. */
  readonly fragmentId: string;
  readonly fragmentName: string;
}

export interface UsingFragment {
  readonly fragmentId: string;
  readonly name: string;
  readonly version: string;
}

export type UsingPartCursor = Pick<UsingPart, "partId" | "fragmentId" | "version">;

/** Where the first page begins. */
export const BEFORE_ALL_USES: UsingPartCursor = { partId: "", fragmentId: "", version: "" };

const USES_MAX = 1_000;
const ITEM = /^[\w.-]{1,100}[/:][\w.-]{1,200}$/;
const VERSION = /^[ -~]{0,128}$/;
const ROWS_A_QUERY = 100;

/** The items that a configuration names itself, each version once. */
export function packagesIn({ modules, packages }: JsonObject): PackageUse[] {
  const found = new Map<string, PackageUse>();
  const keep = (id: Json | undefined, version: Json | undefined, path?: string) => {
    if (typeof id !== "string" || !ITEM.test(id) || found.size >= USES_MAX) return;
    const isVersion = typeof version === "string" && VERSION.test(version);
    const use = { item: id.replace(":", "/"), version: isVersion ? version : "" };
    const key = `${use.item} ${use.version}`;
    const known = found.get(key)?.path ?? path;
    found.set(key, known === undefined ? use : { ...use, path: known });
  };
  for (const [at, one] of objectsIn(modules)) {
    const isFetched = one.type === "registry" && !one.executable_path && !isReloaded(one);
    keep(one.module_id, one.version, isFetched ? `modules.${at}` : undefined);
  }
  for (const [at, one] of objectsIn(packages)) keep(one.package, one.version, `packages.${at}`);
  return [...found.values()];
}

/** The objects in a list, each with its place there. */
function objectsIn(list: Json | undefined): [number, JsonObject][] {
  const all: readonly Json[] = Array.isArray(list) ? list : [];
  return all.flatMap((one, at) =>
    isObject(one) ? [[at, one as JsonObject] satisfies [number, JsonObject]] : []
  );
}

/** Records the items that a part's own configuration names. */
export function setPackagesOfPart(sql: Sql, partId: string, used: readonly PackageUse[]): Promise<void> {
  return setUses(sql, "part", partId, used);
}

/** Records the items that the newest revision of a fragment names. */
export function setPackagesOfFragment(sql: Sql, id: string, used: readonly PackageUse[]): Promise<void> {
  return setUses(sql, "fragment", id, used);
}

async function setUses(
  sql: Sql,
  of: "part" | "fragment",
  id: string,
  used: readonly PackageUse[],
): Promise<void> {
  await sql.query(`DELETE FROM ${of}_packages WHERE ${of}_id = ?`, id);
  for (let at = 0; at < used.length; at += ROWS_A_QUERY) {
    const some = used.slice(at, at + ROWS_A_QUERY);
    await sql.query(
      `INSERT INTO ${of}_packages (${of}_id, item, version) VALUES ${some.map(() => "(?, ?, ?)").join(", ")}`,
      ...some.flatMap(({ item, version }) => [id, item, version]),
    );
  }
}

/** The names under which configurations may name an item. */
export function namesOfItem(
  { organizationId, namespace, name }: {
    readonly organizationId: string;
    readonly namespace?: string | null;
    readonly name: string;
  },
): string[] {
  return [`${organizationId}/${name}`, ...namespace ? [`${namespace}/${name}`] : []];
}

/** The parts of an organization that get an item, after the given one, at most `limit`. */
export function partsWithPackage(
  sql: Sql,
  organizationId: string,
  items: readonly string[],
  after: UsingPartCursor,
  limit: number,
): Promise<UsingPart[]> {
  return sql.query(
    `WITH RECURSIVE naming (id, version) AS (
       SELECT fragment_id, version FROM fragment_packages WHERE item IN (${placeholders(items)})
       UNION SELECT u.fragment_id, n.version FROM fragment_fragments u JOIN naming n ON u.used_id = n.id
     ), uses (part_id, version, fragment_id) AS (
       SELECT part_id, version, '' FROM part_packages WHERE item IN (${placeholders(items)})
       UNION SELECT u.part_id, n.version, n.id FROM part_fragments u JOIN naming n ON u.fragment_id = n.id
     )
     SELECT u.part_id AS "partId", p.name AS "partName", m.id AS "machineId", m.name AS "machineName", u.version,
       u.fragment_id AS "fragmentId", COALESCE(f.name, '') AS "fragmentName"
     FROM uses u JOIN parts p ON p.id = u.part_id JOIN machines m ON m.id = p.machine_id
       JOIN locations l ON l.id = m.location_id
       LEFT JOIN fragments f ON f.id = u.fragment_id
         AND (f.organization_id = l.organization_id OR f.visibility <> 'private')
     WHERE l.organization_id = ? AND (u.part_id, u.fragment_id, u.version) > (?, ?, ?)
     ORDER BY u.part_id, u.fragment_id, u.version LIMIT ?`,
    ...items,
    ...items,
    organizationId,
    after.partId,
    after.fragmentId,
    after.version,
    limit,
  );
}

/** The fragments of an organization whose newest revision names an item itself. */
export function fragmentsWithPackage(
  sql: Sql,
  organizationId: string,
  items: readonly string[],
  limit: number,
): Promise<UsingFragment[]> {
  return sql.query(
    `SELECT u.fragment_id AS "fragmentId", f.name, u.version
     FROM fragment_packages u JOIN fragments f ON f.id = u.fragment_id
     WHERE u.item IN (${placeholders(items)}) AND f.organization_id = ? ORDER BY f.name, u.version LIMIT ?`,
    ...items,
    organizationId,
    limit,
  );
}
