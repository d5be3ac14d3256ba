/**
 * Locations, nested in one another below their organization.
 *
 * Owns the table `locations`. Names are unique in an organization, and ids never change.
 */

import { randomInt } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { lookup } from "../store/lookups.ts";
import { placeholders, queryOne, type Sql } from "../store/store.ts";
import { checkedName } from "./names.ts";
import { type NamedRow, readById, removeGrantsOn, writeName } from "./rows.ts";

export interface Location extends NamedRow {
  readonly organizationId: string;
  readonly parentId: string | null;
  readonly machines: number;
}

const LOCATION_ID = { letters: "abcdefghijklmnopqrstuvwxyz0123456789", length: 10 };

/** Limit of nested locations. */
const LOCATION_LEVELS_MAX = 10;

export const LOCATIONS =
  `SELECT l.id, l.name, l.created_ms AS "createdMs", l.organization_id AS "organizationId",
    l.parent_id AS "parentId", (SELECT COUNT(*) FROM machines m WHERE m.location_id = l.id) AS machines
  FROM locations l`;

export const LOCATIONS_ABOVE = lookup(
  `WITH RECURSIVE above (id) AS (
     SELECT CAST(? AS TEXT)
     UNION SELECT l.parent_id FROM above JOIN locations l ON l.id = above.id WHERE l.parent_id IS NOT NULL
   )
   SELECT id FROM above`,
  LOCATION_LEVELS_MAX + 1,
);

export class Locations {
  constructor(private readonly sql: Sql) {}

  ofOrganization(organizationId: string): Promise<Location[]> {
    return this.sql.query(`${LOCATIONS} WHERE l.organization_id = ? ORDER BY l.name`, organizationId);
  }

  all(): Promise<Location[]> {
    return this.sql.query(`${LOCATIONS} ORDER BY l.name`);
  }

  get(id: string): Promise<Location> {
    return readById(this.sql, `${LOCATIONS} WHERE l.id = ?`, "location", id);
  }

  async create(
    organizationId: string,
    name: string,
    parentId: string,
    nowMs: number,
  ): Promise<string> {
    const id = Array.from(
      { length: LOCATION_ID.length },
      () => LOCATION_ID.letters[randomInt(LOCATION_ID.letters.length)],
    ).join("");
    const text = "INSERT INTO locations (id, organization_id, name, created_ms) VALUES (?, ?, ?, ?)";
    await writeName(this.sql, { kind: "location", name }, text, id, organizationId, checkedName(name), nowMs);
    if (parentId !== "") await this.move(id, parentId);
    return id;
  }

  async rename(id: string, name: string): Promise<void> {
    await writeName(
      this.sql,
      { kind: "location", name },
      "UPDATE locations SET name = ? WHERE id = ?",
      checkedName(name),
      id,
    );
  }

  /** Moves a location into another one of the same organization, or to the top with an empty `parentId`. */
  async move(id: string, parentId: string): Promise<void> {
    const { organizationId } = await this.get(id);
    if (parentId === "") {
      await this.sql.query("UPDATE locations SET parent_id = NULL WHERE id = ?", id);
      return;
    }
    const above = await locationsAbove(this.sql, parentId);
    if (above.includes(id)) {
      throw new SvcError("invalid_argument", `location ${id} cannot be in ${parentId}, which is in it`);
    }
    if ((await this.get(parentId)).organizationId !== organizationId) {
      throw new SvcError(
        "invalid_argument",
        `location ${parentId} belongs to another organization than ${id}`,
      );
    }
    const levels = above.length + await levelsBelow(this.sql, id);
    if (levels > LOCATION_LEVELS_MAX) {
      throw new SvcError(
        "invalid_argument",
        `location ${id} in ${parentId} makes ${levels} levels of locations, wanted at most ${LOCATION_LEVELS_MAX}`,
      );
    }
    await this.sql.query("UPDATE locations SET parent_id = ? WHERE id = ?", parentId, id);
  }

  async delete(id: string): Promise<void> {
    const { name, machines } = await this.get(id);
    const inside = await this.sql.query("SELECT id FROM locations WHERE parent_id = ?", id);
    if (machines > 0 || inside.length > 0) {
      throw new SvcError(
        "failed_precondition",
        `location "${name}" has ${machines} machines and ${inside.length} locations, wanted an empty one`,
      );
    }
    await this.sql.query("DELETE FROM part_hosts WHERE location_id = ?", id);
    await this.sql.query("DELETE FROM locations WHERE id = ?", id);
    await removeGrantsOn(this.sql, "location", id);
  }
}

/** A location and those around it, in one query, however deeply an older database nests them. */
export async function locationsAbove(sql: Sql, id: string): Promise<string[]> {
  const rows = await sql.query<{ id: string }>(LOCATIONS_ABOVE, id);
  return rows.map(({ id }) => id);
}

/** Locations and all those inside them, by their names. */
export async function locationsWithin(sql: Sql, ids: readonly string[]): Promise<Location[]> {
  if (ids.length === 0) return [];
  return await sql.query(
    `WITH RECURSIVE inside (id) AS (
       SELECT id FROM locations WHERE id IN (${placeholders(ids)})
       UNION SELECT l.id FROM locations l JOIN inside i ON l.parent_id = i.id
     )
     ${LOCATIONS} WHERE l.id IN (SELECT id FROM inside) ORDER BY l.name, l.id`,
    ...ids,
  );
}

/** The depth of nested locations in a location, itself included. */
async function levelsBelow(sql: Sql, id: string): Promise<number> {
  const { levels } = await queryOne<{ levels: number }>(
    sql,
    `WITH RECURSIVE below (id, level) AS (
       SELECT CAST(? AS TEXT), 1
       UNION SELECT l.id, b.level + 1 FROM locations l JOIN below b ON l.parent_id = b.id WHERE b.level <= ?
     )
     SELECT MAX(level) AS levels FROM below`,
    id,
    LOCATION_LEVELS_MAX,
  );
  return Number(levels);
}
