/**
 * The bytes of a file of readings: one Parquet file for readings of one source with the same tags, in order of time.
 *
 * `data` is the content of a reading as JSON, for queries. A content that does not come back from JSON as the same bytes
 * (numbers that JSON does not have, another order of names) is beside it in `payload`.
 *
 * The room owns readings in files: their bytes, their index in the database, how readings move there, and how they are
 * removed.
 */

import { Buffer } from "node:buffer";
import { SvcError } from "../../base/error.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { payloadJson } from "../capture/payload_json.ts";
import { PATH_TYPES_KEY, PathTypes } from "./path_types.ts";
import { PayloadWriter } from "./payload_writer.ts";
import {
  type ParquetColumn,
  ParquetFile,
  parquetOf,
  type ParquetRow,
  type ParquetSource,
} from "./parquet.ts";

export interface FileReading {
  readonly capturedUs: number;
  readonly receivedUs: number;
  readonly storedMs: number;
  /** 32 hexadecimal digits. */
  readonly entryId: string;
  readonly payload: Uint8Array;
}

/** Where a reading stands in the order of a file. */
export type FileCursor = Pick<FileReading, "capturedUs" | "entryId">;

/** What readings have in common that are removed from a file: times, both bounds included. */
export interface FileTimes {
  readonly captured: { readonly fromUs?: number; readonly untilUs?: number };
  readonly received: { readonly fromUs?: number; readonly untilUs?: number };
  readonly stored?: { readonly fromUs?: number; readonly untilUs?: number };
}

/** What is known of a file's readings together. */
export interface FileSummary {
  readonly fromUs: number;
  readonly untilUs: number;
  readonly receivedFromUs: number;
  readonly receivedUntilUs: number;
  readonly readings: number;
  /** Of the contents. */
  readonly bytes: number;
  /** The types of its values, as `PathTypes` has them; null if the file alone tells. */
  readonly pathTypes: string | null;
}

export interface MadeFile extends FileSummary {
  readonly content: Uint8Array;
}

/** Limits of a group of rows, which are read together. */
const GROUP_ROWS_MAX = 500;
const GROUP_BYTES_MAX = 512 * 1024;
const ENTRY = /^[0-9a-f]{32}$/;

const COLUMNS: readonly ParquetColumn[] = [
  { name: "captured_us", type: "whole" },
  { name: "received_us", type: "whole" },
  { name: "stored_ms", type: "whole" },
  { name: "entry", type: "bytes" },
  { name: "data", type: "text" },
  { name: "payload", type: "bytes" },
];

/**
 * A file with these readings, in the order of their cursors. It has been read again, and gave the same readings. Throws
 * `internal` otherwise.
 */
export async function buildFile(readings: readonly FileReading[]): Promise<MadeFile> {
  const types = new PathTypes();
  const texts = () => types.text === undefined ? [] : [{ key: PATH_TYPES_KEY, value: types.text }];
  const content = Buffer.concat(await Array.fromAsync(parquetOf(COLUMNS, groupsOf(readings, types), texts)));
  let at = 0;
  for await (const group of readingsIn(sourceOf(content), { captured: {}, received: {} })) {
    for (const one of group) {
      if (isSame(one, readings[at++])) continue;
      throw new SvcError(
        "internal",
        `a file of readings differs from them at reading ${at} of ${readings.length}`,
      );
    }
  }
  if (at !== readings.length) {
    throw new SvcError("internal", `a file of readings has ${at}, wanted ${readings.length}`);
  }
  return { content, ...summaryOf(readings), pathTypes: types.indexedText };
}

/** The same without the readings of these times, or without the oldest ones. */
export async function fileWithout(
  content: Uint8Array,
  times: FileTimes,
  oldest = Infinity,
): Promise<MadeFile> {
  const kept: FileReading[] = [];
  let removed = 0;
  for await (const group of readingsIn(sourceOf(content), { captured: {}, received: {} })) {
    for (const one of group) {
      if (removed < oldest && isOfTimes(one, times)) removed++;
      else kept.push(one);
    }
  }
  return await buildFile(kept);
}

/** The readings of these times, a group at a time: the oldest first, or the newest. */
export async function* readingsIn(
  source: ParquetSource,
  times: FileTimes,
  newestFirst = false,
): AsyncGenerator<FileReading[]> {
  const file = await ParquetFile.open(source);
  const writer = new PayloadWriter();
  const { fromUs = -Infinity, untilUs = Infinity } = times.captured;
  const groups = file.groups.filter(({ from, until }) => until >= fromUs && from <= untilUs);
  for (const group of newestFirst ? groups.reverse() : groups) {
    const readings = (await file.rows(group)).map((row) => readingOf(row, writer)).filter((one) =>
      isOfTimes(one, times)
    );
    if (readings.length > 0) yield newestFirst ? readings.reverse() : readings;
  }
}

export function sourceOf(content: Uint8Array): ParquetSource {
  return {
    byteLength: content.length,
    slice: (start, end) => Promise.resolve(new Uint8Array(content.subarray(start, end)).buffer),
  };
}

/** Less than 0 if `a` comes before `b`. */
export function compareCursors(a: FileCursor, b: FileCursor): number {
  if (a.capturedUs !== b.capturedUs) return a.capturedUs - b.capturedUs;
  if (a.entryId === b.entryId) return 0;
  return a.entryId < b.entryId ? -1 : 1;
}

/** Whether a reading comes after a cursor; after none, each does. */
export function isAfter(one: FileCursor, cursor: FileCursor | undefined): boolean {
  return cursor === undefined || compareCursors(one, cursor) > 0;
}

export function isOfTimes(one: FileReading, { captured, received, stored }: FileTimes): boolean {
  const is = (value: number, { fromUs = -Infinity, untilUs = Infinity }: FileTimes["captured"] = {}) =>
    value >= fromUs && value <= untilUs;
  return is(one.capturedUs, captured) && is(one.receivedUs, received) && is(one.storedMs, stored);
}

/** The rows in groups; `types` gets the types of their contents. */
async function* groupsOf(readings: readonly FileReading[], types: PathTypes): AsyncGenerator<ParquetRow[]> {
  let rows: ParquetRow[] = [];
  let bytes = 0;
  const writer = new PayloadWriter();
  for (const one of readings) {
    if (rows.length >= GROUP_ROWS_MAX || (rows.length > 0 && bytes + one.payload.length > GROUP_BYTES_MAX)) {
      yield rows;
      [rows, bytes] = [[], 0];
    }
    rows.push(rowOf(one, writer, types));
    bytes += one.payload.length;
  }
  if (rows.length > 0) yield rows;
}

function rowOf(reading: FileReading, writer: PayloadWriter, types: PathTypes): ParquetRow {
  const { capturedUs, receivedUs, storedMs, entryId, payload } = reading;
  if (!ENTRY.test(entryId)) throw new SvcError("internal", `a reading has the id "${entryId}"`);
  const data = payloadJson(payload);
  const document: JsonObject = JSON.parse(data);
  types.add(document);
  const isAll = Buffer.compare(writer.bytesOf(document), payload) === 0;
  const entry = new Uint8Array(Buffer.from(entryId, "hex"));
  return [BigInt(capturedUs), BigInt(receivedUs), BigInt(storedMs), entry, data, isAll ? null : payload];
}

function readingOf(row: ParquetRow, writer: PayloadWriter): FileReading {
  const [captured, received, stored, entry, data, payload] = row;
  return {
    capturedUs: Number(captured),
    receivedUs: Number(received),
    storedMs: Number(stored),
    entryId: Buffer.from(entry as Uint8Array).toString("hex"),
    payload: (payload as Uint8Array | null | undefined) ?? writer.bytesOf(JSON.parse(data as string)),
  };
}

function isSame(one: FileReading, other: FileReading | undefined): boolean {
  return other !== undefined && compareCursors(one, other) === 0 && one.receivedUs === other.receivedUs &&
    one.storedMs === other.storedMs && Buffer.compare(one.payload, other.payload) === 0;
}

function summaryOf(readings: readonly FileReading[]): Omit<FileSummary, "pathTypes"> {
  const received = readings.map(({ receivedUs }) => receivedUs);
  return {
    fromUs: readings[0]?.capturedUs ?? 0,
    untilUs: readings[readings.length - 1]?.capturedUs ?? 0,
    receivedFromUs: received.reduce((one, other) => Math.min(one, other), Infinity),
    receivedUntilUs: received.reduce((one, other) => Math.max(one, other), -Infinity),
    readings: readings.length,
    bytes: readings.reduce((sum, { payload }) => sum + payload.length, 0),
  };
}
