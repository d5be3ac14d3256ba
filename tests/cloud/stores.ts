/**
 * Databases for tests: every test of the control plane runs over SQLite and over PostgreSQL.
 *
 * The PostgreSQL server is Debian's. The first test that needs it starts it in a folder of its own, and it ends with
 * the process. If it is not installed, its tests are ignored, and their names say so.
 */

import { type Needed, needingTest } from "../support/needing.ts";
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
  const url = kind === "postgres" ? newPostgresDatabase() : undefined;
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
    await Deno.remove(folder, { recursive: true });
  }
}

/** The same for tests that do not depend on the database: once, over SQLite. */
export function sqliteTest(name: string, run: (database: TestDatabase) => Promise<void>): void {
  Deno.test({ name, fn: () => withDatabase("sqlite", run) });
}

let server: { port: number; psql: string; folder: string } | undefined;

/** The URL of a new, empty database. */
function newPostgresDatabase(): string {
  const name = `test_${crypto.randomUUID().replaceAll("-", "")}`;
  runPsql("postgres", `CREATE DATABASE ${name}`);
  return `postgres://svc@127.0.0.1:${server!.port}/${name}`;
}

/** Runs statements as the server's superuser, as people do with psql. */
export function runPsql(database: string, statements: string): void {
  server ??= startPostgres();
  const address = ["-h", "127.0.0.1", "-p", String(server.port), "-U", "svc"];
  // Each one by itself: CREATE DATABASE does not run in a transaction.
  const commands = statements.split(";").filter((one) => one.trim() !== "").flatMap((one) => ["-c", one]);
  execute(server.psql, [...address, "-d", database, "-q", "-v", "ON_ERROR_STOP=1", ...commands]);
}

/** Makes the test's server speak TLS from now on, with this certificate. */
export function giveCertificate(certificate: string, key: string): void {
  server ??= startPostgres();
  const files = { "server.crt": certificate, "server.key": key };
  for (const [name, text] of Object.entries(files)) {
    const path = `${server.folder}/data/${name}`;
    Deno.writeTextFileSync(path, text, { mode: 0o600 });
    if (Deno.uid() === 0) Deno.chownSync(path, NOBODY.uid, NOBODY.gid);
  }
  runPsql("postgres", "ALTER SYSTEM SET ssl = on; SELECT pg_reload_conf()");
}

/** PostgreSQL does not run as root. */
const NOBODY = { uid: 65_534, gid: 65_534 };

function startPostgres(): NonNullable<typeof server> {
  const programs = postgresPrograms()!;
  const folder = Deno.makeTempDirSync({ prefix: "svc-postgres-" });
  const other = Deno.uid() === 0 ? NOBODY : undefined;
  if (other) Deno.chownSync(folder, other.uid, other.gid);
  execute(`${programs}/initdb`, ["-D", `${folder}/data`, "-A", "trust", "-U", "svc", "-N"], other);
  const port = freePort();
  const settings =
    `-c listen_addresses=127.0.0.1,127.0.0.2 -p ${port} -k ${folder} -c fsync=off -c max_connections=200`;
  const control = ["-D", `${folder}/data`, "-w", "-s"];
  execute(`${programs}/pg_ctl`, [...control, "-l", `${folder}/log`, "-o", settings, "start"], other);
  globalThis.addEventListener("unload", () => {
    execute(`${programs}/pg_ctl`, [...control, "-m", "immediate", "stop"], other);
    Deno.removeSync(folder, { recursive: true });
  });
  return { port, psql: `${programs}/psql`, folder };
}

/** The folder of the newest installed server's programs. */
function postgresPrograms(): string | undefined {
  const root = "/usr/lib/postgresql";
  try {
    const versions = [...Deno.readDirSync(root)].map(({ name }) => name).sort((a, b) =>
      Number(b) - Number(a)
    );
    return versions.map((version) => `${root}/${version}/bin`).find((folder) => {
      return Deno.statSync(`${folder}/initdb`).isFile;
    });
  } catch {
    return undefined;
  }
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

function execute(program: string, args: string[], options: Deno.CommandOptions = {}): void {
  // The server outlives pg_ctl, so it must not inherit our pipes.
  const { success } = new Deno.Command(program, {
    args,
    cwd: "/",
    stdin: "null",
    stdout: "null",
    stderr: "inherit",
    ...options,
  }).outputSync();
  if (!success) throw new Error(`${program} ${args.join(" ")} failed`);
}
