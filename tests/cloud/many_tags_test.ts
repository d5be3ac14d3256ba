/** Tags of many images at once: in changes of a bounded size, and not too many of one image. */

import { assertEquals } from "@std/assert";
import { DataService } from "../../proto/gen/data_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { awaitOutcome } from "../support/outcome.ts";
import { storeTest } from "./stores.ts";
import { newWorld, withCloud } from "./world.ts";

const IMAGES = 120;

storeTest(
  "many tags on many images are many small changes, and an image has a limited number of tags",
  (database) =>
    withCloud(database, async ({ store, channel }) => {
      const { owner, organization, part: partId } = await newWorld(store);
      const mine = await channel(owner);
      const [data, sync] = [client(DataService, mine), client(DataSyncService, mine)];
      const ids: string[] = [];
      for (let number = 0; number < IMAGES; number++) {
        const { binaryDataId } = await sync.dataCaptureUpload({
          metadata: { partId, componentName: "cam", type: DataType.BINARY_SENSOR, fileExtension: ".jpg" },
          sensorContents: [{ data: { case: "binary", value: new TextEncoder().encode(`${number}`) } }],
        });
        ids.push(binaryDataId);
      }
      const filter = { organizationIds: [organization] };
      const tags = Array.from({ length: 90 }, (_, number) => `tag ${number}`);
      const tagsOf = async (id: string) => {
        const found = await data.binaryDataByIDs({ binaryDataIds: [id] });
        return found.data[0].metadata!.captureMetadata!.tags;
      };
      const changes = async () => {
        const [{ count }] = await store.query<{ count: number }>(
          "SELECT COUNT(*) AS count FROM audit WHERE action LIKE '%Tags%'",
        );
        return count;
      };

      await data.addTagsToBinaryDataByFilter({ filter, tags });
      // Three of at most 55 images, which are 4,950 tags.
      assertEquals(await changes(), 3);
      for (const id of [ids[0], ids[60], ids[IMAGES - 1]]) assertEquals(await tagsOf(id), tags.toSorted());

      const more = Array.from({ length: 11 }, (_, number) => `more ${number}`);
      const one = data.addTagsToBinaryDataByIDs({ binaryDataIds: [ids[0]], tags: more });
      assertEquals(await awaitOutcome(one), "resource_exhausted");
      const all = data.addTagsToBinaryDataByFilter({ filter, tags: [...tags, ...more] });
      assertEquals(await awaitOutcome(all), "resource_exhausted");
      assertEquals(await tagsOf(ids[0]), tags.toSorted());

      const { deletedCount } = await data.removeTagsFromBinaryDataByFilter({ filter, tags });
      assertEquals(deletedCount, BigInt(IMAGES * tags.length));
      assertEquals(await changes(), 6);
      assertEquals(await tagsOf(ids[0]), []);
    }),
);
