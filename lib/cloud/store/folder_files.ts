/**
 * The contents of a control plane in a folder.
 *
 * A file is written under a temporary name, synced and then renamed, so that a named file is complete
 * and survives a power loss. Control planes that share a database share this folder too.
 */

import { createHash, randomUUID } from "node:crypto";
import { dirname, join } from "node:path";
import {
  FileError,
  type LogFiles,
  type ReadFiles,
  TEMPORARY,
  type WriteFiles,
} from "../../base/files/files.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { DiskHold, DiskSpace } from "./disk_space.ts";
import {
  checkedPieces,
  type FileStore,
  requireSha256,
  SpacedFiles,
  type StoredFile,
  type Upload,
} from "./files.ts";

export interface FolderFilesOptions {
  /** Unfinished files of before this time are removed. */
  readonly olderThanMs: number;
  /** Keeps a reserve of the disk free; by default files may fill the disk. */
  readonly space?: DiskSpace;
}

type StoreFiles = ReadFiles & WriteFiles & LogFiles;

/** Contents whose checked sums are remembered. */
const CHECKED_MAX = 50_000;
/** Permission of everybody to read. */
const READABLE = 0o004;

export class FolderFiles extends SpacedFiles implements FileStore {
  /** Contents with the right sum, and the size and the time of their files then. */
  readonly #checked = new Map<string, string>();

  private constructor(
    private readonly disk: StoreFiles,
    private readonly folder: string,
    space: DiskSpace | undefined,
  ) {
    super(space);
  }

  /** Opens the folder, creates it if it is missing, and removes what an earlier process did not finish. */
  static async open(
    disk: StoreFiles,
    folder: string,
    { olderThanMs, space }: FolderFilesOptions,
  ): Promise<FolderFiles> {
    return await attempt(`open the folder ${folder}`, async () => {
      await disk.makeFolder(folder, { mode: 0o700 });
      for (const name of await disk.readFolder(folder)) {
        if (!name.endsWith(TEMPORARY)) continue;
        const path = join(folder, name);
        // Another process may be writing a younger one.
        const found = await disk.stat(path);
        if (found && found.modifiedMs < olderThanMs) await disk.remove(path);
      }
      return new FolderFiles(disk, folder, space);
    });
  }

  /** Does nothing: `diskState` finds a folder that is gone. */
  requireReachable(): Promise<void> {
    return Promise.resolve();
  }

  /** A second name holds the content until `keep` or `abandon`. */
  async receive(content: AsyncIterable<Uint8Array>, bytesMax = Infinity): Promise<Upload> {
    const temporary = join(this.folder, `${randomUUID()}${TEMPORARY}`);
    const drop = () => this.disk.remove(temporary);
    return await attempt(`write a file to ${this.folder}`, async () => {
      // Before the first piece is read, so that the uploader learns at once if there is no space.
      const hold = await this.space?.hold();
      try {
        const file = await write(this.disk, temporary, held(content, hold), bytesMax);
        const path = this.#path(file.sha256);
        await this.disk.makeFolder(dirname(path));
        await this.#publish(temporary, path);
        await this.#repair(temporary, path, file);
        return {
          file,
          keep: () =>
            attempt(`keep the file ${file.sha256}`, async () => {
              await this.#publish(temporary, path);
              await drop();
            }),
          abandon: drop,
        };
      } catch (error) {
        await drop();
        throw error;
      } finally {
        hold?.release();
      }
    });
  }

  async *read(sha256: string, offset = 0): AsyncGenerator<Uint8Array> {
    await this.size(sha256);
    yield* this.disk.readPieces(this.#path(sha256), offset);
  }

  async link(sha256: string, path: string): Promise<boolean> {
    const own = this.#path(sha256);
    const facts = await this.disk.findFile(own);
    if (!facts) throw missing(sha256);
    if ((facts.mode & READABLE) === 0) return false;
    await this.#requireChecked(sha256, `${facts.sizeBytes} ${facts.modifiedMs}`);
    try {
      await this.disk.addName(own, path);
      return true;
    } catch (error) {
      if (SvcError.from(error).code === "not_found") throw missing(sha256);
      // Another disk, or one without second names.
      return false;
    }
  }

  /** Reads a content whose file is not as it was when it was last read. */
  async #requireChecked(sha256: string, state: string): Promise<void> {
    if (this.#checked.get(sha256) === state) return;
    for await (const _ of checkedPieces(this.disk.readPieces(this.#path(sha256)), sha256));
    if (this.#checked.size >= CHECKED_MAX) this.#checked.clear();
    this.#checked.set(sha256, state);
  }

  async size(sha256: string): Promise<number> {
    const found = await this.disk.fileSize(this.#path(sha256));
    if (found === undefined) throw missing(sha256);
    return found;
  }

  async *list({ olderThanMs }: { olderThanMs: number }): AsyncGenerator<string> {
    for (
      const folder of (await this.disk.readFolder(this.folder)).filter((name) => /^[0-9a-f]{2}$/.test(name))
    ) {
      for (const name of await this.disk.readFolder(join(this.folder, folder))) {
        const found = await this.disk.stat(join(this.folder, folder, name));
        if (found && found.modifiedMs < olderThanMs) yield name;
      }
    }
  }

  async remove(sha256: string): Promise<void> {
    await attempt(`remove the file ${sha256}`, () => this.disk.remove(this.#path(sha256)));
  }

  async removeUnless(sha256: string, isNeeded: () => Promise<boolean>): Promise<void> {
    const path = this.#path(sha256);
    const aside = join(this.folder, `${randomUUID()}${TEMPORARY}`);
    await attempt(`remove the file ${sha256}`, async () => {
      try {
        this.disk.moveFile(path, aside);
      } catch (error) {
        if (SvcError.from(error).code === "not_found") return;
        throw error;
      }
      // If the answer is unknown, the content stays.
      const needed = await isNeeded().catch((error) => ({ error }));
      if (needed !== false) await this.#publish(aside, path);
      await this.disk.remove(aside);
      if (typeof needed === "object") throw needed.error;
    });
  }

  /** Names a file, unless its content exists already. */
  async #publish(from: string, path: string): Promise<void> {
    try {
      await this.disk.addName(from, path);
    } catch (error) {
      if (SvcError.from(error).code === "already_exists") return;
      throw error;
    }
    await this.disk.syncFolder(dirname(path));
    await this.disk.syncFolder(this.folder);
  }

  /** Replaces a content that has lost a part, by the same one that has just arrived. */
  async #repair(arrived: string, path: string, { bytes }: StoredFile): Promise<void> {
    const found = await this.disk.fileSize(path);
    if (found === undefined || found === bytes) return;
    const whole = join(this.folder, `${randomUUID()}${TEMPORARY}`);
    await this.disk.addName(arrived, whole);
    this.disk.moveFile(whole, path);
    await this.disk.syncFolder(dirname(path));
  }

  #path(sha256: string): string {
    requireSha256(sha256);
    return join(this.folder, sha256.slice(0, 2), sha256);
  }
}

function missing(sha256: string): SvcError {
  return new SvcError("not_found", `there is no file ${sha256}`);
}

/** The pieces of a content, each when there is space for it. */
async function* held(
  content: AsyncIterable<Uint8Array>,
  hold: DiskHold | undefined,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of content) {
    await hold?.grow(chunk.length);
    yield chunk;
  }
}

async function write(
  disk: StoreFiles,
  path: string,
  content: AsyncIterable<Uint8Array>,
  bytesMax: number,
): Promise<StoredFile> {
  const hash = createHash("sha256");
  let bytes = 0;
  const file = await disk.open(path, "exclusive");
  try {
    for await (const chunk of content) {
      bytes += chunk.length;
      if (bytes > bytesMax) {
        throw new SvcError("resource_exhausted", `the file is too large, wanted at most ${bytesMax} bytes`);
      }
      hash.update(chunk);
      await file.write(chunk);
    }
    await file.sync();
  } finally {
    file.close();
  }
  return { sha256: hash.digest("hex"), bytes };
}

async function attempt<T>(what: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    if (cause instanceof SvcError && !(cause instanceof FileError)) throw cause;
    if (cause instanceof FileError && cause.code === "resource_exhausted") {
      // The error for callers must not show paths.
      throw new SvcError("resource_exhausted", "the disk of the control plane is full", { cause });
    }
    throw new SvcError("unavailable", `cannot ${what}: ${messageOf(cause)}`, { cause });
  }
}
