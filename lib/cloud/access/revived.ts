/**
 * Keys, secrets, roles, administrators, and people's ways in (passwords, sessions, passkeys, links with a provider,
 * invitations, shared locations) that a restored database revives, compared with those of the database before it.
 */

import type { Sql } from "../store/store.ts";

export interface StoredCredentials {
  readonly keys: ReadonlyMap<string, string>;
  readonly secrets: ReadonlyMap<string, string>;
  /** Role by `KEY KIND RESOURCE`. */
  readonly grants: ReadonlyMap<string, string>;
  readonly administrators: ReadonlySet<string>;
  /** Hash of the password by account. */
  readonly passwords: ReadonlyMap<string, string>;
  /** Entries of the tables of `WAYS_IN`, by table. */
  readonly waysIn: ReadonlyMap<string, readonly WayIn[]>;
}

type WayIn = Readonly<Record<string, string>>;

interface WayInTable {
  readonly table: string;
  /** An entry is the same if all of these are. */
  readonly columns: readonly string[];
  /** Whether an entry goes with the key of its account. */
  readonly ofAccount: boolean;
  readonly words: (entry: WayIn) => string;
}

const WAYS_IN: readonly WayInTable[] = [
  {
    table: "account_sessions",
    columns: ["id", "account_id", "hash"],
    ofAccount: true,
    words: ({ account_id }) => `${account_id}: session`,
  },
  {
    table: "passkeys",
    columns: ["id", "account_id", "name"],
    ofAccount: true,
    words: ({ account_id, name }) => `${account_id}: passkey ${name}`,
  },
  {
    table: "provider_links",
    columns: ["issuer", "subject", "account_id"],
    ofAccount: true,
    words: ({ account_id, issuer }) => `${account_id}: sign-in at ${issuer}`,
  },
  {
    table: "invitations",
    columns: ["id", "email", "hash"],
    ofAccount: false,
    words: ({ email }) => `${email}: invitation`,
  },
  {
    table: "location_shares",
    columns: ["location_id", "organization_id"],
    ofAccount: false,
    words: ({ location_id, organization_id }) => `${location_id}: shared with ${organization_id}`,
  },
];

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
    administrators: new Set((await readEntries(store, "administrators", ["id"])).map(({ id }) => id!)),
    passwords: new Map(
      (await readEntries(store, "accounts", ["id", "password"])).map((
        { id, password },
      ) => [id!, password ?? ""]),
    ),
    waysIn: new Map(
      await Promise.all(
        WAYS_IN.map(async ({ table, columns }) => [table, await readEntries(store, table, columns)] as const),
      ),
    ),
  };
}

/** A database of an older version has none. */
async function readEntries(store: Sql, table: string, columns: readonly string[]): Promise<WayIn[]> {
  const tables = await store.query("SELECT name FROM sqlite_master WHERE name = ?", table);
  return tables.length === 0 ? [] : await store.query<WayIn>(`SELECT ${columns.join(", ")} FROM ${table}`);
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
  for (const [id, password] of now ? then.passwords : []) {
    const current = now!.passwords.get(id);
    if (current === undefined || current === password) continue;
    revoked.push(`${id}: password`);
    await sql.query("UPDATE accounts SET password = ? WHERE id = ?", current === "" ? null : current, id);
  }
  return [...revoked, ...await endWaysIn(sql, then, now)];
}

/** Removes the people's ways in that the former database does not have. */
async function endWaysIn(
  sql: Sql,
  then: StoredCredentials,
  now: StoredCredentials | undefined,
): Promise<string[]> {
  const ended = new Set<string>();
  for (const { table, columns, ofAccount, words } of WAYS_IN) {
    const entryText = (entry: WayIn) => JSON.stringify(columns.map((column) => entry[column]));
    const present = new Set(now?.waysIn.get(table)?.map(entryText));
    for (const entry of then.waysIn.get(table) ?? []) {
      if (present.has(entryText(entry))) continue;
      const where = columns.map((column) => `${column} = ?`).join(" AND ");
      await sql.query(`DELETE FROM ${table} WHERE ${where}`, ...columns.map((column) => entry[column]!));
      // What belongs to a person goes with the key.
      if (!ofAccount || now?.keys.has(entry.account_id!)) ended.add(words(entry));
    }
  }
  return [...ended];
}
