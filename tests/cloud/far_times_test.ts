/**
 * Times outside the databases' range: refused on arrival, and corrected if already stored.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { DataService } from "../../proto/gen/data_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { MIGRATIONS } from "../../lib/cloud/store/migrations.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { storeTest } from "./stores.ts";
import { newWorld, withCloud } from "./world.ts";
import { migrate } from "../../lib/cloud/store/open_store.ts";

/** 9999-12-31, the last day that a published timestamp has. */
const FAR = { seconds: 253_402_300_799n, nanos: 0 };
const LAST = Number.MAX_SAFE_INTEGER;

storeTest(
  "DataCaptureUpload refuses times after the year 2255",
  (database) =>
    withCloud(database, async ({ store, channel }) => {
      const { owner, part: partId } = await newWorld(store);
      const connection = await channel(owner);
      const [sync, data] = [client(DataSyncService, connection), client(DataService, connection)];
      const about = { partId, componentName: "eye", methodName: "Readings" };
      const struct = { case: "struct" as const, value: { celsius: 20 } };
      const binary = { case: "binary" as const, value: Uint8Array.of(1) };
      const upload = (value: typeof struct | typeof binary, metadata = {}) =>
        sync.dataCaptureUpload({
          metadata: {
            ...about,
            type: value.case === "struct" ? DataType.TABULAR_SENSOR : DataType.BINARY_SENSOR,
          },
          sensorContents: [{ metadata, data: value }],
        });
      for (const value of [struct, binary]) {
        await upload(value);
        for (const name of ["timeRequested", "timeReceived"]) {
          assertMatch(
            await upload(value, { [name]: FAR }).then(() => "taken", String),
            /time_re\w+: found 253402300799 seconds since 1970, wanted a time before the year 2255/,
          );
        }
      }
      const filter = { interval: { start: { seconds: -FAR.seconds, nanos: 0 }, end: FAR } };
      assertEquals((await data.tabularDataByFilter({ dataRequest: { filter } })).data.length, 1);
      assertEquals((await data.binaryDataByFilter({ dataRequest: { filter } })).data.length, 1);
    }),
);

storeTest("data that hid other data before is repaired", async (database) => {
  const store = database.connect();
  const step = MIGRATIONS.findIndex((texts) => texts.some((text) => String(text).includes(`${LAST}`)));
  await migrate(store, step);
  await store.transaction(async (sql) => {
    await sql.query("INSERT INTO organizations (id, name, created_ms) VALUES ('o', 'o', 0)");
    await sql.query("INSERT INTO data_origins VALUES ('x', 'o', '', '', '', '', '', '', '', '', '{}')");
    const reading = (id: string, us: string) =>
      sql.query(
        `INSERT INTO tabular_data (origin_id, captured_us, entry_id, received_us, stored_ms, tags, payload)
         VALUES ('x', ${us}, ?, 0, 0, '[]', ?)`,
        id,
        new Uint8Array(),
      );
    for (const us of ["1", "253402300799000000", "253402300799000001"]) await reading("same", us);
    await reading("other", "253402300799000000");
    await sql.query(
      `INSERT INTO binary_data VALUES ('d', 'x', 'k', 253402300799000000, 253402300799000000, 0, '', '', '', '', 0)`,
    );
  });
  await migrate(store);
  const readings = await store.query(
    `SELECT entry_id AS id, captured_us AS us FROM tabular_data ORDER BY entry_id, captured_us`,
  );
  assertEquals(readings.map(({ id, us }) => [id, us]), [["other", LAST], ["same", 1], ["same", LAST]]);
  const images = await store.query(
    "SELECT captured_us AS captured, received_us AS received FROM binary_data",
  );
  assertEquals(images.map(({ captured, received }) => [captured, received]), [[LAST, LAST]]);
});
