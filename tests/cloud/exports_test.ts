/**
 * Exports: readings as files for other programs, and datasets of sequences as the published Parquet files.
 */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { crc32 } from "node:zlib";
import { parquetReadObjects } from "hyparquet";
import { DataService } from "../../proto/gen/data_pb.ts";
import { DatasetService, DatasetType, SequenceDatasetExportStatus } from "../../proto/gen/dataset_pb.ts";
import { DataSyncService, DataType } from "../../proto/gen/datasync_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { SvcError } from "../../lib/base/error.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { Conditions } from "../../lib/cloud/capture/filter.ts";
import { Datasets } from "../../lib/cloud/data/datasets.ts";
import { Sequences } from "../../lib/cloud/data/sequences.ts";
import { readingsAs } from "../../lib/cloud/exports/readings.ts";
import {
  EXPORT_STATUS,
  SequenceExportRunner,
  SequenceExports,
} from "../../lib/cloud/exports/sequence_exports.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import { Parts } from "../../lib/cloud/tenants/parts.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { moving, until } from "../support/until.ts";
import { svcCloud } from "./program.ts";
import { sqliteTest, storeTest } from "./stores.ts";
import { newWorld, withCloud } from "./world.ts";

const START_MS = Date.parse("2026-03-15T12:00:00Z");
/** The stored files of an archive, as its directory has them. */
function unzipped(archive: Uint8Array<ArrayBuffer>): ReadonlyMap<string, Uint8Array<ArrayBuffer>> {
  const view = new DataView(archive.buffer);
  const end = archive.length - 22;
  const files = new Map<string, Uint8Array<ArrayBuffer>>();
  for (let at = view.getUint32(end + 16, true), left = view.getUint16(end + 10, true); left > 0; left--) {
    const [sum, bytes] = [view.getUint32(at + 16, true), view.getUint32(at + 24, true)];
    const [length, start] = [view.getUint16(at + 28, true), view.getUint32(at + 42, true) + 30];
    const content = archive.slice(start + length, start + length + bytes);
    assertEquals(crc32(content), sum);
    files.set(new TextDecoder().decode(archive.subarray(at + 46, at + 46 + length)), content);
    at += 46 + length;
  }
  return files;
}

async function parquet(file: Uint8Array<ArrayBuffer>) {
  return await parquetReadObjects({ file: file.buffer });
}

storeTest("readings and sequences are exported for other programs", async (database) => {
  await withCloud(database, async (cloud) => {
    const { organization, owner, part } = await newWorld(cloud.store);
    const stranger = await newWorld(cloud.store);
    const channel = await cloud.channel(owner);
    const [sync, data, datasets] = [
      client(DataSyncService, channel),
      client(DataService, channel),
      client(DatasetService, channel),
    ];
    const times = (at: number) => {
      return { timeRequested: toTimestamp(START_MS + at), timeReceived: toTimestamp(START_MS + at + 1) };
    };
    const from = { partId: part, componentType: "sensor", componentName: "thermo", methodName: "Readings" };
    const values: JsonObject[] = [
      { celsius: 20.5, note: '=HYPERLINK("http://evil")' },
      { celsius: -3, note: 'say "hi", all' },
      { celsius: 7, list: [1, { deep: true }], "imu.x": 5, imu: { x: 6, "y.z": 7 } },
    ];
    await sync.dataCaptureUpload({
      metadata: { ...from, type: DataType.TABULAR_SENSOR, tags: ["hall"] },
      sensorContents: values.map((readings, at) => {
        return { metadata: times(at * 1000), data: { case: "struct" as const, value: { readings } } };
      }),
    });
    await sync.dataCaptureUpload({
      metadata: {
        ...from,
        componentName: "cam",
        methodName: "GetImages",
        type: DataType.BINARY_SENSOR,
        fileExtension: ".jpg",
      },
      sensorContents: [{ metadata: times(500), data: { case: "binary", value: new Uint8Array([1, 2, 3]) } }],
    });

    const write = async (name: string, ...flags: string[]) => {
      const path = `${database.folder}/${name}`;
      await svcCloud("data", "export", path, "--org", organization, ...flags, ...database.flags);
      return path;
    };
    const lines = (await Deno.readTextFile(await write("all.csv"))).split("\r\n");
    assertStringIncludes(
      lines[0],
      'tags,readings.celsius,readings.imu.x,readings.imu.y.z,readings.list.0,readings.list.1.deep,readings.note,"readings[""imu.x""]"',
    );
    assertStringIncludes(
      lines[1],
      `2026-03-15T12:00:00.000000Z,2026-03-15T12:00:00.001000Z,${organization},`,
    );
    assertStringIncludes(lines[1], `hall,20.5,,,,,"'=HYPERLINK(""http://evil"")",`);
    assertStringIncludes(lines[2], 'hall,-3,,,,,"say ""hi"", all"');
    assertStringIncludes(lines[3], "hall,7,6,7,1,true,,5");
    assertEquals(lines.length, 5);
    const some = await write("some.jsonl", "--component", "thermo", "--since", "2026-03-15T12:00:01Z");
    const parsed = (await Deno.readTextFile(some)).trim().split("\n").map((one) => JSON.parse(one));
    assertEquals(parsed.map(({ data }) => data.readings.celsius), [-3, 7]);
    assertEquals([parsed[0].tags, parsed[0].part_id], [["hall"], part]);
    const rows = await parquet(await Deno.readFile(await write("all.parquet")));
    assertEquals(rows.map(({ data }) => JSON.parse(data as string).readings), values);
    assertEquals([rows[0].component_name, rows[0].tags, rows[0].time_requested], [
      "thermo",
      ["hall"],
      new Date(START_MS),
    ]);
    // What arrives during an export is in it, or ends it: no value is left out without a word.
    const add = async (readings: JsonObject, at: number) => {
      const reading = { metadata: times(at), data: { case: "struct" as const, value: { readings } } };
      await sync.dataCaptureUpload({
        metadata: { ...from, type: DataType.TABULAR_SENSOR },
        sensorContents: [reading],
      });
    };
    const exportWith = async (readings: JsonObject, at: number) => {
      const sources = new Conditions().only("o.component_name = ?", "thermo");
      let text = "";
      for await (
        const piece of readingsAs("csv", cloud.store, { files: cloud.files, sources, captured: {} }, () => {})
      ) {
        if (text === "") await add(readings, at);
        text += new TextDecoder().decode(piece);
      }
      return text.trim().split("\r\n").length;
    };
    assertEquals(await exportWith({ celsius: 8 }, 4_000), 5);
    await assertRejects(
      () => exportWith({ humidity: 0.5 }, 5_000),
      Error,
      "a new value arrived during the export",
    );
    await assertRejects(() => write("none.csv", "--component", "other"), Error, "no such readings");
    await assertRejects(() => write("all.xls"), Error, "--format");

    // A dataset of sequences, as its published client asks for it.
    const resources = ["thermo", "cam"].map((resourceName) => ({ resourceName, methodName: "" }));
    const window = { startTime: toTimestamp(START_MS), endTime: toTimestamp(START_MS + 1_500) };
    const { id } = await data.createSequence({ partId: part, resources, sequenceTags: ["walk"], ...window });
    const made = { organizationId: organization, name: "walks", type: DatasetType.SEQUENCE_DATA };
    const { id: datasetId } = await datasets.createDataset(made);
    await data.addSequencesToDataset({ datasetId, sequenceIds: [id] });
    const { jobId } = await datasets.startSequenceDatasetExport({ datasetId });
    const ended = await until(async () => {
      const job = await datasets.getSequenceDatasetExport({ jobId });
      return job.status !== SequenceDatasetExportStatus.RUNNING && job;
    });
    assertEquals([ended.status, ended.errorMessage], [SequenceDatasetExportStatus.COMPLETED, ""]);
    const archive = await fetch(
      `${cloud.url}${new URL(ended.downloadUrl).pathname}${new URL(ended.downloadUrl).search}`,
    );
    const files = unzipped(new Uint8Array(await archive.arrayBuffer()));
    const [binary, tabular, sequences] = await Promise.all(
      ["binary_data", "tabular_data", "sequences"].map((name) => parquet(files.get(`${name}.parquet`)!)),
    );
    assertEquals(tabular.map(({ payload }) => JSON.parse(payload as string).readings.celsius), [20.5, -3]);
    assertEquals([binary.length, binary[0].sequence_id, binary[0].classifications], [1, id, []]);
    assertEquals(String(binary[0].path).endsWith(".jpg"), true);
    const { tags, start_at, end_at } = sequences[0];
    assertEquals([tags, start_at, end_at], [["walk"], new Date(START_MS), new Date(START_MS + 1_500)]);

    const refusal = (call: Promise<unknown>) => call.then(() => "done", (error) => SvcError.from(error).code);
    const theirs = client(DatasetService, await cloud.channel(stranger.owner));
    assertEquals(await refusal(theirs.getSequenceDatasetExport({ jobId })), "permission_denied");
    const images = await datasets.createDataset({ organizationId: organization, name: "images" });
    assertEquals(
      await refusal(datasets.startSequenceDatasetExport({ datasetId: images.id })),
      "failed_precondition",
    );
    const later = ended.completedAt!.seconds * 1000n + BigInt(8 * 24 * 3600 * 1000);
    const gone = await cloud.store.transaction((sql) => new SequenceExports(sql).forget(Number(later)));
    assertEquals(gone.length, 1);
    assertEquals(await refusal(datasets.getSequenceDatasetExport({ jobId })), "not_found");
  });
});

sqliteTest("a long export of sequences stays with the control plane that makes it", async (database) => {
  const store = await database.open();
  const { organization, part: partId } = await newWorld(store);
  const files = await FolderFiles.open(new SystemFiles(), `${database.folder}/files`, { olderThanMs: 0 });
  const clock = new FakeClock(START_MS);
  const jobId = await store.transaction(async (sql) => {
    const resources = [{ resourceName: "cam", methodName: "" }];
    const fields = { resources, tags: ["walk"], startUs: START_MS * 1000, endUs: START_MS * 1000 + 1 };
    const id = await new Sequences(sql).create(await new Parts(sql).get(partId), fields, START_MS);
    const datasetId = await new Datasets(sql).create(organization, "walks", "sequences", START_MS);
    await new Sequences(sql).addTo(datasetId, [id]);
    return await new SequenceExports(sql).start(datasetId, organization, START_MS);
  });
  // Each piece of the archive takes 8 s. Meanwhile another control plane looks for jobs that nobody works on.
  let [pieces, claimed] = [0, 0];
  const slowly = async function* (content: AsyncIterable<Uint8Array>) {
    for await (const piece of content) {
      await clock.advance(8_000);
      pieces++;
      if (await store.transaction((sql) => new SequenceExports(sql).claim(clock.nowMs()))) claimed++;
      yield piece;
    }
  };
  const receive: FolderFiles["receive"] = (content, bytesMax) => files.receive(slowly(content), bytesMax);
  const slow = new Proxy(files, {
    get: (target, name) => {
      const value = name === "receive" ? receive : Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const logger = silentLogs(clock).logger("cloud");
  const runner = new SequenceExportRunner({ store, files: slow, clock, logger });
  const state = async () => (await new SequenceExports(store).get(jobId)).status;
  await until(async () => await state() !== EXPORT_STATUS.running, { meanwhile: moving(clock, 100) });
  await runner.close();
  assertEquals([await state(), claimed, pieces > 8], [EXPORT_STATUS.completed, 0, true]);
});
