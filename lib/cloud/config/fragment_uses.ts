/** Who names a fragment, by name: the parts and the fragments of its own organization. */

import type { Sql } from "../store/store.ts";

export interface NamedPartUse {
  readonly partId: string;
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
  /** Empty for the newest revision. */
  readonly version: string;
}

export interface NamedFragmentUse {
  readonly fragmentId: string;
  readonly name: string;
  readonly version: string;
}

/** Parts after the given one, in the order of their ids, at most `limit`. */
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

/** Fragments whose newest revision names the given one. */
export function namedFragmentUses(sql: Sql, fragmentId: string, limit: number): Promise<NamedFragmentUse[]> {
  return sql.query(
    `SELECT u.fragment_id AS "fragmentId", o.name, u.version
     FROM fragment_fragments u JOIN fragments f ON f.id = u.used_id JOIN fragments o ON o.id = u.fragment_id
     WHERE u.used_id = ? AND o.organization_id = f.organization_id ORDER BY o.name, u.version LIMIT ?`,
    fragmentId,
    limit,
  );
}
