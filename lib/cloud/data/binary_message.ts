/** Images and files in answers, with as many contents as fit into one answer. */

import type { BinaryDataSchema } from "../../../proto/gen/data_pb.ts";
import { boxFields } from "../../api/shared/captured_file.ts";
import { toTimestamp } from "../../api/shared/time.ts";
import { SvcError } from "../../base/error.ts";
import type { MessageInitShape } from "../../wire/rpc/proto.ts";
import type { FileStore } from "../store/files.ts";
import type { BinaryItem } from "./binary_data.ts";
import { captureMetadata } from "../capture/origins.ts";

/** Limit of the contents in one answer, which leaves room for the rest of the message. */
const CONTENT_BYTES_MAX = 30 * 1024 * 1024;
/** Advice for contents that exceed one answer. */
export const WANTED = `wanted at most ${CONTENT_BYTES_MAX}: ask without the contents, or for the URL of each`;

/** The number of leading items that fit into one answer with their contents. */
export function fittingItems(items: readonly BinaryItem[]): number {
  let bytes = 0;
  const over = items.findIndex((item) => (bytes += item.bytes) > CONTENT_BYTES_MAX);
  return over < 0 ? items.length : over;
}

/** The description of an image or file in an answer, with its content if requested, and the link to its content. */
export async function binaryMessage(
  files: FileStore,
  item: BinaryItem,
  includeBinary: boolean,
  uri = "",
): Promise<MessageInitShape<typeof BinaryDataSchema>> {
  const { id, tags, mimeType } = item;
  return {
    binary: includeBinary ? await readContent(files, item) : undefined,
    metadata: {
      id,
      binaryDataId: id,
      captureMetadata: { ...captureMetadata(item), tags: [...tags], mimeType },
      timeRequested: toTimestamp(item.capturedUs / 1000),
      timeReceived: toTimestamp(item.receivedUs / 1000),
      fileName: item.fileName,
      fileExt: item.fileExt,
      uri,
      annotations: {
        bboxes: item.boxes.map((box) => ({ id: box.id, ...boxFields(box) })),
        classifications: [...item.classifications],
      },
      datasetIds: [...item.datasetIds],
      fileSizeBytes: BigInt(item.bytes),
    },
  };
}

async function readContent(files: FileStore, { id, sha256, bytes }: BinaryItem): Promise<Uint8Array> {
  if (bytes > CONTENT_BYTES_MAX) {
    throw new SvcError("resource_exhausted", `the content of data "${id}" has ${bytes} bytes, ${WANTED}`);
  }
  const content = new Uint8Array(bytes);
  let at = 0;
  for await (const chunk of files.read(sha256)) {
    content.set(chunk, at);
    at += chunk.length;
  }
  return content;
}
