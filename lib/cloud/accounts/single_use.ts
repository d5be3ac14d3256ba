/**
 * What a browser without an account begins and ends once: a way to a provider, a challenge.
 *
 * The browser keeps a text in a cookie; the database has only a hash of its secret. A row ends with its first use, at
 * whichever control plane on the database. Callers share: a further row ends the oldest of the same address, and a crowd
 * of addresses takes places from those among them that have most.
 */

import { isSameText } from "../../base/same_text.ts";
import { correctEnds } from "../store/due.ts";
import { queryOne, type Sql, type SqlValue } from "../store/store.ts";
import { newOpener, openerHash, openerParts } from "./sessions.ts";

/** Limits of open rows: from one address, and in total. */
const OF_ADDRESS_MAX = 20;
const OPEN_MAX = 20_000;

type Table = "provider_visits" | "passkey_challenges";

/** What a row has: texts, or nothing, and whether the session stays. */
type Begun = { readonly [member: string]: string | boolean | null } & { readonly stays: boolean };

/** A table with the columns `id`, `hash`, `stays`, `address`, `created_ms`, `until_ms`, and those of each member. */
interface SingleUseTable<T> {
  readonly table: Table;
  readonly columns: { readonly [member in Exclude<keyof T, "stays">]: string };
  readonly keptMs: number;
}

export class SingleUse<T extends Begun> {
  constructor(private readonly sql: Sql, private readonly kind: SingleUseTable<T>) {}

  /** Begins one for an address; returns the text that the browser keeps. */
  async begin({ address, ...begun }: T & { readonly address: string }, nowMs: number): Promise<string> {
    const { table, columns, keptMs } = this.kind;
    const opener = newOpener();
    const { id, secret } = openerParts(opener)!;
    await this.forgetOld(nowMs);
    await makeSpace(this.sql, table, address);
    const row: { readonly [column: string]: SqlValue } = {
      ...{ id, hash: openerHash(secret), address, created_ms: nowMs, until_ms: nowMs + keptMs },
      stays: begun.stays ? 1 : 0,
      ...Object.fromEntries(
        membersOf(columns).map(([name, column]) => [column, begun[name] as string | null]),
      ),
    };
    const names = Object.keys(row);
    const text = `INSERT INTO ${table} (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`;
    await this.sql.query(text, ...Object.values(row));
    return opener;
  }

  /** Ends the one that a text opens; `undefined` if it has ended or expired, or is another browser's. */
  async end(opener: string, nowMs: number): Promise<(T & { readonly id: string }) | undefined> {
    const { table, columns } = this.kind;
    const parts = openerParts(opener);
    if (!parts) return undefined;
    const members = membersOf(columns).map(([name, column]) => `${column} AS "${name}"`).join(", ");
    const [row] = await this.sql.query<T & { readonly id: string; readonly hash: string }>(
      `SELECT id, hash, stays, ${members} FROM ${table} WHERE id = ? AND until_ms > ?`,
      parts.id,
      nowMs,
    );
    if (!row || !isSameText(row.hash, openerHash(parts.secret))) return undefined;
    // Of two that come at once, one gets it.
    const gone = await this.sql.query(`DELETE FROM ${table} WHERE id = ? RETURNING id`, parts.id);
    if (gone.length === 0) return undefined;
    const { hash: _, ...begun } = row;
    return { ...begun as unknown as T & { readonly id: string }, stays: Number(row.stays) === 1 };
  }

  async forgetOld(nowMs: number): Promise<void> {
    await correctEnds(this.sql, this.kind.table, nowMs);
    await this.sql.query(`DELETE FROM ${this.kind.table} WHERE until_ms <= ?`, nowMs);
  }
}

function membersOf(columns: object): [member: string, column: string][] {
  return Object.entries(columns);
}

/** Makes space for a row of `address`. */
async function makeSpace(
  sql: Sql,
  table: Table,
  address: string,
): Promise<void> {
  await keepNewest(sql, table, address, OF_ADDRESS_MAX - 1);
  const { n } = await queryOne<{ readonly n: number }>(sql, `SELECT COUNT(*) AS n FROM ${table}`);
  if (Number(n) < OPEN_MAX) return;
  const most = await queryOne<{ readonly address: string; readonly n: number }>(
    sql,
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
