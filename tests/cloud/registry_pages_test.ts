/**
 * Lists of registry items: what they read from the database is bounded by what they show.
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { type ItemQuery, listItems } from "../../lib/cloud/packages/item_pages.ts";
import { Packages } from "../../lib/cloud/packages/packages.ts";
import type { Sql, SqlRow, Store } from "../../lib/cloud/store/store.ts";
import { storeTest } from "./stores.ts";

const LONG = "x".repeat(500_000);
const ALL: ItemQuery = { mine: ["a"], markdown: false, limit: 1_000 };

/** Organization `a` with a public and a private item, `b` with ten private items of long texts and a public one. */
async function fill(store: Store): Promise<void> {
  await store.transaction(async (sql) => {
    const packages = new Packages(sql);
    for (const id of ["a", "b"]) {
      await sql.query(
        "INSERT INTO organizations (id, name, created_ms, namespace) VALUES (?, ?, 0, ?)",
        id,
        id,
        `acme-${id}`,
      );
    }
    const add = async (
      organization: string,
      name: string,
      platforms: string[],
      isPublic: boolean,
      text = "",
    ) => {
      const item = await packages.createItem(organization, name, "module", 0);
      const visibility = isPublic ? "public" as const : "private" as const;
      await packages.updateItem(item, { visibility, description: `The ${name}`, markdown: text }, 0);
      for (const platform of platforms) {
        const file = { sha256: "0", bytes: 1 };
        const about = { version: "1.0.0", type: "module", platform, metadata: { text }, file } as const;
        await packages.add({ organizationId: organization, name, ...about }, 0);
      }
    };
    await add("a", "open", ["linux/amd64", "linux/arm64"], true);
    await add("a", "own", ["any"], false);
    for (let number = 0; number < 10; number++) await add("b", `secret-${number}`, ["any"], false, LONG);
    await add("b", "shared", ["linux/any"], true, LONG);
    await add("b", "unfinished", [], true);
  });
}

async function namesOf(sql: Sql, query: ItemQuery): Promise<string[]> {
  const found: string[] = [];
  for await (const some of listItems(sql, query)) found.push(...some.map(({ item }) => item.name));
  return found;
}

storeTest("a list of registry items reads nothing that it does not show", async ({ open }) => {
  const store = await open();
  await fill(store);
  let [letters, statements] = [0, 0];
  const counting: Sql = {
    query: async <R = SqlRow>(...[statement, ...values]: Parameters<Sql["query"]>) => {
      const rows = await store.query<R>(statement, ...values);
      letters += JSON.stringify(rows).length;
      statements++;
      return rows;
    },
  };
  assertEquals(await namesOf(counting, { ...ALL, limit: 2 }), ["open", "own"]);
  assert(letters < 10_000, `${letters} letters read`);
  assert(statements <= 3, `${statements} statements`);
  assertEquals(await namesOf(counting, { ...ALL, after: "acme-a:own" }), ["shared", "unfinished"]);
  assert(letters < LONG.length + 20_000, "the documentation was not asked for");
});

storeTest("a list of registry items has the conditions of its query", async ({ open }) => {
  const store = await open();
  await fill(store);
  const cases: [Partial<ItemQuery>, string[]][] = [
    [{}, ["open", "own", "shared", "unfinished"]],
    [{ mine: [] }, ["open", "shared", "unfinished"]],
    [{ organizationId: "b" }, ["shared", "unfinished"]],
    [{ namespaces: ["acme-a"] }, ["open", "own"]],
    [{ visibilities: ["private"] }, ["own"]],
    [{ kinds: ["ml_model"] }, []],
    [{ isPublished: true }, ["open", "own", "shared"]],
    [{ isPublished: false }, ["unfinished"]],
    [{ search: "THE S" }, ["shared"]],
    [{ search: "100%" }, []],
    [{ platforms: ["linux/arm64"] }, ["open", "own", "shared"]],
    [{ platforms: ["darwin/arm64"] }, ["own"]],
    [{ platforms: ["any/amd64"] }, ["open", "own", "shared"]],
    [{ platforms: ["linux/___64"] }, ["own", "shared"]],
    [{ mine: ["b"], ownFirst: true, limit: 1 }, ["secret-0"]],
  ];
  for (const [query, wanted] of cases) {
    assertEquals(await namesOf(store, { ...ALL, ...query }), wanted, JSON.stringify(query));
  }
  // A page of many long texts ends early; the next one goes on.
  const mine = { ...ALL, mine: ["b"], markdown: true };
  const first = await namesOf(store, mine);
  assertEquals(first.length, 5);
  assertEquals((await namesOf(store, { ...mine, after: `acme-b:${first.at(-1)}` }))[0], "secret-4");
  await assertRejects(() => namesOf(store, { ...ALL, search: LONG }), SvcError, "search_term has 500000");
  await assertRejects(
    () => namesOf(store, { ...ALL, platforms: Array(101).fill("a") }),
    SvcError,
    "101 values",
  );
});
