/**
 * Lookups, which SQLite answers in the main thread: each is bounded by its plan, and costs no trip to a process.
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { sqliteIn } from "../../cli/cloud/sqlite.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { ACCESS_LOOKUPS } from "../../lib/cloud/access/access.ts";
import { IS_ADMINISTRATOR } from "../../lib/cloud/access/administrators.ts";
import { KEY_LOOKUPS } from "../../lib/cloud/access/keys.ts";
import { SECRET_LOOKUPS } from "../../lib/cloud/access/shared_secrets.ts";
import { stampsLookup } from "../../lib/cloud/config/fragments/fragment_texts.ts";
import { LOCATIONS_ABOVE } from "../../lib/cloud/tenants/locations.ts";
import { PART_LOOKUPS } from "../../lib/cloud/tenants/parts.ts";
import { type Lookup, lookup } from "../../lib/cloud/store/lookups.ts";
import { unboundedSteps } from "../../lib/cloud/store/sqlite/main_thread.ts";
import { sharedStoreTest, sqliteTest } from "./stores.ts";
import { newWorld } from "./world.ts";
import { openStore } from "../../lib/cloud/store/open_store.ts";

/** All lookups, by the file that declares them. */
const LOOKUPS: Readonly<Record<string, readonly (Lookup | string)[]>> = {
  "access/access.ts": ACCESS_LOOKUPS,
  "access/administrators.ts": [IS_ADMINISTRATOR],
  "access/keys.ts": KEY_LOOKUPS,
  "access/shared_secrets.ts": SECRET_LOOKUPS,
  "config/fragments/fragment_texts.ts": [1, 2, 16].map(stampsLookup),
  "tenants/locations.ts": [LOCATIONS_ABOVE],
  "tenants/parts.ts": PART_LOOKUPS,
};
const CLOUD = new URL("../../lib/cloud/", import.meta.url);
/** Columns whose values may be long. */
const LONG =
  /\b(config|old_config|info|report|words|entry|payload|markdown|details|metadata|triggers|facts)\b/;

async function filesWithLookups(folder: URL, prefix = ""): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory) found.push(...await filesWithLookups(new URL(`${name}/`, folder), `${prefix}${name}/`));
    else if (!name.endsWith("_test.ts") && prefix !== "store/") {
      const text = await Deno.readTextFile(new URL(name, folder));
      if (/\blookup\(/.test(text)) found.push(prefix + name);
    }
  }
  return found.sort();
}

Deno.test("lookups: the list of their files is complete", async () => {
  assertEquals(await filesWithLookups(CLOUD), Object.keys(LOOKUPS));
});

sqliteTest(
  "lookups: each goes by indexes to a few short rows, and sorts nothing",
  async ({ open, folder }) => {
    await open();
    const database = new DatabaseSync(`${folder}/cloud.db`, { readOnly: true });
    try {
      for (const [file, lookups] of Object.entries(LOOKUPS)) {
        for (const one of lookups) {
          assert(typeof one !== "string", `${file}: no lookup: ${one}`);
          const text = `${one.text} LIMIT ${one.rowsMax + 1}`;
          const plan = database.prepare(`EXPLAIN QUERY PLAN ${text}`).all().map(({ detail }) =>
            String(detail)
          );
          assertEquals(unboundedSteps(text, plan), [], `${file}: ${one.text}`);
          assertEquals(
            LONG.exec(one.text)?.[0],
            undefined,
            `${file}: a column that may be long: ${one.text}`,
          );
        }
      }
    } finally {
      database.close();
    }
  },
);

sharedStoreTest(
  "lookups: those that are asked for together give the rows that each gives alone",
  async ({ open }) => {
    const store = await open();
    const { organization, location, machine, part, owner, operator } = await newWorld(store);
    const ids = [organization, location, machine, part, owner.id, operator.id];
    const asked = Object.values(LOOKUPS).flat().flatMap((one) => {
      assert(typeof one !== "string");
      const count = one.text.split("?").length - 1;
      return ids.map((id) => ({ one, values: Array<string>(count).fill(id) }));
    });
    const alone = [];
    for (const { one, values } of asked) alone.push(await store.query(one, ...values));
    assert(alone.filter((rows) => rows.length > 0).length >= 12, "some find rows");
    const together = await Promise.all(asked.map(({ one, values }) => store.query(one, ...values)));
    assertEquals(together.map((rows) => [...rows]), alone.map((rows) => [...rows]));
  },
);

sharedStoreTest("lookups: one that fails leaves the others of its trip their rows", async ({ open }) => {
  const store = await open();
  const { organization } = await newWorld(store);
  const byId = lookup("SELECT id FROM organizations WHERE id = ?");
  const wrong = lookup("SELECT CAST(? AS BIGINT) AS number");
  const values = [organization, "a zero \0 byte", "none"];
  const [found, zero, none] = await Promise.allSettled(values.map((id) => store.query(byId, id)));
  const [late] = await Promise.allSettled([store.query(wrong, "no number"), store.query(byId, organization)]);
  assertEquals(found?.status === "fulfilled" && [...found.value], [{ id: organization }]);
  assertEquals(none?.status === "fulfilled" && [...none.value], []);
  for (const one of [zero, late]) {
    assert(one?.status === "rejected");
    assertEquals(SvcError.from(one.reason).code, "invalid_argument");
  }
});

/** Its time stands still: however busy the computer is, no lookup takes any. */
class StillClock extends SystemClock {
  override monotonicMs(): number {
    return 0;
  }
}

sqliteTest("lookups: no trip to a process, except for more rows than declared", async ({ folder }) => {
  let [started, trips] = [0, 0];
  const { file, start } = sqliteIn(`${folder}/cloud.db`, new DenoHost());
  const counted = () => {
    const process = start();
    const write = process.write.bind(process);
    process.write = (bytes) => (trips++, write(bytes));
    started++;
    return process;
  };
  const store = await openStore({ sqlite: { file, start: counted } }, new StillClock());
  try {
    const add = "INSERT INTO organizations (id, name, created_ms) VALUES (?, ?, 0)";
    const byId = lookup("SELECT name FROM organizations WHERE id = ?");
    await store.transaction((sql) => sql.query(add, "a", "acme"));
    const before = [started, trips];
    assertEquals((await store.query(byId, "a")).map((row) => ({ ...row })), [{ name: "acme" }]);
    assertEquals(await store.query(byId, "b"), []);
    assertEquals([started, trips], before);
    // Within a transaction it is a statement as any other, and sees what is not committed.
    await store.transaction(async (sql) => {
      await sql.query(add, "b", "bolt");
      assertEquals((await sql.query(byId, "b")).map((row) => ({ ...row })), [{ name: "bolt" }]);
      assertEquals(await store.query(byId, "b"), []);
    });
    const both = lookup("SELECT id FROM organizations WHERE id IN ('a', 'b')");
    assertEquals(await store.query(both), [{ id: "a" }, { id: "b" }]);
    assertEquals(started, before[0] + 1, "a process reads it");
  } finally {
    await store.close();
  }
  await assertRejects(
    () => store.query(lookup("SELECT id FROM organizations WHERE id = ?"), "a"),
    SvcError,
    "closed",
  );
});
