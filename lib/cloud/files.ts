/**
 * Files by what is in them: whole, immutable, and found by the SHA-256 of their content.
 *
 * Owns one folder. A file is written under another name, synced and then renamed, so that what has a name is whole
 * and outlives a power loss. Control planes that share a database share this folder too.
 */

import { createHash, randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, SvcError } from "../base/error.ts";

export interface StoredFile {
  /** 64 hexadecimal digits. */
  readonly sha256: string;
  readonly bytes: number;
}

const TEMPORARY = ".tmp";

export class FileStore {
  private constructor(private readonly folder: string) {}

  /** Opens the folder, made where there is none, and clears away what an earlier process did not finish. */
  static async open(folder: string, { olderThanMs }: { olderThanMs: number }): Promise<FileStore> {
    return await attempt(`open the folder ${folder}`, async () => {
      await mkdir(folder, { recursive: true });
      for (const name of await readdir(folder)) {
        const path = join(folder, name);
        // A younger one may be what another process is writing.
        if (name.endsWith(TEMPORARY) && (await stat(path)).mtimeMs < olderThanMs) {
          await rm(path, { force: true });
        }
      }
      return new FileStore(folder);
    });
  }

  /** Keeps a content. Throws `resource_exhausted` where it has more than `bytesMax` bytes. */
  async put(content: AsyncIterable<Uint8Array>, bytesMax = Infinity): Promise<StoredFile> {
    const temporary = join(this.folder, `${randomUUID()}${TEMPORARY}`);
    return await attempt(`write a file to ${this.folder}`, async () => {
      try {
        const stored = await write(temporary, content, bytesMax);
        const path = this.#path(stored.sha256);
        await mkdir(join(path, ".."), { recursive: true });
        await rename(temporary, path);
        await syncFolder(join(path, ".."));
        await syncFolder(this.folder);
        return stored;
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
    });
  }

  /** The content from byte `offset` on. Throws `not_found`. */
  async *read(sha256: string, offset = 0): AsyncGenerator<Uint8Array> {
    await this.size(sha256);
    for await (const chunk of createReadStream(this.#path(sha256), { start: offset })) yield chunk;
  }

  /** Bytes of the content. Throws `not_found`. */
  async size(sha256: string): Promise<number> {
    try {
      return (await stat(this.#path(sha256))).size;
    } catch (cause) {
      throw new SvcError("not_found", `there is no file ${sha256}`, { cause });
    }
  }

  async remove(sha256: string): Promise<void> {
    await attempt(`remove the file ${sha256}`, () => rm(this.#path(sha256), { force: true }));
  }

  #path(sha256: string): string {
    if (!/^[0-9a-f]{64}$/.test(sha256)) throw new SvcError("invalid_argument", `"${sha256}" is no SHA-256`);
    return join(this.folder, sha256.slice(0, 2), sha256);
  }
}

async function write(
  path: string,
  content: AsyncIterable<Uint8Array>,
  bytesMax: number,
): Promise<StoredFile> {
  const hash = createHash("sha256");
  let bytes = 0;
  const file = await open(path, "wx");
  try {
    for await (const chunk of content) {
      bytes += chunk.length;
      if (bytes > bytesMax) {
        throw new SvcError("resource_exhausted", `the file is too large, wanted at most ${bytesMax} bytes`);
      }
      hash.update(chunk);
      for (let at = 0; at < chunk.length;) at += (await file.write(chunk, at)).bytesWritten;
    }
    await file.sync();
  } finally {
    await file.close();
  }
  return { sha256: hash.digest("hex"), bytes };
}

/** Makes a rename durable; where folders cannot be opened, as on Windows, it needs nothing. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r").catch(() => undefined);
  await folder?.sync().catch(() => {});
  await folder?.close();
}

async function attempt<T>(what: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    const code = (cause as { code?: string }).code === "ENOSPC" ? "resource_exhausted" : "unavailable";
    throw new SvcError(code, `cannot ${what}: ${messageOf(cause)}`, { cause });
  }
}
