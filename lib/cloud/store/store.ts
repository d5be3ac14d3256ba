/**
 * The face of the control plane's database, the same over SQLite and PostgreSQL.
 *
 * SQL is written once, in what both understand: `?` for values; columns of TEXT, BIGINT, DOUBLE PRECISION and BYTEA;
 * truth as 0 and 1; times in milliseconds. Promises: transactions are serializable and may be begun anywhere at any
 * time; when one resolves it is on disk, and a crash of the program or the machine does not take it back.
 *
 * Failures are `SvcError`s: `already_exists` where something must be unique, `failed_precondition` where something
 * refers to what is not there, `unavailable` without the database, `resource_exhausted` without room.
 *
 * The room owns what is kept on disk: the database and the steps to its tables, the contents of uploads, and the
 * control plane's own keys.
 */

import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { MIGRATIONS } from "./migrations.ts";
import type { Notices } from "./notices.ts";
import { PostgresStore } from "./postgres.ts";
import { SqliteStore } from "./sqlite.ts";

export type SqlValue = string | number | null | Uint8Array;
export type SqlRow = { readonly [column: string]: SqlValue };

/** Runs one statement and gives its rows. */
export interface Sql {
  query<R = SqlRow>(text: string, ...values: SqlValue[]): Promise<R[]>;
}

/** Outside of transactions, statements are on their own and only read. */
export interface Store extends Sql {
  /** What the control planes on this database tell each other. */
  readonly notices: Notices;
  /**
   * All of `work` or nothing. It may run more than once, so it has no effect but its statements, and it waits for
   * nothing but them; after a statement has failed there is no going on.
   */
  transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** The same for changes of the tables themselves: no two of them run at once, not even in two processes. */
  exclusive<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** What it takes on disk. */
  bytes(): Promise<number>;
  /** Makes what has been removed from a table unreadable in the database's files too. Others wait meanwhile. */
  scrub(table: string): Promise<void>;
  close(): Promise<void>;
}

export interface StorePlace {
  /** The file of an SQLite database; it is made where there is none. */
  readonly file?: string;
  /** `postgres://user:password@host:port/database`; wins over a file. */
  readonly url?: string;
}

/** Opens a database and brings its tables up to date. */
export async function openStore(place: StorePlace, clock: Clock): Promise<Store> {
  const store = connect(place, clock);
  try {
    await migrate(store);
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Opens a database as it is. */
export function connect({ file, url }: StorePlace, clock: Clock): Store {
  if (url) return new PostgresStore(url, clock);
  if (file) return new SqliteStore(file, clock);
  throw new SvcError("invalid_argument", "found neither a file nor a URL of a database, wanted one of them");
}

/** Brings the tables to `version`, each step in a transaction of its own. Throws where they are newer than known. */
export async function migrate(store: Store, version = MIGRATIONS.length): Promise<void> {
  for (;;) {
    const done = await store.exclusive(async (sql) => {
      await sql.query("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)");
      const [row] = await sql.query<{ version: number }>("SELECT version FROM schema_version");
      const found = row?.version ?? 0;
      if (found > MIGRATIONS.length) {
        throw new SvcError(
          "failed_precondition",
          `the database has version ${found}, this program knows up to ${MIGRATIONS.length}: use a newer one`,
        );
      }
      if (found >= version) return true;
      for (const statement of MIGRATIONS[found]) await sql.query(statement);
      await sql.query("DELETE FROM schema_version");
      await sql.query("INSERT INTO schema_version (version) VALUES (?)", found + 1);
      return false;
    });
    if (done) return;
  }
}

/** `?, ?, ?`: as many as there are values. */
export function places(values: readonly unknown[]): string {
  return values.map(() => "?").join(", ");
}
