/**
 * The contents of a control plane in an S3-compatible store.
 *
 * Under the prefix, `contents/SHA256` are the contents, `uploads/UUID` uploads in progress, and `aside/SHA256/UUID`
 * contents that are being removed. A content gets its name when it is complete, because its sum is known only then.
 * Large contents are sent in parts as they arrive; small ones, which are most, in one request.
 *
 * The room owns the object store.
 */

import { createHash, randomUUID } from "node:crypto";
import { SvcError } from "../../../base/error.ts";
import type { DiskSpace } from "../disk_space.ts";
import {
  type FileStore,
  requireSameSum,
  requireSha256,
  SpacedFiles,
  type StoredFile,
  type Upload,
} from "../files.ts";
import type { S3Client, S3Object, S3Part } from "./s3_client.ts";
import { S3Refusal } from "./s3_refusal.ts";

export interface S3FilesOptions {
  /** Empty, or ends with a slash. */
  readonly prefix: string;
  /** Cleans up what has been unfinished since before this time. */
  readonly olderThanMs: number;
  /** The space of the database's disk. */
  readonly space?: DiskSpace;
}

/** Memory that an upload takes: it is sent in parts of this size. Stores want at least 5 MiB, and at most 10,000 parts. */
const PART_BYTES = 8 * 1024 * 1024;
/** Largest object that one request can copy within a store. */
const CONTENT_BYTES_MAX = 5 * 1024 ** 3;
/** The name of an upload. */
const UPLOAD = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;
/** How often reading is resumed after a broken connection without progress. */
const RESUMPTIONS_MAX = 3;

export class S3Files extends SpacedFiles implements FileStore {
  private constructor(
    private readonly client: S3Client,
    private readonly prefix: string,
    space: DiskSpace | undefined,
  ) {
    super(space);
  }

  /**
   * Throws `unavailable` if the store cannot be reached now, and `failed_precondition` if it refuses the key or has no
   * such bucket.
   */
  static async open(client: S3Client, { prefix, olderThanMs, space }: S3FilesOptions): Promise<S3Files> {
    const files = new S3Files(client, prefix, space);
    try {
      await files.#cleanUp(olderThanMs);
    } catch (cause) {
      if (!(cause instanceof S3Refusal && cause.isLasting)) throw cause;
      throw new SvcError("failed_precondition", cause.message, { cause });
    }
    return files;
  }

  /** Asks for the unfinished uploads: a short list, which needs no other right than the start. */
  async requireReachable(): Promise<void> {
    await this.client.list(`${this.prefix}uploads/`).next();
  }

  async receive(content: AsyncIterable<Uint8Array>, bytesMax = Infinity): Promise<Upload> {
    const limited = new Incoming(content, Math.min(bytesMax, CONTENT_BYTES_MAX));
    const first = await limited.part();
    return limited.isOver
      ? await this.#receiveSmall(first, limited)
      : await this.#receiveLarge(first, limited);
  }

  /** Stores a content that is completely in memory. */
  async #receiveSmall(whole: Uint8Array<ArrayBuffer>, incoming: Incoming): Promise<Upload> {
    const file = incoming.file();
    const publish = async () => {
      const key = this.#key(file.sha256);
      if (!await this.#has(key, file)) await this.client.put(key, whole);
    };
    await publish();
    return { file, keep: publish, abandon: () => Promise.resolve() };
  }

  async #receiveLarge(first: Uint8Array<ArrayBuffer>, incoming: Incoming): Promise<Upload> {
    const temporary = `${this.prefix}uploads/${randomUUID()}`;
    const uploadId = await this.client.beginUpload(temporary);
    try {
      const parts: S3Part[] = [await this.client.putPart(temporary, uploadId, 1, first)];
      while (!incoming.isOver) {
        const part = await incoming.part();
        parts.push(await this.client.putPart(temporary, uploadId, parts.length + 1, part));
      }
      await this.client.finishUpload(temporary, uploadId, parts);
    } catch (error) {
      await this.client.abandonUpload(temporary, uploadId).catch(() => {});
      throw error;
    }

    const file = incoming.file();
    const drop = () => this.client.remove(temporary);
    const publish = async () => {
      const key = this.#key(file.sha256);
      if (await this.#has(key, file)) return;
      if (!await this.client.copy(temporary, key)) {
        throw new SvcError("unavailable", "the upload was removed from the object store before its end");
      }
    };
    try {
      await publish();
    } catch (error) {
      await drop().catch(() => {});
      throw error;
    }
    return {
      file,
      keep: async () => {
        await publish();
        await drop();
      },
      abandon: drop,
    };
  }

  /** Whether the store has the whole content; one that has lost a part is written again. */
  async #has(key: string, { bytes }: StoredFile): Promise<boolean> {
    return await this.client.size(key) === bytes;
  }

  async *read(sha256: string, offset = 0): AsyncGenerator<Uint8Array> {
    const key = this.#key(sha256);
    const hash = createHash("sha256");
    let at = offset;
    let wanted: number | undefined;
    for (let resumptions = 0;; resumptions++) {
      const content = await this.client.get(key, at);
      if (!content) throw missing(sha256);
      const { bytes, pieces } = content;
      wanted ??= bytes ?? await this.size(sha256);
      const before = at;
      try {
        for await (const piece of pieces) {
          at += piece.length;
          if (at > wanted) throw damaged(sha256, `it has more than ${wanted} bytes`);
          if (offset === 0) hash.update(piece);
          // Detects a wrong sum before the reader has the whole content.
          if (at === wanted && offset === 0) requireSameSum(hash.digest("hex"), sha256);
          yield piece;
        }
      } catch (error) {
        if (SvcError.from(error).code !== "unavailable") throw error;
        if (at === before && resumptions === RESUMPTIONS_MAX) throw error;
      }
      if (at >= wanted) return;
      if (at > before) resumptions = 0;
      if (resumptions === RESUMPTIONS_MAX) {
        throw damaged(sha256, `it ends after ${at} of ${wanted} bytes`);
      }
    }
  }

  link(): Promise<boolean> {
    return Promise.resolve(false);
  }

  async size(sha256: string): Promise<number> {
    const bytes = await this.client.size(this.#key(sha256));
    if (bytes === undefined) throw missing(sha256);
    return bytes;
  }

  async *list({ olderThanMs }: { readonly olderThanMs: number }): AsyncGenerator<string> {
    const folder = `${this.prefix}contents/`;
    for await (const { key, modifiedMs } of this.client.list(folder)) {
      const sha256 = key.slice(folder.length);
      if (modifiedMs < olderThanMs && /^[0-9a-f]{64}$/.test(sha256)) yield sha256;
    }
  }

  async remove(sha256: string): Promise<void> {
    await this.client.remove(this.#key(sha256));
  }

  async removeUnless(sha256: string, isNeeded: () => Promise<boolean>): Promise<void> {
    const key = this.#key(sha256);
    const aside = `${this.prefix}aside/${sha256}/${randomUUID()}`;
    if (!await this.client.copy(key, aside)) return;
    await this.client.remove(key);
    // If the answer is unknown, the content stays.
    const needed = await isNeeded().catch((error) => ({ error }));
    if (needed !== false) await this.#restore(aside, sha256);
    await this.client.remove(aside);
    if (typeof needed === "object") throw needed.error;
  }

  async #restore(aside: string, sha256: string): Promise<void> {
    const key = this.#key(sha256);
    if (await this.client.size(key) === undefined) await this.client.copy(aside, key);
  }

  /**
   * Cleans up after killed processes: removes their uploads, and restores contents that they were removing, until these
   * are checked again.
   */
  async #cleanUp(olderThanMs: number): Promise<void> {
    const isOld = ({ modifiedMs }: { readonly modifiedMs: number }) => modifiedMs < olderThanMs;
    const uploads = `${this.prefix}uploads/`;
    // What others have put there is left alone.
    const isLeft = (one: S3Object) => isOld(one) && UPLOAD.test(one.key.slice(uploads.length));
    try {
      for await (const upload of this.client.uploads(uploads)) {
        if (isLeft(upload)) await this.client.abandonUpload(upload.key, upload.uploadId);
      }
    } catch (error) {
      // A store without such a list has its own rules for leftovers.
      if (SvcError.from(error).code !== "unimplemented") throw error;
    }
    for await (const object of this.client.list(uploads)) {
      if (isLeft(object)) await this.client.remove(object.key);
    }

    const asides = `${this.prefix}aside/`;
    for await (const object of this.client.list(asides)) {
      const [sha256 = ""] = object.key.slice(asides.length).split("/");
      if (!isOld(object) || !/^[0-9a-f]{64}$/.test(sha256)) continue;
      await this.#restore(object.key, sha256);
      await this.client.remove(object.key);
    }
  }

  #key(sha256: string): string {
    requireSha256(sha256);
    return `${this.prefix}contents/${sha256}`;
  }
}

/** An incoming content, cut into parts and summed. */
class Incoming {
  isOver = false;
  readonly #pieces: AsyncIterator<Uint8Array>;
  readonly #hash = createHash("sha256");
  #rest: Uint8Array = new Uint8Array();
  #bytes = 0;

  constructor(content: AsyncIterable<Uint8Array>, private readonly bytesMax: number) {
    this.#pieces = content[Symbol.asyncIterator]();
  }

  /** The next part; a shorter one is the last. Throws `resource_exhausted` for more than `bytesMax` bytes. */
  async part(): Promise<Uint8Array<ArrayBuffer>> {
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    while (bytes < PART_BYTES) {
      if (this.#rest.length === 0 && !await this.#next()) break;
      const piece = this.#rest.subarray(0, PART_BYTES - bytes);
      this.#rest = this.#rest.subarray(piece.length);
      pieces.push(piece);
      bytes += piece.length;
    }

    const part = new Uint8Array(bytes);
    let at = 0;
    for (const piece of pieces) {
      part.set(piece, at);
      at += piece.length;
    }
    // Reads ahead, because the end is known only one piece later.
    if (!this.isOver && this.#rest.length === 0) await this.#next();
    return part;
  }

  /** The sum and length, when it is over. */
  file(): StoredFile {
    return { sha256: this.#hash.digest("hex"), bytes: this.#bytes };
  }

  async #next(): Promise<boolean> {
    while (!this.isOver) {
      const { done, value } = await this.#pieces.next();
      if (done) {
        this.isOver = true;
        return false;
      }
      this.#bytes += value.length;
      if (this.#bytes > this.bytesMax) {
        await this.#pieces.return?.();
        throw new SvcError(
          "resource_exhausted",
          `the file is too large, wanted at most ${this.bytesMax} bytes`,
        );
      }
      this.#hash.update(value);
      this.#rest = value;
      if (value.length > 0) return true;
    }
    return false;
  }
}

function missing(sha256: string): SvcError {
  return new SvcError("not_found", `there is no file ${sha256}`);
}

function damaged(sha256: string, what: string): SvcError {
  return new SvcError("data_loss", `the file ${sha256} is damaged in the object store: ${what}`);
}
