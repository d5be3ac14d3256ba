/**
 * Tags of readings: found through an index, in databases of earlier versions too.
 */

import { assertEquals, assertRejects } from "@std/assert";
import { TagsFilterType } from "../../proto/gen/data_pb.ts";
import { SvcError } from "../../lib/base/error.ts";
import { tabularConditions } from "../../lib/cloud/capture/filter.ts";
import { storeReadings } from "../../lib/cloud/data/store_readings.ts";
import { TabularData } from "../../lib/cloud/data/tabular_data.ts";
import { MIGRATIONS } from "../../lib/cloud/store/migrations.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { forgetTagLists } from "../../lib/cloud/store/tag_lists.ts";
import { create } from "../../lib/wire/rpc/proto.ts";
import { TagsFilterSchema } from "../../proto/gen/data_pb.ts";
import { storeTest } from "./stores.ts";
import { migrate } from "../../lib/cloud/store/open_store.ts";

const REACH = [{ kind: "organization", resourceId: "o", role: "owner" } as const];
const ORIGIN = {
  organizationId: "o",
  locationId: "l",
  machineId: "m",
  machineName: "m",
  partId: "p",
  partName: "main",
  componentName: "thermometer",
  componentType: "sensor",
  methodName: "Readings",
  parameters: "{}",
};

async function newOrganization(store: Store): Promise<void> {
  await store.transaction((sql) =>
    sql.query("INSERT INTO organizations (id, name, created_ms) VALUES ('o', 'o', 0)")
  );
}

function add(store: Store, tags: readonly string[], count: number, fromUs = 0): Promise<unknown> {
  const readings = Array.from({ length: count }, (_, index) => {
    return { capturedUs: fromUs + index, receivedUs: 0, payload: { index } };
  });
  return storeReadings({ store }, ORIGIN, readings, tags, 0);
}

function tagged(...tags: string[]) {
  const tagsFilter = create(TagsFilterSchema, { type: TagsFilterType.MATCH_BY_OR, tags });
  return tabularConditions({ tagsFilter }, REACH);
}

const numbered = (word: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${word} ${index} of many`);

storeTest("a filter of 900 tags over readings of 100 tags each looks at an index", async ({ open }) => {
  const store = await open();
  await newOrganization(store);
  await add(store, numbered("tag", 100), 4_000);
  await add(store, ["wanted"], 3, 10_000);
  const data = new TabularData(store);
  // A look at each tag of each reading exceeds the deadline of a statement.
  assertEquals((await data.count(tagged(...numbered("other", 899), "wanted"))).count, 3);
  const { readings } = await data.page(tagged(...numbered("other", 899), "wanted"), {
    limit: 10,
    order: "newest first",
    last: "",
  });
  assertEquals(readings.map(({ capturedUs, tags }) => [capturedUs, tags]), [
    [10_002, ["wanted"]],
    [10_001, ["wanted"]],
    [10_000, ["wanted"]],
  ]);
});

storeTest("a filter has at most 1,000 tags and 262,144 letters", async () => {
  await assertRejects(async () => await tagged(...numbered("a", 1_001)), SvcError, "1001 values");
  await assertRejects(async () => await tagged("x".repeat(300_000)), SvcError, "300000 letters");
});

storeTest("tags of readings of an earlier version move to the index, in steps", async (database) => {
  const store = database.connect();
  const step = MIGRATIONS.findIndex((texts) =>
    texts.some((text) => String(text).includes("TABLE reading_tags"))
  );
  await migrate(store, step);
  await newOrganization(store);
  await store.transaction(async (sql) => {
    await sql.query(
      "INSERT INTO data_origins VALUES ('x', 'o', 'l', 'm', 'm', 'p', 'main', 'thermometer', 'sensor', 'Readings', '{}')",
    );
    const lists = [["a", 'with "quotes" and ä'], ["b"], []];
    for (let at = 0; at < 4_500; at += 500) {
      const rows = Array.from({ length: 500 }, (_, index) => at + index);
      await sql.query(
        `INSERT INTO tabular_data (origin_id, captured_us, entry_id, received_us, stored_ms, tags, payload)
         VALUES ${rows.map(() => "('x', ?, 'e', 0, 0, ?, ?)").join(", ")}`,
        ...rows.flatMap((row) => [row, JSON.stringify(lists[row % 3]), new Uint8Array(2)]),
      );
    }
  });
  const migrated = await database.open();
  const countOf = async (...tags: string[]) => (await new TabularData(migrated).count(tagged(...tags))).count;
  assertEquals(await countOf("a"), 1_500);
  assertEquals(await countOf('with "quotes" and ä', "b"), 3_000);
  assertEquals(await countOf('"'), 0);
});

storeTest("a list of tags without readings is forgotten", async ({ open }) => {
  const store = await open();
  await newOrganization(store);
  await add(store, ["a", "b"], 2);
  await add(store, ["b", "c"], 2, 1_000);
  await store.transaction((sql) => new TabularData(sql).remove(tagged("a"), 10));
  await forgetTagLists(store);
  const rows = await store.query<{ tag: string }>("SELECT tag FROM reading_tags ORDER BY tag");
  assertEquals(rows.map(({ tag }) => tag), ["b", "c"]);
});
