/**
 * Databases for tests: every test of the control plane runs over SQLite and over PostgreSQL.
 *
 * The PostgreSQL server is Debian's. If it is not installed, its tests are ignored, and their names say so.
 */

import { type Needed, needingTest } from "../support/needing.ts";
import { createPostgresDatabase, neededPostgres, type PostgresDatabase } from "../support/postgres.ts";
import { copyPostgres, copySqlite } from "./templates.ts";
import { sqliteIn } from "../../cli/cloud/sqlite.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { connect, openStore, type StoreAddress } from "../../lib/cloud/store/open_store.ts";

export const KINDS = ["sqlite", "postgres"] as const;
export type Kind = typeof KINDS[number];

/** A database of its own for one test. */
export interface TestDatabase {
  readonly kind: Kind;
  /** A folder of the test's own. */
  readonly folder: string;
  /** Opens it with its tables up to date, a copy if nothing was in it; again for another process's view of it. */
  open(): Promise<Store>;
  /** Opens it unchanged, which means empty at first. */
  connect(): Store;
  /** Its flags on a command line; a program finds it empty if they are asked for first. */
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
  const needed: Needed<string> = kind === "postgres" ? neededPostgres() : { found: kind };
  needingTest(`${kind}: ${name}`, needed, () => withDatabase(kind, run));
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
  const place = placeIn(kind, folder);
  const clock = new SystemClock();
  try {
    await run({
      kind,
      folder,
      open: async () => keep(await openStore(await place.withTables(), clock)),
      connect: () => keep(connect(place.asItIs(), clock)),
      get flags() {
        const { url } = place.asItIs();
        return ["--data", folder, ...(url ? ["--database", url] : [])];
      },
    });
  } finally {
    for (const store of opened) await store.close();
    place.drop();
    await Deno.remove(folder, { recursive: true });
  }
}

/** A database that is made, with tables or empty, when it is first asked for. */
function placeIn(kind: Kind, folder: string) {
  const sqlite = sqliteIn(`${folder}/cloud.db`, new DenoHost());
  let isMade = false;
  let postgres: PostgresDatabase | undefined;
  const asItIs = (): StoreAddress => {
    if (kind === "postgres") postgres ??= createPostgresDatabase();
    isMade = true;
    return { sqlite, url: postgres?.url };
  };
  let making: Promise<void> | undefined;
  const make = async () => {
    if (isMade) return;
    if (kind === "postgres") postgres = await copyPostgres();
    else await copySqlite(sqlite.file);
  };
  const withTables = async () => {
    await (making ??= make());
    return asItIs();
  };
  return { asItIs, withTables, drop: () => postgres?.drop() };
}

/** The same for tests that do not depend on the database: once, over SQLite. */
export function sqliteTest(name: string, run: (database: TestDatabase) => Promise<void>): void {
  Deno.test({ name, fn: () => withDatabase("sqlite", run) });
}
