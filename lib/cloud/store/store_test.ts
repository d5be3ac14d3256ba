/** Statements of many rows and of many ids: all of them, in few sizes. */

import { assert, assertEquals } from "@std/assert";
import { queryByIds, rowPieces, type Sql } from "./store.ts";

Deno.test("rowPieces: all rows in their order, in pieces of few sizes", () => {
  const sizes = new Set<number>();
  for (let count = 0; count <= 700; count++) {
    const rows = Array.from({ length: count }, (_, at) => at);
    const pieces = rowPieces(rows);
    assertEquals(pieces.flat(), rows);
    assert(pieces.length <= Math.floor(count / 64) + 4, `${pieces.length} pieces of ${count} rows`);
    for (const { length } of pieces) sizes.add(length);
  }
  assertEquals([...sizes].sort((a, b) => a - b), [...Array(16).keys()].map((at) => at + 1).concat(64));
});

Deno.test("queryByIds: the rows of all ids, each once, by statements of few sizes", async () => {
  const texts = new Set<string>();
  const sql: Sql = {
    query: <R>(text: unknown, ...values: unknown[]) => {
      texts.add(String(text));
      assertEquals(String(text).split("?").length - 1, values.length);
      return Promise.resolve([...new Set(values)].map((id) => ({ id })) as R[]);
    },
  };
  for (const count of [0, 1, 2, 3, 5, 100, 500, 512, 513, 1_000, 1_025]) {
    const ids = Array.from({ length: count }, (_, at) => `id ${at}`);
    const rows = await queryByIds<{ id: string }>(
      sql,
      ids,
      (places) => `SELECT id FROM t WHERE id IN (${places})`,
    );
    assertEquals(rows.map(({ id }) => id), ids);
  }
  assert(texts.size <= 10, `${texts.size} statements`);
});
