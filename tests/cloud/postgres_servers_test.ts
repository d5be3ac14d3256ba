/**
 * Several PostgreSQL servers: a primary and a standby that takes its place, a server that is closed to writes, and a
 * pooler in front of one.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { connect, openStore } from "../../lib/cloud/store/open_store.ts";
import { needingTest } from "../support/needing.ts";
import { pgbouncer, withPgBouncer } from "../support/pgbouncer.ts";
import { postgresPrograms, type PostgresServer, startPostgres, startStandby } from "../support/postgres.ts";
import { until } from "../support/until.ts";

const clock = new SystemClock();
const programs = postgresPrograms();
const postgres = programs ? { found: programs } : { missing: "PostgreSQL: apt-get install postgresql" };
const WRITERS = 8;

needingTest(
  "postgres: a standby that is promoted under load takes the primary's place",
  postgres,
  async () => {
    const primary = startPostgres();
    const standby = startStandby(primary);
    const stopping = new AbortController();
    const store = await openStore({ url: addressOf(standby, primary) }, clock);
    const other = connect({ url: addressOf(primary, standby) }, clock);
    try {
      await store.transaction((sql) => sql.query("CREATE TABLE written (id TEXT NOT NULL PRIMARY KEY)"));
      await alter(primary, "synchronous_standby_names", "*");
      // Only with the standby's word is a commit acknowledged now.
      await until(async () => {
        const text = "SELECT sync_state AS state FROM pg_stat_replication";
        return (await store.query<{ state: string }>(text))[0]?.state === "sync";
      });
      const keys = { valid: () => Promise.resolve(["a secret"]), warn: () => {} };
      for (const one of [store, other]) one.notices.useKeys(keys);
      const heard: string[] = [];
      let misses = 0;
      const unlisten = await other.notices.hear(
        "changes",
        (text) => void heard.push(text),
        () => void misses++,
      );

      const acknowledged = new Set<string>();
      const codes = new Set<string>();
      const write = async () => {
        while (!stopping.signal.aborted) {
          const id = crypto.randomUUID();
          try {
            await store.transaction((sql) => sql.query("INSERT INTO written (id) VALUES (?)", id));
            acknowledged.add(id);
          } catch (error) {
            codes.add(SvcError.from(error).code);
            await clock.sleep(20);
          }
        }
      };
      const writing = Promise.all(Array.from({ length: WRITERS }, write));
      await until(() => acknowledged.size > 100);
      primary.stop();
      await until(() => codes.size > 0);
      standby.promote();
      const before = acknowledged.size;
      await until(() => acknowledged.size > before + 100);
      stopping.abort();
      await writing;

      assertEquals([...codes], ["unavailable"]);
      const rows = await store.query<{ id: string }>("SELECT id FROM written");
      const ids = new Set(rows.map(({ id }) => id));
      assertEquals([...acknowledged].filter((id) => !ids.has(id)), []);
      await until(() => misses > 0);
      await store.notices.tell("changes", "after");
      await until(() => heard.includes("after"));
      await unlisten();
    } finally {
      stopping.abort();
      await Promise.all([store.close(), other.close()]);
      standby.stop();
    }
  },
);

needingTest("postgres: a control plane waits for a server that takes writes", postgres, async () => {
  const primary = startPostgres();
  const standby = startStandby(primary);
  try {
    const refused = async (url: string) => {
      const store = connect({ url }, clock);
      try {
        await store.query("SELECT 1");
        return "";
      } catch (error) {
        return `${SvcError.from(error).code}: ${(error as Error).message}`;
      } finally {
        await store.close();
      }
    };
    assertStringIncludes(await refused(addressOf(standby)), "unavailable: database: 127.0.0.1:");
    assertStringIncludes(await refused(addressOf(standby)), "takes no writes: it is a standby");

    await alter(primary, "default_transaction_read_only", "on");
    const closed = `${addressOf(primary)}?target_session_attrs=read-write`;
    assertStringIncludes(await refused(closed), "default_transaction_read_only is on");
    for (const attribute of ["primary", "any"]) {
      assertEquals(await refused(`${addressOf(primary)}?target_session_attrs=${attribute}`), "");
    }
    const both = await refused(`${addressOf(standby, primary)}?target_session_attrs=read-write`);
    assertStringIncludes(both, "it is a standby; 127.0.0.1:");

    await alter(primary, "default_transaction_read_only", "off");
    assertEquals(await refused(`${addressOf(standby, primary)}?target_session_attrs=read-write`), "");
    // A server that knows no such database answers for all, as with PostgreSQL's own programs.
    const wrong = addressOf(primary, standby).replace(/postgres$/, "missing");
    assertStringIncludes(await refused(wrong), 'database "missing" does not exist');
  } finally {
    standby.stop();
    primary.stop();
  }
});

needingTest(
  "postgres: a connection pooler is refused with what to do",
  "found" in postgres ? await pgbouncer() : postgres,
  async (program) => {
    const server = startPostgres();
    try {
      const ignore =
        "ignore_startup_parameters = application_name, synchronous_commit, statement_timeout, lock_timeout, " +
        "idle_in_transaction_session_timeout, default_transaction_read_only";
      for (
        const settings of [
          "pool_mode = transaction",
          `pool_mode = transaction\n${ignore}`,
          `pool_mode = session\n${ignore}`,
        ]
      ) {
        await withPgBouncer({ program, server: server.port, settings }, async (port) => {
          const error = await openStore({ url: `postgres://svc@127.0.0.1:${port}/postgres` }, clock).then(
            () => undefined,
            (error) => SvcError.from(error),
          );
          // svc-cloud serve waits for a database only if it is unavailable.
          assertEquals(error?.code, "failed_precondition", settings);
          assertStringIncludes(
            error!.message,
            `found a connection pooler such as PgBouncer at 127.0.0.1:${port}`,
          );
        });
      }
      // A role's own limit does not make up for a pooler's missing one.
      await alter(server, "statement_timeout", "10s");
      await withPgBouncer(
        { program, server: server.port, settings: `pool_mode = transaction\n${ignore}` },
        async (port) => {
          const store = connect({ url: `postgres://svc@127.0.0.1:${port}/postgres` }, clock);
          const error = await store.query("SELECT 1").then(() => undefined, (error) => SvcError.from(error));
          assert(error?.message.includes("wanted PostgreSQL itself"), error?.message);
          await store.close();
        },
      );
    } finally {
      server.stop();
    }
  },
);

function addressOf(...servers: PostgresServer[]): string {
  return `postgres://svc@${servers.map(({ port }) => `127.0.0.1:${port}`).join(",")}/postgres`;
}

/** Changes a setting of a whole server, for the sessions that begin after it. */
async function alter(server: PostgresServer, name: string, value: string): Promise<void> {
  const change = ["SET default_transaction_read_only = off", `ALTER SYSTEM SET ${name} = '${value}'`];
  await psql(server, ...change, "SELECT pg_reload_conf()");
  await until(async () => await psql(server, `SHOW ${name}`) === value);
}

async function psql({ port }: PostgresServer, ...statements: string[]): Promise<string> {
  const address = ["-h", "127.0.0.1", "-p", String(port), "-U", "svc", "-d", "postgres", "-Atq"];
  const { success, stdout } = await new Deno.Command(`${programs}/psql`, {
    args: [...address, ...statements.flatMap((statement) => ["-c", statement])],
    cwd: "/",
  }).output();
  assert(success, statements.join("; "));
  return new TextDecoder().decode(stdout).trim();
}
