/**
 * Databases for tests: every test of the control plane runs over SQLite and over PostgreSQL.
 *
 * The PostgreSQL server is Debian's. If it is not installed, its tests are ignored, and their names say so.
 */

import { type Needed, needingTest } from "../support/needing.ts";
import { createPostgresDatabase, postgresPrograms } from "../support/postgres.ts";
import { sqliteIn } from "../../cli/cloud/sqlite.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { connect, openStore, type Store } from "../../lib/cloud/store/store.ts";

export const KINDS = ["sqlite", "postgres"] as const;
export type Kind = typeof KINDS[number];

/** A database of its own for one test. */
export interface TestDatabase {
  readonly kind: Kind;
  /** A folder of the test's own. */
  readonly folder: string;
  /** Opens it with its tables up to date; again for another process's view of it. */
  open(): Promise<Store>;
  /** Opens it unchanged. */
  connect(): Store;
  /** Its flags on a command line. */
  readonly flags: readonly string[];
}

/** Registers the test once for each kind of database. Stores that it opened are closed behind it. */
export function storeTest(name: string, run: (database: TestDatabase) => Promise<void>): void {
  for (const kind of KINDS) testOver(kind, name, run);
}

/** The same for what several control planes on one database do: over PostgreSQL. */
export function sharedStoreTest(name: string, run: (database: TestDatabase) => Promise<void>): void {
  testOver("postgres", name, run);
}

function testOver(kind: Kind, name: string, run: (database: TestDatabase) => Promise<void>): void {
  const isMissing = kind === "postgres" && postgresPrograms() === undefined;
  const needed: Needed<Kind> = isMissing ? { missing: "PostgreSQL is not installed here" } : { found: kind };
  needingTest(`${kind}: ${name}`, needed, (kind) => withDatabase(kind, run));
}

/** Runs with a database of its own, whose stores are closed behind it. */
export async function withDatabase(
  kind: Kind,
  run: (database: TestDatabase) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const opened: Store[] = [];
  const keep = (store: Store) => {
    opened.push(store);
    return store;
  };
  const sqlite = sqliteIn(`${folder}/cloud.db`, new DenoHost());
  const postgres = kind === "postgres" ? createPostgresDatabase() : undefined;
  const url = postgres?.url;
  const clock = new SystemClock();
  try {
    await run({
      kind,
      folder,
      open: async () => keep(await openStore({ sqlite, url }, clock)),
      connect: () => keep(connect({ sqlite, url }, clock)),
      flags: ["--data", folder, ...(url ? ["--database", url] : [])],
    });
  } finally {
    for (const store of opened) await store.close();
    postgres?.drop();
    await Deno.remove(folder, { recursive: true });
  }
}

/** The same for tests that do not depend on the database: once, over SQLite. */
export function sqliteTest(name: string, run: (database: TestDatabase) => Promise<void>): void {
  Deno.test({ name, fn: () => withDatabase("sqlite", run) });
}
