/** MIME types of uploads: they become header fields of downloads, on one server for everybody. */

import { assertEquals, assertMatch } from "@std/assert";
import { DataService } from "../../proto/gen/data_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { sqliteTest } from "./stores.ts";
import { newWorld, withCloud } from "./world.ts";

sqliteTest(
  "a MIME type that no header field may have is refused, and one that is stored harms nobody",
  (database) =>
    withCloud(database, async ({ store, channel }) => {
      const { owner, part: partId } = await newWorld(store);
      const connection = await channel(owner);
      const [sync, data] = [client(DataSyncService, connection), client(DataService, connection)];
      const upload = (mimeType: string) =>
        sync.dataCaptureUpload({
          metadata: {
            partId,
            componentName: "eye",
            methodName: "GetImages",
            type: DataType.BINARY_SENSOR,
            mimeType,
          },
          sensorContents: [{ data: { case: "binary", value: Uint8Array.of(1) } }],
        });
      for (const hostile of ["text/plain\r\nset-cookie: a=b", "text/\u2028", "x".repeat(2_000)]) {
        assertMatch(
          await upload(hostile).then(() => "taken", String),
          /found mime_type ".*, wanted such as image\/jpeg/,
        );
      }
      const { binaryDataId } = await upload("text/x-note; charset=utf-8");
      const served = async () => {
        const { signedUrl } = await data.createBinaryDataSignedURL({ binaryDataId });
        const answer = await fetch(signedUrl);
        await answer.body?.cancel();
        return [
          answer.status,
          answer.headers.get("content-type"),
          answer.headers.get("access-control-allow-origin"),
        ];
      };
      assertEquals(await served(), [200, "text/x-note; charset=utf-8", "*"]);
      // As older versions have stored it.
      await store.transaction((sql) =>
        sql.query("UPDATE binary_data SET mime_type = ?", "a/b\r\nset-cookie: a=b")
      );
      assertEquals(await served(), [200, "application/octet-stream", "*"]);
    }),
);
