/**
 * Files of a machine brought to its control plane because a client asked for it: one, or all below a folder.
 */

import { extname } from "node:path";
import { DataType, type UploadMetadata } from "../../proto/gen/datasync_pb.ts";
import { toTimestamp } from "../api/time.ts";
import { chainOf, SvcError } from "../base/error.ts";
import type { FoundFile, Host } from "../base/host.ts";
import type { Logger } from "../base/log.ts";
import type { CloudClient } from "./client.ts";
import { pieces } from "./data_uplink.ts";

export interface PathUploadParts {
  readonly client: Pick<CloudClient, "partId" | "dataSync">;
  readonly host: Pick<Host, "filesAt" | "readPieces">;
  readonly logger: Logger;
}

export interface PathUpload {
  readonly filesUploaded: number;
  readonly filesFailed: number;
  readonly bytesUploaded: number;
  /** Of all files that were found. */
  readonly bytesTotal: number;
  /** Of the stored data, in the order of the paths. */
  readonly ids: readonly string[];
}

/**
 * Uploads what is at `path`; `metadata` is what it is filed under. A file that fails does not stop the others, and is
 * told in the log; where not one arrives the first error is thrown, and `not_found` where there is nothing at all.
 */
export async function uploadPath(
  path: string,
  metadata: UploadMetadata | undefined,
  { client, host, logger }: PathUploadParts,
  signal: AbortSignal,
): Promise<PathUpload> {
  if (path === "") {
    throw new SvcError("invalid_argument", "path: missing, wanted a file or folder of the machine");
  }
  const files = await host.filesAt(path);
  if (files.length === 0) throw new SvcError("not_found", `there is no file in ${path}`);
  const ids: string[] = [];
  let bytesUploaded = 0;
  let failure: SvcError | undefined;
  for (const file of files) {
    try {
      ids.push(await upload(file, files.length === 1 ? metadata?.fileName : undefined));
      bytesUploaded += file.sizeBytes;
    } catch (error) {
      signal.throwIfAborted();
      failure ??= SvcError.from(error);
      logger.warn(`${file.path} was not uploaded: ${chainOf(error)}`);
    }
  }
  if (failure && ids.length === 0) throw failure;
  const bytesTotal = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const filesFailed = files.length - ids.length;
  return { filesUploaded: ids.length, filesFailed, bytesUploaded, bytesTotal, ids };

  async function upload({ path, name, modifiedMs }: FoundFile, givenName?: string): Promise<string> {
    const { $typeName: _, $unknown: __, ...given } = metadata ?? {} as Partial<UploadMetadata>;
    const value = {
      ...given,
      partId: client.partId,
      type: given.type || DataType.FILE,
      fileName: givenName || name,
      fileExtension: given.fileExtension || extname(name),
      fileModifyTime: given.fileModifyTime ?? toTimestamp(modifiedMs),
    };
    const requests = async function* () {
      yield { uploadPacket: { case: "metadata" as const, value } };
      for await (const read of host.readPieces(path)) {
        for (const data of pieces(read)) {
          yield { uploadPacket: { case: "fileContents" as const, value: { data } } };
        }
      }
    };
    const answer = await client.dataSync(signal, (sync, options) => sync.fileUpload(requests(), options));
    return answer.binaryDataId;
  }
}
