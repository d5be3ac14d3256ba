/**
 * Removes readings from files.
 *
 * A file all of whose readings go is dropped; of another one a new content is written without them, and takes its place
 * in one transaction. Readings go into files, never back, so whoever removes from the table first, and then here,
 * removes all.
 */

import { onePiece } from "../../base/files/byte_reader.ts";
import { SvcError } from "../../base/error.ts";
import type { TurnCaller } from "../../base/async/fair_queue.ts";
import type { Conditions } from "../capture/filter.ts";
import { keepFile, releaseFile } from "../store/file_refs.ts";
import type { FileStore } from "../store/files.ts";
import { dropStoredBytes } from "../store/stored_bytes.ts";
import type { Sql, Store } from "../store/store.ts";
import { READING_FILE_BYTES_MAX, type ReadingPacker } from "./packer.ts";
import type { FileTimes } from "./reading_file.ts";
import { type IndexedFile, isAllWithin, ReadingFiles } from "./reading_files.ts";

export interface RemovalParts {
  readonly store: Store;
  readonly files: FileStore;
  readonly packer: ReadingPacker;
}

/** Runs the transaction of a removal, of so many readings. */
export type RunRemoval = (work: (sql: Sql) => Promise<void>, readings: number) => Promise<void>;

const TRIES = 5;
/** More than any file has. */
const ALL = Number.MAX_SAFE_INTEGER;

export class ReadingRemoval {
  readonly #index: ReadingFiles;

  constructor(private readonly parts: RemovalParts) {
    this.#index = new ReadingFiles(parts.store, parts.files);
  }

  /** Removes all readings of these conditions from files. Returns how many. */
  async remove(
    found: Conditions,
    caller: TurnCaller,
    signal: AbortSignal,
    change: RunRemoval,
  ): Promise<number> {
    let removed = 0;
    for (const file of await this.#index.list(found)) {
      signal.throwIfAborted();
      removed += await this.removeFrom(file, { times: found.times, oldest: ALL }, caller, signal, change);
    }
    return removed;
  }

  /** Removes readings of these times from a file, the `oldest` ones of them. Returns how many. */
  async removeFrom(
    file: IndexedFile,
    { times, oldest }: { readonly times: FileTimes; readonly oldest: number },
    caller: TurnCaller,
    signal: AbortSignal,
    change: RunRemoval,
  ): Promise<number> {
    for (let now: IndexedFile | undefined = file, left = TRIES; now; left--) {
      try {
        if (isAllWithin(now, times) && now.readings <= oldest) return await this.#drop(now, change);
        return await this.#rewrite(now, { times, oldest }, caller, signal, change);
      } catch (error) {
        if (SvcError.from(error).code !== "aborted" || left <= 1) throw error;
        now = await this.#index.find(file);
      }
    }
    return 0;
  }

  async #drop(file: IndexedFile, change: RunRemoval): Promise<number> {
    const { store, files } = this.parts;
    await change(async (sql) => {
      await new ReadingFiles(sql, undefined).replace(file);
      await dropStoredBytes(sql, "readings", [{ ownerId: file.originId, bytes: file.bytes }]);
    }, file.readings);
    await releaseFile(store, files, file.sha256);
    return file.readings;
  }

  async #rewrite(
    before: IndexedFile,
    { times, oldest }: { readonly times: FileTimes; readonly oldest: number },
    caller: TurnCaller,
    signal: AbortSignal,
    change: RunRemoval,
  ): Promise<number> {
    const { store, files, packer } = this.parts;
    const found = await this.#index.content(before);
    if (!found) return 0;
    const { file, bytes } = found;
    const { content, ...made } = await packer.run(
      caller,
      signal,
      (packing) => packing.without(bytes, times, oldest === ALL ? undefined : oldest),
    );
    const removed = file.readings - made.readings;
    if (removed === 0) return 0;
    if (made.readings === 0) return await this.#drop(file, change);
    await keepFile(store, files, onePiece(content), READING_FILE_BYTES_MAX, async (kept) => {
      await change(async (sql) => {
        const next = { ...made, sha256: kept.sha256, fileBytes: kept.bytes };
        await new ReadingFiles(sql, undefined).replace(file, next);
        await dropStoredBytes(sql, "readings", [{ ownerId: file.originId, bytes: file.bytes - made.bytes }]);
      }, removed);
    });
    await releaseFile(store, files, file.sha256);
    return removed;
  }
}
