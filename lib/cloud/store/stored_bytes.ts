/**
 * The size of logs and readings, counted in the transactions that add and remove them, because a sum over all of
 * them would take too long.
 */

import type { BatchStatement, Sql, SqlText } from "./store.ts";

/** `logs` of a part; `readings` of a source; `sinks` of a data pipeline. */
export type StoredKind = "logs" | "readings" | "sinks";

/**
 * Adds to the stored bytes of a source. `added`: a table with the `bytes` of each new reading. The bytes of a moved part
 * stay with its former organization.
 */
export function addedReadingBytes(originId: string, organizationId: string, added: SqlText): BatchStatement {
  return {
    text: `INSERT INTO stored_bytes (kind, owner_id, organization_id, bytes)
       SELECT 'readings', CAST(? AS TEXT), CAST(? AS TEXT), CAST(COALESCE(SUM(added.bytes), 0) AS BIGINT)
       FROM ${added.text} AS added WHERE 1 = 1
     ON CONFLICT (kind, owner_id) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes`,
    values: [originId, organizationId, ...added.values],
  };
}

/** The same for the newest entries of a part's log: the entries with the last `count` numbers. */
export function addedLogBytes(partId: string, organizationId: string, count: number): BatchStatement {
  return {
    text: `INSERT INTO stored_bytes (kind, owner_id, organization_id, bytes)
       SELECT 'logs', CAST(? AS TEXT), CAST(? AS TEXT), CAST(COALESCE(SUM(LENGTH(entry) + LENGTH(words)), 0) AS BIGINT)
       FROM logs WHERE part_id = ? AND number > (SELECT number FROM log_heads WHERE part_id = ?) - CAST(? AS BIGINT)
     ON CONFLICT (kind, owner_id) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes`,
    values: [partId, organizationId, partId, partId, count],
  };
}

/** Subtracts removed bytes. */
export async function dropStoredBytes(
  sql: Sql,
  kind: StoredKind,
  removed: readonly { readonly ownerId: string; readonly bytes: number }[],
): Promise<void> {
  const sums = new Map<string, number>();
  for (const { ownerId, bytes } of removed) sums.set(ownerId, (sums.get(ownerId) ?? 0) + bytes);
  for (const [ownerId, bytes] of sums) {
    const text = `UPDATE stored_bytes SET bytes = CASE WHEN bytes > ? THEN bytes - ? ELSE 0 END
      WHERE kind = ? AND owner_id = ?`;
    await sql.query(text, bytes, bytes, kind, ownerId);
  }
}
