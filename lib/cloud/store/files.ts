/**
 * Files by what is in them: whole, immutable, and found by the SHA-256 of their content.
 *
 * Owns one folder. A file is written under another name, synced and then named, so that what has a name is whole
 * and outlives a power loss. Control planes that share a database share this folder too.
 */

import { createHash, randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { link, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, SvcError } from "../../base/error.ts";

/** A content that has come in, and that stays whatever others do to the one of the same hash. */
export interface Upload {
  readonly file: StoredFile;
  /** Whoever uploads it refers to it by now: from here on it is there for as long as somebody does. */
  settle(): Promise<void>;
  /** Nothing has come of the upload. The content stays, as others may refer to it: see `releaseFile`. */
  abandon(): Promise<void>;
}

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
    const upload = await this.receive(content, bytesMax);
    await upload.settle();
    return upload.file;
  }

  /** The same where others may remove the content at the same time: it is held under a second name until settled. */
  async receive(content: AsyncIterable<Uint8Array>, bytesMax = Infinity): Promise<Upload> {
    const temporary = join(this.folder, `${randomUUID()}${TEMPORARY}`);
    const drop = () => rm(temporary, { force: true });
    return await attempt(`write a file to ${this.folder}`, async () => {
      try {
        const file = await write(temporary, content, bytesMax);
        const path = this.#path(file.sha256);
        await mkdir(join(path, ".."), { recursive: true });
        await this.#publish(temporary, path);
        return {
          file,
          settle: () =>
            attempt(`keep the file ${file.sha256}`, async () => {
              await this.#publish(temporary, path);
              await drop();
            }),
          abandon: drop,
        };
      } catch (error) {
        await drop();
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

  /** The hashes of all contents that came before a time. */
  async *list({ olderThanMs }: { olderThanMs: number }): AsyncGenerator<string> {
    for (const folder of (await readdir(this.folder)).filter((name) => /^[0-9a-f]{2}$/.test(name))) {
      for (const name of await readdir(join(this.folder, folder))) {
        const found = await stat(join(this.folder, folder, name)).catch(() => undefined);
        if (found && found.mtimeMs < olderThanMs) yield name;
      }
    }
  }

  async remove(sha256: string): Promise<void> {
    await attempt(`remove the file ${sha256}`, () => rm(this.#path(sha256), { force: true }));
  }

  /** Removes a content unless `isNeeded` says otherwise, which is asked while nobody can find the content. */
  async removeUnless(sha256: string, isNeeded: () => Promise<boolean>): Promise<void> {
    const path = this.#path(sha256);
    const aside = join(this.folder, `${randomUUID()}${TEMPORARY}`);
    await attempt(`remove the file ${sha256}`, async () => {
      try {
        await rename(path, aside);
      } catch (error) {
        if ((error as { code?: string }).code === "ENOENT") return;
        throw error;
      }
      // Where it cannot be known, the content stays.
      const needed = await isNeeded().catch((error) => ({ error }));
      if (needed !== false) await this.#publish(aside, path);
      await rm(aside, { force: true });
      if (typeof needed === "object") throw needed.error;
    });
  }

  /** Gives a file its name, unless its content is there already. */
  async #publish(from: string, path: string): Promise<void> {
    try {
      await link(from, path);
    } catch (error) {
      if ((error as { code?: string }).code === "EEXIST") return;
      throw error;
    }
    await syncFolder(join(path, ".."));
    await syncFolder(this.folder);
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
