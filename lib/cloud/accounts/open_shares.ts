/**
 * Shares of what callers without an account may have open: ways to a provider, and challenges. A further one ends the
 * oldest of the same address, and a crowd of addresses takes places from those among them that have most.
 */

import type { Sql } from "../store/store.ts";

/** Limits of open rows: from one address, and in total. */
const OF_ADDRESS_MAX = 20;
const OPEN_MAX = 20_000;

/** Makes space for a row of `address` in a table with the columns `id`, `address` and `created_ms`. */
export async function makeSpace(
  sql: Sql,
  table: "provider_visits" | "passkey_challenges",
  address: string,
): Promise<void> {
  await keepNewest(sql, table, address, OF_ADDRESS_MAX - 1);
  const [{ n }] = await sql.query<{ readonly n: number }>(`SELECT COUNT(*) AS n FROM ${table}`);
  if (Number(n) < OPEN_MAX) return;
  const [most] = await sql.query<{ readonly address: string; readonly n: number }>(
    `SELECT address, COUNT(*) AS n FROM ${table} GROUP BY address ORDER BY n DESC, address LIMIT 1`,
  );
  await keepNewest(sql, table, most.address, Number(most.n) - 1);
}

async function keepNewest(sql: Sql, table: string, address: string, kept: number): Promise<void> {
  await sql.query(
    `DELETE FROM ${table} WHERE address = ? AND id NOT IN (
       SELECT id FROM ${table} WHERE address = ? ORDER BY created_ms DESC, id LIMIT ?)`,
    address,
    address,
    kept,
  );
}
