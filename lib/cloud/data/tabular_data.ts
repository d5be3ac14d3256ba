/**
 * Readings that machines have captured.
 *
 * Owns the table `tabular_data`. Readings of one source with the same time and content are one, however often they
 * arrive.
 */

import { createHash } from "node:crypto";
import { SvcError } from "../../base/error.ts";
import { sortedJson } from "../../base/schema/schema.ts";
import type { JsonObject } from "../../wire/rpc/proto.ts";
import { type BinaryPage, placeIn, placeOf } from "./binary_data.ts";
import { Conditions, onlyType, toMicros } from "./filter.ts";
import { type DataOrigin, inOrder, noteOrigin, ORIGIN_COLUMNS } from "./origins.ts";
import { addStoredBytes, dropStoredBytes } from "../store/stored_bytes.ts";
import { payloadBytes, payloadIn } from "./payload.ts";
import type { Sql } from "../store/store.ts";
import { DataPipelines } from "../pipelines/pipelines.ts";
import { noteTagList } from "../store/tag_lists.ts";
import { noteEvent } from "../triggers/outbox.ts";

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
}

/** Both bounds are included. */
export interface MicrosRange {
  readonly fromUs?: number;
  readonly untilUs?: number;
}

/** Bounds of the times of readings. */
export interface ReadingTimes {
  readonly captured: MicrosRange;
  readonly received: MicrosRange;
}

/** Readings of one source, as they are stored. */
export interface ReadingBatch {
  readonly origin: DataOrigin;
  readonly rows: readonly PackedReading[];
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
/** Rows per statement. */
const ROWS_MAX = 400;
const EXPORT_AT_ONCE = 500;
/** Limit of the readings in one answer, and of those that an export keeps in memory. */
const PAGE_BYTES_MAX = 8 * 1024 ** 2;
/** Limit of one reading: it fits into a message with its facts. */
const READING_BYTES_MAX = 16 * 1024 ** 2;
const BYTES = "LENGTH(d.payload)";

/** The size of the payloads of readings in bytes. */
export function readingBytes(readings: readonly TabularReading[]): number {
  return readings.reduce((sum, { payload }) => sum + payloadBytes(payload).length, 0);
}

export class TabularData {
  constructor(private readonly sql: Sql) {}

  /** Stores readings. Returns the id of their source. Throws `invalid_argument` for one that is too large. */
  async add(
    origin: DataOrigin,
    readings: readonly TabularReading[],
    tags: readonly string[],
    nowMs: number,
  ): Promise<string> {
    const originId = await noteOrigin(this.sql, origin);
    const tagsJson = JSON.stringify([...new Set(tags)].sort());
    const tagList = await noteTagList(this.sql, tagsJson);
    const rows = readings.map(({ capturedUs, receivedUs, payload }, index) => {
      const bytes = payloadBytes(payload);
      if (bytes.length > READING_BYTES_MAX) {
        const found = `reading ${index} of the upload has ${bytes.length} bytes`;
        throw new SvcError("invalid_argument", `${found}, wanted at most ${READING_BYTES_MAX}`);
      }
      // Programs in Go and Python send the members of a reading in a new order each time.
      const known = payloadBytes(sortedJson(payload));
      const id = createHash("sha256").update(known).digest("hex").slice(0, 32);
      return [originId, capturedUs, id, receivedUs, nowMs, tagsJson, tagList, bytes];
    });
    let [stored, isNew] = [0, false];
    for (let at = 0; at < rows.length; at += ROWS_MAX) {
      const some = rows.slice(at, at + ROWS_MAX);
      const added = await this.sql.query<{ bytes: number }>(
        `INSERT INTO tabular_data (origin_id, captured_us, entry_id, received_us, stored_ms, tags, tag_list, payload)
         VALUES ${some.map(() => "(?, ?, ?, ?, ?, ?, ?, ?)").join(", ")} ON CONFLICT DO NOTHING
         RETURNING LENGTH(payload) AS bytes`,
        ...some.flat(),
      );
      stored += added.reduce((sum, { bytes }) => sum + bytes, 0);
      isNew ||= added.length > 0;
    }
    await addStoredBytes(this.sql, "readings", originId, origin.organizationId, stored);
    if (isNew) await this.#noteUpload(origin, originId, readings, nowMs);
    return originId;
  }

  async #noteUpload(
    { partId: id, organizationId }: DataOrigin,
    originId: string,
    readings: readonly TabularReading[],
    nowMs: number,
  ): Promise<void> {
    const times = readings.map(({ capturedUs }) => capturedUs);
    const range = {
      fromUs: times.reduce((one, other) => Math.min(one, other)),
      untilUs: times.reduce((one, other) => Math.max(one, other)),
      storedMs: nowMs,
    };
    const facts = { kind: "data", type: "tabular", originId, ...range } as const;
    await noteEvent(this.sql, { id, organizationId }, facts, nowMs, true);
    const [fromMs, untilMs] = [range.fromUs, range.untilUs].map((us) => Math.floor(us / 1000));
    await new DataPipelines(this.sql).noteLate(organizationId, fromMs, untilMs);
  }

  /** The readings of a page: as many as the page may have and one answer can hold, but at least one. */
  async page(found: Conditions, page: BinaryPage): Promise<ReadingPage> {
    return await this.#read(await this.#keys(found, page));
  }

  async count(found: Conditions): Promise<{ count: number; bytes: number }> {
    const [row] = await this.sql.query<{ count: number; bytes: number }>(
      `SELECT COUNT(*) AS count, CAST(COALESCE(SUM(${BYTES}), 0) AS BIGINT) AS bytes
       FROM ${FROM} WHERE ${found.text}`,
      ...found.values,
    );
    return row;
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
   * All readings of the sources, a batch at a time: one source after the other, the oldest reading first. `storedMs`:
   * only those that were stored at this time.
   */
  async *scan(
    sources: Conditions,
    times: ReadingTimes,
    storedMs?: number,
  ): AsyncGenerator<ReadingBatch> {
    for (const { id, ...origin } of await this.#origins(sources)) {
      let last = "";
      do {
        const found = within(id, times);
        if (storedMs !== undefined) found.only("d.stored_ms = ?", storedMs);
        const page = { limit: EXPORT_AT_ONCE, order: "oldest first", last } as const;
        const batch = await this.#rows(await this.#keys(found, page));
        if (batch.rows.length > 0) yield { origin, rows: batch.rows };
        last = batch.last;
      } while (last !== "");
    }
  }

  /** The number of readings that `scan` would find. */
  async countOf(sources: Conditions, times: ReadingTimes): Promise<number> {
    let all = 0;
    for (const { id } of await this.#origins(sources)) {
      const found = within(id, times);
      const [{ count }] = await this.sql.query<{ count: number }>(
        `SELECT COUNT(*) AS count FROM tabular_data d WHERE ${found.text}`,
        ...found.values,
      );
      all += count;
    }
    return all;
  }

  async #origins(sources: Conditions): Promise<(DataOrigin & { readonly id: string })[]> {
    return await this.sql.query(
      `SELECT o.id, ${ORIGIN_COLUMNS} FROM data_origins o WHERE ${sources.text} ORDER BY o.id`,
      ...sources.values,
    );
  }

  /** Removes up to `limit` readings. Returns how many. */
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
    if (parameters) origins.only("o.parameters = ?", inOrder(parameters));
    const ids = await this.sql.query<{ id: string }>(
      `SELECT o.id FROM data_origins o WHERE ${origins.text}`,
      ...origins.values,
    );
    const keys: Key[] = [];
    for (const { id } of ids) {
      const ofOrigin = new Conditions().only("d.origin_id = ?", id);
      if (fromMs !== undefined) ofOrigin.only("d.captured_us >= ?", toMicros(fromMs));
      if (untilMs !== undefined) ofOrigin.only("d.captured_us <= ?", toMicros(untilMs));
      keys.push(...await this.#keys(ofOrigin, page));
    }
    const sign = page.order === "newest first" ? -1 : 1;
    keys.sort((one, other) => sign * (one.capturedUs - other.capturedUs || (one.id < other.id ? -1 : 1)));
    return await this.#read(keys.slice(0, page.limit));
  }

  async #keys(found: Conditions, { limit, order, last }: BinaryPage): Promise<Key[]> {
    const newest = order === "newest first";
    if (last !== "") {
      const [capturedUs, id] = placeIn(last);
      const [originId, entryId = ""] = id.split(":");
      found.only(`d.captured_us ${newest ? "<=" : ">="} ?`, capturedUs).only(
        `(d.captured_us, d.origin_id, d.entry_id) ${newest ? "<" : ">"} (?, ?, ?)`,
        capturedUs,
        originId,
        entryId,
      );
    }
    const direction = newest ? "DESC" : "ASC";
    return await this.sql.query<Key>(
      `SELECT d.origin_id || ':' || d.entry_id AS id, d.captured_us AS "capturedUs",
         ${BYTES} + LENGTH(d.tags) + LENGTH(o.parameters) AS bytes
       FROM ${FROM} WHERE ${found.text}
       ORDER BY d.captured_us ${direction}, d.origin_id ${direction}, d.entry_id ${direction} LIMIT ?`,
      ...found.values,
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
    let bytes = 0;
    const over = keys.findIndex((key, index) => (bytes += key.bytes) > PAGE_BYTES_MAX && index > 0);
    const mine = over < 0 ? keys : keys.slice(0, over);
    if (mine.length === 0) return { rows: [], last: "" };
    const rows = await this.sql.query<Row>(
      `SELECT d.origin_id || ':' || d.entry_id AS id, d.captured_us AS "capturedUs",
         d.received_us AS "receivedUs", d.stored_ms AS "storedMs", d.tags, d.payload, ${BYTES} AS bytes, ${ORIGIN_COLUMNS}
       FROM ${FROM} WHERE (d.origin_id, d.captured_us, d.entry_id) IN (VALUES ${
        mine.map(() => "(?, CAST(? AS BIGINT), ?)").join(", ")
      })`,
      ...mine.flatMap(({ id, capturedUs }) => {
        const [originId, entryId] = id.split(":");
        return [originId, capturedUs, entryId];
      }),
    );
    const found = new Map(rows.map((row) => [placeOf(row), row]));
    return {
      rows: mine.flatMap((key) => found.get(placeOf(key)) ?? []),
      last: placeOf(mine[mine.length - 1]),
    };
  }
}

/** The readings of a source within times. */
function within(originId: string, times: ReadingTimes): Conditions {
  const found = new Conditions().only("d.origin_id = ?", originId);
  for (const [column, { fromUs, untilUs }] of Object.entries(times)) {
    if (fromUs !== undefined) found.only(`d.${column}_us >= ?`, fromUs);
    if (untilUs !== undefined) found.only(`d.${column}_us <= ?`, untilUs);
  }
  return found;
}
