/**
 * Machines, each in a location and with one main part.
 *
 * Owns the table `machines`. Names are unique in a location, and ids never change.
 */

import { randomUUID } from "node:crypto";
import { placeholders, type Sql } from "../store/store.ts";
import { checkedName } from "./names.ts";
import { Parts } from "./parts.ts";
import { type NamedRow, readById, removeGrantsOn, writeName } from "./rows.ts";

export interface FleetMachine extends NamedRow {
  readonly locationId: string;
  /** The last sighting of one of its parts. */
  readonly seenMs: number | null;
}

const MACHINES = `SELECT m.id, m.name, m.created_ms AS "createdMs", m.location_id AS "locationId",
    (SELECT MAX(p.seen_ms) FROM parts p WHERE p.machine_id = m.id) AS "seenMs"
  FROM machines m`;

export class Machines {
  constructor(private readonly sql: Sql) {}

  inLocation(locationId: string): Promise<FleetMachine[]> {
    return this.sql.query(`${MACHINES} WHERE m.location_id = ? ORDER BY m.name`, locationId);
  }

  ofOrganization(organizationId: string): Promise<FleetMachine[]> {
    return this.sql.query(
      `${MACHINES} JOIN locations l ON l.id = m.location_id WHERE l.organization_id = ? ORDER BY m.name, m.id`,
      organizationId,
    );
  }

  all(): Promise<FleetMachine[]> {
    return this.sql.query(`${MACHINES} ORDER BY m.name, m.id`);
  }

  get(id: string): Promise<FleetMachine> {
    return readById(this.sql, `${MACHINES} WHERE m.id = ?`, "machine", id);
  }

  /** Creates a machine with its main part. */
  async create(
    locationId: string,
    name: string,
    nowMs: number,
  ): Promise<{ id: string; partId: string }> {
    const id = randomUUID();
    const text = "INSERT INTO machines (id, location_id, name, created_ms) VALUES (?, ?, ?, ?)";
    await writeName(this.sql, { kind: "machine", name }, text, id, locationId, checkedName(name), nowMs);
    return { id, partId: await new Parts(this.sql).create(id, `${name}-main`, nowMs) };
  }

  /** Renames and moves a machine. Its parts get host names in the new location. */
  async update(id: string, name: string, locationId: string, nowMs: number): Promise<void> {
    const before = await this.get(id);
    const text = "UPDATE machines SET name = ?, location_id = ? WHERE id = ?";
    await writeName(this.sql, { kind: "machine", name }, text, checkedName(name), locationId, id);
    if (locationId === before.locationId) return;
    await new Parts(this.sql).renewHosts(id, locationId, nowMs);
  }

  async delete(id: string, nowMs: number): Promise<void> {
    await new Parts(this.sql).deleteAll(id, nowMs);
    await this.sql.query("DELETE FROM machines WHERE id = ?", id);
    await removeGrantsOn(this.sql, "machine", id);
  }
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
