/**
 * Captured data and datasets: uploaded once, found by filters, tagged, put into datasets, exported and removed.
 */

import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import {
  type BinaryMetadata,
  DataService,
  type FilterSchema,
  Order,
  TagsFilterType,
} from "../../proto/gen/data_pb.ts";
import { type AnnotationsSchema } from "../../proto/gen/annotations_pb.ts";
import { DatasetService } from "../../proto/gen/dataset_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { Datasets } from "../../lib/cloud/data/datasets.ts";
import { datasetLine } from "../../lib/cloud_client/dataset.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { anyPack, create, type MessageInitShape, StringValueSchema } from "../../lib/wire/rpc/proto.ts";
import { newKey, newWorld, type ServedCloud, withCloud, type World } from "./world.ts";
import { storeTest } from "./stores.ts";
import { awaitOutcome } from "../support/outcome.ts";

const START_MS = 1_700_000_000_000;
type Filter = MessageInitShape<typeof FilterSchema>;

async function people({ channel }: ServedCloud, key: World["owner"]) {
  const connection = await channel(key);
  const data = client(DataService, connection);
  const sync = client(DataSyncService, connection);
  return {
    data,
    sync,
    datasets: client(DatasetService, connection),
    /** Uploads an image that is `content`, captured `number` ms after the start. */
    async image(partId: string, content: string, number: number, more: Partial<Image> = {}) {
      const { tags, datasetIds, camera = "cam" } = more;
      const response = await sync.dataCaptureUpload({
        metadata: {
          partId,
          componentType: "rdk:component:camera",
          componentName: camera,
          methodName: "GetImages",
          type: DataType.BINARY_SENSOR,
          fileExtension: ".jpg",
          tags,
          datasetIds,
          methodParameters: {
            mime: anyPack(StringValueSchema, create(StringValueSchema, { value: "jpeg" })),
          },
        },
        sensorContents: [{
          metadata: {
            timeRequested: toTimestamp(START_MS + number),
            timeReceived: toTimestamp(START_MS + number + 5),
            annotations: more.annotations,
          },
          data: { case: "binary", value: bytes(content) },
        }],
      });
      return response.binaryDataId;
    },
    readings(partId: string, values: readonly number[], more: Partial<Image> & { method?: string } = {}) {
      return sync.dataCaptureUpload({
        metadata: {
          partId,
          componentType: "rdk:component:sensor",
          componentName: "thermometer",
          methodName: more.method ?? "Readings",
          type: DataType.TABULAR_SENSOR,
          tags: more.tags,
        },
        sensorContents: values.map((value) => ({
          metadata: {
            timeRequested: toTimestamp(START_MS + value),
            timeReceived: toTimestamp(START_MS + value + 1),
          },
          data: { case: "struct" as const, value: { readings: { value } } },
        })),
      });
    },
    /** Contents that match a filter, the oldest first. */
    async found(filter: Filter, limit = 100): Promise<string[]> {
      const contents: string[] = [];
      for (let last = "";;) {
        const request = { filter, limit: BigInt(limit), last, sortOrder: Order.ASCENDING };
        const page = await data.binaryDataByFilter({ dataRequest: request, includeBinary: true });
        contents.push(...page.data.map(({ binary }) => text(binary)));
        assert(page.data.length <= limit);
        if (page.last === "") return contents;
        last = page.last;
      }
    },
  };
}

interface Image {
  readonly tags: string[];
  readonly datasetIds: string[];
  readonly camera: string;
  readonly annotations: MessageInitShape<typeof AnnotationsSchema>;
}

const bytes = (content: string) => new TextEncoder().encode(content);
const text = (content: Uint8Array) => new TextDecoder().decode(content);

async function metadataOf(
  { data }: Awaited<ReturnType<typeof people>>,
  ...binaryDataIds: string[]
): Promise<BinaryMetadata[]> {
  return (await data.binaryDataByIDs({ binaryDataIds })).data.map(({ metadata }) => metadata!);
}

storeTest("a repeated upload is the same item, with all its metadata", (database) => {
  const clock = new FakeClock(START_MS + 60_000);
  return withCloud(database, async (cloud) => {
    const { owner, organization, location, machine, part } = await newWorld(cloud.store);
    const me = await people(cloud, owner);
    const annotations = {
      bboxes: [{
        label: "cat",
        xMinNormalized: 0.1,
        yMinNormalized: 0.2,
        xMaxNormalized: 0.5,
        yMaxNormalized: 1,
      }],
      classifications: [{ label: "indoors", confidence: 0.75 }],
    };
    const id = await me.image(part, "one", 0.25, { tags: ["b", "a"], annotations });
    assertEquals(await me.image(part, "one", 0.25, { tags: ["c"], annotations }), id);
    assertNotEquals(await me.image(part, "one", 1), id);
    assertNotEquals(await me.image(part, "one", 0.25, { camera: "other" }), id);
    const [{ captureMetadata, annotations: found, ...rest }] = await metadataOf(me, id);
    assertEquals({ ...captureMetadata!, methodParameters: Object.keys(captureMetadata!.methodParameters) }, {
      $typeName: "viam.app.data.v1.CaptureMetadata",
      organizationId: organization,
      locationId: location,
      robotName: "rover",
      robotId: machine,
      partName: "rover-main",
      partId: part,
      componentType: "rdk:component:camera",
      componentName: "cam",
      methodName: "GetImages",
      methodParameters: ["mime"],
      tags: ["a", "b", "c"],
      mimeType: "image/jpeg",
    });
    assertEquals(rest.fileExt, ".jpg");
    assertEquals(rest.fileSizeBytes, 3n);
    assertEquals(rest.timeRequested!.nanos, 250_000);
    assertEquals(rest.timeReceived!.nanos, 5_250_000);
    assertEquals(
      found!.bboxes.map(({ label, yMaxNormalized, confidence }) => [label, yMaxNormalized, confidence]),
      [
        ["cat", 1, undefined],
      ],
    );
    assertEquals(found!.classifications.map(({ label, confidence }) => [label, confidence]), [[
      "indoors",
      0.75,
    ]]);
  }, { clock });
});

storeTest(
  "a file uploaded in pieces is stored once if it has a time, and each time if it has none",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part: partId } = await newWorld(cloud.store);
      const me = await people(cloud, owner);
      const upload = (more: Record<string, unknown>, pieces = ["one ", "two"]) =>
        me.sync.fileUpload((async function* () {
          const metadata = { partId, type: DataType.FILE, fileName: "notes.txt", ...more };
          yield { uploadPacket: { case: "metadata" as const, value: metadata } };
          for (const one of pieces) {
            yield { uploadPacket: { case: "fileContents" as const, value: { data: bytes(one) } } };
          }
        })());
      const timed = { fileModifyTime: toTimestamp(START_MS) };
      const { binaryDataId, fileId } = await upload(timed);
      assertEquals(fileId, binaryDataId);
      assertEquals((await upload(timed)).binaryDataId, binaryDataId);
      assertNotEquals((await upload({})).binaryDataId, (await upload({})).binaryDataId);
      const { data: [{ binary, metadata }] } = await me.data.binaryDataByIDs({
        binaryDataIds: [binaryDataId],
        includeBinary: true,
      });
      assertEquals(text(binary), "one two");
      assertEquals([metadata!.fileName, metadata!.fileExt, metadata!.captureMetadata!.mimeType], [
        "notes.txt",
        ".txt",
        "text/plain",
      ]);
      assertEquals(await awaitOutcome(upload({ fileExtension: "../x" })), "invalid_argument");
      assertEquals(await awaitOutcome(upload({ datasetIds: ["nothing"] })), "not_found");

      const streamed = await me.sync.streamingDataCaptureUpload((async function* () {
        const uploadMetadata = { partId, componentName: "cam", fileExtension: "png" };
        const sensorMetadata = { timeRequested: toTimestamp(START_MS) };
        yield { uploadPacket: { case: "metadata" as const, value: { uploadMetadata, sensorMetadata } } };
        yield { uploadPacket: { case: "data" as const, value: bytes("a") } };
        yield { uploadPacket: { case: "data" as const, value: bytes("b") } };
      })());
      assertEquals((await metadataOf(me, streamed.binaryDataId))[0].captureMetadata!.mimeType, "image/png");
      const headless = me.sync.fileUpload((async function* () {
        yield { uploadPacket: { case: "fileContents" as const, value: { data: bytes("x") } } };
      })());
      assertEquals(await awaitOutcome(headless), "invalid_argument");
    }),
);

storeTest(
  "the metadata and the contents of an upload must match",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part: partId } = await newWorld(cloud.store);
      const { sync } = await people(cloud, owner);
      const image = { data: { case: "binary" as const, value: bytes("x") } };
      const reading = { data: { case: "struct" as const, value: {} } };
      const upload = (type: DataType, ...sensorContents: (typeof image | typeof reading)[]) =>
        awaitOutcome(sync.dataCaptureUpload({ metadata: { partId, type }, sensorContents }));
      assertEquals(await upload(DataType.TABULAR_SENSOR, image), "invalid_argument");
      assertEquals(await upload(DataType.BINARY_SENSOR, reading), "invalid_argument");
      assertEquals(await upload(DataType.BINARY_SENSOR, image, image), "invalid_argument");
      assertEquals(await upload(DataType.UNSPECIFIED, image, reading), "invalid_argument");
      assertEquals(await upload(DataType.UNSPECIFIED), "invalid_argument");
      assertEquals(await upload(DataType.UNSPECIFIED, image), "ok");
      assertEquals(await upload(DataType.TABULAR_SENSOR, reading, reading), "ok");
    }),
);

storeTest(
  "filters find matching data, in pages, newest first by default",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, organization, location, machine, part } = await newWorld(cloud.store);
      const me = await people(cloud, owner);
      const datasetId = (await me.datasets.createDataset({ organizationId: organization, name: "d" })).id;
      await me.image(part, "0", 0, { tags: ["red"] });
      await me.image(part, "1", 1, { tags: ["blue", "red"], datasetIds: [datasetId] });
      await me.image(part, "2", 2, { camera: "rear" });
      const box = {
        label: "dog",
        xMinNormalized: 0,
        yMinNormalized: 0,
        xMaxNormalized: 1,
        yMaxNormalized: 1,
      };
      await me.image(part, "3", 3, { annotations: { bboxes: [box] } });
      const all = ["0", "1", "2", "3"];
      const { TAGGED, UNTAGGED, MATCH_BY_OR } = TagsFilterType;
      const expected: [Filter, string[]][] = [
        [{}, all],
        [{ organizationIds: [organization] }, all],
        [{ locationIds: [location], robotId: machine, partId: part }, all],
        [{ robotName: "rover", partName: "rover-main", method: "GetImages" }, all],
        [{ robotName: "other" }, []],
        [{ componentName: "rear" }, ["2"]],
        [{ componentType: "camera" }, all],
        [{ componentType: "rdk:component:camera" }, all],
        [{ componentType: "sensor" }, []],
        [{ mimeType: ["image/png"] }, []],
        [{ mimeType: ["image/png", "image/jpeg"] }, all],
        [{ tagsFilter: { type: TAGGED } }, ["0", "1"]],
        [{ tagsFilter: { type: UNTAGGED } }, ["2", "3"]],
        [{ tagsFilter: { type: MATCH_BY_OR, tags: ["blue", "green"] } }, ["1"]],
        [{ tagsFilter: { tags: ["red"] } }, ["0", "1"]],
        [{ bboxLabels: ["dog", "cat"] }, ["3"]],
        [{ datasetId }, ["1"]],
        [{ interval: { start: toTimestamp(START_MS + 1), end: toTimestamp(START_MS + 2) } }, ["1", "2"]],
      ];
      for (const [filter, contents] of expected) {
        assertEquals(
          await me.found(filter),
          contents,
          Deno.inspect(filter),
        );
      }
      assertEquals(await me.found({}, 3), all);
      assertEquals(await me.found({}, 1), all);
      const newest = await me.data.binaryDataByFilter({ dataRequest: { limit: 2n }, includeBinary: true });
      assertEquals(newest.data.map(({ binary }) => text(binary)), ["3", "2"]);
      assertEquals([newest.count, newest.totalSizeBytes], [2n, 2n]);
      const counted = await me.data.binaryDataByFilter({ dataRequest: { limit: 1n }, countOnly: true });
      assertEquals([counted.count, counted.totalSizeBytes, counted.data], [4n, 4n, []]);
      const plain = await me.data.binaryDataByFilter({});
      assertEquals(plain.data.map(({ binary }) => binary.length), [0, 0, 0, 0]);
      assertEquals(
        await awaitOutcome(me.data.binaryDataByFilter({ dataRequest: { last: "x" } })),
        "invalid_argument",
      );
    }),
);

storeTest(
  "no filter finds data of other organizations",
  (database) =>
    withCloud(database, async (cloud) => {
      const [mine, other] = [await newWorld(cloud.store), await newWorld(cloud.store)];
      const [me, them] = [await people(cloud, mine.owner), await people(cloud, other.owner)];
      await me.image(mine.part, "mine", 0);
      await me.readings(mine.part, [1]);
      const id = await them.image(other.part, "theirs", 0);
      assertEquals(await me.found({}), ["mine"]);
      assertEquals(await me.found({ robotName: "rover" }), ["mine"]);
      assertEquals(
        await awaitOutcome(me.found({ organizationIds: [other.organization] })),
        "permission_denied",
      );
      assertEquals(await awaitOutcome(me.found({ partId: other.part })), "permission_denied");
      assertEquals(await awaitOutcome(me.data.binaryDataByIDs({ binaryDataIds: [id] })), "permission_denied");
      assertEquals((await them.data.tabularDataByFilter({})).data, []);
      assertEquals((await me.data.tabularDataByFilter({})).data.length, 1);
      for (const [kind, of] of [["location", mine.location], ["machine", mine.machine]] as const) {
        const few = await people(cloud, await newKey(cloud.store, "operator", kind, of));
        assertEquals(await few.found({}), ["mine"]);
        await few.image(mine.part, "mine", 0, { tags: ["seen"] });
        assertEquals((await few.data.tagsByFilter({})).tags, ["seen"]);
      }
      const everything = me.data.deleteBinaryDataByFilter({ filter: {} });
      assertEquals(await awaitOutcome(everything), "invalid_argument");
      const operator = await people(cloud, mine.operator);
      const filter = { organizationIds: [mine.organization] };
      assertEquals(
        await awaitOutcome(operator.data.deleteBinaryDataByFilter({ filter })),
        "permission_denied",
      );
      assertEquals((await me.data.deleteBinaryDataByFilter({ filter })).deletedCount, 1n);
      assertEquals(await me.found({}), []);
      assertEquals(await them.found({}), ["theirs"]);
    }),
);

storeTest(
  "tags and bounding boxes are added, changed and removed",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part, organization } = await newWorld(cloud.store);
      const me = await people(cloud, owner);
      const ids = [await me.image(part, "0", 0), await me.image(part, "1", 1)];
      await me.data.addTagsToBinaryDataByIDs({ binaryDataIds: ids, tags: ["x", "y"] });
      await me.data.addTagsToBinaryDataByIDs({ binaryIds: [{ fileId: ids[0] }], tags: ["y", "z"] });
      await me.data.addTagsToBinaryDataByFilter({ filter: { tagsFilter: { tags: ["z"] } }, tags: ["w"] });
      const filter = { organizationIds: [organization] };
      assertEquals((await me.data.tagsByFilter({ filter })).tags, ["w", "x", "y", "z"]);
      const gone = await me.data.removeTagsFromBinaryDataByIDs({ binaryDataIds: ids, tags: ["x", "none"] });
      assertEquals(gone.deletedCount, 2n);
      const more = await me.data.removeTagsFromBinaryDataByFilter({ filter, tags: ["y"] });
      assertEquals(more.deletedCount, 2n);
      assertEquals((await metadataOf(me, ...ids)).map(({ captureMetadata }) => captureMetadata!.tags), [[
        "w",
        "z",
      ], []]);
      assertEquals(
        await awaitOutcome(me.data.addTagsToBinaryDataByIDs({ binaryDataIds: ids, tags: [" "] })),
        "invalid_argument",
      );
      assertEquals(
        await awaitOutcome(me.data.addTagsToBinaryDataByIDs({ binaryDataIds: ["none"], tags: ["a"] })),
        "not_found",
      );

      const box = { binaryDataId: ids[0], label: "cat", xMinNormalized: 0, yMinNormalized: 0 };
      const corners = { xMaxNormalized: 0.5, yMaxNormalized: 0.5 };
      const { bboxId } = await me.data.addBoundingBoxToImageByID({ ...box, ...corners });
      const outside = { ...box, xMaxNormalized: 1.1, yMaxNormalized: 0.5 };
      assertEquals(await awaitOutcome(me.data.addBoundingBoxToImageByID(outside)), "invalid_argument");
      await me.data.updateBoundingBox({ binaryDataId: ids[0], bboxId, label: "dog", confidence: 0.5 });
      const wrong = { binaryDataId: ids[0], bboxId, xMinNormalized: 0.7 };
      assertEquals(await awaitOutcome(me.data.updateBoundingBox(wrong)), "invalid_argument");
      assertEquals(
        await awaitOutcome(me.data.updateBoundingBox({ binaryDataId: ids[1], bboxId })),
        "not_found",
      );
      const [{ annotations }] = await metadataOf(me, ids[0]);
      assertEquals(
        annotations!.bboxes.map((one) => [one.id, one.label, one.xMaxNormalized, one.confidence]),
        [
          [bboxId, "dog", 0.5, 0.5],
        ],
      );
      assertEquals((await me.data.boundingBoxLabelsByFilter({ filter })).labels, ["dog"]);
      await me.data.removeBoundingBoxFromImageByID({ binaryDataId: ids[0], bboxId });
      assertEquals(
        await awaitOutcome(me.data.removeBoundingBoxFromImageByID({ binaryDataId: ids[0], bboxId })),
        "not_found",
      );
    }),
);

storeTest(
  "datasets refer to images, and deleting a dataset keeps the images",
  (database) =>
    withCloud(database, async (cloud) => {
      const [mine, other] = [await newWorld(cloud.store), await newWorld(cloud.store)];
      const { owner, part, organization: organizationId } = mine;
      const me = await people(cloud, owner);
      const ids = [await me.image(part, "0", 0), await me.image(part, "1", 1), await me.image(part, "2", 2)];
      const { id: datasetId } = await me.datasets.createDataset({ organizationId, name: "cats" });
      assertEquals(
        await awaitOutcome(me.datasets.createDataset({ organizationId, name: "cats" })),
        "already_exists",
      );
      assertEquals(
        await awaitOutcome(me.datasets.createDataset({ organizationId, name: " " })),
        "invalid_argument",
      );
      await me.data.addBinaryDataToDatasetByIDs({ binaryDataIds: ids.slice(0, 2), datasetId });
      await me.data.addBinaryDataToDatasetByIDs({ binaryDataIds: ids.slice(0, 1), datasetId });
      assertEquals(await me.found({ datasetId }), ["0", "1"]);
      assertEquals((await metadataOf(me, ids[0]))[0].datasetIds, [datasetId]);
      await me.data.removeBinaryDataFromDatasetByIDs({ binaryDataIds: ids, datasetId: datasetId });
      await me.data.addBinaryDataToDatasetByIDs({ binaryDataIds: ids, datasetId });

      const more = (await me.datasets.createDataset({ organizationId, name: "dogs" })).id;
      await me.data.addBinaryDataToDatasetByIDs({ binaryDataIds: [ids[2]], datasetId: more });
      const both = { organizationId, datasetIds: [datasetId, more], name: "all" };
      const none = me.datasets.mergeDatasets({ organizationId, datasetIds: [], name: "none" });
      assertEquals(await awaitOutcome(none), "invalid_argument");
      const { datasetId: merged } = await me.datasets.mergeDatasets(both);
      await me.datasets.renameDataset({ id: more, name: "old dogs" });
      const { datasets } = await me.datasets.listDatasetsByOrganizationID({ organizationId });
      assertEquals(datasets.map(({ name }) => name), ["all", "cats", "old dogs"]);
      assertEquals((await me.datasets.listDatasetsByIDs({ ids: [more] })).datasets[0].name, "old dogs");

      // As the published command line asks for all of an organization's.
      const all = async (key: World["owner"]) =>
        (await (await people(cloud, key)).datasets.listDatasetsByIDs({ ids: [] })).datasets.map(({ name }) =>
          name
        );
      assertEquals(await all(owner), ["all", "cats", "old dogs"]);
      assertEquals(await all(mine.operator), ["all", "cats", "old dogs"]);
      assertEquals(await all(other.owner), []);
      assertEquals(await all(await newKey(cloud.store, "operator", "location", mine.location)), []);

      const them = await people(cloud, other.owner);
      const theirs = await them.image(other.part, "x", 0);
      const foreign =
        (await them.datasets.createDataset({ organizationId: other.organization, name: "d" })).id;
      assertEquals(
        await awaitOutcome(me.data.addBinaryDataToDatasetByIDs({ binaryDataIds: [theirs], datasetId })),
        "permission_denied",
      );
      assertEquals(await awaitOutcome(me.image(part, "3", 3, { datasetIds: [foreign] })), "not_found");

      assertEquals((await me.data.deleteBinaryDataByIDs({ binaryDataIds: [ids[0]] })).deletedCount, 1n);
      assertEquals(await me.found({ datasetId: merged }), ["1", "2"]);
      for (const id of [datasetId, more, merged]) await me.datasets.deleteDataset({ id });
      assertEquals(await awaitOutcome(me.datasets.deleteDataset({ id: merged })), "not_found");
      assertEquals(await me.found({}), ["1", "2"]);
    }),
);

storeTest(
  "a stored content is deleted with the last image that refers to it",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part } = await newWorld(cloud.store);
      const me = await people(cloud, owner);
      const ids = [await me.image(part, "same", 0), await me.image(part, "same", 1)];
      const files = () => filesIn(`${database.folder}/files`);
      assertEquals(await files(), 1);
      await me.data.deleteBinaryDataByIDs({ binaryDataIds: [ids[0]] });
      assertEquals(await me.found({}), ["same"]);
      await me.data.deleteBinaryDataByIDs({ binaryDataIds: [ids[1]] });
      assertEquals(await files(), 0);
      assertEquals(await awaitOutcome(me.image(part, "bad", 0, { tags: [""] })), "invalid_argument");
      assertEquals(await files(), 0);
    }),
);

storeTest(
  "a link to a file keeps its name, also with spaces and umlauts",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part } = await newWorld(cloud.store);
      const me = await people(cloud, owner);
      const nameOf = async (fileName: string) => {
        const { binaryDataId } = await me.sync.fileUpload((async function* () {
          const metadata = { partId: part, type: DataType.FILE, fileName };
          yield { uploadPacket: { case: "metadata" as const, value: metadata } };
          yield { uploadPacket: { case: "fileContents" as const, value: { data: bytes(fileName) } } };
        })());
        const { data: [{ metadata }] } = await me.data.binaryDataByIDs({ binaryDataIds: [binaryDataId] });
        const response = await fetch(metadata!.uri);
        assertEquals([response.status, await response.text()], [200, fileName]);
        return response.headers.get("content-disposition");
      };
      assertEquals(await nameOf("plain.jpg"), 'attachment; filename="plain.jpg"');
      assertEquals(
        await nameOf("logs/Grüße (1) it's.jpg"),
        `attachment; filename="Gr__e__1__it_s.jpg"; filename*=UTF-8''Gr%C3%BC%C3%9Fe%20%281%29%20it%27s.jpg`,
      );
    }),
);

storeTest("a signed URL serves a content until it expires or the content is deleted", (database) => {
  const clock = new FakeClock(START_MS);
  return withCloud(database, async (cloud) => {
    const { owner, part } = await newWorld(cloud.store);
    const me = await people(cloud, owner);
    const binaryDataId = await me.image(part, "one", 0);
    const { signedUrl, expiresAt } = await me.data.createBinaryDataSignedURL({ binaryDataId });
    assertEquals(expiresAt!.seconds, BigInt(START_MS / 1000 + 15 * 60));
    const get = async (url: string) => {
      const response = await fetch(url);
      return [response.status, response.headers.get("content-type"), await response.text()];
    };
    assertEquals(await get(signedUrl), [200, "image/jpeg", "one"]);
    const second = await fetch(signedUrl, { headers: { range: "bytes=1-" } });
    assertEquals([second.status, await second.text()], [206, "ne"]);
    assertEquals((await get(signedUrl.replace(/expires=\d/, "expires=9")))[0], 403);
    assertEquals((await get(signedUrl.split("?")[0]))[0], 403);
    assertEquals(
      await fetch(signedUrl, { method: "DELETE" }).then((one) => one.text().then(() => one.status)),
      405,
    );
    const long = me.data.createBinaryDataSignedURL({ binaryDataId, expirationMinutes: 10_081 });
    assertEquals(await awaitOutcome(long), "invalid_argument");
    await clock.advance(15 * 60_000);
    assertEquals((await get(signedUrl))[0], 403);
    const { signedUrl: again } = await me.data.createBinaryDataSignedURL({ binaryDataId });
    await me.data.deleteBinaryDataByIDs({ binaryDataIds: [binaryDataId] });
    assertEquals((await get(again))[0], 404);
  }, { clock });
});

storeTest(
  "readings are stored once and exported in order, and GetLatestTabularData finds the newest",
  (database) => {
    const clock = new FakeClock(START_MS + 3 * 24 * 3600 * 1000);
    return withCloud(database, async (cloud) => {
      const { owner, part: partId, organization: organizationId } = await newWorld(cloud.store);
      const me = await people(cloud, owner);
      await me.readings(partId, Array.from({ length: 1_200 }, (_, index) => 1_200 - index));
      await me.readings(partId, [3, 1_300, 1_201], { tags: ["late"] });
      await me.readings(partId, [5_000], { method: "Other" });
      const source = {
        partId,
        resourceName: "thermometer",
        resourceSubtype: "rdk:component:sensor",
        methodName: "Readings",
      };
      const values = async (more: Record<string, unknown> = {}) => {
        const all: unknown[] = [];
        for await (const { payload } of me.data.exportTabularData({ ...source, ...more })) {
          all.push((payload as { readings: { value: number } }).readings.value);
        }
        return all;
      };
      const all = [...Array.from({ length: 1_201 }, (_, index) => index + 1), 1_300];
      assertEquals(await values(), all);
      assertEquals(await values({ resourceSubtype: "sensor" }), all);
      assertEquals(await values({ resourceSubtype: "rdk:component:camera" }), []);
      const interval = { start: toTimestamp(START_MS + 1_200), end: toTimestamp(START_MS + 1_201) };
      assertEquals(await values({ interval }), [1_200, 1_201]);
      const latest = await me.data.getLatestTabularData(source);
      assertEquals(latest.payload, { readings: { value: 1_300 } });
      assertEquals(latest.timeCaptured, { ...latest.timeCaptured!, ...toTimestamp(START_MS + 1_300) });
      assertEquals(
        (await me.data.getLatestTabularData({ ...source, methodName: "None" })).payload,
        undefined,
      );
      for await (const one of me.data.exportTabularData({ ...source, methodName: "Other" })) {
        assertEquals([one.robotName, one.organizationId, one.tags], ["rover", organizationId, []]);
        assert(one.methodParameters);
      }

      const filter = { tagsFilter: { tags: ["late"] } };
      const page = await me.data.tabularDataByFilter({ dataRequest: { filter, limit: 2n } });
      assertEquals(page.data.map(({ metadataIndex, data }) => [metadataIndex, data]), [
        [0, { readings: { value: 1_300 } }],
        [0, { readings: { value: 1_201 } }],
      ]);
      assertEquals(page.metadata[0].tags, ["late"]);
      const next = await me.data.tabularDataByFilter({ dataRequest: { filter, limit: 2n, last: page.last } });
      assertEquals(next.data, []);
      assertEquals((await me.data.tabularDataByFilter({ countOnly: true })).count, 1_203n);

      const older = await me.data.deleteTabularData({ organizationId, deleteOlderThanDays: 4 });
      assertEquals(older.deletedCount, 0n);
      const late = { organizationId, filter: { method: "Readings", tagsFilter: { tags: ["late"] } } };
      assertEquals((await me.data.deleteTabularData(late)).deletedCount, 2n);
      const rest = await me.data.deleteTabularData({ organizationId, deleteOlderThanDays: 2 });
      assertEquals(rest.deletedCount, 1_201n);
    }, { clock });
  },
);

storeTest(
  "DeleteTabularData removes readings by each condition of a filter and by all together",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part, machine, location, organization: organizationId } = await newWorld(cloud.store);
      const other = await newWorld(cloud.store);
      const me = await people(cloud, owner);
      const mine = {
        locationIds: [location],
        robotId: machine,
        partId: part,
        componentType: "rdk:component:sensor",
        componentName: "thermometer",
        method: "Readings",
        tagsFilter: { tags: ["late"] },
      };
      const theirs: typeof mine = {
        locationIds: [other.location],
        robotId: other.machine,
        partId: other.part,
        componentType: "rdk:component:camera",
        componentName: "barometer",
        method: "Position",
        tagsFilter: { tags: ["early"] },
      };
      const remove = async (filter: Partial<typeof mine>) =>
        Number((await me.data.deleteTabularData({ organizationId, filter })).deletedCount);
      for (const name of Object.keys(mine) as (keyof typeof mine)[]) {
        await me.readings(part, [1, 2], { tags: ["late"] });
        const found = [
          await remove({ ...mine, [name]: theirs[name] }),
          await remove({ [name]: theirs[name] }),
          await remove({ [name]: mine[name] }),
        ];
        assertEquals(found, [0, 0, 2], name);
      }
      await me.readings(part, [1, 2], { tags: ["late"] });
      assertEquals(await remove(mine), 2);
      const theirOwner = await people(cloud, other.owner);
      await theirOwner.readings(other.part, [1]);
      assertEquals(await remove({ partId: other.part }), 0);
      assertEquals(
        await awaitOutcome(theirOwner.data.deleteTabularData({ organizationId, filter: mine })),
        "permission_denied",
      );
    }),
);

storeTest(
  "a dataset's snapshot lists images with labels, and each image becomes a line of JSON",
  (database) =>
    withCloud(database, async (cloud) => {
      const { owner, part, machine, organization: organizationId, location } = await newWorld(cloud.store);
      const me = await people(cloud, owner);
      const { id } = await me.datasets.createDataset({ organizationId, name: "d" });
      const box = {
        label: "cat",
        xMinNormalized: 0.1,
        yMinNormalized: 0,
        xMaxNormalized: 0.5,
        yMaxNormalized: 1,
      };
      const annotations = {
        bboxes: [{ ...box, confidence: 0.5 }],
        classifications: [{ label: "red", confidence: 1 }],
      };
      await me.image(part, "0", 0, { tags: ["red", "blue"], annotations, datasetIds: [id] });
      await me.image(part, "1", 1.5, { datasetIds: [id] });
      const [first, second] = await new Datasets(cloud.store).snapshot(id);
      assertEquals([...first.tags], ["blue", "red"]);
      assertMatch(first.fileName, /^[0-9a-f-]{36}\.jpg$/);
      assertEquals(JSON.parse(datasetLine(first, "data/0.jpg")), {
        image_path: "data/0.jpg",
        classification_annotations: [{ annotation_label: "blue" }, {
          annotation_label: "red",
          confidence: 1,
        }],
        bounding_box_annotations: [{
          id: first.boxes[0].id,
          annotation_label: "cat",
          x_min_normalized: 0.1,
          x_max_normalized: 0.5,
          y_min_normalized: 0,
          y_max_normalized: 1,
          confidence: 0.5,
        }],
        binary_data_id: first.id,
        timestamp: "2023-11-14 22:13:20 +0000 UTC",
        robot_id: machine,
        part_id: part,
        component_name: "cam",
        organization_id: organizationId,
        location_id: location,
      });
      assertEquals(JSON.parse(datasetLine(second, "x")).timestamp, "2023-11-14 22:13:20.0015 +0000 UTC");
      assertEquals(JSON.parse(datasetLine(second, "x")).classification_annotations, []);
    }),
);

async function filesIn(folder: string): Promise<number> {
  let count = 0;
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    count += isDirectory ? await filesIn(`${folder}/${name}`) : 1;
  }
  return count;
}
