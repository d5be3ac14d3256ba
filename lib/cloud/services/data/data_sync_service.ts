/**
 * DataSyncService: uploads of captured data and files.
 *
 * An acknowledged upload is on disk. A repeated one, whose acknowledgement was lost, is recognized by its capture time
 * (`binary_data.ts`, `tabular_data.ts`).
 */

import {
  type DataCaptureUploadRequest,
  type DataSyncService,
  DataType,
  type SensorData,
  type SensorMetadata,
  type UploadMetadata,
} from "../../../../proto/gen/datasync_pb.ts";
import { boxOf, MIME_TYPES } from "../../../api/shared/captured_file.ts";
import { SvcError } from "../../../base/error.ts";
import type { ServiceImpl } from "../../../wire/rpc/service.ts";
import type { CloudContext } from "../../access/context.ts";
import { BinaryData, type BinaryUpload, checkedLabels } from "../../data/binary_data.ts";
import { keptMicros, toMicros } from "../../capture/filter.ts";
import { dataOriginOf, plainText, type Source } from "../../capture/origins.ts";
import { storeReadings } from "../../data/store_readings.ts";
import { readingBytes, type TabularReading } from "../../data/tabular_data.ts";
import { Datasets } from "../../data/datasets.ts";
import type { Label } from "../../../cloud_client/dataset.ts";
import type { Quota } from "../../access/usage.ts";
import { keepFile } from "../../store/file_refs.ts";
import { type Part, Parts } from "../../tenants/parts.ts";
import { extensionOf, isMimeType, mimeTypeOfExtension } from "../../../cloud_client/mime_types.ts";

/** Limit of one file. */
const FILE_BYTES_MAX = 4 * 1024 ** 3;
const READINGS_MAX = 10_000;

const DATA_KINDS = new Map<DataType, NonNullable<BinaryUpload["dataKind"]>>([
  [DataType.BINARY_SENSOR, "binary"],
  [DataType.FILE, "file"],
]);

export function dataSyncHandlers(cloud: CloudContext) {
  return {
    async dataCaptureUpload(request, { entity }) {
      const part = await new Parts(cloud.store).get(request.metadata!.partId);
      if (isTabular(request)) {
        const fileId = await addReadings(cloud, part, request.metadata!, request.sensorContents);
        return { fileId, binaryDataId: "" };
      }
      const [only, ...others] = request.sensorContents;
      if (!only || others.length > 0) {
        const found = `found ${request.sensorContents.length} images or files in one upload`;
        throw new SvcError("invalid_argument", `${found}, wanted one`);
      }
      const { data, metadata } = only;
      const content = data.case === "binary" ? data.value : new Uint8Array();
      const upload = uploadOf(part, request.metadata!, metadata);
      const id = await addBinary(cloud, entity, upload, pieces([content]));
      return { fileId: id, binaryDataId: id };
    },

    async fileUpload(requests, { entity }) {
      const packets = requests[Symbol.asyncIterator]();
      const first: { case?: string; value?: unknown } | undefined = (await packets.next()).value
        ?.uploadPacket;
      if (first?.case !== "metadata") throw noMetadata();
      const metadata = first.value as UploadMetadata;
      const content = async function* () {
        for await (const { uploadPacket: packet } of rest(packets)) {
          if (packet.case !== "fileContents") throw noContent(packet.case);
          yield packet.value.data;
        }
      };
      const upload = uploadOf(await resolveSource(cloud, metadata), metadata);
      const id = await addBinary(cloud, entity, upload, content());
      return { fileId: id, binaryDataId: id };
    },

    async streamingDataCaptureUpload(requests, { entity }) {
      const packets = requests[Symbol.asyncIterator]();
      const first = (await packets.next()).value?.uploadPacket;
      if (first?.case !== "metadata" || !first.value.uploadMetadata) throw noMetadata();
      const { uploadMetadata, sensorMetadata } = first.value;
      const content = async function* () {
        for await (const { uploadPacket: packet } of rest(packets)) {
          if (packet.case !== "data") throw noContent(packet.case);
          yield packet.value;
        }
      };
      const upload = uploadOf(await resolveSource(cloud, uploadMetadata), uploadMetadata, sensorMetadata);
      const id = await addBinary(cloud, entity, upload, content());
      return { fileId: id, binaryDataId: id };
    },
  } satisfies ServiceImpl<typeof DataSyncService>;
}

/** The source of an upload: its part; without one, its organization or that of its datasets. */
async function resolveSource({ store }: CloudContext, metadata: UploadMetadata): Promise<Source> {
  const { partId, datasetIds } = metadata;
  if (partId !== "") return await new Parts(store).get(partId);
  const organizationId = metadata.organizationId ||
    (await new Datasets(store).get(datasetIds[0] ?? "")).organizationId;
  return { organizationId, locationId: "", machineId: "", machineName: "", id: "", name: "" };
}

/** The content of an upload determines its type; a different declared type is a mistake. */
function isTabular({ metadata, sensorContents }: DataCaptureUploadRequest): boolean {
  const kinds = new Set(sensorContents.map(({ data }) => data.case));
  const [kind] = kinds;
  const wanted = metadata?.type === DataType.TABULAR_SENSOR ? "struct" : "binary";
  const fits = metadata?.type === DataType.UNSPECIFIED || kind === wanted;
  if (kinds.size === 1 && kind !== undefined && fits) return kind === "struct";
  throw new SvcError(
    "invalid_argument",
    `found sensor contents of ${sensorContents.length} pieces (${[...kinds].join(" and ") || "none"}) ` +
      `in an upload of type ${
        DataType[metadata?.type ?? 0] ?? metadata?.type
      }, wanted either readings or one image or file`,
  );
}

async function addReadings(
  { store, files, clock, usage }: CloudContext,
  part: Part,
  metadata: UploadMetadata,
  contents: readonly SensorData[],
): Promise<string> {
  if (contents.length > READINGS_MAX) {
    const found = `found ${contents.length} readings in one upload`;
    throw new SvcError("resource_exhausted", `${found}, wanted at most ${READINGS_MAX}`);
  }
  await usage.take(part.organizationId, "readingsPerOrganization", contents.length);
  const nowMs = clock.nowMs();
  const readings = contents.map(({ data, metadata: sensor }): TabularReading => {
    const capturedUs = capturedAt(sensor) ?? toMicros(nowMs);
    const receivedUs = sensor?.timeReceived ? keptMicros("time_received", sensor.timeReceived) : capturedUs;
    return { capturedUs, receivedUs, payload: data.case === "struct" ? data.value : {} };
  });
  const origin = dataOriginOf(part, metadata);
  const tags = checkedLabels("tag", metadata.tags, 0);
  const bytes = readingBytes(readings);
  await files.requireSpace("entries", bytes);
  await usage.take(part.organizationId, "readingBytesPerOrganization", bytes);
  return await storeReadings({ store, files }, origin, readings, tags, nowMs);
}

async function addBinary(
  { store, files, clock, usage }: CloudContext,
  key = "",
  upload: BinaryUpload,
  content: AsyncIterable<Uint8Array>,
): Promise<string> {
  const { organizationId, machineId } = upload.origin;
  for (const id of upload.datasetIds) {
    // Datasets of other organizations stay hidden.
    if ((await new Datasets(store).get(id)).organizationId === organizationId) continue;
    throw new SvcError("not_found", `there is no dataset "${id}"`);
  }
  const quotas: Quota[] = [["dataBytesPerOrganization", organizationId]];
  if (machineId !== "") quotas.push(["dataBytesPerMachine", machineId]);
  const open = await usage.upload(organizationId, key, quotas);
  try {
    const id = await keepFile(store, files, open.counted(content), FILE_BYTES_MAX, (file) => {
      return store.transaction((sql) => new BinaryData(sql).add(upload, file, clock.nowMs()));
    });
    open.end(true);
    return id;
  } finally {
    open.end(false);
  }
}

function uploadOf(part: Source, metadata: UploadMetadata, sensor?: SensorMetadata): BinaryUpload {
  const { fileName, fileCreateTime, fileModifyTime } = metadata;
  const fileTime = fileCreateTime ?? fileModifyTime;
  const capturedUs = capturedAt(sensor) ?? (fileTime && keptMicros("file_create_time", fileTime));
  const given = metadata.mimeType || MIME_TYPES[sensor?.mimeType ?? 0] || "";
  const fileExt = extension(metadata.fileExtension) || /\.[A-Za-z0-9]{1,20}$/.exec(fileName)?.[0] ||
    extensionOf(given);
  return {
    origin: dataOriginOf(part, metadata),
    dataKind: DATA_KINDS.get(metadata.type) ?? "unspecified",
    capturedUs,
    receivedUs: sensor?.timeReceived && keptMicros("time_received", sensor.timeReceived),
    fileName: plainText("file_name", fileName),
    fileExt,
    mimeType: checkedMimeType(given || mimeTypeOfExtension(fileExt)),
    tags: checkedLabels("tag", metadata.tags, 0),
    datasetIds: checkedLabels("dataset_id", metadata.datasetIds, 0),
    boxes: (sensor?.annotations?.bboxes ?? []).map(boxOf),
    classifications: (sensor?.annotations?.classifications ?? []).map(({ label, confidence }): Label =>
      confidence === undefined ? { label } : { label, confidence }
    ),
  };
}

function extension(given: string): string {
  const dotted = given === "" || given.startsWith(".") ? given : `.${given}`;
  if (/^(\.[A-Za-z0-9_-]{1,20}){0,3}$/.test(dotted)) return dotted;
  throw new SvcError("invalid_argument", `found file_extension "${given}", wanted one such as ".jpg"`);
}

/** It becomes a header field of downloads. */
function checkedMimeType(given: string): string {
  if (isMimeType(given)) return given;
  throw new SvcError(
    "invalid_argument",
    `found mime_type ${JSON.stringify(given.slice(0, 100))}, wanted such as image/jpeg`,
  );
}

function capturedAt(sensor: SensorMetadata | undefined): number | undefined {
  const time = sensor?.timeRequested ?? sensor?.timeReceived;
  return time && keptMicros("time_requested", time);
}

function noMetadata(): SvcError {
  return new SvcError("invalid_argument", "the upload does not begin with its metadata");
}

function noContent(found = "nothing"): SvcError {
  return new SvcError(
    "invalid_argument",
    `the upload continues with ${found}, wanted contents after the metadata`,
  );
}

async function* pieces(all: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* all;
}

/** The rest of an iterator. */
function rest<T>(iterator: AsyncIterator<T>): AsyncIterable<T> {
  return { [Symbol.asyncIterator]: () => iterator };
}
