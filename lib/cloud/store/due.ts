/**
 * Times at which stored work is due, and leases on it. They outlive the process that has set them, and so a clock that
 * was ahead: work of such a time would rest until then, without a word.
 */

import type { Sql, SqlText } from "./store.ts";

/** How far the clocks of two control planes on one database may be apart. */
const APART_MS = 10 * 60_000;

/** The condition that the time of a column has come. `aheadMs`: the column's times are set at most so far ahead. */
export function isDue(column: string, nowMs: number, aheadMs: number): SqlText {
  return { text: `(${column} <= ? OR ${column} > ?)`, values: [nowMs, latestMs(nowMs, aheadMs)] };
}

/** A later time was set by a clock that was ahead. */
export function latestMs(nowMs: number, aheadMs: number): number {
  return nowMs + aheadMs + APART_MS;
}

/** Tables of what begins and ends, with the columns `created_ms` and `until_ms`. */
type TimedTable = "account_sessions" | "invitations" | "provider_visits" | "passkey_challenges";

/**
 * What was made under a clock that was ahead ends when it would have, had it been made now. It would live until that time,
 * and longer than anybody has allowed.
 */
export async function correctEnds(sql: Sql, table: TimedTable, nowMs: number): Promise<void> {
  await sql.query(
    `UPDATE ${table} SET until_ms = until_ms - created_ms + ?, created_ms = ? WHERE created_ms > ?`,
    nowMs,
    nowMs,
    latestMs(nowMs, 0),
  );
}
