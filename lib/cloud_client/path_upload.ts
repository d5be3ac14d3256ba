/**
 * Uploads files of a machine at a client's request: one file, or all files below a folder.
 *
 * The client may be somebody who must not read everything on the machine's computer: `rules` say which paths are open,
 * and each file is opened without following a link.
 */

import { extname } from "node:path";
import { DataType, type UploadMetadata } from "../../proto/gen/datasync_pb.ts";
import { toTimestamp } from "../api/shared/time.ts";
import type { FoundFile, ReadFiles } from "../base/files/files.ts";
import { AllowedPaths, type PathRules } from "../base/files/path_rules.ts";
import { chainOf, SvcError } from "../base/error.ts";
import type { Logger } from "../base/log/log.ts";
import type { CloudClient } from "./client.ts";
import { uploadFile } from "./data_uploader.ts";

export interface PathUploadParts {
  readonly client: Pick<CloudClient, "partId" | "dataSync">;
  readonly host: ReadFiles;
  /** The paths that clients may name. */
  readonly rules: PathRules;
  readonly logger: Logger;
}

export interface PathUpload {
  readonly filesUploaded: number;
  readonly filesFailed: number;
  readonly bytesUploaded: number;
  /** Count of all files found. */
  readonly bytesTotal: number;
  /** Ids of the stored data, in the order of the paths. */
  readonly ids: readonly string[];
}

/**
 * Uploads the files at `path`, filed under `metadata`. A failed file does not stop the others and is logged; if every
 * file fails, throws the first error. Throws `permission_denied` for a path outside of the rules, and `not_found` if
 * there is no file.
 */
export async function uploadPath(
  path: string,
  metadata: Partial<UploadMetadata> = {},
  parts: PathUploadParts,
  signal: AbortSignal,
): Promise<PathUpload> {
  if (path === "") {
    throw new SvcError("invalid_argument", "path: missing, wanted a file or folder of the machine");
  }
  const allowed = await AllowedPaths.of(parts.rules, parts.host);
  const files = await parts.host.filesAt(await allowed.realPath(path));
  if (files.length === 0) throw new SvcError("not_found", `there is no file in ${path}`);
  // A given name applies to a single file.
  const given = files.length === 1 ? metadata : { ...metadata, fileName: "" };
  const ids: string[] = [];
  let bytesUploaded = 0;
  let failure: SvcError | undefined;
  for (const file of files) {
    try {
      allowed.require(file.path);
      ids.push(await upload(file, given, parts, signal));
      bytesUploaded += file.sizeBytes;
    } catch (error) {
      signal.throwIfAborted();
      failure ??= SvcError.from(error);
      parts.logger.warn(`${file.path} was not uploaded: ${chainOf(error)}`);
    }
  }
  if (failure && ids.length === 0) throw failure;
  const bytesTotal = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const filesFailed = files.length - ids.length;
  return { filesUploaded: ids.length, filesFailed, bytesUploaded, bytesTotal, ids };
}

/** Returns the id of the stored data. */
async function upload(
  { path, name }: FoundFile,
  { $typeName: _, $unknown: __, ...given }: Partial<UploadMetadata>,
  { client, host }: PathUploadParts,
  signal: AbortSignal,
): Promise<string> {
  const file = await host.openUnlinked(path);
  try {
    const metadata = {
      ...given,
      partId: client.partId,
      type: given.type || DataType.FILE,
      fileName: given.fileName || name,
      fileExtension: given.fileExtension || extname(name),
      fileModifyTime: given.fileModifyTime ?? toTimestamp(file.modifiedMs),
    };
    return await client.dataSync(signal, (sync, options) => {
      return uploadFile(sync, metadata, file.pieces(), options);
    });
  } finally {
    await file.close();
  }
}
