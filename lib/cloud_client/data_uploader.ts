/**
 * Uploads captured data over a machine's connection to its control plane, by the published calls, large files in
 * pieces.
 */

import type { CreateSequenceRequestSchema } from "../../proto/gen/data_pb.ts";
import { DataType } from "../../proto/gen/datasync_pb.ts";
import type {
  DataSyncService,
  SensorMetadataSchema,
  UploadMetadataSchema,
} from "../../proto/gen/datasync_pb.ts";
import { boxFields, mimeTypeNumber } from "../api/shared/captured_file.ts";
import { toTimestamp } from "../api/shared/time.ts";
import type {
  Captured,
  CapturedFile,
  CapturedReadings,
  CapturedSequence,
  CaptureSource,
  Uploader,
} from "../resource/uploader.ts";
import type { CallOptions, ServiceClient } from "../wire/rpc/channel.ts";
import { anyPack, fromJson, type JsonObject, type MessageInitShape, ValueSchema } from "../wire/rpc/proto.ts";
import type { CloudClient } from "./client.ts";
import { extensionOf } from "./mime_types.ts";

type Sync = ServiceClient<typeof DataSyncService>;

/** Files up to this size travel in one message. */
const WHOLE_BYTES_MAX = 1024 * 1024;
const PIECE_BYTES = 64 * 1024;

export function uploaderOf(client: Pick<CloudClient, "partId" | "dataSync" | "createSequence">): Uploader {
  const { partId } = client;
  return {
    send: (data: Captured, signal: AbortSignal) => {
      if (data.kind === "sequence") return client.createSequence(sequenceOf(partId, data), signal);
      return client.dataSync(signal, async (sync, options) => {
        if (data.kind === "readings") await sendReadings(sync, partId, data, options);
        else if (data.source.componentType === "") await sendPlainFile(sync, partId, data, options);
        else if (data.content.length <= WHOLE_BYTES_MAX) await sendWhole(sync, partId, data, options);
        else await sendPieces(sync, partId, data, options);
      });
    },
  };
}

function sequenceOf(
  partId: string,
  { source, resources, startMs, endMs }: CapturedSequence,
): MessageInitShape<typeof CreateSequenceRequestSchema> {
  return {
    partId,
    resources: [...resources],
    sequenceTags: [...source.tags],
    startTime: toTimestamp(startMs),
    endTime: toTimestamp(endMs),
  };
}

async function sendReadings(sync: Sync, partId: string, data: CapturedReadings, options: CallOptions) {
  const sensorContents = data.readings.map(({ payload, ...times }) => ({
    metadata: timesOf(times),
    data: { case: "struct" as const, value: payload as JsonObject },
  }));
  const metadata = { ...metadataOf(partId, data.source), type: DataType.TABULAR_SENSOR };
  await sync.dataCaptureUpload({ metadata, sensorContents }, options);
}

async function sendWhole(sync: Sync, partId: string, file: CapturedFile, options: CallOptions) {
  const data = { case: "binary" as const, value: file.content };
  const sensorContents = [{ metadata: sensorMetadata(file), data }];
  await sync.dataCaptureUpload({ metadata: fileMetadata(partId, file), sensorContents }, options);
}

async function sendPieces(sync: Sync, partId: string, file: CapturedFile, options: CallOptions) {
  const requests = async function* () {
    const value = { uploadMetadata: fileMetadata(partId, file), sensorMetadata: sensorMetadata(file) };
    yield { uploadPacket: { case: "metadata" as const, value } };
    for (const piece of piecesOf(file.content)) {
      yield { uploadPacket: { case: "data" as const, value: piece } };
    }
  };
  await sync.streamingDataCaptureUpload(requests(), options);
}

/** A file that no resource has captured. */
async function sendPlainFile(sync: Sync, partId: string, file: CapturedFile, options: CallOptions) {
  const fileModifyTime = toTimestamp(file.timeMs);
  const value = {
    ...metadataOf(partId, file.source),
    type: DataType.FILE,
    fileName: file.fileName,
    fileModifyTime,
  };
  await uploadFile(sync, value, piecesOf(file.content), options);
}

/** One FileUpload call, with one message per piece; returns the id of the stored data. */
export async function uploadFile(
  sync: Sync,
  metadata: MessageInitShape<typeof UploadMetadataSchema>,
  content: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  options: CallOptions,
): Promise<string> {
  const requests = async function* () {
    yield { uploadPacket: { case: "metadata" as const, value: metadata } };
    for await (const data of content) {
      yield { uploadPacket: { case: "fileContents" as const, value: { data } } };
    }
  };
  return (await sync.fileUpload(requests(), options)).binaryDataId;
}

function metadataOf(partId: string, source: CaptureSource) {
  const { componentType, componentName, methodName, parameters, tags, datasetIds } = source;
  return {
    partId,
    componentType,
    componentName,
    methodName,
    methodParameters: Object.fromEntries(
      Object.entries(parameters).map((
        [name, value],
      ) => [name, anyPack(ValueSchema, fromJson(ValueSchema, value))]),
    ),
    tags: [...tags],
    datasetIds: [...datasetIds],
  };
}

function fileMetadata(partId: string, { source, mimeType, fileName }: CapturedFile) {
  const fileExtension = extensionOf(mimeType);
  return { ...metadataOf(partId, source), type: DataType.BINARY_SENSOR, mimeType, fileName, fileExtension };
}

function sensorMetadata(file: CapturedFile): MessageInitShape<typeof SensorMetadataSchema> {
  const { boxes = [], classifications = [] } = file.annotations ?? {};
  return {
    ...timesOf(file),
    mimeType: mimeTypeNumber(file.mimeType),
    annotations: {
      bboxes: boxes.map(boxFields),
      classifications: [...classifications],
    },
  };
}

function timesOf({ timeMs, receivedMs }: { readonly timeMs: number; readonly receivedMs: number }) {
  return { timeRequested: toTimestamp(timeMs), timeReceived: toTimestamp(receivedMs) };
}

function* piecesOf(content: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < content.length; at += PIECE_BYTES) yield content.subarray(at, at + PIECE_BYTES);
}
