/**
 * The index of readings in files, and their readings.
 *
 * Owns the table `reading_files`. Readings go one way, from `tabular_data` into a file; a file that loses readings gets
 * another content under the same number. So whoever looks into the table of readings first, and then here, misses none,
 * and finds one twice at most, in the same form.
 */

import { collectBytes } from "../../base/files/byte_reader.ts";
import { assert, SvcError } from "../../base/error.ts";
import { Conditions } from "../capture/filter.ts";
import { type DataOrigin, ORIGIN_COLUMNS } from "../capture/origins.ts";
import { checkedPieces, type FileStore } from "../store/files.ts";
import { queryOne, type Sql } from "../store/store.ts";
import {
  compareCursors,
  type FileCursor,
  type FileReading,
  type FileSummary,
  type FileTimes,
  readingsIn,
} from "./reading_file.ts";
import type { ParquetSource } from "./parquet.ts";

/** A file and the source of its readings. */
export interface IndexedFile extends FileSummary, DataOrigin {
  readonly originId: string;
  /** Among the files of the organization; a later file has a greater one. */
  readonly number: number;
  /** A JSON list. */
  readonly tags: string;
  readonly sha256: string;
  readonly fileBytes: number;
}

/** How often a file is looked up again whose content has been replaced meanwhile. */
const TRIES = 5;

const FILE_COLUMNS = `d.origin_id AS "originId", d.number, d.from_us AS "fromUs", d.until_us AS "untilUs",
  d.received_from_us AS "receivedFromUs", d.received_until_us AS "receivedUntilUs", d.readings, d.bytes, d.tags,
  d.sha256, d.file_bytes AS "fileBytes", d.path_types AS "pathTypes"`;
const FROM = "reading_files d JOIN data_origins o ON o.id = d.origin_id";

export class ReadingFiles {
  constructor(private readonly sql: Sql, private readonly files: FileStore | undefined) {}

  /** The files that may have readings of these conditions and times, in the order of their first readings. */
  async list(found: Conditions, captured: FileTimes["captured"] = {}): Promise<IndexedFile[]> {
    const [all, more] = [found.ofFiles, new Conditions().within("captured", captured).ofFiles];
    return await this.sql.query(
      `SELECT ${FILE_COLUMNS}, ${ORIGIN_COLUMNS} FROM ${FROM} WHERE ${all.text} AND ${more.text}
       ORDER BY d.from_us, d.number`,
      ...all.values,
      ...more.values,
    );
  }

  /** The file with the oldest reading among those that the conditions on `o` and `d` find. */
  async first(found: Conditions): Promise<IndexedFile | undefined> {
    const [file] = await this.sql.query<IndexedFile>(
      `SELECT ${FILE_COLUMNS}, ${ORIGIN_COLUMNS} FROM ${FROM} WHERE ${found.text} ORDER BY d.from_us, d.number LIMIT 1`,
      ...found.values,
    );
    return file;
  }

  /** The file as it is now. */
  async find(
    { originId, number }: Pick<IndexedFile, "originId" | "number">,
  ): Promise<IndexedFile | undefined> {
    const [found] = await this.list(
      new Conditions().only("d.origin_id = ?", originId).only("d.number = ?", number),
    );
    return found;
  }

  /** Readings of these times, a group at a time, the oldest first or the newest; none if the file is gone. */
  async *readings(file: IndexedFile, times: FileTimes, newestFirst = false): AsyncGenerator<FileReading[]> {
    let last: FileCursor | undefined;
    const isNew = (one: FileReading) => !last || (newestFirst ? -1 : 1) * compareCursors(one, last) > 0;
    for (let now: IndexedFile | undefined = file, left = TRIES; now; left--) {
      try {
        for await (const group of readingsIn(this.#source(now), times, newestFirst)) {
          const some = group.filter(isNew);
          if (some.length === 0) continue;
          yield some;
          last = some[some.length - 1];
        }
        return;
      } catch (error) {
        now = await this.#again(now, error, left);
      }
    }
  }

  /** The whole content, once its sum has been checked; `undefined` if the file is gone. */
  async content(
    file: IndexedFile,
  ): Promise<{ readonly file: IndexedFile; readonly bytes: Uint8Array } | undefined> {
    let bytes = new Uint8Array();
    const now = await this.hand(file, async (now) => {
      bytes = await this.#whole(now);
    });
    return now && { file: now, bytes };
  }

  /**
   * Hands the file's content to `take`: again, if it has been replaced meanwhile. Returns the file as it was then;
   * `undefined` if it is gone.
   */
  async hand(
    file: IndexedFile,
    take: (file: IndexedFile) => Promise<void>,
  ): Promise<IndexedFile | undefined> {
    for (let now: IndexedFile | undefined = file, left = TRIES; now; left--) {
      try {
        await take(now);
        return now;
      } catch (error) {
        now = await this.#again(now, error, left);
      }
    }
    return undefined;
  }

  /** Notes a new file, in the transaction that takes its readings out of the table of readings. */
  async add(
    organizationId: string,
    { originId, tags, tagList }: Pick<IndexedFile, "originId" | "tags"> & { readonly tagList: string | null },
    made: FileSummary,
    { sha256, bytes: fileBytes }: { readonly sha256: string; readonly bytes: number },
  ): Promise<void> {
    const { number } = await queryOne<{ number: number }>(
      this.sql,
      "UPDATE reading_moves SET last_number = last_number + 1 WHERE organization_id = ? RETURNING last_number AS number",
      organizationId,
    );
    await this.sql.query(
      `INSERT INTO reading_files (origin_id, number, from_us, until_us, received_from_us, received_until_us, tags, tag_list,
         readings, bytes, sha256, file_bytes, path_types) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[originId, number, made.fromUs, made.untilUs, made.receivedFromUs, made.receivedUntilUs],
      ...[tags, tagList, made.readings, made.bytes, sha256, fileBytes, made.pathTypes],
    );
  }

  /** Gives the file another content, or removes it. Throws `aborted` if somebody else has done so meanwhile. */
  async replace(
    { originId, number, sha256 }: IndexedFile,
    made?: FileSummary & { readonly sha256: string; readonly fileBytes: number },
  ): Promise<void> {
    const only = "WHERE origin_id = ? AND number = ? AND sha256 = ? RETURNING number";
    const same = [originId, number, sha256];
    const done = made === undefined
      ? await this.sql.query(`DELETE FROM reading_files ${only}`, ...same)
      : await this.sql.query(
        `UPDATE reading_files SET from_us = ?, until_us = ?, received_from_us = ?, received_until_us = ?, readings = ?,
           bytes = ?, sha256 = ?, file_bytes = ?, path_types = ? ${only}`,
        ...[made.fromUs, made.untilUs, made.receivedFromUs, made.receivedUntilUs, made.readings],
        ...[made.bytes, made.sha256, made.fileBytes, made.pathTypes, ...same],
      );
    if (done.length === 0) throw new SvcError("aborted", "a file of readings has been changed meanwhile");
  }

  #source({ sha256, fileBytes }: IndexedFile): ParquetSource {
    return {
      byteLength: fileBytes,
      slice: async (start, end = fileBytes) => {
        const pieces: Uint8Array[] = [];
        let left = end - start;
        for await (const piece of this.#store.read(sha256, start)) {
          pieces.push(piece.subarray(0, left));
          left -= Math.min(left, piece.length);
          if (left === 0) break;
        }
        if (left > 0) throw new SvcError("data_loss", `the file ${sha256} is damaged: it ends too early`);
        return new Blob(pieces as Uint8Array<ArrayBuffer>[]).arrayBuffer();
      },
    };
  }

  async #whole({ sha256, fileBytes }: IndexedFile): Promise<Uint8Array<ArrayBuffer>> {
    return await collectBytes(checkedPieces(this.#store.read(sha256), sha256), fileBytes);
  }

  /** The file as it is now, if its content has been replaced since. */
  async #again(file: IndexedFile, error: unknown, left: number): Promise<IndexedFile | undefined> {
    if (SvcError.from(error).code !== "not_found" || left <= 1) throw error;
    const now = await this.find(file);
    if (now && now.sha256 === file.sha256) {
      const what = `the file ${file.sha256} with ${file.readings} readings is missing`;
      throw new SvcError("data_loss", what, { cause: error });
    }
    return now;
  }

  get #store(): FileStore {
    assert(this.files, "readings are read without the store of their files");
    return this.files;
  }
}

/** Whether all readings of a file are of these times. */
export function isAllWithin(
  file: Omit<FileSummary, "readings" | "bytes" | "pathTypes">,
  { captured, received }: FileTimes,
): boolean {
  const { fromUs = -Infinity, untilUs = Infinity } = captured;
  const { fromUs: receivedFrom = -Infinity, untilUs: receivedUntil = Infinity } = received;
  return file.fromUs >= fromUs && file.untilUs <= untilUs && file.receivedFromUs >= receivedFrom &&
    file.receivedUntilUs <= receivedUntil;
}
