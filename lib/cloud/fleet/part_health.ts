/**
 * Reports of machines: the configuration that they run, and the resources that do not work.
 *
 * Owns the table `part_health`.
 */

import { queryByIds, type Sql } from "../store/store.ts";

/** The last report of a machine; absent for machines that send none. */
export interface PartHealth {
  /** The revision of the configuration that it runs. */
  readonly revision: string;
  /** `name: reason` */
  readonly unhealthy: readonly string[];
  /** Whether a newer configuration waits for the machine's maintenance window. */
  readonly heldBack: boolean;
  readonly atMs: number;
}

interface HealthRow {
  readonly id: string;
  readonly revision: string;
  readonly unhealthy: string;
  readonly heldBack: number;
  readonly atMs: number;
}

const REPORT_CHARS_MAX = 300;
const REPORT_ENTRIES_MAX = 50;

export async function readPartHealths(
  sql: Sql,
  partIds: readonly string[],
): Promise<Map<string, PartHealth>> {
  const rows = await queryByIds<HealthRow>(
    sql,
    partIds,
    (places) =>
      `SELECT part_id AS id, revision, unhealthy, held_back AS "heldBack", at_ms AS "atMs" FROM part_health
     WHERE part_id IN (${places})`,
  );
  return new Map(rows.map(({ id, unhealthy, heldBack, ...row }) => {
    return [id, { ...row, unhealthy: JSON.parse(unhealthy), heldBack: Number(heldBack) === 1 }];
  }));
}

/** Stores the report of a machine. */
export async function keepHealth(
  sql: Sql,
  partId: string,
  { revision, unhealthy, heldBack }: Omit<PartHealth, "atMs">,
  nowMs: number,
): Promise<void> {
  const kept = unhealthy.slice(0, REPORT_ENTRIES_MAX).map((one) => one.slice(0, REPORT_CHARS_MAX));
  await sql.query(
    `INSERT INTO part_health (part_id, revision, unhealthy, held_back, at_ms) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (part_id) DO UPDATE SET revision = excluded.revision, unhealthy = excluded.unhealthy,
       held_back = excluded.held_back, at_ms = excluded.at_ms`,
    partId,
    revision.slice(0, REPORT_CHARS_MAX),
    JSON.stringify(kept),
    Number(heldBack),
    nowMs,
  );
}
