/**
 * PostgreSQL under attack: its URL, somebody who poses as its server, other roles on it, and the role of svc-cloud.
 */

import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { postgresAddress, rootCertificateFile } from "../../lib/cloud/store/postgres/address.ts";
import { databaseDangers } from "../../lib/cloud/store/postgres/dangers.ts";
import { placeholders, queryOne, type Store } from "../../lib/cloud/store/store.ts";
import { selfSigned } from "../support/echo.ts";
import { giveCertificate, runPsql, useOwnPostgres } from "../support/postgres.ts";
import { until } from "../support/until.ts";
import { sharedStoreTest, storeTest } from "./stores.ts";
import { connect, openStore } from "../../lib/cloud/store/open_store.ts";

const clock = new SystemClock();
useOwnPostgres();

Deno.test("postgres: the URL of a database says who proves what, and nothing about sessions", () => {
  const { servers: [{ ssl, ...server }], ...address } = postgresAddress(
    "postgres://me:p%40ss@db.example.com/cloud?sslmode=verify-full",
  );
  assertEquals(server, { host: "db.example.com", port: 5432 });
  assertEquals(address, { database: "cloud", user: "me", password: "p@ss", wantsReadWrite: false });
  const full = {
    rejectUnauthorized: true,
    ca: undefined,
    host: "db.example.com",
    servername: "db.example.com",
  };
  assertEquals(ssl, full);
  const local = ["postgres://me@127.0.0.1/x", "postgres://localhost:1/x", "postgresql://[::1]:5/x"];
  for (const url of local) assertEquals(postgresAddress(url).servers[0].ssl, false);
  const [socket] = postgresAddress("postgres://me@/x?host=/run/postgresql").servers;
  assertEquals([socket.path, socket.ssl], ["/run/postgresql/.s.PGSQL.5432", false]);
  const several = postgresAddress("postgres://a:1,b/x?sslmode=verify-full&target_session_attrs=read-write");
  assertEquals(several.servers.map(({ host, port }) => [host, port]), [["a", 1], ["b", 5432]]);
  // Each has to prove its own name.
  const names = several.servers.map(({ ssl }) => ssl && ssl.servername);
  assertEquals([names, several.wantsReadWrite], [["a", "b"], true]);
  assertEquals(
    rootCertificateFile("postgres://a/x?sslmode=verify-ca&sslrootcert=/etc/ca.pem"),
    "/etc/ca.pem",
  );
  const ca = { ca: "PEM", host: "a", servername: "a", rejectUnauthorized: true };
  assertEquals(postgresAddress("postgres://a/x?sslmode=verify-full", "PEM").servers[0].ssl, ca);
  // The authorities of the system are trusted only together with the name.
  const [system] = postgresAddress("postgres://db.example.com/x?sslrootcert=system").servers;
  assertEquals(system.ssl, full);
  assertEquals(rootCertificateFile("postgres://a/x?sslrootcert=system"), undefined);

  const refused: readonly (readonly [url: string, why: string])[] = [
    ["mysql://a/x", "another form"],
    ["postgres://db.example.com/x", "found no sslmode for a server elsewhere"],
    ["postgres://127.0.0.1,db.example.com/x", "found no sslmode"],
    ["postgres://a/x?sslmode=prefer", "found sslmode=prefer"],
    ["postgres://a/x?sslmode=verify_full", "found sslmode=verify_full"],
    ["postgres://a/x?sslmode=require&sslrootcert=system", "wanted verify-full"],
    ["postgres://a/x?sslmode=verify-ca&sslrootcert=system", "wanted verify-full"],
    ["postgres://a,b/x?sslmode=verify-full&target_session_attrs=standby", "svc-cloud writes"],
    ["postgres://a/x?sslmode=verify-full&target_session_attrs=prefer-standby", "svc-cloud writes"],
    ["postgres://127.0.0.1/x?options=-csearch_path%3Devil", "found the parameter options"],
    ["postgres://127.0.0.1/x?options=-csearch_path%3Devil", "ALTER ROLE"],
    ["postgres://a/x?sslmode=require&channel_binding=require", "verify-full"],
    ["postgres://127.0.0.1/x?passfile=/root/.pgpass", "PGPASSWORD"],
    ["postgres://127.0.0.1/x?service=cloud", "no service files"],
    ["postgres://a,b/x?sslmode=verify-full&load_balance_hosts=random", "takes writes"],
    ["postgres://127.0.0.1/x?constructor=1", "found the parameter constructor"],
    ["postgres://%2Frun%2Fpostgresql/x", "host=FOLDER"],
    ["postgres://127.0.0.1/x?search_path=evil", "found the parameter search_path"],
    ["postgres://127.0.0.1/x?statement_timeout=0", "found the parameter statement_timeout"],
    ["postgres://127.0.0.1/x?sslmode=disable&sslmode=verify-full", "sslmode twice"],
    ["postgres://a/x?host=b", "the folder of the server's socket"],
    ["postgres:///x", "names no host"],
    ["postgres://127.0.0.1", "names no database"],
    ["postgres://127.0.0.1:99999/x", "found the host"],
    ["postgres://me:secret%00@127.0.0.1/x", "percent-encoded"],
    ["postgres://me:secret%E0@127.0.0.1/x", "percent-encoded"],
  ];
  for (const [url, why] of refused) {
    const error = assertThrows(() => postgresAddress(url), SvcError, why);
    assertEquals([error.code, error.message.includes("secret")], ["invalid_argument", false], url);
  }
});

sharedStoreTest("only the named server's certificate opens the connection", async ({ flags }) => {
  const url = new URL(flags.at(-1)!);
  const [own, stranger] = [await selfSigned(), await selfSigned()];
  giveCertificate(own.certPem, own.keyPem);
  const outcome = async (host: string, mode: string, rootCertificate?: string) => {
    url.hostname = host;
    url.search = `sslmode=${mode}`;
    const store = connect({ url: url.href, rootCertificate }, clock);
    try {
      const text =
        "SELECT CASE WHEN ssl THEN 1 ELSE 0 END AS used FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
      return (await store.query<{ used: number }>(text))[0].used;
    } catch (error) {
      return SvcError.from(error).code;
    } finally {
      await store.close();
    }
  };
  assertEquals(await outcome("127.0.0.1", "disable"), 0);
  assertEquals(await outcome("127.0.0.1", "require"), 1);
  assertEquals(await outcome("127.0.0.1", "verify-full", own.certPem), 1);
  assertEquals(await outcome("127.0.0.1", "verify-full"), "unavailable");
  assertEquals(await outcome("127.0.0.1", "verify-full", stranger.certPem), "unavailable");
  assertEquals(await outcome("127.0.0.1", "verify-ca", stranger.certPem), "unavailable");
  assertEquals(await outcome("127.0.0.1", "require", stranger.certPem), "unavailable");
  // The certificate does not name this address.
  assertEquals(await outcome("127.0.0.2", "verify-full", own.certPem), "unavailable");
  assertEquals(await outcome("127.0.0.2", "verify-ca", own.certPem), 1);
  // Of several hosts, each has to prove its own address.
  const { port } = url;
  const several = async (hosts: string, rootCertificate: string) => {
    const address = `postgres://svc@${hosts}${url.pathname}?sslmode=verify-full`;
    const store = connect({ url: address, rootCertificate }, clock);
    try {
      return (await store.query<{ address: string }>("SELECT host(inet_server_addr()) AS address"))[0]
        .address;
    } catch (error) {
      return SvcError.from(error).code;
    } finally {
      await store.close();
    }
  };
  const both = `127.0.0.2:${port},127.0.0.1:${port}`;
  assertEquals(await several(both, own.certPem), "127.0.0.1");
  assertEquals(await several(`127.0.0.1:${port},127.0.0.2:${port}`, own.certPem), "127.0.0.1");
  assertEquals(await several(both, stranger.certPem), "unavailable");
});

Deno.test("postgres: who refuses TLS on the way gets neither name nor password", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const heard: number[] = [];
  const posing = (async () => {
    for await (const connection of listener) {
      const bytes = new Uint8Array(4096);
      await connection.read(bytes);
      await connection.write(new TextEncoder().encode("N"));
      const count = await connection.read(bytes).catch(() => 0) ?? 0;
      heard.push(...bytes.subarray(0, count));
      connection.close();
    }
  })();
  const port = listener.addr.port;
  const store = connect({ url: `postgres://me:sesame@127.0.0.1:${port}/x?sslmode=verify-full` }, clock);
  try {
    await assertRejects(() => store.query("SELECT 1"), SvcError);
  } finally {
    await store.close();
  }
  listener.close();
  await posing;
  // What came after the refusal is the beginning of TLS, whose first byte is 22.
  assert(heard.length === 0 || heard[0] === 22, String(heard));
  const text = new TextDecoder().decode(Uint8Array.from(heard));
  for (const word of ["sesame", "user", "database"]) assert(!text.includes(word), text);
});

sharedStoreTest(
  "a role that the documentation recommends is enough, and no other role gets in",
  async ({ flags }) => {
    const docs = await Deno.readTextFile(new URL("../../docs/cloud.md", import.meta.url));
    const [, block] = /```sql\n(CREATE ROLE [\s\S]*?)```/.exec(docs) ?? [];
    const name = `cloud_${crypto.randomUUID().slice(0, 8)}`;
    const statements = block.replaceAll("svc_cloud", name).replaceAll(/--.*/g, "");
    runPsql("postgres", `${statements}; CREATE ROLE ${name}_other LOGIN`);
    const url = new URL(flags.at(-1)!);
    const open = async (role: string, database: string, run: (store: Store) => Promise<void>) => {
      const store = await openStore({ url: `postgres://${role}@${url.host}/${database}` }, clock);
      try {
        await run(store);
      } finally {
        await store.close();
      }
    };
    await open(name, name, async (store) => {
      assertEquals(await databaseDangers(store), []);
      for (const text of ["CREATE ROLE evil", "CREATE DATABASE evil", "COPY secrets TO PROGRAM 'id'"]) {
        await assertRejects(() => store.transaction((sql) => sql.query(text)), SvcError);
      }
    });
    await assertRejects(
      () => open(`${name}_other`, name, () => Promise.resolve()),
      SvcError,
      "permission denied",
    );
    // The superuser's own database, as it comes.
    await open("svc", url.pathname.slice(1), async (store) => {
      runPsql(url.pathname.slice(1), "GRANT CREATE ON SCHEMA public TO PUBLIC");
      const [powers, schema, connections] = await databaseDangers(store);
      assertStringIncludes(powers, "the role svc has SUPERUSER, CREATEROLE, CREATEDB");
      assertStringIncludes(schema, 'REVOKE CREATE ON SCHEMA "public" FROM PUBLIC');
      assertStringIncludes(connections, "REVOKE CONNECT ON DATABASE");
    });
  },
);

sharedStoreTest(
  "a database whose texts are in another order than the system's is told of with the remedy",
  async ({ flags }) => {
    const { host } = new URL(flags.at(-1)!);
    const name = `ordered_${crypto.randomUUID().replaceAll("-", "")}`;
    const icu = "ENCODING UTF8 LOCALE 'C' LOCALE_PROVIDER icu ICU_LOCALE 'en-US'";
    runPsql("postgres", `CREATE DATABASE ${name} TEMPLATE template0 ${icu}`);
    const store = await openStore({ url: `postgres://svc@${host}/${name}` }, clock);
    const found = async () => (await databaseDangers(store)).filter((one) => one.includes("collation"));
    try {
      assertEquals(await found(), []);
      runPsql("postgres", `UPDATE pg_database SET datcollversion = '1.2' WHERE datname = '${name}'`);
      const [danger, ...more] = await found();
      assertStringIncludes(danger ?? "", "in the order of version 1.2 of the system's collation");
      assertStringIncludes(danger ?? "", `REINDEX DATABASE "${name}"; ALTER DATABASE "${name}"`);
      assertEquals(more, []);
      runPsql(name, `REINDEX DATABASE ${name}; ALTER DATABASE ${name} REFRESH COLLATION VERSION`);
      assertEquals(await found(), []);
    } finally {
      await store.close();
      runPsql("postgres", `DROP DATABASE ${name} WITH (FORCE)`);
    }
  },
);

sharedStoreTest(
  "another role's notices are ignored and told of once; a command without the keys tells none",
  async ({ open, flags }) => {
    const [one, other, keyless] = [await open(), await open(), await open()];
    const warnings: string[] = [];
    const keys = {
      valid: () => Promise.resolve(["a secret"]),
      warn: (why: string) => void warnings.push(why),
    };
    for (const store of [one, other]) store.notices.useKeys(keys);
    const heard: string[] = [];
    const stop = await other.notices.hear("changes", (text) => void heard.push(text));
    const forged = ["organization everything", `${crypto.randomUUID()} 1 1 1/1 AAAA`, "x 1/1 cGFydCAx"];
    const database = new URL(flags.at(-1)!).pathname.slice(1);
    for (const text of forged) runPsql(database, `NOTIFY svc_cloud_changes, '${text}'`);
    await assertRejects(() => keyless.notices.tell("changes", "part 1"), SvcError, "found none");
    await one.notices.tell("changes", "part 2");
    await until(() => heard.length > 0);
    assertEquals(heard, ["part 2"]);
    assertEquals(warnings.length, 1);
    assertStringIncludes(warnings[0], "REVOKE CONNECT");
    await stop();
  },
);

storeTest(
  "values that no column holds are the caller's mistake, and change nothing",
  async ({ open, kind }) => {
    const store = await open();
    const put = (text: string, value: string | number) =>
      store.transaction((sql) =>
        sql.query("INSERT INTO crafted (t, n) VALUES (?, ?) RETURNING t, n", text, value)
      );
    await store.transaction((sql) =>
      sql.query(
        "CREATE TABLE crafted (t TEXT NOT NULL PRIMARY KEY, n BIGINT NOT NULL CHECK (n < 1000000000000000000))",
      )
    );
    const random = Array.from(
      { length: 4_000 },
      (_, index) => String.fromCodePoint(0x4e00 + index * 7 % 20_000),
    );
    const codes = await Promise.all([
      put("a\0b", 1),
      put("1e21", 1e21),
      put("infinite", Infinity),
      put("nothing", NaN),
      // PostgreSQL's index takes 2704 bytes.
      ...(kind === "postgres" ? [put(random.join(""), 1)] : []),
    ].map((call) => call.then((rows) => JSON.stringify(rows), (error) => SvcError.from(error).code)));
    assertEquals(
      new Set(codes.filter((_, at) => at > 0 || kind === "postgres")),
      new Set(["invalid_argument"]),
    );
    // Texts that would be statements, paths and half a character are texts.
    for (const text of ["'; DROP TABLE crafted; --", "$1", "\\x00", "{a,b}", "\ud800x"]) {
      const [row] = await put(text, 1) as { t: string }[];
      assertEquals(row.t, text.toWellFormed());
    }
  },
);

Deno.test("postgres: a copy of the database is left to PostgreSQL's own tools", async () => {
  const store = connect({ url: "postgres://me@127.0.0.1:1/x" }, clock);
  assertThrows(() => store.copyTo, SvcError, "pg_dump");
  await store.close();
});

sharedStoreTest(
  "the planner knows how small new tables are, which autovacuum never counts",
  async ({ open }) => {
    const store = await open();
    await store.exclusive((sql) => sql.query("CREATE TABLE later (id TEXT PRIMARY KEY)"));
    const uncounted = "SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND reltuples < 0 " +
      "AND relnamespace = current_schema()::regnamespace";
    assertEquals((await store.query<{ name: string }>(uncounted)).map(({ name }) => name), ["later"]);
    const again = await open();
    assertEquals([...await again.query(uncounted)], []);
  },
);

sharedStoreTest(
  "callers who vary the sizes of statements do not fill the server's memory with prepared ones",
  async ({ open }) => {
    const store = await open();
    // One after another, so on one connection.
    for (let count = 1; count <= 400; count++) {
      const ids = Array.from({ length: count }, (_, at) => `part ${at}`);
      const text = `SELECT id FROM parts WHERE id IN (${placeholders(ids)})`;
      assertEquals([...await store.query(text, ...ids)], []);
    }
    const { prepared } = await queryOne<{ prepared: number }>(
      store,
      "SELECT SUM(CARDINALITY(parameter_types)) AS prepared FROM pg_prepared_statements",
    );
    assert(prepared > 100 && prepared < 35_000, `${prepared} values`);
    // What machines send is prepared nevertheless.
    const upload = { text: "INSERT INTO settings (name, value) VALUES (?, ?)", values: ["upload", "0"] };
    await store.batch([upload]);
    const { uploads } = await queryOne<{ uploads: number }>(
      store,
      "SELECT COUNT(*) AS uploads FROM pg_prepared_statements WHERE statement LIKE 'INSERT INTO settings%'",
    );
    assertEquals(uploads, 1);
    // What is not prepared does its work in a batch, too.
    const rows = Array.from({ length: 1_000 }, (_, at) => at);
    await store.batch([
      { text: "INSERT INTO settings (name, value) VALUES ('first', '1')", values: [] },
      {
        text: `INSERT INTO settings (name, value) VALUES ${rows.map(() => "(?, ?)").join(", ")}`,
        values: rows.flatMap((at) => [`many ${at}`, String(at)]),
      },
      { text: "INSERT INTO settings (name, value) VALUES (?, ?)", values: ["last", "2"] },
    ]);
    const { kept } = await queryOne<{ kept: number }>(
      store,
      "SELECT COUNT(*) AS kept FROM settings WHERE name = 'first' OR name = 'last' OR name LIKE 'many %'",
    );
    assertEquals(kept, 1_002);
  },
);
