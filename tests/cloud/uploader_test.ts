/**
 * A machine's data arrives unchanged, and once however often the machine hands it over.
 */

import { assertEquals } from "@std/assert";
import { DataService } from "../../proto/gen/data_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { Secret } from "../../lib/base/secret.ts";
import { CloudClient } from "../../lib/cloud_client/client.ts";
import { uploaderOf } from "../../lib/cloud_client/data_uploader.ts";
import { Datasets } from "../../lib/cloud/data/datasets.ts";
import type { Captured } from "../../lib/resource/uploader.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { newKey, newWorld, withCloud } from "./world.ts";
import { storeTest } from "./stores.ts";

storeTest(
  "uploaderOf sends files and readings with all metadata, each once even if sent twice",
  (database) =>
    withCloud(database, async ({ store, url, channel }) => {
      const { owner, organization, machine, part: partId } = await newWorld(store);
      const dataset = await store.transaction((sql) =>
        new Datasets(sql).create(organization, "d", "images", 0)
      );
      // A machine's own key reaches no further than the machine.
      const { id: entity, key } = await newKey(store, "operator", "machine", machine);
      const connection = new CloudClient({
        address: url,
        partId,
        credentials: { type: "api-key", entity, payload: new Secret(key) },
        allowInsecureCredentials: true,
        agent: undefined,
        clock: new SystemClock(),
      });
      const camera = {
        componentType: "rdk:component:camera",
        componentName: "cam",
        methodName: "GetImages",
        parameters: { mime_type: "image/jpeg", deep: [1, { a: null }] },
        tags: ["a"],
        datasetIds: [dataset],
      };
      const times = { timeMs: 1_700_000_000_000.5, receivedMs: 1_700_000_000_001 };
      const box = { label: "cat", confidence: 0.5, xMin: 0, yMin: 0.25, xMax: 0.5, yMax: 1 };
      const annotations = { boxes: [box], classifications: [{ label: "in" }] };
      const large = new Uint8Array(3 * 1024 * 1024).map((_, index) => index * 7);
      const image = { kind: "file" as const, source: camera, ...times, mimeType: "image/jpeg", fileName: "" };
      const nobody = { ...camera, componentType: "", componentName: "", methodName: "", parameters: {} };
      const plain = { ...image, source: nobody, mimeType: "", fileName: "notes.txt" };
      const all: Captured[] = [
        { ...image, annotations, content: new Uint8Array([1, 2]) },
        { ...image, timeMs: times.timeMs + 1, content: large },
        { ...plain, timeMs: times.timeMs + 2, content: new Uint8Array([3]) },
        {
          kind: "readings",
          source: { ...camera, componentType: "rdk:component:sensor" },
          readings: [{ ...times, payload: { readings: { a: 1 } } }],
        },
        {
          kind: "sequence",
          source: { ...camera, tags: ["take 1"] },
          startMs: times.timeMs,
          endMs: times.timeMs + 2_000,
          resources: [{ resourceName: "cam", methodName: "GetImages" }],
        },
      ];
      const { send } = uploaderOf(connection);
      const { signal } = new AbortController();
      for (const one of [...all, ...all]) await send(one, signal);
      connection.close();

      const calls = client(DataService, await channel(owner));
      const { binaryDataByFilter, exportTabularData } = calls;
      const { sequences } = await calls.listSequences({ organizationId: organization });
      assertEquals(sequences.map((one) => [one.partId, one.sequenceTags, one.startTime?.nanos]), [
        [partId, ["take 1"], 500_000],
      ]);
      const { data } = await binaryDataByFilter({ dataRequest: { sortOrder: 2 }, includeBinary: true });
      assertEquals(data.map(({ binary }) => binary.length), [2, large.length, 1]);
      assertEquals(data[1].binary, large);
      const [first, , file] = data.map(({ metadata }) => metadata!);
      const { bboxes, classifications } = first.annotations!;
      assertEquals(bboxes.map((one) => [one.label, one.yMinNormalized, one.confidence]), [[
        "cat",
        0.25,
        0.5,
      ]]);
      assertEquals(classifications.map(({ label }) => label), ["in"]);
      assertEquals([first.fileExt, first.datasetIds, first.captureMetadata!.tags], [".jpg", [dataset], [
        "a",
      ]]);
      assertEquals([file.fileName, file.captureMetadata!.mimeType], ["notes.txt", "text/plain"]);
      const readings = await Array.fromAsync(exportTabularData({
        partId,
        resourceName: "cam",
        resourceSubtype: "sensor",
        methodName: "GetImages",
        additionalParameters: { deep: [1, { a: null }], mime_type: "image/jpeg" },
      }));
      assertEquals(readings.map(({ payload }) => payload), [{ readings: { a: 1 } }]);
      assertEquals(readings[0].timeCaptured?.nanos, 500_000);
    }),
);
