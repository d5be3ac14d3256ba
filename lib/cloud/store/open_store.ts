/** Opens the database of a control plane, and migrates its tables. */

import type { Clock } from "../../base/clock.ts";
import { assert, SvcError } from "../../base/error.ts";
import { MIGRATIONS, MOVES } from "./migrations.ts";
import { PostgresStore } from "./postgres/postgres.ts";
import type { SqliteAddress } from "./sqlite/process.ts";
import { SqliteStore } from "./sqlite/sqlite.ts";
import type { Store } from "./store.ts";

export interface StoreAddress {
  /** The file of an SQLite database, created if it is missing, and the processes that run its statements. */
  readonly sqlite?: SqliteAddress;
  /** `postgres://user:password@host:port/database`; takes precedence over a file. */
  readonly url?: string;
  /** The certificates in the file that the URL names. */
  readonly rootCertificate?: string;
}

/** Opens a database and migrates its tables. */
export async function openStore(address: StoreAddress, clock: Clock): Promise<Store> {
  const store = connect(address, clock);
  try {
    await migrate(store);
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Opens a database unchanged. */
export function connect({ sqlite, url, rootCertificate }: StoreAddress, clock: Clock): Store {
  if (url) return new PostgresStore(url, clock, rootCertificate);
  if (sqlite) return new SqliteStore(sqlite, clock);
  throw new SvcError("invalid_argument", "found neither a file nor a URL of a database, wanted one of them");
}

/**
 * Migrates the tables to `version`, each step in a transaction of its own, and long ones in several. Throws if they are newer than this program.
 */
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
      if (found >= version) {
        await store.countNew(sql);
        return true;
      }
      const steps = MIGRATIONS[found];
      assert(steps, `there is no migration from version ${found}`);
      const move = MOVES.get(steps);
      if (move && !await move(sql)) return false;
      for (const step of steps) {
        if (typeof step === "string") await sql.query(step);
        else await step(sql);
      }
      await sql.query("DELETE FROM schema_version");
      await sql.query("INSERT INTO schema_version (version) VALUES (?)", found + 1);
      return false;
    });
    if (done) return;
  }
}
