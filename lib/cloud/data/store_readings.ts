/**
 * Stores uploaded readings: all that an upload changes is one batch of statements, because changes of the database run
 * one after the other, and a trip to it takes longer than the statements do.
 */

import { createHash, randomUUID } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { sortedJson } from "../../base/schema/schema.ts";
import type { MicrosRange } from "../capture/filter.ts";
import { type DataOrigin, originIdOf, originStatement } from "../capture/origins.ts";
import { payloadBytes } from "../capture/payload.ts";
import { lateStatement } from "../pipelines/pipelines.ts";
import type { FileStore } from "../store/files.ts";
import {
  type BatchStatement,
  placeholders,
  rowPieces,
  type SqlText,
  type SqlValue,
  type Store,
  typedRows,
} from "../store/store.ts";
import { addedReadingBytes } from "../store/stored_bytes.ts";
import { tagListOf, tagListStatement } from "../store/tag_lists.ts";
import { eventStatement } from "../triggers/outbox.ts";
import { type KnownReadings, rangeOf, readingKey, TabularData, type TabularReading } from "./tabular_data.ts";

/** Limit of one reading: it fits into a message with its facts. */
const READING_BYTES_MAX = 16 * 1024 ** 2;
/** Looks into files that are replaced meanwhile. */
const TRIES = 5;
const NONE_KNOWN: KnownReadings = { files: [], keys: new Set() };

/** A reading in its stored form. */
interface Row {
  readonly capturedUs: number;
  readonly entryId: string;
  readonly receivedUs: number;
  readonly payload: Uint8Array;
}

/** What the readings of an upload have in common. */
interface Upload {
  readonly origin: DataOrigin;
  readonly tags: readonly string[];
  readonly nowMs: number;
}

/**
 * Stores readings, whatever is in `files` already. Returns the id of their source. Throws `invalid_argument` for one that
 * is too large.
 */
export async function storeReadings(
  { store, files }: { readonly store: Store; readonly files?: FileStore },
  origin: DataOrigin,
  readings: readonly TabularReading[],
  tags: readonly string[],
  nowMs: number,
): Promise<string> {
  const originId = originIdOf(origin);
  const rows = rowsOf(readings);
  if (rows.length === 0) return originId;
  let known = NONE_KNOWN;
  for (let left = TRIES; left > 0; left--) {
    const stopped = await store.batch(statementsOf({ origin, tags, nowMs }, rows, known));
    if (stopped.length === 0) return originId;
    known = await new TabularData(store, files).known(originId, rows);
  }
  throw new SvcError("aborted", "readings of these times move into files all the time: try again");
}

/** The readings in their stored form, each once. */
function rowsOf(readings: readonly TabularReading[]): Row[] {
  const rows = new Map<string, Row>();
  for (const [index, { capturedUs, receivedUs, payload: json }] of readings.entries()) {
    const payload = payloadBytes(json);
    if (payload.length > READING_BYTES_MAX) {
      const found = `reading ${index} of the upload has ${payload.length} bytes`;
      throw new SvcError("invalid_argument", `${found}, wanted at most ${READING_BYTES_MAX}`);
    }
    // Programs in Go and Python send the members of a reading in a new order each time.
    const sorted = payloadBytes(sortedJson(json));
    const entryId = createHash("sha256").update(sorted).digest("hex").slice(0, 32);
    const key = readingKey(capturedUs, entryId);
    if (!rows.has(key)) rows.set(key, { capturedUs, entryId, receivedUs, payload });
  }
  return [...rows.values()];
}

/** The statements of an upload; they stop if files have readings of these times, besides the known files. */
function statementsOf(upload: Upload, rows: readonly Row[], known: KnownReadings): BatchStatement[] {
  const { origin, tags, nowMs } = upload;
  const { organizationId, partId } = origin;
  const originId = originIdOf(origin);
  const tagsJson = JSON.stringify([...new Set(tags)].sort());
  const { fromUs, untilUs } = rangeOf(rows.map(({ capturedUs }) => capturedUs));
  const facts = { kind: "data", type: "tabular", originId, fromUs, untilUs, storedMs: nowMs } as const;
  const lateMs = { fromMs: Math.floor(fromUs / 1000), untilMs: Math.floor(untilUs / 1000) };
  // However many statements the readings take, they are one event.
  const [eventId, lateId] = [randomUUID(), randomUUID()];

  const fresh = rows.filter(({ capturedUs, entryId }) => !known.keys.has(readingKey(capturedUs, entryId)));
  const tagStatement = tagListStatement(tagsJson);
  return [
    originStatement(origin),
    otherFiles(originId, { fromUs, untilUs }, known),
    ...tagStatement ? [tagStatement] : [],
    ...rowPieces(fresh).flatMap((some) => {
      const missing = missingOf(originId, some);
      const ifMissing = { text: `EXISTS ${missing.text}`, values: missing.values };
      // What is counted and noted is what the table lacks, so the readings themselves come last.
      return [
        addedReadingBytes(originId, organizationId, missing),
        eventStatement(eventId, { id: partId, organizationId }, facts, nowMs, {
          ifData: true,
          ifAlso: ifMissing,
        }),
        lateStatement(lateId, organizationId, lateMs, ifMissing),
        insertOf(originId, some, nowMs, tagsJson),
      ];
    }),
  ];
}

/** Stops the upload. */
function otherFiles(
  originId: string,
  range: Required<MicrosRange>,
  known: KnownReadings,
): BatchStatement {
  const names = known.files.map(({ number, sha256 }) => `${number} ${sha256}`);
  const others = names.length > 0 ? ` AND d.number || ' ' || d.sha256 NOT IN (${placeholders(names)})` : "";
  return {
    text: `SELECT d.number FROM reading_files d
      WHERE d.origin_id = ? AND d.from_us <= ? AND d.until_us >= ?${others} LIMIT 1`,
    values: [originId, range.untilUs, range.fromUs, ...names],
    stops: true,
  };
}

/** A table with the `bytes` of those readings that are not stored yet, to be read before they are. */
function missingOf(originId: string, rows: readonly Row[]): SqlText {
  const places = typedRows(rows, "BIGINT", "TEXT", "BIGINT");
  return {
    text: `(SELECT v.column3 AS bytes FROM (VALUES ${places}) AS v WHERE NOT EXISTS (
      SELECT 1 FROM tabular_data d
      WHERE d.origin_id = ? AND d.captured_us = v.column1 AND d.entry_id = v.column2))`,
    values: [
      ...rows.flatMap(({ capturedUs, entryId, payload }) => [capturedUs, entryId, payload.length]),
      originId,
    ],
  };
}

function insertOf(originId: string, rows: readonly Row[], nowMs: number, tags: string): BatchStatement {
  const tagList = tagListOf(tags);
  return {
    text:
      `INSERT INTO tabular_data (origin_id, captured_us, entry_id, received_us, stored_ms, tags, tag_list, payload)
      VALUES ${rows.map(() => "(?, ?, ?, ?, ?, ?, ?, ?)").join(", ")} ON CONFLICT DO NOTHING`,
    values: rows.flatMap(({ capturedUs, entryId, receivedUs, payload }): SqlValue[] => {
      return [originId, capturedUs, entryId, receivedUs, nowMs, tags, tagList, payload];
    }),
  };
}
