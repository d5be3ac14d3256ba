/**
 * The logs of machines: stored once each, kept for 30 days, searched and followed.
 *
 * The whole content of an entry, its time included, identifies it: an entry that is sent again, because its
 * acknowledgement was lost, is not stored again. The entries of a part are numbered in the order of their arrival, and
 * no reader sees an entry before those with smaller numbers. Followers get them in this order, answers have them in the
 * order of the times at which the machine wrote them.
 *
 * The room owns the table of logs, and the calls on them.
 */

import { createHash } from "node:crypto";
import { type LogEntry, LogEntrySchema } from "../../../proto/gen/common_pb.ts";
import { toMs } from "../../api/shared/time.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { sortedJson } from "../../base/schema/schema.ts";
import { fromBinary, toBinary } from "../../wire/proto.ts";
import { fieldsText } from "../../cloud_client/log_message.ts";
import { defaultLimits, type Limits, requireWithin } from "../access/limits.ts";
import { places, type Sql, type SqlValue, type Store } from "../store/store.ts";

export interface LogQuery {
  /** Entries with this text in their logger, message or fields as `fieldsText` writes them, in any letter case. */
  readonly filter?: string;
  /** Entries of these levels; of all levels if it is empty. */
  readonly levels?: readonly string[];
  /** Entries of loggers with this text in their name. */
  readonly logger?: string;
  /** Bounds of the time at which the machine wrote them. */
  readonly fromMs?: number;
  readonly untilMs?: number;
  readonly limit: number;
  /** By the time at which the machine wrote them; of equal times, by their arrival. */
  readonly order: "newest first" | "oldest first";
  /** Entries that follow this one in this order. */
  readonly after?: LogPlace;
}

/** The place of an entry in the order of time. */
export interface LogPlace {
  readonly writtenMs: number;
  /** Its place in the order of arrival. */
  readonly number: number;
}

export interface PlacedLog extends LogPlace {
  readonly entry: LogEntry;
}

/** Entries that fit into one answer. */
export interface LogsFound {
  readonly entries: readonly PlacedLog[];
  /** Whether more entries follow. */
  readonly more: boolean;
}

type Search = Pick<LogQuery, "filter" | "levels" | "logger" | "fromMs" | "untilMs">;

const DAY_MS = 24 * 3600 * 1000;
const KEPT_MS = 30 * DAY_MS;
/** Rows per statement. */
const ROWS_MAX = 400;
const FORGET_AT_ONCE = 5_000;
/** Interval of the search for entries that another control plane on the same database has stored. */
const LOOK_MS = 1_000;
const FOLLOW_AT_ONCE = 500;
/** Limit of the entries in one answer, in bytes; a longer entry is alone in its answer. */
const PAGE_BYTES_MAX = 16 * 1024 ** 2;
/** SQLite takes patterns of 50,000 bytes, in which a letter has three bytes at most. */
const FILTER_LENGTH_MAX = 10_000;

export class LogStore {
  /** Followers that wait for entries of a part. */
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(
    private readonly store: Store,
    private readonly clock: Clock,
    private readonly limits: Limits = defaultLimits(),
  ) {}

  /** Stores entries; when it resolves they are on disk. */
  async add(partId: string, entries: readonly LogEntry[], nowMs: number): Promise<void> {
    if (entries.length === 0) return;
    requireWithin(this.limits, "logLinesPerCall", entries.length);
    const rows = rowsOf(entries, nowMs);
    const bytes = rows.reduce((sum, row) => sum + (row[row.length - 1] as Uint8Array).length, 0);
    requireWithin(this.limits, "logBytesPerCall", bytes);
    await this.store.transaction(async (sql) => {
      await this.#count(sql, partId, rows.length, bytes, nowMs);
      // Holding this row until the end keeps the entries of a part in order.
      const [{ number: last }] = await sql.query<{ number: number }>(
        `INSERT INTO log_heads (part_id, number) VALUES (?, ?)
         ON CONFLICT (part_id) DO UPDATE SET number = log_heads.number + excluded.number RETURNING number`,
        partId,
        rows.length,
      );
      for (let at = 0; at < rows.length; at += ROWS_MAX) {
        const some = rows.slice(at, at + ROWS_MAX);
        const values = some.flatMap((row, index) => [partId, last - rows.length + 1 + at + index, ...row]);
        await sql.query(
          `INSERT INTO logs (part_id, number, entry_id, received_ms, written_ms, level, logger, words, entry)
           VALUES ${some.map(() => "(?, ?, ?, ?, ?, ?, ?, ?, ?)").join(", ")}
           ON CONFLICT (part_id, entry_id) DO NOTHING`,
          ...values,
        );
      }
    });
    for (const wake of this.#waiting.get(partId) ?? []) wake();
  }

  /** Counts a part's logs of a day. Throws `resource_exhausted` past the limit. */
  async #count(sql: Sql, partId: string, lines: number, bytes: number, nowMs: number): Promise<void> {
    const [today] = await sql.query<{ lines: number; bytes: number }>(
      `INSERT INTO log_days (part_id, day, lines, bytes) VALUES (?, ?, ?, ?)
       ON CONFLICT (part_id) DO UPDATE SET day = excluded.day,
         lines = CASE WHEN log_days.day = excluded.day THEN log_days.lines ELSE 0 END + excluded.lines,
         bytes = CASE WHEN log_days.day = excluded.day THEN log_days.bytes ELSE 0 END + excluded.bytes
       RETURNING lines, bytes`,
      partId,
      Math.floor(nowMs / DAY_MS),
      lines,
      bytes,
    );
    requireWithin(this.limits, "logLinesPerMachineDay", today.lines);
    requireWithin(this.limits, "logBytesPerMachineDay", today.bytes);
  }

  /** Entries up to the limit and to the size of an answer; at least one, if there is one. */
  async find(partId: string, { order, after, limit, ...search }: LogQuery): Promise<LogsFound> {
    const { where, values } = this.#conditions(partId, search);
    const [before, direction] = order === "newest first" ? ["<", "DESC"] : [">", "ASC"];
    if (after !== undefined) {
      where.push(`(written_ms, number) ${before} (?, ?)`);
      values.push(after.writtenMs, after.number);
    }
    return await this.#page(where, values, `written_ms ${direction}, number ${direction}`, limit);
  }

  /** Entries in the order of their arrival, after the one with this number. */
  async #arrived(partId: string, search: Search, after: number): Promise<LogsFound> {
    const { where, values } = this.#conditions(partId, search);
    return await this.#page([...where, "number > ?"], [...values, after], "number", FOLLOW_AT_ONCE);
  }

  /** Reads the sizes of the entries first, so that no entry is read that does not fit. */
  async #page(
    where: readonly string[],
    values: readonly SqlValue[],
    order: string,
    limit: number,
  ): Promise<LogsFound> {
    const chosen = `logs WHERE ${where.join(" AND ")} ORDER BY ${order} LIMIT ?`;
    const sizes = await this.store.query<{ bytes: number }>(
      `SELECT LENGTH(entry) AS bytes FROM ${chosen}`,
      ...values,
      limit + 1,
    );
    let bytes = 0;
    const over = sizes.findIndex((one, index) => (bytes += one.bytes) > PAGE_BYTES_MAX && index > 0);
    const count = Math.min(over < 0 ? sizes.length : over, limit);
    const rows = await this.store.query<LogPlace & { entry: Uint8Array }>(
      `SELECT number, written_ms AS "writtenMs", entry FROM ${chosen}`,
      ...values,
      count,
    );
    const entries = rows.map(({ entry, ...place }) => ({
      ...place,
      entry: fromBinary(LogEntrySchema, entry),
    }));
    return { entries, more: sizes.length > count };
  }

  #conditions(partId: string, { filter = "", levels = [], logger = "", fromMs, untilMs }: Search) {
    const where = ["part_id = ?", "received_ms >= ?"];
    const values: SqlValue[] = [partId, this.clock.nowMs() - KEPT_MS];
    const only = (condition: string, ...more: SqlValue[]) => {
      where.push(condition);
      values.push(...more);
    };
    if (filter !== "") only("words LIKE ? ESCAPE '!'", like("filter", filter));
    if (logger !== "") only("logger LIKE ? ESCAPE '!'", like("source", logger));
    if (levels.length > 0) {
      only(
        `level IN (${places(levels)})`,
        ...levels.map((level) => level.toLowerCase()),
      );
    }
    if (fromMs !== undefined) only("written_ms >= ?", Math.floor(fromMs));
    if (untilMs !== undefined) only("written_ms <= ?", Math.floor(untilMs));
    return { where, values };
  }

  /**
   * Entries that arrive from now on (or after a number), until `signal` aborts; then it throws the signal's reason.
   */
  async *follow(
    partId: string,
    { after: start, ...search }: Pick<Search, "filter" | "levels"> & { readonly after?: number },
    signal: AbortSignal,
  ): AsyncGenerator<LogEntry[]> {
    let after = start ?? await this.#head(partId);
    for (;;) {
      const heard = this.#listen(partId);
      try {
        // Every entry up to the head is stored by now; those that the query leaves out need no second look.
        const head = await this.#head(partId);
        const { entries, more } = await this.#arrived(partId, search, after);
        if (entries.length > 0) yield entries.map(({ entry }) => entry);
        after = Math.max(more ? 0 : head, entries.at(-1)?.number ?? after);
        if (!more) await this.#news(heard.promise, signal);
      } finally {
        heard.stop();
      }
    }
  }

  /** Deletes entries older than 30 days. */
  async forgetOld(): Promise<void> {
    for (;;) {
      const gone = await this.store.transaction((sql) =>
        sql.query(
          `DELETE FROM logs WHERE (part_id, number) IN (
             SELECT part_id, number FROM logs WHERE received_ms < ? LIMIT ?
           ) RETURNING number`,
          this.clock.nowMs() - KEPT_MS,
          FORGET_AT_ONCE,
        )
      );
      if (gone.length < FORGET_AT_ONCE) return;
    }
  }

  async #head(partId: string): Promise<number> {
    const text = "SELECT number FROM log_heads WHERE part_id = ?";
    const [row] = await this.store.query<{ number: number }>(text, partId);
    return row?.number ?? 0;
  }

  #listen(partId: string): { promise: Promise<void>; stop: () => void } {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(partId) ?? new Set();
    this.#waiting.set(partId, waiting.add(resolve));
    return {
      promise,
      stop: () => {
        waiting.delete(resolve);
        if (waiting.size === 0) this.#waiting.delete(partId);
      },
    };
  }

  /** Waits until an entry has arrived here, or may have arrived elsewhere. */
  async #news(here: Promise<void>, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const elsewhere = this.clock.sleep(LOOK_MS, AbortSignal.any([signal, over.signal]));
    try {
      await Promise.race([here, elsewhere]);
    } finally {
      over.abort();
      await elsewhere.catch(() => {});
    }
    signal.throwIfAborted();
  }
}

/** The columns of `logs` after the number. */
function rowsOf(entries: readonly LogEntry[], nowMs: number): SqlValue[][] {
  const seen = new Map<string, number>();
  return entries.map((entry) => {
    const bytes = toBinary(LogEntrySchema, entry);
    // Programs in Go send the members of a field in a new order each time.
    const known = toBinary(LogEntrySchema, {
      ...entry,
      fields: entry.fields.map((field) => sortedJson(field)),
    });
    const hash = createHash("sha256").update(known).digest("base64url");
    // An entry that is twice in one batch was logged twice.
    const times = (seen.get(hash) ?? 0) + 1;
    seen.set(hash, times);
    const id = times === 1 ? hash : `${hash}#${times}`;
    const writtenMs = Math.floor(toMs(entry.time)) || nowMs;
    const words = `${entry.loggerName} ${entry.message} ${fieldsText(entry)}`;
    return [id, nowMs, writtenMs, ...[entry.level, entry.loggerName, words].map(searchable), bytes];
  });
}

/** In lower case, and without characters that PostgreSQL cannot store. */
function searchable(text: string): string {
  return text.toLowerCase().replaceAll("\0", " ");
}

function like(what: string, part: string): string {
  if (part.length > FILTER_LENGTH_MAX) {
    const found = `${what} has ${part.length} letters`;
    throw new SvcError("invalid_argument", `${found}, wanted at most ${FILTER_LENGTH_MAX}`);
  }
  return `%${searchable(part).replace(/[!%_]/g, "!$&")}%`;
}
