/** Values that one program of the control plane stores in the database for the others. */

import type { Sql } from "./store.ts";

export async function noteSetting(sql: Sql, name: string, value: string): Promise<void> {
  await sql.query(
    `INSERT INTO settings (name, value) VALUES (?, ?)
     ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
    name,
    value,
  );
}

export async function notedSetting(sql: Sql, name: string): Promise<string | undefined> {
  const [row] = await sql.query<{ value: string }>("SELECT value FROM settings WHERE name = ?", name);
  return row?.value;
}
