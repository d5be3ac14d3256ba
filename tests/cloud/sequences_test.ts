/**
 * Sequences: windows of captured data that are kept, listed in pages, put into datasets and read.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { DataService } from "../../proto/gen/data_pb.ts";
import { DatasetService, DatasetType } from "../../proto/gen/dataset_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { toMs, toTimestamp } from "../../lib/api/shared/time.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { storeTest } from "./stores.ts";
import { newKey, newWorld, type ServedCloud, withCloud, type World } from "./world.ts";

const START_MS = 1_700_000_000_000;
const CAMERA = { resourceName: "cam", methodName: "GetImages" };

async function people({ channel }: ServedCloud, key: World["owner"]) {
  const connection = await channel(key);
  const [data, sync] = [client(DataService, connection), client(DataSyncService, connection)];
  return {
    data,
    datasets: client(DatasetService, connection),
    async image(partId: string, number: number, componentName = "cam", methodName = "GetImages") {
      const { binaryDataId } = await sync.dataCaptureUpload({
        metadata: { partId, componentName, methodName, type: DataType.BINARY_SENSOR, fileExtension: ".jpg" },
        sensorContents: [{
          metadata: { timeRequested: toTimestamp(START_MS + number) },
          data: { case: "binary", value: new TextEncoder().encode(`${componentName} ${number}`) },
        }],
      });
      return binaryDataId;
    },
    async sequence(partId: string, from: number, until: number, more: Record<string, unknown> = {}) {
      const window = { startTime: toTimestamp(START_MS + from), endTime: toTimestamp(START_MS + until) };
      return (await data.createSequence({ partId, resources: [CAMERA], ...window, ...more })).id;
    },
    /** Ids of the data of a sequence, in pages of two. */
    async read(sequenceId: string) {
      const ids: string[] = [];
      for (let pageToken = "";;) {
        const page = await data.getSequenceBinaryData({ sequenceId, pageToken, pageSize: 2 });
        ids.push(...page.data.map(({ metadata }) => metadata!.binaryDataId));
        if (page.nextPageToken === "") return ids;
        pageToken = page.nextPageToken;
      }
    },
  };
}

async function refusal(run: Promise<unknown>): Promise<string> {
  return await run.then(() => "done", String);
}

storeTest(
  "a sequence finds its part's captures in its window, and follows their changes",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part } = await newWorld(cloud.store);
      const me = await people(cloud, owner);
      const images: string[] = [];
      for (const number of [0, 1, 2, 3, 4]) images.push(await me.image(part, number));
      const lidar = await me.image(part, 2, "lidar", "NextPointCloud");
      await me.image(part, 2, "cam", "NextPointCloud");
      const id = await me.sequence(part, 1, 3, { sequenceTags: ["pick", "demo"] });
      const { sequence } = await me.data.getSequence({ id });
      assertEquals(
        [sequence!.partId, sequence!.sequenceTags, sequence!.resources.length, sequence!.datasetIds],
        [part, ["pick", "demo"], 1, []],
      );
      assertEquals([toMs(sequence!.startTime), toMs(sequence!.endTime)], [START_MS + 1, START_MS + 3]);
      assertEquals(await me.read(id), images.slice(1, 4));

      await me.data.updateSequence({
        id,
        resources: [CAMERA, { resourceName: "lidar" }],
        sequenceTags: ["not this"],
        startTime: toTimestamp(START_MS + 2),
        fieldMask: { paths: ["resources", "start_time"] },
      });
      assertEquals((await me.read(id)).toSorted(), [images[2], lidar, images[3]].toSorted());
      assertEquals((await me.data.getSequence({ id })).sequence?.sequenceTags, ["pick", "demo"]);
      await me.data.updateSequence({ id, fieldMask: { paths: ["sequence_tags"] } });
      assertEquals((await me.data.getSequence({ id })).sequence?.sequenceTags, []);

      await me.data.deleteBinaryDataByIDs({ binaryDataIds: [images[2]] });
      assertEquals((await me.read(id)).toSorted(), [lidar, images[3]].toSorted());
      await me.data.deleteSequence({ id });
      assertMatch(await refusal(me.data.getSequence({ id })), /there is no sequence/);
      assertEquals((await me.data.binaryDataByIDs({ binaryDataIds: [lidar] })).count, 1n);
    }),
);

storeTest(
  "ListSequences and SequencesByDatasetID list sequences page by page",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part, organization: organizationId } = await newWorld(cloud.store);
      const me = await people(cloud, owner);
      const ids: string[] = [];
      for (const number of [1, 2, 3, 4, 5]) ids.push(await me.sequence(part, 0, number));
      const listed = async (list: (pageToken: string) => Promise<Page>) => {
        const found: string[] = [];
        for (let pageToken = "";;) {
          const page = await list(pageToken);
          found.push(...page.sequences.map(({ id }) => id));
          if (page.nextPageToken === "") return found.toSorted();
          pageToken = page.nextPageToken;
        }
      };
      type Page = { sequences: { id: string }[]; nextPageToken: string };
      const all = await listed((pageToken) =>
        me.data.listSequences({ organizationId, pageToken, pageSize: 2 })
      );
      assertEquals(all, ids.toSorted());

      const type = DatasetType.SEQUENCE_DATA;
      const { id: datasetId } = await me.datasets.createDataset({ organizationId, name: "demos", type });
      await me.data.addSequencesToDataset({ datasetId, sequenceIds: ids.slice(0, 4) });
      await me.data.addSequencesToDataset({ datasetId, sequenceIds: [ids[0]] });
      await me.data.removeSequencesFromDataset({ datasetId, sequenceIds: [ids[3], ids[4]] });
      const inDataset = await listed((pageToken) =>
        me.data.sequencesByDatasetID({ datasetId, pageToken, pageSize: 1 })
      );
      assertEquals(inDataset, ids.slice(0, 3).toSorted());
      const counted = await me.data.sequencesByDatasetID({ datasetId, countOnly: true });
      assertEquals([counted.count, counted.sequences.length], [3n, 0]);
      assertEquals((await me.data.getSequence({ id: ids[0] })).sequence?.datasetIds, [datasetId]);

      await me.data.deleteSequence({ id: ids[0] });
      assertEquals((await me.data.sequencesByDatasetID({ datasetId, countOnly: true })).count, 2n);
      await me.datasets.deleteDataset({ id: datasetId });
      assertEquals((await me.data.getSequence({ id: ids[1] })).sequence?.datasetIds, []);
    }),
);

storeTest(
  "refuses invalid sequences with the reason",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part, organization: organizationId } = await newWorld(cloud.store);
      const me = await people(cloud, owner);
      const id = await me.sequence(part, 0, 1);
      const wrong: [() => Promise<unknown>, RegExp][] = [
        [() => me.sequence(part, 1, 1), /end_time is not after start_time/],
        [() => me.sequence(part, 0, 1, { startTime: undefined }), /start_time is not given/],
        [
          () => me.sequence(part, 0, 1, { endTime: { seconds: 253_402_300_799n } }),
          /end_time: found 253402300799 seconds since 1970/,
        ],
        [() => me.sequence(part, 0, 1, { resources: [] }), /resources: found 0, wanted 1 to 100/],
        [
          () => me.sequence(part, 0, 1, { resources: [{ methodName: "m" }] }),
          /resources\[0\].resource_name is empty/,
        ],
        [
          () => me.sequence(part, 0, 1, { resources: Array(60).fill({ resourceName: "r".repeat(300) }) }),
          /resources and sequence_tags: found \d+ characters, wanted at most 16384/,
        ],
        [() => me.sequence(part, 0, 1, { sequenceTags: [""] }), /found an empty sequence_tag/],
        [() => me.data.updateSequence({ id, startTime: toTimestamp(0) }), /field_mask is empty/],
        [
          () => me.data.updateSequence({ id, fieldMask: { paths: ["part_id"] } }),
          /field_mask: found "part_id"/,
        ],
        [
          () => me.data.updateSequence({ id, fieldMask: { paths: ["constructor"] } }),
          /field_mask: found "constr/,
        ],
        [() => me.data.listSequences({ organizationId, pageToken: "x" }), /found page_token "x"/],
        [() => me.data.getSequenceBinaryData({ sequenceId: id, pageToken: "x" }), /found page_token "x"/],
      ];
      for (const [run, why] of wrong) assertMatch(await refusal(run()), why);
      const { id: datasetId } = await me.datasets.createDataset({ organizationId, name: "images" });
      const added = me.data.addSequencesToDataset({ datasetId, sequenceIds: [id] });
      assertMatch(await refusal(added), /dataset "images" contains images, wanted a dataset of sequences/);
    }),
);

storeTest(
  "a sequence hides itself and its data from callers without a role on them",
  (database) =>
    withCloud(database, async (cloud) => {
      const [mine, other] = [await newWorld(cloud.store), await newWorld(cloud.store)];
      const [me, them] = [await people(cloud, mine.owner), await people(cloud, other.owner)];
      await me.image(mine.part, 1);
      const id = await me.sequence(mine.part, 0, 2);
      const theirs = await them.sequence(other.part, 0, 2);
      for (
        const run of [
          () => them.data.getSequence({ id }),
          () => them.data.getSequenceBinaryData({ sequenceId: id }),
        ]
      ) {
        assertMatch(await refusal(run()), /this needs an API key that is viewer of sequence/);
      }
      const { id: datasetId } = await me.datasets.createDataset({
        organizationId: mine.organization,
        name: "d",
        type: DatasetType.SEQUENCE_DATA,
      });
      const both = await newKey(cloud.store, "owner", "organization", mine.organization);
      assertMatch(
        await refusal(
          (await people(cloud, both)).data.addSequencesToDataset({ datasetId, sequenceIds: [theirs] }),
        ),
        /operator of sequence/,
      );
      const rover = await people(cloud, await newKey(cloud.store, "operator", "machine", mine.machine));
      assertEquals((await rover.read(id)).length, 1);
      assertMatch(await refusal(rover.data.deleteSequence({ id })), /owner of sequence/);
    }),
);

storeTest(
  "a sequence outlives its machine, and DeleteOrganization refuses an organization with sequences",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part, machine, location: locationId, organization: organizationId } = await newWorld(
        cloud.store,
      );
      const me = await people(cloud, owner);
      const { deleteRobot, deleteLocation, deleteOrganization } = await cloud.app(owner);
      const id = await me.sequence(part, 0, 1);
      await deleteRobot({ id: machine });
      await deleteLocation({ locationId });
      assertEquals((await me.data.getSequence({ id })).sequence?.partId, part);
      assertMatch(
        await refusal(deleteOrganization({ organizationId })),
        /has 1 sequences, wanted an empty one/,
      );
      await me.data.deleteSequence({ id });
      await deleteOrganization({ organizationId });
    }),
);
