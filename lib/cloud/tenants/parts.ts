/**
 * Parts, the programs of a machine: where they belong, when they were last seen, and orders to restart.
 *
 * Owns the table `parts`, except the configurations in it. The first part of a machine is its main one. Names are
 * unique in a machine, and ids never change.
 */

import { randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { lookup } from "../store/lookups.ts";
import { type BatchStatement, placeholders, rowPieces, type Sql, typedRows } from "../store/store.ts";
import { checkedName, HostWords } from "./names.ts";
import { type NamedRow, readById, writeName } from "./rows.ts";

export interface Part extends NamedRow {
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

const PART_COLUMNS =
  `p.id, p.name, p.created_ms AS "createdMs", p.machine_id AS "machineId", p.main, p.revision,
    p.seen_ms AS "seenMs", m.name AS "machineName", m.location_id AS "locationId",
    l.organization_id AS "organizationId", COALESCE(h.word, p.id) AS "hostWord"`;
const PART_TABLES =
  `FROM parts p JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
    LEFT JOIN part_hosts h ON h.part_id = p.id AND h.released_ms IS NULL`;
/**
 * The beginning of a query whose first value is the id of a part: `opened (kind, id)` has the part's machine, the
 * locations around it and the organization, whose roles reach the part. The query may add rows, and closes the parenthesis.
 */
export const AROUND_PART = `WITH RECURSIVE place (machine, location, organization) AS (
    SELECT m.id, l.id, l.organization_id FROM parts p JOIN machines m ON m.id = p.machine_id
      JOIN locations l ON l.id = m.location_id WHERE p.id = ?
  ), above (id) AS (
    SELECT location FROM place
    UNION SELECT l.parent_id FROM above JOIN locations l ON l.id = above.id WHERE l.parent_id IS NOT NULL
  ), opened (kind, id) AS (
    SELECT 'machine', machine FROM place
    UNION ALL SELECT 'location', id FROM above
    UNION ALL SELECT 'organization', organization FROM place`;
const PARTS = `SELECT ${PART_COLUMNS}, p.info ${PART_TABLES}`;
const PART_SUMMARY = lookup(`SELECT ${PART_COLUMNS} ${PART_TABLES} WHERE p.id = ?`);
const RESTART = lookup("SELECT restart FROM parts WHERE id = ?");
const MACHINE_LOCATION = `SELECT location_id AS "locationId" FROM machines WHERE id = ?`;

export const PART_LOOKUPS = [PART_SUMMARY, RESTART];

export class Parts {
  constructor(private readonly sql: Sql) {}

  ofMachine(machineId: string): Promise<Part[]> {
    return this.sql.query(`${PARTS} WHERE p.machine_id = ? ORDER BY p.main DESC, p.name`, machineId);
  }

  async ofMachines(machineIds: readonly string[]): Promise<Part[]> {
    if (machineIds.length === 0) return [];
    return await this.sql.query(
      `${PARTS} WHERE p.machine_id IN (${placeholders(machineIds)}) ORDER BY m.name, p.main DESC, p.name`,
      ...machineIds,
    );
  }

  async inLocations(locationIds: readonly string[]): Promise<Part[]> {
    if (locationIds.length === 0) return [];
    return await this.sql.query(
      `${PARTS} WHERE m.location_id IN (${placeholders(locationIds)}) ORDER BY m.name, p.main DESC, p.name`,
      ...locationIds,
    );
  }

  ofOrganization(organizationId: string): Promise<Part[]> {
    return this.sql.query(
      `${PARTS} WHERE l.organization_id = ? ORDER BY m.name, p.main DESC, p.name`,
      organizationId,
    );
  }

  all(): Promise<Part[]> {
    return this.sql.query(`${PARTS} ORDER BY m.name, p.main DESC, p.name`);
  }

  /** The last sighting of each part. */
  sightings(): Promise<{ readonly id: string; readonly seenMs: number | null }[]> {
    return this.sql.query(`SELECT id, seen_ms AS "seenMs" FROM parts`);
  }

  get(id: string): Promise<Part> {
    return readById(this.sql, `${PARTS} WHERE p.id = ?`, "part", id);
  }

  /** The same without the part's report, which may be long. */
  summary(id: string): Promise<PartSummary> {
    return readById(this.sql, PART_SUMMARY, "part", id);
  }

  /** Creates a part; the first one of a machine is its main part. */
  async create(machineId: string, name: string, nowMs: number): Promise<string> {
    const id = randomUUID();
    const { locationId } = await readById<{ locationId: string }>(
      this.sql,
      MACHINE_LOCATION,
      "machine",
      machineId,
    );
    const main = (await this.ofMachine(machineId)).length === 0 ? 1 : 0;
    const text = "INSERT INTO parts (id, machine_id, name, main, created_ms) VALUES (?, ?, ?, ?, ?)";
    await writeName(this.sql, { kind: "part", name }, text, id, machineId, checkedName(name), main, nowMs);
    await new HostWords(this.sql).claim(id, locationId, name, nowMs);
    return id;
  }

  async rename(id: string, name: string, nowMs: number): Promise<void> {
    await writeName(
      this.sql,
      { kind: "part", name },
      "UPDATE parts SET name = ? WHERE id = ?",
      checkedName(name),
      id,
    );
    const { locationId } = await this.get(id);
    await new HostWords(this.sql).claim(id, locationId, name, nowMs);
  }

  /** The part that holds a host word. */
  async atHost(locationId: string, word: string): Promise<Part | undefined> {
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
    const { machineId } = await this.get(id);
    const text = "UPDATE parts SET main = CASE WHEN id = ? THEN 1 ELSE 0 END WHERE machine_id = ?";
    await this.sql.query(text, id, machineId);
  }

  async delete(id: string, nowMs: number): Promise<void> {
    const { name, main } = await this.get(id);
    if (main) {
      throw new SvcError(
        "failed_precondition",
        `part "${name}" is the machine's main one, which stays with it`,
      );
    }
    await new HostWords(this.sql).release(id, nowMs);
    await this.sql.query("DELETE FROM parts WHERE id = ?", id);
  }

  /** Claims host words for the parts of a machine that has moved to this location. */
  async renewHosts(machineId: string, locationId: string, nowMs: number): Promise<void> {
    const hosts = new HostWords(this.sql);
    for (const { id, name } of await this.ofMachine(machineId)) {
      await hosts.claim(id, locationId, name, nowMs);
    }
  }

  /** The parts of a machine start afresh in another organization: earlier orders and reports do not count. */
  async startAfresh(machineId: string, nowMs: number): Promise<void> {
    const text = "UPDATE parts SET moved_ms = ?, restart = 0, info = '{}' WHERE machine_id = ?";
    await this.sql.query(text, nowMs, machineId);
  }

  /** Deletes all parts of a machine that is being deleted. */
  async deleteAll(machineId: string, nowMs: number): Promise<void> {
    const hosts = new HostWords(this.sql);
    for (const { id } of await this.ofMachine(machineId)) await hosts.release(id, nowMs);
    await this.sql.query("DELETE FROM parts WHERE machine_id = ?", machineId);
  }
}

/** When a part was last seen, and its report as JSON, if there is a new one. */
export interface Sighting {
  readonly atMs: number;
  readonly info?: string;
}

/**
 * Stores sightings of some thousand parts at most, by their ids; ignores earlier times, unless the stored one is `aheadMs`
 * later.
 */
export function sightingsStatements(parts: ReadonlyMap<string, Sighting>, aheadMs: number): BatchStatement[] {
  return rowPieces([...parts]).map((piece) => ({
    text: `UPDATE parts SET seen_ms = v.column2, info = COALESCE(v.column3, info)
      FROM (VALUES ${typedRows(piece, "TEXT", "BIGINT", "TEXT")}) AS v
      WHERE parts.id = v.column1
        AND (seen_ms IS NULL OR seen_ms < v.column2 OR seen_ms > v.column2 + CAST(? AS BIGINT))`,
    values: [...piece.flatMap(([id, { atMs, info }]) => [id, atMs, info ?? null]), aheadMs],
  }));
}
