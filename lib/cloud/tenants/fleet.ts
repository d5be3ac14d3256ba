/**
 * Organizations, locations, machines and their parts: the tree to which everything else belongs.
 *
 * Owns these four tables. A machine always has one main part. Names are unique among siblings; ids never change.
 *
 * The room owns the tree of organizations: its members, their names and host names, and their presence.
 */

import { randomInt, randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { checkedName, HostWords } from "./names.ts";
import { type Lookup, lookup } from "../store/lookups.ts";
import { placeholders, queryByIds, type Sql, type SqlValue } from "../store/store.ts";

interface Named {
  readonly id: string;
  readonly name: string;
  readonly createdMs: number;
}

export interface Organization extends Named {
  /** Its public name, under which others find its shared items. */
  readonly namespace: string | null;
}

export interface Location extends Named {
  readonly organizationId: string;
  readonly parentId: string | null;
  readonly machines: number;
}

export interface FleetMachine extends Named {
  readonly locationId: string;
  /** The last sighting of one of its parts. */
  readonly seenMs: number | null;
}

export interface Part extends Named {
  readonly machineId: string;
  readonly machineName: string;
  readonly locationId: string;
  readonly organizationId: string;
  /** Of its configuration. */
  readonly revision: number;
  /** The first label of its host names. */
  readonly hostWord: string;
  /** 1 for the main part. */
  readonly main: number;
  readonly seenMs: number | null;
  /** Its last report about itself, as JSON. */
  readonly info: string;
}

export type PartSummary = Omit<Part, "info">;

const LOCATION_ID = { letters: "abcdefghijklmnopqrstuvwxyz0123456789", length: 10 };

/** Limit of nested locations. */
const LOCATION_LEVELS_MAX = 10;

/** Resources that prevent the deletion of an organization, and their tables. */
const KEEPS_ORGANIZATION = {
  locations: "locations",
  fragments: "fragments",
  "registry items": "registry_items",
  sequences: "sequences",
  datasets: "datasets",
  "training jobs": "training_jobs",
  "images and files": "binary_data d JOIN data_origins o ON o.id = d.origin_id",
  readings: "tabular_data d JOIN data_origins o ON o.id = d.origin_id",
  "files of readings": "reading_files d JOIN data_origins o ON o.id = d.origin_id",
};

const ORGANIZATIONS = `SELECT id, name, created_ms AS "createdMs", namespace FROM organizations`;
export const LOCATIONS =
  `SELECT l.id, l.name, l.created_ms AS "createdMs", l.organization_id AS "organizationId",
    l.parent_id AS "parentId", (SELECT COUNT(*) FROM machines m WHERE m.location_id = l.id) AS machines
  FROM locations l`;
const MACHINES = `SELECT m.id, m.name, m.created_ms AS "createdMs", m.location_id AS "locationId",
    (SELECT MAX(p.seen_ms) FROM parts p WHERE p.machine_id = m.id) AS "seenMs"
  FROM machines m`;
const PART_COLUMNS =
  `p.id, p.name, p.created_ms AS "createdMs", p.machine_id AS "machineId", p.main, p.revision,
    p.seen_ms AS "seenMs", m.name AS "machineName", m.location_id AS "locationId",
    l.organization_id AS "organizationId", COALESCE(h.word, p.id) AS "hostWord"`;
const PART_TABLES =
  `FROM parts p JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
    LEFT JOIN part_hosts h ON h.part_id = p.id AND h.released_ms IS NULL`;
const PARTS = `SELECT ${PART_COLUMNS}, p.info ${PART_TABLES}`;
const PART_SUMMARY = lookup(`SELECT ${PART_COLUMNS} ${PART_TABLES} WHERE p.id = ?`);
const RESTART = lookup("SELECT restart FROM parts WHERE id = ?");

const LOCATIONS_ABOVE = lookup(
  `WITH RECURSIVE above (id) AS (
     SELECT CAST(? AS TEXT)
     UNION SELECT l.parent_id FROM above JOIN locations l ON l.id = above.id WHERE l.parent_id IS NOT NULL
   )
   SELECT id FROM above`,
  LOCATION_LEVELS_MAX + 1,
);

export const FLEET_LOOKUPS = [PART_SUMMARY, RESTART, LOCATIONS_ABOVE];

const TAG = /^[\p{L}\p{N}][\p{L}\p{N}._:/-]{0,63}$/u;
const TAGS_MAX = 50;

export class Fleet {
  constructor(private readonly sql: Sql) {}

  // Organizations.

  organizations(): Promise<Organization[]> {
    return this.sql.query(`${ORGANIZATIONS} ORDER BY name`);
  }

  /** The existing organizations among the ids, by name. The cost does not depend on other organizations. */
  async organizationsAmong(ids: readonly string[]): Promise<Organization[]> {
    if (ids.length === 0) return [];
    return await this.sql.query(`${ORGANIZATIONS} WHERE id IN (${placeholders(ids)}) ORDER BY name`, ...ids);
  }

  organization(id: string): Promise<Organization> {
    return this.#one(`${ORGANIZATIONS} WHERE id = ?`, "organization", id);
  }

  async createOrganization(name: string, nowMs: number): Promise<string> {
    const id = randomUUID();
    const text = "INSERT INTO organizations (id, name, created_ms) VALUES (?, ?, ?)";
    await this.#named("organization", name, text, id, checkedName(name), nowMs);
    return id;
  }

  async renameOrganization(id: string, name: string): Promise<void> {
    await this.#named(
      "organization",
      name,
      "UPDATE organizations SET name = ? WHERE id = ?",
      checkedName(name),
      id,
    );
  }

  /** Deletes an organization that has nothing left but keys, and these keys. */
  async deleteOrganization(id: string): Promise<void> {
    const { name } = await this.organization(id);
    for (const [what, table] of Object.entries(KEEPS_ORGANIZATION)) {
      const [{ amount }] = await this.sql.query<{ amount: number }>(
        `SELECT COUNT(*) AS amount FROM ${table} WHERE organization_id = ?`,
        id,
      );
      if (Number(amount) === 0) continue;
      throw new SvcError(
        "failed_precondition",
        `organization "${name}" has ${amount} ${what}, wanted an empty one`,
      );
    }
    await this.sql.query("DELETE FROM data_origins WHERE organization_id = ?", id);
    await this.sql.query("DELETE FROM api_keys WHERE organization_id = ?", id);
    await this.#forget("organization", id);
    await this.sql.query("DELETE FROM organizations WHERE id = ?", id);
  }

  // Locations.

  locations(organizationId: string): Promise<Location[]> {
    return this.sql.query(`${LOCATIONS} WHERE l.organization_id = ? ORDER BY l.name`, organizationId);
  }

  allLocations(): Promise<Location[]> {
    return this.sql.query(`${LOCATIONS} ORDER BY l.name`);
  }

  location(id: string): Promise<Location> {
    return this.#one(`${LOCATIONS} WHERE l.id = ?`, "location", id);
  }

  async createLocation(
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
    await this.#named("location", name, text, id, organizationId, checkedName(name), nowMs);
    if (parentId !== "") await this.moveLocation(id, parentId);
    return id;
  }

  async renameLocation(id: string, name: string): Promise<void> {
    await this.#named("location", name, "UPDATE locations SET name = ? WHERE id = ?", checkedName(name), id);
  }

  /** Moves a location into another one of the same organization, or to the top with an empty `parentId`. */
  async moveLocation(id: string, parentId: string): Promise<void> {
    const { organizationId } = await this.location(id);
    if (parentId === "") {
      await this.sql.query("UPDATE locations SET parent_id = NULL WHERE id = ?", id);
      return;
    }
    const above = await locationsAbove(this.sql, parentId);
    if (above.includes(id)) {
      throw new SvcError("invalid_argument", `location ${id} cannot be in ${parentId}, which is in it`);
    }
    if ((await this.location(parentId)).organizationId !== organizationId) {
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

  async deleteLocation(id: string): Promise<void> {
    const { name, machines } = await this.location(id);
    const inside = await this.sql.query("SELECT id FROM locations WHERE parent_id = ?", id);
    if (machines > 0 || inside.length > 0) {
      throw new SvcError(
        "failed_precondition",
        `location "${name}" has ${machines} machines and ${inside.length} locations, wanted an empty one`,
      );
    }
    await this.sql.query("DELETE FROM part_hosts WHERE location_id = ?", id);
    await this.sql.query("DELETE FROM locations WHERE id = ?", id);
    await this.#forget("location", id);
  }

  // Machines.

  machines(locationId: string): Promise<FleetMachine[]> {
    return this.sql.query(`${MACHINES} WHERE m.location_id = ? ORDER BY m.name`, locationId);
  }

  machinesOfOrganization(organizationId: string): Promise<FleetMachine[]> {
    return this.sql.query(
      `${MACHINES} JOIN locations l ON l.id = m.location_id WHERE l.organization_id = ? ORDER BY m.name, m.id`,
      organizationId,
    );
  }

  allMachines(): Promise<FleetMachine[]> {
    return this.sql.query(`${MACHINES} ORDER BY m.name, m.id`);
  }

  machine(id: string): Promise<FleetMachine> {
    return this.#one(`${MACHINES} WHERE m.id = ?`, "machine", id);
  }

  /** Creates a machine with its main part. */
  async createMachine(
    locationId: string,
    name: string,
    nowMs: number,
  ): Promise<{ id: string; partId: string }> {
    const id = randomUUID();
    const text = "INSERT INTO machines (id, location_id, name, created_ms) VALUES (?, ?, ?, ?)";
    await this.#named("machine", name, text, id, locationId, checkedName(name), nowMs);
    return { id, partId: await this.createPart(id, `${name}-main`, nowMs) };
  }

  /** Renames and moves a machine. Its parts get host names in the new location. */
  async updateMachine(id: string, name: string, locationId: string, nowMs: number): Promise<void> {
    const before = await this.machine(id);
    const text = "UPDATE machines SET name = ?, location_id = ? WHERE id = ?";
    await this.#named("machine", name, text, checkedName(name), locationId, id);
    if (locationId === before.locationId) return;
    for (const part of await this.parts(id)) {
      await new HostWords(this.sql).claim(part.id, locationId, part.name, nowMs);
    }
  }

  async deleteMachine(id: string, nowMs: number): Promise<void> {
    for (const part of await this.parts(id)) await new HostWords(this.sql).release(part.id, nowMs);
    await this.sql.query("DELETE FROM parts WHERE machine_id = ?", id);
    await this.sql.query("DELETE FROM machines WHERE id = ?", id);
    await this.#forget("machine", id);
  }

  /** The tags of machines, by machine. */
  async tags(machineIds: readonly string[]): Promise<ReadonlyMap<string, readonly string[]>> {
    const rows = await queryByIds<{ id: string; tag: string }>(
      this.sql,
      machineIds,
      (places) =>
        `SELECT machine_id AS id, tag FROM machine_tags WHERE machine_id IN (${places}) ORDER BY tag`,
    );
    const tags = new Map<string, string[]>();
    for (const { id, tag } of rows) tags.getOrInsertComputed(id, () => []).push(tag);
    return tags;
  }

  async readTags(machineId: string): Promise<string[]> {
    const text = "SELECT tag FROM machine_tags WHERE machine_id = ? ORDER BY tag";
    return (await this.sql.query<{ tag: string }>(text, machineId)).map(({ tag }) => tag);
  }

  /** Sets the tags. Throws `invalid_argument` for an unusable tag, and `resource_exhausted` for too many tags. */
  async tag(machineId: string, tags: readonly string[]): Promise<void> {
    await this.machine(machineId);
    for (const tag of tags) {
      if (!TAG.test(tag)) {
        const wanted = "wanted letters, digits and . _ : / -, at most 64, with a letter or digit first";
        throw new SvcError("invalid_argument", `found the tag ${JSON.stringify(tag)}, ${wanted}`);
      }
      const text = "INSERT INTO machine_tags (machine_id, tag) VALUES (?, ?) ON CONFLICT DO NOTHING";
      await this.sql.query(text, machineId, tag);
    }
    const all = await this.readTags(machineId);
    if (all.length <= TAGS_MAX) return;
    throw new SvcError("resource_exhausted", `a machine has at most ${TAGS_MAX} tags, found ${all.length}`);
  }

  async untag(machineId: string, tags: readonly string[]): Promise<void> {
    const text = `DELETE FROM machine_tags WHERE machine_id = ? AND tag IN (${
      placeholders(tags)
    }) RETURNING tag`;
    const gone = await this.sql.query<{ tag: string }>(text, machineId, ...tags);
    const missing = tags.find((tag) => !gone.some((one) => one.tag === tag));
    if (missing !== undefined) throw new SvcError("not_found", `the machine has no tag "${missing}"`);
  }

  // Parts.

  parts(machineId: string): Promise<Part[]> {
    return this.sql.query(`${PARTS} WHERE p.machine_id = ? ORDER BY p.main DESC, p.name`, machineId);
  }

  async partsOfMachines(machineIds: readonly string[]): Promise<Part[]> {
    if (machineIds.length === 0) return [];
    return await this.sql.query(
      `${PARTS} WHERE p.machine_id IN (${placeholders(machineIds)}) ORDER BY m.name, p.main DESC, p.name`,
      ...machineIds,
    );
  }

  async partsIn(locationIds: readonly string[]): Promise<Part[]> {
    if (locationIds.length === 0) return [];
    return await this.sql.query(
      `${PARTS} WHERE m.location_id IN (${placeholders(locationIds)}) ORDER BY m.name, p.main DESC, p.name`,
      ...locationIds,
    );
  }

  partsOfOrganization(organizationId: string): Promise<Part[]> {
    return this.sql.query(
      `${PARTS} WHERE l.organization_id = ? ORDER BY m.name, p.main DESC, p.name`,
      organizationId,
    );
  }

  allParts(): Promise<Part[]> {
    return this.sql.query(`${PARTS} ORDER BY m.name, p.main DESC, p.name`);
  }

  /** The last sighting of each part. */
  seen(): Promise<{ readonly id: string; readonly seenMs: number | null }[]> {
    return this.sql.query(`SELECT id, seen_ms AS "seenMs" FROM parts`);
  }

  part(id: string): Promise<Part> {
    return this.#one(`${PARTS} WHERE p.id = ?`, "part", id);
  }

  /** The same without the part's report, which may be long. */
  partSummary(id: string): Promise<PartSummary> {
    return this.#one(PART_SUMMARY, "part", id);
  }

  /** Creates a part; the first one of a machine is its main part. */
  async createPart(machineId: string, name: string, nowMs: number): Promise<string> {
    const id = randomUUID();
    const { locationId } = await this.machine(machineId);
    const main = (await this.parts(machineId)).length === 0 ? 1 : 0;
    const text = "INSERT INTO parts (id, machine_id, name, main, created_ms) VALUES (?, ?, ?, ?, ?)";
    await this.#named("part", name, text, id, machineId, checkedName(name), main, nowMs);
    await new HostWords(this.sql).claim(id, locationId, name, nowMs);
    return id;
  }

  async renamePart(id: string, name: string, nowMs: number): Promise<void> {
    await this.#named("part", name, "UPDATE parts SET name = ? WHERE id = ?", checkedName(name), id);
    const { locationId } = await this.part(id);
    await new HostWords(this.sql).claim(id, locationId, name, nowMs);
  }

  /** The part that holds a host word. */
  async partAtHost(locationId: string, word: string): Promise<Part | undefined> {
    const [part] = await this.sql.query<Part>(
      `${PARTS} WHERE h.location_id = ? AND h.word = ?`,
      locationId,
      word,
    );
    return part;
  }

  /** Orders one restart of a part's program. */
  async orderRestart(id: string): Promise<void> {
    await this.sql.query("UPDATE parts SET restart = 1 WHERE id = ?", id);
  }

  async restartOrdered(id: string): Promise<boolean> {
    const [row] = await this.sql.query<{ restart: number }>(RESTART, id);
    return row?.restart === 1;
  }

  /** Takes a restart order, if there is one; the first caller that gets it carries it out. */
  async takeRestart(id: string): Promise<boolean> {
    const ordered = await this.restartOrdered(id);
    await this.sql.query("UPDATE parts SET restart = 0 WHERE id = ?", id);
    return ordered;
  }

  async makeMain(id: string): Promise<void> {
    const { machineId } = await this.part(id);
    const text = "UPDATE parts SET main = CASE WHEN id = ? THEN 1 ELSE 0 END WHERE machine_id = ?";
    await this.sql.query(text, id, machineId);
  }

  async deletePart(id: string, nowMs: number): Promise<void> {
    const { name, main } = await this.part(id);
    if (main) {
      throw new SvcError(
        "failed_precondition",
        `part "${name}" is the machine's main one, which stays with it`,
      );
    }
    await new HostWords(this.sql).release(id, nowMs);
    await this.sql.query("DELETE FROM parts WHERE id = ?", id);
  }

  /** Stores sightings of parts and their reports; ignores earlier times, unless the stored one is `aheadMs` later. */
  async saw(parts: ReadonlyMap<string, { atMs: number; info?: string }>, aheadMs: number): Promise<void> {
    const text = `UPDATE parts SET seen_ms = ?, info = COALESCE(?, info)
      WHERE id = ? AND (seen_ms IS NULL OR seen_ms < ? OR seen_ms > ?)`;
    // All updates go to the database in one trip.
    await Promise.all(
      [...parts].map(([id, { atMs, info }]) =>
        this.sql.query(text, atMs, info ?? null, id, atMs, atMs + aheadMs)
      ),
    );
  }

  /** Removes the grants of keys on a deleted resource. */
  async #forget(kind: string, id: string): Promise<void> {
    await this.sql.query("DELETE FROM grants WHERE kind = ? AND resource_id = ?", kind, id);
  }

  async #one<T>(statement: string | Lookup, kind: string, id: string): Promise<T> {
    const [row] = await this.sql.query<T>(statement, id);
    if (!row) throw new SvcError("not_found", `there is no ${kind} "${id}"`);
    return row;
  }

  async #named(kind: string, name: string, text: string, ...values: SqlValue[]): Promise<void> {
    try {
      await this.sql.query(text, ...values);
    } catch (error) {
      if (SvcError.from(error).code !== "already_exists") throw error;
      throw new SvcError(
        "already_exists",
        `there is ${kind === "organization" ? "an" : "a"} ${kind} "${name}" here already`,
      );
    }
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

export async function locationsOfMachines(
  sql: Sql,
  ids: readonly string[],
): Promise<{ readonly machineId: string; readonly locationId: string }[]> {
  if (ids.length === 0) return [];
  return await sql.query(
    `SELECT id AS "machineId", location_id AS "locationId" FROM machines WHERE id IN (${placeholders(ids)})
     ORDER BY location_id, id`,
    ...ids,
  );
}

/** The depth of nested locations in a location, itself included. */
async function levelsBelow(sql: Sql, id: string): Promise<number> {
  const [{ levels }] = await sql.query<{ levels: number }>(
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
