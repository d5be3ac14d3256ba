/** What keys with roles on single machines and locations do with images and datasets of their organization. */

import { assertEquals } from "@std/assert";
import { DataService, type FilterSchema, Order } from "../../proto/gen/data_pb.ts";
import { DatasetService } from "../../proto/gen/dataset_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { Machines } from "../../lib/cloud/tenants/machines.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import type { MessageInitShape } from "../../lib/wire/rpc/proto.ts";
import { awaitOutcome } from "../support/outcome.ts";
import { storeTest } from "./stores.ts";
import { newKey, newWorld, type ServedCloud, withCloud, type World } from "./world.ts";

async function person({ channel }: ServedCloud, key: World["owner"]) {
  const connection = await channel(key);
  const data = client(DataService, connection);
  const sync = client(DataSyncService, connection);
  return {
    data,
    datasets: client(DatasetService, connection),
    async image(partId: string, content: string, number: number) {
      const { binaryDataId } = await sync.dataCaptureUpload({
        metadata: { partId, componentName: "cam", methodName: "GetImages", type: DataType.BINARY_SENSOR },
        sensorContents: [{
          metadata: { timeRequested: toTimestamp(1_700_000_000_000 + number) },
          data: { case: "binary", value: new TextEncoder().encode(content) },
        }],
      });
      return binaryDataId;
    },
    /** Contents that match a filter, the oldest first. */
    async found(filter: MessageInitShape<typeof FilterSchema>): Promise<string[]> {
      const dataRequest = { filter, limit: 100n, sortOrder: Order.ASCENDING };
      const page = await data.binaryDataByFilter({ dataRequest, includeBinary: true });
      return page.data.map(({ binary }) => new TextDecoder().decode(binary));
    },
  };
}

storeTest(
  "owners of a machine or location make datasets, and sort and find what was captured there",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part, organization: organizationId, location, machine } = await newWorld(cloud.store);
      const all = await person(cloud, owner);
      const app = await cloud.app(owner);
      const yard = (await app.createLocation({ organizationId, name: "yard" })).location!.id;
      const beside = await cloud.store.transaction((sql) => new Machines(sql).create(yard, "beside", 0));
      const [own, others] = [await all.image(part, "own", 0), await all.image(beside.partId, "others", -1)];
      const organizationIds = [organizationId];
      for (const [kind, id] of [["machine", machine], ["location", location]] as const) {
        const few = await person(cloud, await newKey(cloud.store, "owner", kind, id));
        const { id: datasetId } = await few.datasets.createDataset({ organizationId, name: kind });
        await all.data.addBinaryDataToDatasetByIDs({ binaryDataIds: [others], datasetId });
        await few.data.addBinaryDataToDatasetByIDs({ binaryDataIds: [own], datasetId });
        assertEquals(await all.found({ datasetId }), ["others", "own"]);
        assertEquals(await few.found({ datasetId }), ["own"]);
        assertEquals(await few.found({ organizationIds }), ["own"]);
        assertEquals(await few.found({ organizationIds, locationIds: [location] }), ["own"]);
        await few.data.addTagsToBinaryDataByFilter({ filter: { organizationIds }, tags: [kind] });
        assertEquals(await all.found({ tagsFilter: { tags: [kind] } }), ["own"]);
        await few.data.removeBinaryDataFromDatasetByIDs({ binaryDataIds: [own], datasetId });

        const listed = await few.datasets.listDatasetsByOrganizationID({ organizationId });
        assertEquals(listed.datasets.some(({ name }) => name === kind), true);
        assertEquals((await few.datasets.listDatasetsByIDs({ ids: [datasetId] })).datasets.length, 1);
        assertEquals((await few.datasets.listDatasetsByIDs({})).datasets, listed.datasets);

        const operator = await person(cloud, await newKey(cloud.store, "operator", kind, id));
        assertEquals(await operator.found({ organizationIds }), ["own"]);
        for (
          const call of [
            () => few.data.addBinaryDataToDatasetByIDs({ binaryDataIds: [others], datasetId }),
            () => few.data.removeBinaryDataFromDatasetByIDs({ binaryDataIds: [others], datasetId }),
            () => few.found({ locationIds: [yard] }),
            () => few.found({ partId: beside.partId }),
            () => few.datasets.renameDataset({ id: datasetId, name: "x" }),
            () => few.datasets.deleteDataset({ id: datasetId }),
            () => few.datasets.mergeDatasets({ organizationId, datasetIds: [datasetId], name: "x" }),
            () => few.data.deleteBinaryDataByFilter({ filter: { organizationIds } }),
            () => operator.datasets.createDataset({ organizationId, name: "x" }),
            () => operator.datasets.listDatasetsByOrganizationID({ organizationId }),
            () => operator.data.addBinaryDataToDatasetByIDs({ binaryDataIds: [own], datasetId }),
          ] as (() => Promise<unknown>)[]
        ) assertEquals(await awaitOutcome(call()), "permission_denied");
      }
      const other = await newWorld(cloud.store);
      const stranger = await person(cloud, await newKey(cloud.store, "owner", "machine", other.machine));
      for (
        const call of [
          () => stranger.datasets.createDataset({ organizationId, name: "x" }),
          () => stranger.datasets.listDatasetsByOrganizationID({ organizationId }),
          () => stranger.found({ organizationIds }),
        ] as (() => Promise<unknown>)[]
      ) assertEquals(await awaitOutcome(call()), "permission_denied");
    }),
);
