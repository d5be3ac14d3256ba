/**
 * Where the contents of a control plane are: a folder, or an S3-compatible store.
 *
 * The room owns the choice of that place, and the command that moves contents from one to another.
 */

import { resolve } from "node:path";
import type { Clock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { type Logger, silentLogs } from "../../../lib/base/log/log.ts";
import { defaultLimits, type Limits } from "../../../lib/cloud/access/limits.ts";
import { DiskSpace } from "../../../lib/cloud/store/disk_space.ts";
import type { FileStore } from "../../../lib/cloud/store/files.ts";
import { findLack } from "../../../lib/cloud/store/file_refs.ts";
import { FolderFiles } from "../../../lib/cloud/store/folder_files.ts";
import { MovingFiles } from "../../../lib/cloud/store/moving_files.ts";
import { findS3Credentials, isS3Address, parseS3Address } from "../../../lib/cloud/store/s3/s3_address.ts";
import type { Store } from "../../../lib/cloud/store/store.ts";

/** Age after which an unfinished upload counts as abandoned by a dead process. */
const UNFINISHED_MS = 24 * 3600 * 1000;

export interface ContentsAddress {
  /** The data folder. */
  readonly data: string;
  /** A folder or an address; empty: the folder `files` of the data folder. */
  readonly files: string;
}

export interface ContentsOptions {
  readonly limits?: Limits;
  /** Hears of a disk that fills up. */
  readonly logger?: Logger;
}

/** The contents for `serve`, which are readable in their former place too while they move. */
export async function openServedContents(
  { data, files, filesBefore }: ContentsAddress & { readonly filesBefore: string },
  host: Host,
  clock: Clock,
  options: ContentsOptions,
): Promise<FileStore> {
  const now = await openContents({ data, files }, host, clock, options);
  if (filesBefore === "") return now;
  const before = await openContents({ data, files: filesBefore }, host, clock, options);
  return new MovingFiles(now, before);
}

/** Throws `failed_precondition` if the rows refer to contents, and none of these is in the place. */
export async function requireContents(
  store: Store,
  files: FileStore,
  { data, files: named }: ContentsAddress,
  { isLost = false, logger }: { readonly isLost?: boolean; readonly logger?: Logger } = {},
): Promise<void> {
  const place = named === "" ? `${data}/files` : named;
  const lack = await findLack(store, files, { place, isLost });
  if (lack === undefined) return;
  const found = `none of the contents that the database refers to is in ${place}`;
  if (lack === "lost") {
    return logger?.warn(`${found}: uploads of before are lost, and downloads of them fail`);
  }
  throw new SvcError(
    "failed_precondition",
    `${found}: is its disk mounted, and is it the place where they are (--files or SVC_CLOUD_FILES)? If they are ` +
      "lost for good, svc-cloud serve --contents-lost goes on without them",
  );
}

/** Opens the contents. Control planes that share a database share them, too. */
export async function openContents(
  { data, files }: ContentsAddress,
  host: Host,
  clock: Clock,
  { limits = defaultLimits(), logger = silentLogs(clock).logger("files") }: ContentsOptions = {},
): Promise<FileStore> {
  const olderThanMs = clock.nowMs() - UNFINISHED_MS;
  const reserveBytes = limits.diskReserveBytes;
  const spaceIn = (folder: string) => new DiskSpace({ disk: host, folder, reserveBytes, clock, logger });
  if (!isS3Address(files)) {
    const folder = files === "" ? `${data}/files` : resolve(host.cwd(), files);
    return await FolderFiles.open(host, folder, {
      olderThanMs,
      space: spaceIn(files === "" ? data : folder),
    });
  }

  const env = (name: string) => host.env(name) || undefined;
  const address = parseS3Address(files, env);
  const findCredentials = () => findS3Credentials(env, host);
  const { S3Client } = await import("../../../lib/cloud/store/s3/s3_client.ts");
  const { S3Files } = await import("../../../lib/cloud/store/s3/s3_files.ts");
  const credentials = await findCredentials();
  const client = new S3Client({ address, credentials, findCredentials, clock, logger });
  return await S3Files.open(client, { prefix: address.prefix, olderThanMs, space: spaceIn(data) });
}
