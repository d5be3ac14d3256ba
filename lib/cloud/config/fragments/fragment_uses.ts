/**
 * The record of who uses fragments: parts, by their own configurations, and other fragments, by their newest revisions.
 *
 * Owns the tables `part_fragments` and `fragment_fragments`.
 */

import { placeholders, queryByIds, type Sql } from "../../store/store.ts";
import type { FragmentVersion } from "../resolution.ts";

/** A part whose own configuration names a fragment, with the version there; empty for the newest. */
export interface FragmentUse {
  readonly partId: string;
  readonly machineId: string;
  readonly organizationId: string;
  readonly version: string;
}

export interface FragmentCounts {
  readonly parts: number;
  readonly organizations: number;
  /** Organizations other than the owner. */
  readonly others: number;
}

export interface NamedPartUse {
  readonly partId: string;
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
  /** Empty for the newest revision. */
  readonly version: string;
}

export interface NamedFragment {
  readonly id: string;
  /** Empty for one that the machine's organization may not see. */
  readonly name: string;
}

export interface NamedFragmentUse {
  readonly fragmentId: string;
  readonly name: string;
  readonly version: string;
}

export class FragmentUses {
  constructor(private readonly sql: Sql) {}

  /** Records the fragments that a part's own configuration names. */
  async setOfPart(partId: string, used: readonly FragmentVersion[]): Promise<void> {
    await this.sql.query("DELETE FROM part_fragments WHERE part_id = ?", partId);
    for (const { id, version } of used) {
      await this.sql.query(
        "INSERT INTO part_fragments (part_id, fragment_id, version) VALUES (?, ?, ?)",
        partId,
        id,
        version,
      );
    }
  }

  /** The fragments that a part's own configuration names. */
  ofPart(partId: string): Promise<FragmentVersion[]> {
    return this.sql.query(
      "SELECT fragment_id AS id, version FROM part_fragments WHERE part_id = ? ORDER BY fragment_id, version",
      partId,
    );
  }

  /** By part: the fragments that its own configuration names, with their names, except for private ones of others. */
  async readNamed(partIds: readonly string[]): Promise<ReadonlyMap<string, readonly NamedFragment[]>> {
    const rows = await queryByIds<NamedFragment & { readonly partId: string }>(
      this.sql,
      partIds,
      (places) =>
        `SELECT DISTINCT u.part_id AS "partId", f.id,
           CASE WHEN f.organization_id = l.organization_id OR f.visibility <> 'private' THEN f.name ELSE '' END AS name
         FROM part_fragments u JOIN fragments f ON f.id = u.fragment_id JOIN parts p ON p.id = u.part_id
         JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
         WHERE u.part_id IN (${places}) ORDER BY 3, 2`,
    );
    return Map.groupBy(rows, ({ partId }) => partId);
  }

  /** Records the fragments that the newest revision of a fragment names. */
  async setOfFragment(id: string, used: readonly FragmentVersion[]): Promise<void> {
    await this.sql.query("DELETE FROM fragment_fragments WHERE fragment_id = ?", id);
    for (const one of used) {
      await this.sql.query(
        "INSERT INTO fragment_fragments (fragment_id, used_id, version) VALUES (?, ?, ?)",
        id,
        one.id,
        one.version,
      );
    }
  }

  /** The parts whose own configuration names a fragment. */
  parts(id: string): Promise<FragmentUse[]> {
    return this.sql.query(
      `SELECT u.part_id AS "partId", p.machine_id AS "machineId", l.organization_id AS "organizationId", u.version
       FROM part_fragments u JOIN parts p ON p.id = u.part_id JOIN machines m ON m.id = p.machine_id
       JOIN locations l ON l.id = m.location_id WHERE u.fragment_id = ? ORDER BY u.part_id, u.version`,
      id,
    );
  }

  /** The fragments whose newest revision names a fragment. */
  fragments(id: string): Promise<{ readonly id: string; readonly organizationId: string }[]> {
    return this.sql.query(
      `SELECT DISTINCT u.fragment_id AS id, f.organization_id AS "organizationId"
       FROM fragment_fragments u JOIN fragments f ON f.id = u.fragment_id WHERE u.used_id = ? ORDER BY 1`,
      id,
    );
  }

  /**
   * By fragment: the number of parts that name it, of their organizations, and of those organizations that do not own
   * it.
   */
  async counts(ids: readonly string[]): Promise<ReadonlyMap<string, FragmentCounts>> {
    if (ids.length === 0) return new Map();
    const rows = await this.sql.query<FragmentCounts & { id: string }>(
      `SELECT f.id, COUNT(DISTINCT u.part_id) AS parts, COUNT(DISTINCT l.organization_id) AS organizations,
         COUNT(DISTINCT CASE WHEN l.organization_id <> f.organization_id THEN l.organization_id END) AS others
       FROM fragments f JOIN part_fragments u ON u.fragment_id = f.id JOIN parts p ON p.id = u.part_id
       JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
       WHERE f.id IN (${placeholders(ids)}) GROUP BY f.id`,
      ...ids,
    );
    return new Map(rows.map(({ id, parts, organizations, others }) => [id, {
      parts: Number(parts),
      organizations: Number(organizations),
      others: Number(others),
    }]));
  }

  /** The ids of the machines at these locations that have a part whose own configuration names one of the fragments. */
  async machinesUsing(ids: ReadonlySet<string>, locationIds: readonly string[]): Promise<Set<string>> {
    if (ids.size === 0 || locationIds.length === 0) return new Set();
    const rows = await this.sql.query<{ machineId: string }>(
      `SELECT DISTINCT m.id AS "machineId" FROM part_fragments u JOIN parts p ON p.id = u.part_id
       JOIN machines m ON m.id = p.machine_id
       WHERE u.fragment_id IN (${placeholders([...ids])}) AND m.location_id IN (${
        placeholders(locationIds)
      })`,
      ...ids,
      ...locationIds,
    );
    return new Set(rows.map(({ machineId }) => machineId));
  }
}

/** Parts of the fragment's organization that name it, after the given one, in the order of their ids, at most `limit`. */
export function namedPartUses(
  sql: Sql,
  fragmentId: string,
  after: { readonly partId: string; readonly version: string },
  limit: number,
): Promise<NamedPartUse[]> {
  return sql.query(
    `SELECT u.part_id AS "partId", p.name AS "partName", m.id AS "machineId", m.name AS "machineName", u.version
     FROM part_fragments u JOIN fragments f ON f.id = u.fragment_id JOIN parts p ON p.id = u.part_id
     JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
     WHERE u.fragment_id = ? AND l.organization_id = f.organization_id
       AND (u.part_id > ? OR (u.part_id = ? AND u.version > ?))
     ORDER BY u.part_id, u.version LIMIT ?`,
    fragmentId,
    after.partId,
    after.partId,
    after.version,
    limit,
  );
}

/** Fragments of the fragment's organization whose newest revision names it. */
export function namedFragmentUses(sql: Sql, fragmentId: string, limit: number): Promise<NamedFragmentUse[]> {
  return sql.query(
    `SELECT u.fragment_id AS "fragmentId", o.name, u.version
     FROM fragment_fragments u JOIN fragments f ON f.id = u.used_id JOIN fragments o ON o.id = u.fragment_id
     WHERE u.used_id = ? AND o.organization_id = f.organization_id ORDER BY o.name, u.version LIMIT ?`,
    fragmentId,
    limit,
  );
}
