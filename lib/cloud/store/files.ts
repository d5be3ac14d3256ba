/**
 * Content-addressed files: complete, immutable, and found by the SHA-256 of their content.
 *
 * This is the port; the files are in a folder (`folder_files.ts`) or in an object store (`s3/s3_files.ts`). Control planes
 * that share a database share the files, too.
 */

import { createHash } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import type { DiskSpace, DiskState, DiskUse } from "./disk_space.ts";

/** A stored content that cannot be removed meanwhile, whatever others do to a content with the same hash. */
export interface Upload {
  readonly file: StoredFile;
  /** The uploader refers to it: from here on it exists as long as it has a reference. */
  keep(): Promise<void>;
  /** The upload has failed. The content stays, because others may refer to it: see `releaseFile`. */
  abandon(): Promise<void>;
}

export interface StoredFile {
  /** 64 hexadecimal digits. */
  readonly sha256: string;
  readonly bytes: number;
}

/** Every call throws `unavailable` if the files cannot be reached. */
export interface FileStore {
  /** Call it before `bytes` are stored in the database. Throws `resource_exhausted` if they would use its reserve. */
  requireSpace(use: DiskUse, bytes: number): Promise<void>;

  /** The state of the database's disk; `undefined` if no reserve is kept. */
  diskState(): Promise<DiskState | undefined>;

  /** Asks the place of the files with one cheap request. Throws `unavailable` if it cannot be used now. */
  requireReachable(): Promise<void>;

  /** Stores a content. Throws `resource_exhausted` for more than `bytesMax` bytes. */
  put(content: AsyncIterable<Uint8Array>, bytesMax?: number): Promise<StoredFile>;

  /** The same while others may remove the content. */
  receive(content: AsyncIterable<Uint8Array>, bytesMax?: number): Promise<Upload>;

  /** The content from byte `offset` on. Throws `not_found`. */
  read(sha256: string, offset?: number): AsyncGenerator<Uint8Array>;

  /**
   * Gives the content, once its sum has been checked, another name on the same disk, where everybody may read it and
   * nobody may write. Returns whether it can. Throws `not_found`, and `data_loss` for a wrong sum.
   */
  link(sha256: string, path: string): Promise<boolean>;

  /** Bytes of the content. Throws `not_found`. */
  size(sha256: string): Promise<number>;

  /** The hashes of all contents stored before a time. */
  list(range: { readonly olderThanMs: number }): AsyncGenerator<string>;

  remove(sha256: string): Promise<void>;

  /** Removes a content unless `isNeeded`, called while nobody can find the content, says otherwise. */
  removeUnless(sha256: string, isNeeded: () => Promise<boolean>): Promise<void>;
}

/** The common part of all file stores. */
export abstract class SpacedFiles {
  /** @param space where a reserve is kept; by default nowhere */
  constructor(protected readonly space: DiskSpace | undefined) {}

  async requireSpace(use: DiskUse, bytes: number): Promise<void> {
    await this.space?.require(use, bytes);
  }

  async diskState(): Promise<DiskState | undefined> {
    return await this.space?.state();
  }

  async put(content: AsyncIterable<Uint8Array>, bytesMax = Infinity): Promise<StoredFile> {
    const upload = await this.receive(content, bytesMax);
    await upload.keep();
    return upload.file;
  }

  abstract receive(content: AsyncIterable<Uint8Array>, bytesMax?: number): Promise<Upload>;
}

/** Throws `invalid_argument` unless the text is a SHA-256 in hexadecimal digits. */
export function requireSha256(text: string): void {
  if (!/^[0-9a-f]{64}$/.test(text)) throw new SvcError("invalid_argument", `"${text}" is no SHA-256`);
}

/** A content's pieces. Throws `data_loss` after the last one unless the content has the sum that names it. */
export async function* checkedPieces<T extends Uint8Array>(
  pieces: AsyncIterable<T>,
  sha256: string,
): AsyncGenerator<T> {
  const hash = createHash("sha256");
  for await (const piece of pieces) {
    hash.update(piece);
    yield piece;
  }
  requireSameSum(hash.digest("hex"), sha256);
}

/** Throws `data_loss` unless a content has the sum that names it. */
export function requireSameSum(found: string, wanted: string): void {
  if (found !== wanted) throw new SvcError("data_loss", `the file ${wanted} is damaged: its sum is ${found}`);
}
