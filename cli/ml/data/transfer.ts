/**
 * Transfers images to and from the control plane: one with all its facts, and many at once.
 */

import { DataType, type StreamingDataCaptureUploadRequestSchema } from "../../../proto/gen/datasync_pb.ts";
import { boxFields } from "../../../lib/api/shared/captured_file.ts";
import { toTimestamp } from "../../../lib/api/shared/time.ts";
import { SvcError } from "../../../lib/base/error.ts";
import type { MessageInitShape } from "../../../lib/wire/rpc/proto.ts";
import type { DatasetImage } from "../../../lib/cloud_client/dataset.ts";
import type { LocalImage, Skipped } from "./local_images.ts";
import type { Flag } from "../../flags.ts";
import type { MlCommandContext, Services } from "../command_context.ts";

/** The flags of commands that upload images, which apply to every image. */
export const OF_ALL_IMAGES = [
  {
    name: "tags",
    type: "list",
    default: [],
    value: "LABEL",
    help: 'Labels of all of these images, separated by commas ("\\," in a label).',
  },
  { name: "labels", type: "list", default: [], value: "LABEL", help: "The same as --tags." },
  {
    name: "part-id",
    type: "string",
    default: "",
    value: "PART",
    help: "The part that they come from; by default the only machine's, or none.",
  },
] as const satisfies readonly Flag[];

/** Time limit for one image. */
export const TRANSFER_MS = 5 * 60 * 1000;
export const EXTENSIONS: { readonly [mimeType: string]: string } = {
  "image/jpeg": ".jpg",
  "image/png": ".png",
};
/** Number of parallel transfers. */
const PARALLEL = 4;
const CHUNK_BYTES = 256 * 1024;

/** The origin and owner that an upload states. */
interface Destination {
  /** Empty for an image from no machine; the dataset or the organization then gives the owner. */
  readonly partId: string;
  readonly datasetId?: string;
  readonly organizationId?: string;
}

type Packet = MessageInitShape<typeof StreamingDataCaptureUploadRequestSchema>;

/** Uploads one image with all its facts; returns its id. The same file has the same id there. */
export async function upload(
  context: MlCommandContext,
  { dataSync }: Services,
  { path, fileName, mimeType, labels, boxes, capturedMs }: LocalImage,
  { partId, datasetId, organizationId }: Destination,
): Promise<string> {
  const content = await context.host.readFile(path);
  const uploadMetadata = {
    partId,
    organizationId,
    type: DataType.BINARY_SENSOR,
    fileName,
    fileExtension: /\.[A-Za-z0-9]+$/.exec(fileName)?.[0] ?? EXTENSIONS[mimeType] ?? "",
    mimeType,
    tags: labels.filter(({ confidence }) => confidence === undefined).map(({ label }) => label),
    datasetIds: datasetId === undefined ? [] : [datasetId],
  };
  const annotations = {
    bboxes: boxes.map(boxFields),
    classifications: labels.filter(({ confidence }) => confidence !== undefined),
  };
  const sensorMetadata = {
    timeRequested: toTimestamp(capturedMs),
    timeReceived: toTimestamp(capturedMs),
    annotations,
  };
  async function* packets(): AsyncGenerator<Packet> {
    yield { uploadPacket: { case: "metadata", value: { uploadMetadata, sensorMetadata } } };
    for (let at = 0; at < content.length; at += CHUNK_BYTES) {
      yield { uploadPacket: { case: "data", value: content.subarray(at, at + CHUNK_BYTES) } };
    }
  }
  const limits = { timeoutMs: TRANSFER_MS, ...context.limits };
  try {
    return (await dataSync.streamingDataCaptureUpload(packets(), limits)).binaryDataId;
  } catch (cause) {
    const { code, message } = SvcError.from(cause);
    throw new SvcError(code, `cannot add ${path}: ${message}; run the command again to go on`, { cause });
  }
}

/**
 * Processes a few items at a time and shows progress; the answers have the items' order. After a failure, it finishes
 * the started items and begins no others.
 */
export async function processEach<T, R>(
  context: MlCommandContext,
  verb: string,
  items: readonly T[],
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const bar = context.progressBar({ what: `images ${verb}` });
  // All workers take from this one iterator.
  const waiting = items.entries();
  let [hasFailed, done] = [false, 0];
  const worker = async () => {
    try {
      for (const [at, item] of waiting) {
        if (hasFailed) return;
        context.signal.throwIfAborted();
        results[at] = await work(item);
        done++;
        bar.show(done, items.length);
      }
    } catch (error) {
      hasFailed = true;
      throw error;
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: PARALLEL }, worker));
  bar.end();
  for (const one of ended) if (one.status === "rejected") throw one.reason;
  return results;
}

export function tellSkipped(context: MlCommandContext, skipped: readonly Skipped[]): void {
  for (const { path, reason } of skipped) context.note(`left out ${path}: ${reason}`);
}

/** The bytes of an image. */
export async function imageContent(
  context: MlCommandContext,
  { data }: Services,
  image: DatasetImage,
): Promise<Uint8Array> {
  const limits = { timeoutMs: TRANSFER_MS, ...context.limits };
  const request = { binaryDataIds: [image.id], includeBinary: true };
  const [found] = (await data.binaryDataByIDs(request, limits)).data;
  if (found && (image.bytes === 0 || found.binary.length === image.bytes)) return found.binary;
  const problem = `image ${image.id}: found ${found?.binary.length ?? 0} bytes, wanted ${image.bytes}`;
  throw new SvcError("data_loss", problem);
}
