/**
 * The files of readings that one query sees, in a folder of its own.
 *
 * A content lies there under its sum, once the sum has been checked: as a second name of the file in the store where that
 * is possible, otherwise as a copy. The query's process reads the folder and cannot write to it. The folder goes with the
 * query, so that removed readings stay there no longer than a query takes.
 */

import { join } from "node:path";
import { SvcError } from "../../../base/error.ts";
import type { ReadFiles, WriteFiles } from "../../../base/files/files.ts";
import { checkedPieces, type FileStore } from "../../store/files.ts";

export type StagingDisk = Pick<ReadFiles, "freeBytes" | "realPath"> & WriteFiles;

type Content = { readonly sha256: string; readonly fileBytes: number };

/** Limit of the copies for one query, and the space that they leave to everybody else. */
const COPIES_BYTES_MAX = 2 * 1024 ** 3;
const RESERVE_BYTES = 512 * 1024 ** 2;
const PREFIX = "svc-readings-";
const MIB = 1024 ** 2;

/** Makes an empty folder that processes of other users may read; returns its path without links. */
export async function makeStagingFolder(
  disk: Pick<StagingDisk, "realPath"> & WriteFiles,
  parent?: string,
): Promise<string> {
  const made = parent === undefined
    ? await disk.temporaryFolder(PREFIX)
    : join(parent, `${PREFIX}${crypto.randomUUID()}`);
  await disk.makeFolder(made);
  // The process may run as another user.
  await disk.setMode(made, 0o755);
  return await disk.realPath(made);
}

export class StagedFiles {
  readonly #placed = new Map<string, Promise<void>>();
  #copiedBytes = 0;
  #isClosed = false;

  private constructor(
    private readonly files: FileStore,
    private readonly disk: StagingDisk,
    /** Without links on its way, because the process sees it at this path. */
    readonly folder: string,
  ) {}

  /** @param parent on the disk of the store's files, if they are on one; by default a temporary folder */
  static async open(files: FileStore, disk: StagingDisk, parent?: string): Promise<StagedFiles> {
    return new StagedFiles(files, disk, await makeStagingFolder(disk, parent));
  }

  /**
   * Puts a content there, unless it is there. Throws `not_found`, `data_loss` for a wrong sum, `resource_exhausted` if
   * there is no space for a copy, `canceled` once it is closed.
   */
  async place(content: Content): Promise<void> {
    // Files are placed ahead of a query, which may need none of them.
    if (this.#isClosed) throw new SvcError("canceled", "the query is over");
    const { sha256 } = content;
    const placing = this.#placed.get(sha256) ?? this.#put(content);
    this.#placed.set(sha256, placing);
    try {
      await placing;
    } catch (error) {
      this.#placed.delete(sha256);
      throw error;
    }
  }

  /** Removes the folder. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#placed.values());
    await this.disk.removeTree(this.folder);
  }

  async #put({ sha256, fileBytes }: Content): Promise<void> {
    const path = join(this.folder, sha256);
    if (await this.files.link(sha256, path)) return;
    await this.#requireSpace(fileBytes);
    try {
      await this.disk.createFile(path, checkedPieces(this.files.read(sha256), sha256));
      await this.disk.setMode(path, 0o644);
    } catch (error) {
      await this.disk.remove(path);
      throw error;
    }
  }

  async #requireSpace(bytes: number): Promise<void> {
    this.#copiedBytes += bytes;
    const hint = "restrict the query by names or times";
    if (this.#copiedBytes > COPIES_BYTES_MAX) {
      const wanted = `wanted at most ${COPIES_BYTES_MAX / MIB}`;
      const found = `files of ${Math.ceil(this.#copiedBytes / MIB)} MiB have its readings`;
      throw new SvcError("resource_exhausted", `the query: ${found}, ${wanted}: ${hint}`);
    }
    if (await this.disk.freeBytes(this.folder) > RESERVE_BYTES + bytes) return;
    throw new SvcError("resource_exhausted", `the control plane has no space for the query's files: ${hint}`);
  }
}
