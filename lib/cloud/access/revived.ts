/**
 * Keys, secrets, roles and administrators that a restored database revives, compared with those of the database before it.
 */

import type { Sql } from "../store/store.ts";

export interface StoredCredentials {
  readonly keys: ReadonlyMap<string, string>;
  readonly secrets: ReadonlyMap<string, string>;
  /** Role by `KEY KIND RESOURCE`. */
  readonly grants: ReadonlyMap<string, string>;
  readonly administrators: ReadonlySet<string>;
}

export async function credentialsStoredIn(store: Sql): Promise<StoredCredentials> {
  const keys = await store.query<{ id: string; hash: string }>("SELECT id, hash FROM api_keys");
  const secrets = await store.query<{ id: string; hash: string }>("SELECT id, hash FROM shared_secrets");
  const grants = await store.query<Record<"key" | "kind" | "on" | "role", string>>(
    'SELECT key_id AS "key", kind, resource_id AS "on", role FROM grants',
  );
  const byId = (rows: readonly { id: string; hash: string }[]) =>
    new Map(rows.map(({ id, hash }) => [id, hash]));
  return {
    keys: byId(keys),
    secrets: byId(secrets),
    grants: new Map(grants.map(({ key, kind, on, role }) => [`${key} ${kind} ${on}`, role])),
    administrators: await administratorsIn(store),
  };
}

/** A database of an older version has none. */
async function administratorsIn(store: Sql): Promise<ReadonlySet<string>> {
  const tables = await store.query("SELECT name FROM sqlite_master WHERE name = 'administrators'");
  if (tables.length === 0) return new Set();
  return new Set((await store.query<{ id: string }>("SELECT id FROM administrators")).map(({ id }) => id));
}

/**
 * Removes credentials that the former database does not have, and takes rotated keys from it; without such a database,
 * removes all.
 */
export async function revokeUnlike(sql: Sql, now: StoredCredentials | undefined): Promise<string[]> {
  const then = await credentialsStoredIn(sql);
  const revoked: string[] = [];
  for (
    const [table, ids, present] of [
      ["api_keys", then.keys, now?.keys],
      ["shared_secrets", then.secrets, now?.secrets],
    ] as const
  ) {
    for (const [id, hash] of ids) {
      const current = present?.get(id);
      if (current === hash) continue;
      revoked.push(id);
      if (current === undefined) await sql.query(`DELETE FROM ${table} WHERE id = ?`, id);
      else await sql.query(`UPDATE ${table} SET hash = ? WHERE id = ?`, current, id);
    }
  }
  for (const id of now ? then.administrators : []) {
    if (now!.administrators.has(id) || !now!.keys.has(id)) continue;
    revoked.push(`${id}: administrator`);
    await sql.query("DELETE FROM administrators WHERE id = ?", id);
  }
  for (const [grant, role] of now ? then.grants : []) {
    const [key = "", kind = "", on = ""] = grant.split(" ");
    const current = now!.grants.get(grant);
    if (current === role || !now!.keys.has(key)) continue;
    revoked.push(`${key}: ${role}`);
    const where = "WHERE key_id = ? AND kind = ? AND resource_id = ?";
    if (current === undefined) await sql.query(`DELETE FROM grants ${where}`, key, kind, on);
    else await sql.query(`UPDATE grants SET role = ? ${where}`, current, key, kind, on);
  }
  return revoked;
}
