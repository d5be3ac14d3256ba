/**
 * The store: the same promises over SQLite and PostgreSQL.
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { MIGRATIONS } from "../../lib/cloud/store/migrations.ts";
import type { Sql, Store } from "../../lib/cloud/store/store.ts";
import { storeTest } from "./stores.ts";
import { awaitOutcome } from "../support/outcome.ts";
import { migrate } from "../../lib/cloud/store/open_store.ts";

const insert = (sql: Sql, name: string, value: string) =>
  sql.query("INSERT INTO secrets (name, value) VALUES (?, ?)", name, value);
const names = async (sql: Sql) =>
  (await sql.query<{ name: string }>("SELECT name FROM secrets ORDER BY name")).map(({ name }) => name);
storeTest("the store returns text, numbers, bytes and null unchanged", async ({ open }) => {
  const store = await open();
  await store.transaction((sql) =>
    sql.query("CREATE TABLE things (t TEXT, n BIGINT, f DOUBLE PRECISION, b BYTEA, z TEXT)")
  );
  const row = { t: "ä 🤖 'x'", n: 1_700_000_000_123, f: 0.1, b: new Uint8Array([0, 255, 7]), z: null };
  await store.transaction((sql) =>
    sql.query("INSERT INTO things VALUES (?, ?, ?, ?, ?)", row.t, row.n, row.f, row.b, row.z)
  );
  const [found] = await store.query<typeof row>("SELECT * FROM things WHERE n > ?", 5);
  assertEquals({ ...found, b: new Uint8Array(found.b) }, row);
});

storeTest("a transaction is atomic, and invisible before its end", async ({ open }) => {
  const store = await open();
  const seen: string[][] = [];
  await assertRejects(
    () =>
      store.transaction(async (sql) => {
        await insert(sql, "a", "1");
        seen.push(await names(sql), await names(store));
        throw new Error("changed my mind");
      }),
    Error,
    "changed my mind",
  );
  assertEquals(seen, [["a"], []]);
  assertEquals(await names(store), []);
});

storeTest("of concurrent transactions only the conflicting transaction fails", async ({ open }) => {
  const store = await open();
  const outcomes = await Promise.allSettled(
    ["a", "b", "a", "c"].map((name) => store.transaction((sql) => insert(sql, name, name))),
  );
  assertEquals(outcomes.map(({ status }) => status).filter((status) => status === "rejected").length, 1);
  assertEquals(await names(store), ["a", "b", "c"]);
});

storeTest("a failed statement ends its transaction", async ({ open }) => {
  const store = await open();
  await assertRejects(() =>
    store.transaction(async (sql) => {
      await insert(sql, "a", "1");
      await insert(sql, "a", "2").catch(() => {});
      await insert(sql, "b", "1").catch(() => {});
    })
  );
  assertEquals(await names(store), []);
});

storeTest("the store maps database errors to error codes", async ({ open }) => {
  const store = await open();
  await store.transaction((sql) => insert(sql, "a", "1"));
  assertEquals(await awaitOutcome(store.transaction((sql) => insert(sql, "a", "2"))), "already_exists");
  const orphan = "INSERT INTO machines (id, location_id, name, created_ms) VALUES ('m', 'none', 'm', 0)";
  assertEquals(await awaitOutcome(store.transaction((sql) => sql.query(orphan))), "failed_precondition");
  assertEquals(await awaitOutcome(store.query("SELECT * FROM nothing")), "internal");
});

storeTest("the store refuses to write outside of transactions", async ({ open }) => {
  const store = await open();
  await assertRejects(() => insert(store, "a", "1"), SvcError);
  assertEquals(await names(store), []);
});

storeTest("a batch is atomic, and stops at the rows that it must not find", async ({ open }) => {
  const store = await open();
  const add = (name: string) => {
    return { text: "INSERT INTO secrets (name, value) VALUES (?, 'x')", values: [name] };
  };
  const many = {
    text: "SELECT COUNT(*) AS found FROM secrets HAVING COUNT(*) > ?",
    values: [3],
    stops: true,
  };
  const kept = [
    store.batch([add("a"), add("b"), many]),
    store.transaction((sql) => insert(sql, "c", "x")),
  ];
  assertEquals(await awaitOutcome(store.batch([add("d"), add("d")])), "already_exists");
  assertEquals((await Promise.all(kept)).map(({ length }) => length), [0, 0]);
  const [stopped, ...others] = await store.batch([add("e"), add("f"), many]);
  assertEquals([Number(stopped.found), others.length], [5, 0]);
  assertEquals(await names(store), ["a", "b", "c"]);
});

storeTest("two processes on one database never lose an update", async ({ open }) => {
  const stores = [await open(), await open()];
  await stores[0].transaction((sql) => insert(sql, "counter", "0"));
  const add = (store: Store) =>
    store.transaction(async (sql) => {
      const [{ value }] = await sql.query<{ value: string }>(
        "SELECT value FROM secrets WHERE name = 'counter'",
      );
      await sql.query("UPDATE secrets SET value = ? WHERE name = 'counter'", String(Number(value) + 1));
    });
  await Promise.all(Array.from({ length: 40 }, (_, index) => add(stores[index % 2])));
  const [{ value }] = await stores[0].query<{ value: string }>("SELECT value FROM secrets");
  assertEquals(value, "40");
});

storeTest("several processes can open a new database at the same time", async ({ open }) => {
  const stores = await Promise.all([open(), open(), open()]);
  await stores[0].transaction((sql) => insert(sql, "a", "1"));
  assertEquals(await names(stores[2]), ["a"]);
});

storeTest("tables of every earlier version migrate with their content", async (database) => {
  const store = database.connect();
  for (let version = 1; version <= MIGRATIONS.length; version++) {
    await migrate(store, version);
    assertEquals(await columns(store, "schema_version"), ["version"]);
    if (version === 1) await store.transaction((sql) => insert(sql, "old", "kept"));
    assertEquals(await names(store), ["old"]);
  }
  const again = await database.open();
  assertEquals(await names(again), ["old"]);
  assert((await columns(again, "parts")).length > 0);
});

storeTest("a database of a newer version is refused and not changed", async ({ open, connect }) => {
  const store = await open();
  await store.transaction((sql) => sql.query("UPDATE schema_version SET version = 999"));
  const error = await assertRejects(() => migrate(connect()), SvcError, "version 999");
  assertEquals(error.code, "failed_precondition");
});

async function columns(store: Store, table: string): Promise<string[]> {
  const text = store.constructor.name === "SqliteStore"
    ? "SELECT name FROM pragma_table_info(?)"
    : "SELECT column_name AS name FROM information_schema.columns WHERE table_name = ?";
  return (await store.query<{ name: string }>(text, table)).map(({ name }) => name);
}

storeTest("the space of deleted rows goes back to the disk while others write", async ({ open }) => {
  const store = await open();
  const filled = "x".repeat(100_000);
  for (let at = 0; at < 10; at++) {
    await store.transaction(async (sql) => {
      for (let one = 0; one < 10; one++) await insert(sql, `${at} ${one}`, filled);
    });
  }
  const before = await store.bytes();
  await store.transaction((sql) => sql.query("DELETE FROM secrets"));
  const shrinking = store.shrink(new AbortController().signal);
  await store.transaction((sql) => insert(sql, "meanwhile", "1"));
  await shrinking;
  assertEquals(await names(store), ["meanwhile"]);
  // PostgreSQL does so when it likes.
  if (!store.notices.shared) assert(await store.bytes() < before / 2);
});
