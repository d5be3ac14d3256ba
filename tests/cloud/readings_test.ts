/**
 * Readings of machines: which of them a filter finds, and that a reading which comes again is the same.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { DataService, type FilterSchema, Order } from "../../proto/gen/data_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { Conditions } from "../../lib/cloud/capture/filter.ts";
import { storeReadings } from "../../lib/cloud/data/store_readings.ts";
import { TabularData } from "../../lib/cloud/data/tabular_data.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import type { JsonObject, MessageInitShape } from "../../lib/wire/rpc/proto.ts";
import { newWorld, type ServedCloud, withCloud } from "./world.ts";
import { storeTest } from "./stores.ts";

const START_MS = 1_700_000_000_000;
type Filter = MessageInitShape<typeof FilterSchema>;

async function thermometer({ channel, store }: ServedCloud, componentType = "rdk:component:sensor") {
  const { owner, part: partId, organization: organizationId } = await newWorld(store);
  const connection = await channel(owner);
  const [data, sync] = [client(DataService, connection), client(DataSyncService, connection)];
  return {
    data,
    organizationId,
    partId,
    add: (value: JsonObject, tags: string[] = [], atMs = START_MS) =>
      sync.dataCaptureUpload({
        metadata: {
          partId,
          componentType,
          componentName: "thermometer",
          methodName: "Readings",
          type: DataType.TABULAR_SENSOR,
          tags,
        },
        sensorContents: [{
          metadata: { timeRequested: toTimestamp(atMs) },
          data: { case: "struct", value },
        }],
      }),
    async count(filter: Filter = {}) {
      return Number((await data.tabularDataByFilter({ countOnly: true, dataRequest: { filter } })).count);
    },
  };
}

storeTest(
  "a reading that comes again with its members in another order is the same",
  (database) =>
    withCloud(database, async (cloud) => {
      const { add, count } = await thermometer(cloud);
      await add({ readings: { celsius: 20, place: { floor: 1, room: "b" } }, at: [{ x: 1, y: Number.NaN }] });
      await add({ at: [{ y: Number.NaN, x: 1 }], readings: { place: { room: "b", floor: 1 }, celsius: 20 } });
      assertEquals(await count(), 1);
      await add({ readings: { celsius: 21, place: { floor: 1, room: "b" } }, at: [{ x: 1, y: Number.NaN }] });
      assertEquals(await count(), 2);
    }),
);

storeTest(
  "tags and types of readings are found as they are written, with any characters",
  (database) =>
    withCloud(database, async (cloud) => {
      const { data, organizationId, add, count } = await thermometer(cloud, "acme:component:Gauge");
      await add({ readings: { celsius: 20 } }, ["Hall", 'two "words"', "100%_\\"]);
      const tagged = (tag: string) => ({ tagsFilter: { tags: [tag] } });
      const found = ["Hall", 'two "words"', "100%_\\"];
      assertEquals(await Promise.all(found.map((tag) => count(tagged(tag)))), [1, 1, 1]);
      const others = ["hall", "HALL", "Hal", "%", '"', "two", "x".repeat(60_000)];
      assertEquals(await Promise.all(others.map((tag) => count(tagged(tag)))), others.map(() => 0));
      const types = ["Gauge", "acme:component:Gauge", "gauge", "auge", "Gaug", "%"];
      const counts = await Promise.all(types.map((componentType) => count({ componentType })));
      assertEquals(counts, [1, 1, 0, 0, 0, 0]);
      const removed = async (tag: string) =>
        (await data.deleteTabularData({ organizationId, filter: tagged(tag) })).deletedCount;
      assertEquals([await removed("hall"), await removed("Hall")], [0n, 1n]);
    }),
);

storeTest(
  "a filter for properties of files finds no readings",
  (database) =>
    withCloud(database, async (cloud) => {
      const { add, count, organizationId } = await thermometer(cloud);
      await add({ readings: { celsius: 20 } });
      const filters: Filter[] = [{ mimeType: ["image/png"] }, { bboxLabels: ["cat"] }];
      for (const filter of filters) assertEquals(await count(filter), 0);
      assertEquals(await count({ organizationIds: [organizationId] }), 1);
    }),
);

storeTest(
  "a page of readings ends at its size limit, and every reading is on a page",
  (database) =>
    withCloud(database, async (cloud) => {
      const { add, data, partId } = await thermometer(cloud);
      const note = "n".repeat(3 * 1024 ** 2);
      const write = (number: number, text: string) => add({ number, text }, [], START_MS + number);
      for (const number of [1, 2, 3, 4, 5]) await write(number, note);
      await write(6, note.repeat(4));
      const pages: unknown[][] = [];
      for (let last = "";;) {
        const page = await data.tabularDataByFilter({
          dataRequest: { limit: 100n, last, sortOrder: Order.ASCENDING },
        });
        if (page.data.length === 0) break;
        pages.push(page.data.map((one) => one.data!.number));
        last = page.last;
      }
      // Two of 3 MiB go into 8; one that is larger alone has a page of its own.
      assertEquals(pages, [[1, 2], [3, 4], [5], [6]]);
      const source = {
        partId,
        resourceName: "thermometer",
        resourceSubtype: "sensor",
        methodName: "Readings",
      };
      const exported: unknown[] = [];
      for await (const { payload } of data.exportTabularData(source)) exported.push(payload!.number);
      assertEquals(exported, [1, 2, 3, 4, 5, 6]);
      const refused = await write(7, note.repeat(6)).then(() => "taken", String);
      assertMatch(refused, /reading 0 of the upload has \d+ bytes, wanted at most 16777216/);
    }),
);

storeTest("readings that come again, in one upload or in several, are counted once", async ({ open }) => {
  const store = await open();
  const { organization: organizationId } = await newWorld(store);
  const texts = { locationId: "l", machineId: "m", machineName: "m", partName: "main", parameters: "{}" };
  const method = { componentType: "sensor", componentName: "thermometer", methodName: "Readings" };
  const origin = { organizationId, partId: "p", ...texts, ...method };
  const readingsOf = (from: number, count: number) =>
    Array.from({ length: count }, (_, at) => {
      return { capturedUs: START_MS * 1000 + from + at, receivedUs: 0, payload: { celsius: from + at } };
    });
  const bytes = async () =>
    (await store.query<{ bytes: number }>("SELECT bytes FROM stored_bytes WHERE kind = 'readings'"))[0].bytes;
  // More than a statement takes, each of them twice.
  await storeReadings({ store }, origin, [...readingsOf(0, 900), ...readingsOf(0, 900)], ["a"], START_MS);
  await storeReadings({ store }, origin, readingsOf(800, 200), ["a"], START_MS);
  await storeReadings({ store }, origin, readingsOf(0, 900), ["b"], START_MS + 1);
  assertEquals({ count: 1000, bytes: await bytes() }, await new TabularData(store).count(new Conditions()));
});
