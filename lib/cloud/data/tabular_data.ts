/**
 * Readings that machines have captured.
 *
 * Owns the table `tabular_data`. Readings of one source with the same time and content are one, however often they
 * arrive. Older ones are in files (`../readings/`); whoever reads here gets both.
 */

import type { JsonObject } from "../../wire/rpc/proto.ts";
import { type BinaryPage, itemCursor, parseItemCursor } from "./binary_data.ts";
import { compareCursors, type FileCursor, type FileReading, isAfter } from "../readings/reading_file.ts";
import { type IndexedFile, isAllWithin, ReadingFiles } from "../readings/reading_files.ts";
import type { FileStore } from "../store/files.ts";
import { Conditions, type MicrosRange, onlyType, type ReadingTimes, toMicros } from "../capture/filter.ts";
import { comparableJson } from "../../base/schema/schema.ts";
import { type DataOrigin, ORIGIN_COLUMNS, originIn } from "../capture/origins.ts";
import { dropStoredBytes } from "../store/stored_bytes.ts";
import { payloadBytes, payloadIn } from "../capture/payload.ts";
import { placeholders, type Sql } from "../store/store.ts";

/** One reading; times in microseconds. */
export interface TabularReading {
  readonly capturedUs: number;
  readonly receivedUs: number;
  readonly payload: JsonObject;
}

export interface StoredReading extends TabularReading, DataOrigin {
  /** Its rank among readings with the same time. */
  readonly id: string;
  readonly storedMs: number;
  readonly bytes: number;
  readonly tags: readonly string[];
}

/** Readings of one method of a resource. */
export interface ReadingQuery {
  readonly partId: string;
  readonly resourceName: string;
  readonly resourceSubtype: string;
  readonly methodName: string;
  /** Restricts to calls with these arguments. */
  readonly parameters?: JsonObject;
  readonly fromMs?: number;
  readonly untilMs?: number;
}

export interface ReadingPage {
  readonly readings: readonly StoredReading[];
  /** The start of the next page; empty at the end. */
  readonly last: string;
}

interface Key {
  readonly id: string;
  readonly capturedUs: number;
  /** Its size in an answer. */
  readonly bytes: number;
  /** The reading itself, if it comes from a file. */
  readonly row?: Row;
}

/** The readings of files at the times of an upload. */
export interface KnownReadings {
  /** All files with a range of times that overlaps that of the upload, as they are. */
  readonly files: readonly Pick<IndexedFile, "number" | "sha256">[];
  /** By `readingKey`. */
  readonly keys: ReadonlySet<string>;
}

/** Readings of one source, as they are stored. */
export interface ReadingBatch {
  readonly origin: DataOrigin;
  readonly rows: readonly PackedReading[];
}

/** Readings of one source in a file. */
export interface ReadingsOfFile {
  readonly origin: DataOrigin;
  readonly file: IndexedFile;
  /** Only those after this place. */
  readonly after?: FileCursor;
}

export interface PackedReading {
  readonly capturedUs: number;
  readonly receivedUs: number;
  /** A JSON list. */
  readonly tags: string;
  /** For `payloadIn`. */
  readonly payload: Uint8Array;
}

type Row = Omit<StoredReading, "payload" | "tags"> & { readonly payload: Uint8Array; readonly tags: string };

const FROM = "tabular_data d JOIN data_origins o ON o.id = d.origin_id";
const EXPORT_AT_ONCE = 500;
/** Sources whose files are looked up together. */
const ORIGINS_AT_ONCE = 64;
/** Limit of the readings in one answer, and of those that an export keeps in memory. */
const PAGE_BYTES_MAX = 8 * 1024 ** 2;
const BYTES = "LENGTH(d.payload)";

/** The size of the payloads of readings in bytes. */
export function readingBytes(readings: readonly TabularReading[]): number {
  return readings.reduce((sum, { payload }) => sum + payloadBytes(payload).length, 0);
}

export class TabularData {
  readonly #inFiles: ReadingFiles;

  /** @param files for whoever reads */
  constructor(private readonly sql: Sql, files?: FileStore) {
    this.#inFiles = new ReadingFiles(sql, files);
  }

  /** The readings of an upload, or of its times, that are in files. */
  async known(
    originId: string,
    readings: readonly Pick<TabularReading, "capturedUs">[],
  ): Promise<KnownReadings> {
    const times = new Set(readings.map(({ capturedUs }) => capturedUs));
    const found = new Conditions().only("d.origin_id = ?", originId).within("captured", rangeOf([...times]));
    const files = await this.#inFiles.list(found);
    const keys = new Set<string>();
    for (const file of files) {
      const mine = [...times].filter((us) => us >= file.fromUs && us <= file.untilUs);
      if (mine.length === 0) continue;
      for await (const group of this.#inFiles.readings(file, { captured: rangeOf(mine), received: {} })) {
        for (const { capturedUs, entryId } of group) {
          if (times.has(capturedUs)) keys.add(readingKey(capturedUs, entryId));
        }
      }
    }
    return { files, keys };
  }

  /** The readings of a page: as many as the page may have and one answer can hold, but at least one. */
  async page(found: Conditions, page: BinaryPage): Promise<ReadingPage> {
    return await this.#read(await this.#keys(found, page));
  }

  async count(found: Conditions): Promise<{ count: number; bytes: number }> {
    // In one statement: no reading moves in between.
    const rows = await this.sql.query<FilePart & { readonly readings: number; readonly bytes: number }>(
      `SELECT '' AS "originId", CAST(0 AS BIGINT) AS number, COUNT(*) AS readings,
         CAST(COALESCE(SUM(${BYTES}), 0) AS BIGINT) AS bytes, CAST(0 AS BIGINT) AS "fromUs", CAST(0 AS BIGINT) AS "untilUs",
         CAST(0 AS BIGINT) AS "receivedFromUs", CAST(0 AS BIGINT) AS "receivedUntilUs" FROM ${FROM} WHERE ${found.text}
       UNION ALL SELECT d.origin_id, d.number, d.readings, d.bytes, d.from_us, d.until_us, d.received_from_us,
         d.received_until_us
       FROM reading_files d JOIN data_origins o ON o.id = d.origin_id WHERE ${found.ofFiles.text}`,
      ...found.values,
      ...found.ofFiles.values,
    );
    let [count, bytes] = [0, 0];
    for (const row of rows) {
      const isWhole = row.number === 0 || isAllWithin(row, found.times);
      const some = isWhole
        ? { count: row.readings, bytes: row.bytes }
        : await this.#countIn(row, found.times);
      [count, bytes] = [count + some.count, bytes + some.bytes];
    }
    return { count, bytes };
  }

  async #countIn(part: FilePart, times: ReadingTimes): Promise<{ count: number; bytes: number }> {
    const file = await this.#inFiles.find(part);
    if (!file) return { count: 0, bytes: 0 };
    let [count, bytes] = [0, 0];
    for await (const group of this.#inFiles.readings(file, times)) {
      count += group.length;
      bytes += group.reduce((sum, { payload }) => sum + payload.length, 0);
    }
    return { count, bytes };
  }

  async latest(query: ReadingQuery): Promise<StoredReading | undefined> {
    const { readings } = await this.#ofMethod(query, { limit: 1, order: "newest first", last: "" });
    return readings[0];
  }

  /** Oldest first. */
  async *export(query: ReadingQuery): AsyncGenerator<StoredReading> {
    let last = "";
    for (;;) {
      const page = await this.#ofMethod(query, { limit: EXPORT_AT_ONCE, order: "oldest first", last });
      yield* page.readings;
      if (page.last === "") return;
      last = page.last;
    }
  }

  /**
   * All readings of the sources, a batch at a time: one source after the other, mostly the oldest reading first.
   * `storedMs`: only those that were stored at this time.
   */
  async *scan(sources: Conditions, times: ReadingTimes, storedMs?: number): AsyncGenerator<ReadingBatch> {
    const stored = storedMs === undefined ? {} : { fromUs: storedMs, untilUs: storedMs };
    for await (const some of this.scanParts(sources, times, storedMs)) {
      if ("rows" in some) yield some;
      else {
        const { file, after, origin } = some;
        for await (const group of this.#inFiles.readings(file, { ...times, stored })) {
          const rows = group.filter((one) => isAfter(one, after));
          if (rows.length > 0) yield { origin, rows: rows.map((one) => ({ ...one, tags: file.tags })) };
        }
      }
    }
  }

  /**
   * The same, with files as they are. Readings move from the table into files while it is read: of a file that is new,
   * only those count that were no longer in the table when their turn came.
   */
  async *scanParts(
    sources: Conditions,
    times: ReadingTimes,
    storedMs?: number,
  ): AsyncGenerator<ReadingBatch | ReadingsOfFile> {
    const origins = await this.#origins(sources);
    for (let at = 0; at < origins.length; at += ORIGINS_AT_ONCE) {
      const some = origins.slice(at, at + ORIGINS_AT_ONCE);
      const ids = some.map(({ id }) => id);
      const before = await this.#selectFiles(ids, times);
      const inTable = await this.#inTable(ids, times.captured);
      // The readings of these are in files now, if there are any.
      const after = await this.#selectFiles(ids.filter((id) => !inTable.has(id)), times);

      for (const { id, ...origin } of some) {
        const known = before.get(id) ?? [];
        if (inTable.has(id)) yield* this.#partsOf({ id, origin }, known, times, storedMs);
        else {
          const fresh = (after.get(id) ?? []).filter(isUnknownTo(known));
          for (const file of [...known, ...fresh]) yield { origin, file };
        }
      }
    }
  }

  /** The parts of a source with these files and with readings in the table. */
  async *#partsOf(
    { id, origin }: { readonly id: string; readonly origin: DataOrigin },
    known: readonly IndexedFile[],
    times: ReadingTimes,
    storedMs?: number,
  ): AsyncGenerator<ReadingBatch | ReadingsOfFile> {
    for (const file of known) yield { origin, file };

    /** Up to which place readings have come from the table, and the newest file at that time. */
    const seen: { readonly last: FileCursor; readonly newest: number }[] = [];
    for (let last = "";;) {
      const found = within([id], times);
      if (storedMs !== undefined) found.only("d.stored_ms = ?", storedMs);
      const page = { limit: EXPORT_AT_ONCE, order: "oldest first", last } as const;
      const keys = await this.#ownKeys(found, page);
      const batch = await this.#rows(keys);
      if (batch.rows.length > 0) yield { origin, rows: batch.rows };
      if (batch.last === "") break;
      last = batch.last;
      seen.push({
        last: parseFileCursor(last),
        newest: Math.max(0, ...keys.map(({ newest }) => newest ?? 0)),
      });
      const end = keys.at(-1);
      const isEnd = keys.length < page.limit && end !== undefined && last === itemCursor(end);
      if (isEnd) break;
    }

    const after = (await this.#selectFiles([id], times)).get(id) ?? [];
    for (const file of after.filter(isUnknownTo(known))) {
      yield { origin, file, after: seen.findLast(({ newest }) => newest < file.number)?.last };
    }
  }

  /** The files of some sources, by the sources' ids. */
  async #selectFiles(ids: readonly string[], times: ReadingTimes): Promise<Map<string, IndexedFile[]>> {
    if (ids.length === 0) return new Map();
    return Map.groupBy(await this.#inFiles.list(within(ids, times)), ({ originId }) => originId);
  }

  /** Which of these sources have readings of these times in the table. */
  async #inTable(ids: readonly string[], captured: MicrosRange): Promise<Set<string>> {
    const found = new Conditions().within("captured", captured);
    const rows = await this.sql.query<{ id: string }>(
      `SELECT o.id FROM data_origins o WHERE o.id IN (${placeholders(ids)})
         AND EXISTS (SELECT 1 FROM tabular_data d WHERE d.origin_id = o.id AND ${found.text})`,
      ...ids,
      ...found.values,
    );
    return new Set(rows.map(({ id }) => id));
  }

  /** The number of readings that `scan` would find. */
  async countReadings(sources: Conditions, times: ReadingTimes): Promise<number> {
    let all = 0;
    for (const { id } of await this.#origins(sources)) all += (await this.count(within([id], times))).count;
    return all;
  }

  /** Hands the content of a file to `take`; returns the file, or `undefined` if its readings are gone. */
  async handFile(
    { file }: ReadingsOfFile,
    take: (file: IndexedFile) => Promise<void>,
  ): Promise<IndexedFile | undefined> {
    return await this.#inFiles.hand(file, take);
  }

  async #origins(sources: Conditions): Promise<(DataOrigin & { readonly id: string })[]> {
    return await this.sql.query(
      `SELECT o.id, ${ORIGIN_COLUMNS} FROM data_origins o WHERE ${sources.text} ORDER BY o.id`,
      ...sources.values,
    );
  }

  /** Removes up to `limit` readings that are not in files. Returns how many. */
  async remove(found: Conditions, limit: number): Promise<number> {
    const rows = await this.sql.query<{ ownerId: string; bytes: number }>(
      `DELETE FROM tabular_data WHERE (origin_id, captured_us, entry_id) IN (
         SELECT d.origin_id, d.captured_us, d.entry_id FROM ${FROM} WHERE ${found.text} LIMIT ?
       ) RETURNING origin_id AS "ownerId", LENGTH(payload) AS bytes`,
      ...found.values,
      limit,
    );
    await dropStoredBytes(this.sql, "readings", rows);
    return rows.length;
  }

  /** A page of one method's readings. Queries its sources one by one: each has its readings in order of time. */
  async #ofMethod(query: ReadingQuery, page: BinaryPage): Promise<ReadingPage> {
    const { partId, resourceName, resourceSubtype, methodName, parameters, fromMs, untilMs } = query;
    const origins = onlyType(new Conditions(), resourceSubtype)
      .only("o.part_id = ?", partId)
      // Data that it captured before its move stays with its former organization.
      .only(
        `o.organization_id = (SELECT l.organization_id FROM machines m
           JOIN locations l ON l.id = m.location_id WHERE m.id = o.machine_id)`,
      )
      .only("o.component_name = ?", resourceName)
      .only("o.method_name = ?", methodName);
    if (parameters) origins.only("o.parameters = ?", comparableJson(parameters));
    const ids = await this.sql.query<{ id: string }>(
      `SELECT o.id FROM data_origins o WHERE ${origins.text}`,
      ...origins.values,
    );
    const keys: Key[] = [];
    for (const { id } of ids) {
      const ofOrigin = new Conditions().only("d.origin_id = ?", id);
      ofOrigin.within("captured", {
        fromUs: fromMs === undefined ? undefined : toMicros(fromMs),
        untilUs: untilMs === undefined ? undefined : toMicros(untilMs),
      });
      keys.push(...await this.#keys(ofOrigin, page));
    }
    const sign = page.order === "newest first" ? -1 : 1;
    keys.sort((one, other) => sign * (one.capturedUs - other.capturedUs || (one.id < other.id ? -1 : 1)));
    return await this.#read(keys.slice(0, page.limit));
  }

  /** The first readings of a page's order, in the table and in files. */
  async #keys(found: Conditions, page: BinaryPage): Promise<readonly Key[]> {
    // In this order: a reading that moves meanwhile is found twice, not missed.
    const own = await this.#ownKeys(found, page);
    const { limit, order, last } = page;
    const newestFirst = order === "newest first";
    const inOrder = (a: KeyCursor, b: KeyCursor) => (newestFirst ? -1 : 1) * compareKeys(a, b);
    const start = last === "" ? undefined : parseKeyCursor(last);
    const { captured } = new Conditions().within("captured", {
      [newestFirst ? "untilUs" : "fromUs"]: start?.capturedUs,
    }).within("captured", found.times.captured).times;
    const times = { captured, received: found.times.received };
    const files = await this.#inFiles.list(found, captured);
    files.sort((a, b) => newestFirst ? b.untilUs - a.untilUs : a.fromUs - b.fromUs);
    let merged: readonly Key[] = own;
    let isFull = own.length >= limit;
    for (const file of files) {
      const end = isFull ? merged[merged.length - 1] : undefined;
      if (end && (newestFirst ? file.untilUs < end.capturedUs : file.fromUs > end.capturedUs)) break;
      const some: Key[] = [];
      for await (const group of this.#inFiles.readings(file, times, newestFirst)) {
        const keys = group.map((one) => fileKey(file, one));
        some.push(...keys.filter((key) => !start || inOrder(key, start) > 0));
        if (some.length >= limit || isTooMuch(some)) break;
      }
      const known = new Set(merged.map(itemCursor));
      const all = [...merged, ...some.filter((key) => !known.has(itemCursor(key)))].sort(inOrder);
      merged = fitting(all.slice(0, limit));
      isFull = merged.length < all.length || all.length === limit;
    }
    return merged;
  }

  /** The same of the table alone. */
  async #ownKeys(
    found: Conditions,
    { limit, order, last }: BinaryPage,
  ): Promise<(Key & { readonly newest: number | null })[]> {
    const newest = order === "newest first";
    const rest = new Conditions();
    if (last !== "") {
      const [capturedUs, id] = parseItemCursor(last);
      const [originId = "", entryId = ""] = id.split(":");
      rest.only(`d.captured_us ${newest ? "<=" : ">="} ?`, capturedUs).only(
        `(d.captured_us, d.origin_id, d.entry_id) ${newest ? "<" : ">"} (?, ?, ?)`,
        capturedUs,
        originId,
        entryId,
      );
    }
    const direction = newest ? "DESC" : "ASC";
    return await this.sql.query(
      `SELECT d.origin_id || ':' || d.entry_id AS id, d.captured_us AS "capturedUs",
         ${BYTES} + LENGTH(d.tags) + LENGTH(o.parameters) AS bytes,
         (SELECT MAX(f.number) FROM reading_files f WHERE f.origin_id = d.origin_id) AS newest
       FROM ${FROM} WHERE ${found.text} AND ${rest.text}
       ORDER BY d.captured_us ${direction}, d.origin_id ${direction}, d.entry_id ${direction} LIMIT ?`,
      ...found.values,
      ...rest.values,
      limit,
    );
  }

  async #read(keys: readonly Key[]): Promise<ReadingPage> {
    const { rows, last } = await this.#rows(keys);
    const readings = rows.map((row) => ({
      ...row,
      tags: JSON.parse(row.tags),
      payload: payloadIn(row.payload),
    }));
    return { readings, last };
  }

  /** The leading readings, in the order of the keys, that fit into one answer. */
  async #rows(keys: readonly Key[]): Promise<{ readonly rows: readonly Row[]; readonly last: string }> {
    const mine = fitting(keys);
    const end = mine.at(-1);
    if (!end) return { rows: [], last: "" };
    const own = mine.filter(({ row }) => row === undefined);
    const found = new Map(mine.flatMap((key) => key.row ? [[itemCursor(key), key.row] as const] : []));
    for (const row of await this.#ownRows(own)) found.set(itemCursor(row), row);
    await this.#addMoved(own.filter((key) => !found.has(itemCursor(key))), found);
    return {
      rows: mine.flatMap((key) => found.get(itemCursor(key)) ?? []),
      last: itemCursor(end),
    };
  }

  async #ownRows(keys: readonly Key[]): Promise<readonly Row[]> {
    if (keys.length === 0) return [];
    return await this.sql.query<Row>(
      `SELECT d.origin_id || ':' || d.entry_id AS id, d.captured_us AS "capturedUs",
         d.received_us AS "receivedUs", d.stored_ms AS "storedMs", d.tags, d.payload, ${BYTES} AS bytes, ${ORIGIN_COLUMNS}
       FROM ${FROM} WHERE (d.origin_id, d.captured_us, d.entry_id) IN (VALUES ${
        keys.map(() => "(?, CAST(? AS BIGINT), ?)").join(", ")
      })`,
      ...keys.flatMap(({ id, capturedUs }) => {
        const [originId = "", entryId = ""] = id.split(":");
        return [originId, capturedUs, entryId];
      }),
    );
  }

  /** Readings that have moved since their keys were read; those that nobody has any more were removed. */
  async #addMoved(keys: readonly Key[], found: Map<string, Row>): Promise<void> {
    for (const [originId, some] of Map.groupBy(keys, ({ id }) => id.slice(0, id.indexOf(":")))) {
      const wanted = new Set(some.map(itemCursor));
      const captured = rangeOf(some.map(({ capturedUs }) => capturedUs));
      const files = await this.#inFiles.list(
        new Conditions().only("d.origin_id = ?", originId).within("captured", captured),
      );
      for (const file of files) {
        for await (const group of this.#inFiles.readings(file, { captured, received: {} })) {
          for (const { row } of group.map((one) => fileKey(file, one))) {
            if (wanted.has(itemCursor(row))) found.set(itemCursor(row), row);
          }
        }
      }
    }
  }
}

type FilePart = Pick<
  IndexedFile,
  "originId" | "number" | "fromUs" | "untilUs" | "receivedFromUs" | "receivedUntilUs"
>;
type KeyCursor = Pick<Key, "id" | "capturedUs">;

/** The keys whose readings fit into one answer; at least one. */
function fitting(keys: readonly Key[]): readonly Key[] {
  let bytes = 0;
  const over = keys.findIndex((key, index) => (bytes += key.bytes) > PAGE_BYTES_MAX && index > 0);
  return over < 0 ? keys : keys.slice(0, over);
}

function isTooMuch(keys: readonly Key[]): boolean {
  return fitting(keys).length < keys.length;
}

function compareKeys(a: KeyCursor, b: KeyCursor): number {
  return compareCursors({ ...a, entryId: a.id }, { ...b, entryId: b.id });
}

function parseKeyCursor(last: string): KeyCursor {
  const [capturedUs, id] = parseItemCursor(last);
  return { capturedUs, id };
}

function parseFileCursor(last: string): FileCursor {
  const [capturedUs, id] = parseItemCursor(last);
  const [, entryId = ""] = id.split(":");
  return { capturedUs, entryId };
}

function fileKey(file: IndexedFile, one: FileReading): Key & { readonly row: Row } {
  const { capturedUs, receivedUs, storedMs, entryId, payload } = one;
  const id = `${file.originId}:${entryId}`;
  const { tags } = file;
  const { length: bytes } = payload;
  const row = { ...originIn(file), id, capturedUs, receivedUs, storedMs, tags, payload, bytes };
  return { id, capturedUs, bytes: bytes + tags.length + file.parameters.length, row };
}

/** Identifies a reading of a source. */
export function readingKey(capturedUs: number, entryId: string): string {
  return `${capturedUs}:${entryId}`;
}

/** The range of times in microseconds, of at least one. */
export function rangeOf(times: readonly number[]): Required<MicrosRange> {
  return {
    fromUs: times.reduce((one, other) => Math.min(one, other), Infinity),
    untilUs: times.reduce((one, other) => Math.max(one, other), -Infinity),
  };
}

/** The readings of sources, of at least one, within times. */
function within(originIds: readonly string[], times: ReadingTimes): Conditions {
  return new Conditions().only(`d.origin_id IN (${placeholders(originIds)})`, ...originIds)
    .within("captured", times.captured).within("received", times.received);
}

function isUnknownTo(known: readonly IndexedFile[]): (file: IndexedFile) => boolean {
  const numbers = new Set(known.map(({ number }) => number));
  return ({ number }) => !numbers.has(number);
}
