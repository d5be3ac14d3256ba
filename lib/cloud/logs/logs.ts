/**
 * The logs of machines: stored once each, kept for 30 days, searched and followed.
 *
 * The whole content of an entry, its time included, identifies it: an entry that is sent again because its
 * acknowledgement was lost is stored only once. The entries of a part are numbered in the order of their arrival, and
 * no reader sees an entry before those with smaller numbers. Followers get them in this order, answers in the order of
 * the times at which the machine wrote them.
 *
 * The room owns the table of logs, and the search through them.
 */

import { createHash } from "node:crypto";
import { type LogEntry, LogEntrySchema } from "../../../proto/gen/common_pb.ts";
import { toMs, toTimestamp } from "../../api/shared/time.ts";
import type { Clock } from "../../base/clock.ts";
import { sortedJson } from "../../base/schema/schema.ts";
import { toBinary } from "../../wire/rpc/proto.ts";
import { fieldsText } from "../../base/log/zap_fields.ts";
import { defaultLimits, type Limits, requireWithin } from "../access/limits.ts";
import type { CloudContext } from "../access/context.ts";
import { addedLogBytes, dropStoredBytes } from "../store/stored_bytes.ts";
import { type BatchStatement, placeholders, rowPieces, type SqlValue, type Store } from "../store/store.ts";
import {
  type LogFilter,
  LOGGER_LENGTH,
  type LogPaging,
  LogSearch,
  type LogsFound,
  searchable,
  SEARCHED_LENGTH,
} from "./log_search.ts";

/** A search for the entries of a machine. */
export interface LogQuery extends LogFilter, LogPaging {
  readonly order: "newest first" | "oldest first";
}

const DAY_MS = 24 * 3600 * 1000;
const FORGET_AT_ONCE = 5_000;
/** Interval of the search for entries that another control plane on the same database has stored. */
const LOOK_MS = 1_000;
const FOLLOW_AT_ONCE = 500;
/** Interval of the selection of the parts that are followed together. */
const SELECT_MS = 30_000;
/** The first and the last instant that a published timestamp may have. */
const FIRST_MS = Date.parse("0001-01-01T00:00:00Z");
const LAST_MS = Date.parse("9999-12-31T23:59:59.999Z");

/** Limits of the stored entries of all parts; commands on the host have none. */
export type LogQuotas = Pick<CloudContext, "usage" | "files">;

/** A part and its organization, to which its entries count. */
export interface LoggingPart {
  readonly id: string;
  readonly organizationId: string;
}

export class LogStore {
  /** Followers that wait for entries of a part. */
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #search: LogSearch;

  constructor(
    private readonly store: Store,
    private readonly clock: Clock,
    private readonly limits: Limits = defaultLimits(),
    private readonly quotas?: LogQuotas,
  ) {
    this.#search = new LogSearch(store, clock);
  }

  /** Stores entries; when it resolves they are on disk. */
  async add(part: LoggingPart, entries: readonly LogEntry[], nowMs: number): Promise<void> {
    const { id: partId, organizationId } = part;
    if (entries.length === 0) return;
    requireWithin(this.limits, "logLinesPerCall", entries.length);
    const rows = rowsOf(entries, nowMs);
    const bytes = rows.reduce((sum, row) => sum + (row[row.length - 1] as Uint8Array).length, 0);
    requireWithin(this.limits, "logBytesPerCall", bytes);
    const words = rows.reduce((sum, row) => sum + String(row[row.length - 2]).length, 0);
    await this.#requireQuota(partId, organizationId, bytes + words);
    const stopped = await this.store.batch([
      ...this.#counted(partId, rows.length, bytes, nowMs),
      // Holding this row until the end keeps the entries of a part in order.
      {
        text: `INSERT INTO log_heads (part_id, number) VALUES (?, ?)
          ON CONFLICT (part_id) DO UPDATE SET number = log_heads.number + excluded.number`,
        values: [partId, rows.length],
      },
      ...insertsOf(partId, rows),
      addedLogBytes(partId, organizationId, rows.length),
    ]);
    for (const { lines, bytes } of stopped as readonly { lines: number; bytes: number }[]) {
      requireWithin(this.limits, "logLinesPerMachineDay", lines);
      requireWithin(this.limits, "logBytesPerMachineDay", bytes);
    }
    for (const wake of this.#waiting.get(partId) ?? []) wake();
  }

  /** Throws `resource_exhausted` if the part or its organization keeps too many logs, or the disk is full. */
  async #requireQuota(partId: string, organizationId: string, bytes: number): Promise<void> {
    const { usage, files } = this.quotas ?? {};
    await files?.requireSpace("entries", bytes);
    await usage?.take(partId, "logBytesPerPart", bytes);
    await usage?.take(organizationId, "logBytesPerOrganization", bytes);
  }

  /** Counts a part's logs of a day; stops past the limit. */
  #counted(partId: string, lines: number, bytes: number, nowMs: number): BatchStatement[] {
    const { logLinesPerMachineDay, logBytesPerMachineDay } = this.limits;
    return [
      {
        text: `INSERT INTO log_days (part_id, day, lines, bytes) VALUES (?, ?, ?, ?)
          ON CONFLICT (part_id) DO UPDATE SET day = excluded.day,
            lines = CASE WHEN log_days.day = excluded.day THEN log_days.lines ELSE 0 END + excluded.lines,
            bytes = CASE WHEN log_days.day = excluded.day THEN log_days.bytes ELSE 0 END + excluded.bytes`,
        values: [partId, Math.floor(nowMs / DAY_MS), lines, bytes],
      },
      {
        text: "SELECT lines, bytes FROM log_days WHERE part_id = ? AND (lines > ? OR bytes > ?)",
        values: [partId, logLinesPerMachineDay, logBytesPerMachineDay],
        stops: true,
      },
    ];
  }

  /**
   * Entries up to the limit and to the size of an answer; at least one, if there is one. Throws the reason of `signal`
   * if it aborts first.
   */
  async find(
    partId: string,
    { order, after, limit, ...filter }: LogQuery,
    signal?: AbortSignal,
  ): Promise<LogsFound> {
    const sinceMs = await this.#sinceMs(partId);
    return await this.#search.page(partId, filter, { order, after, limit }, sinceMs, signal);
  }

  get #oldestMs(): number {
    return this.clock.nowMs() - this.limits.logDays * DAY_MS;
  }

  /** The start of the entries that have not expired and belong to the part's present organization. */
  async #sinceMs(partId: string): Promise<number> {
    const [part] = await this.store.query<{ movedMs: number; ownDays: number | null }>(
      `SELECT p.moved_ms AS "movedMs", r.own_log_days AS "ownDays" FROM parts p
       JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id
       LEFT JOIN data_retention r ON r.organization_id = l.organization_id WHERE p.id = ?`,
      partId,
    );
    const ownMs = part?.ownDays ? this.clock.nowMs() - part.ownDays * DAY_MS : 0;
    return Math.max(this.#oldestMs, ownMs, part && part.movedMs > 0 ? part.movedMs + 1 : 0);
  }

  /**
   * Entries that arrive from now on (or after a number), until `signal` aborts; then it throws the signal's reason.
   */
  async *follow(
    partId: string,
    { after: start, ...filter }: Pick<LogFilter, "filter" | "levels"> & { readonly after?: number },
    signal: AbortSignal,
  ): AsyncGenerator<LogEntry[]> {
    let after = start ?? await this.#head(partId);
    for (;;) {
      const heard = this.#listen(partId);
      try {
        // Every entry up to the head is stored by now, so entries that the query leaves out need not be read again.
        const head = await this.#head(partId);
        const page = {
          order: "arrival",
          after: { number: after, writtenMs: 0 },
          limit: FOLLOW_AT_ONCE,
        } as const;
        const sinceMs = await this.#sinceMs(partId);
        const { entries, more } = await this.#search.page(partId, filter, page, sinceMs, signal);
        if (entries.length > 0) yield entries.map(({ entry }) => entry);
        after = Math.max(more ? 0 : head, entries.at(-1)?.number ?? after);
        if (!more) await this.#news(heard.promise, signal);
      } finally {
        heard.stop();
      }
    }
  }

  /** The number of the last entry of each part; 0 for none. */
  async heads(partIds: readonly string[]): Promise<Map<string, number>> {
    if (partIds.length === 0) return new Map();
    const rows = await this.store.query<{ id: string; number: number }>(
      `SELECT part_id AS id, number FROM log_heads WHERE part_id IN (${placeholders(partIds)})`,
      ...partIds,
    );
    const heads = new Map(rows.map(({ id, number }) => [id, number]));
    return new Map(partIds.map((id) => [id, heads.get(id) ?? 0]));
  }

  /**
   * Entries of many parts that arrive after these numbers, as they arrive, until `signal` aborts; then it throws the
   * signal's reason. It asks again and again which parts it follows. Of one that joins it gives what arrives from then on.
   */
  async *followParts(
    select: () => Promise<readonly string[]>,
    { after, ...filter }: Pick<LogFilter, "filter" | "levels"> & {
      readonly after: ReadonlyMap<string, number>;
    },
    signal: AbortSignal,
  ): AsyncGenerator<{ readonly partId: string; readonly entry: LogEntry }[]> {
    let partIds = [...after.keys()];
    let reached = after;
    let selectedMs = -SELECT_MS;
    for (;;) {
      if (this.clock.monotonicMs() - selectedMs >= SELECT_MS) {
        partIds = [...await select()];
        selectedMs = this.clock.monotonicMs();
      }
      const heads = await this.heads(partIds);
      for (const [partId, head] of heads) {
        const known = reached.get(partId) ?? head;
        yield* this.#arrived(partId, { ...filter, after: known, head }, signal);
      }
      reached = heads;
      await this.clock.sleep(LOOK_MS, signal);
    }
  }

  /** The entries of a part between two numbers, a page at a time. */
  async *#arrived(
    partId: string,
    { after, head, ...filter }: Pick<LogFilter, "filter" | "levels"> & {
      readonly after: number;
      readonly head: number;
    },
    signal: AbortSignal,
  ): AsyncGenerator<{ readonly partId: string; readonly entry: LogEntry }[]> {
    for (let at = after; at < head;) {
      const page = { order: "arrival", after: { number: at, writtenMs: 0 }, limit: FOLLOW_AT_ONCE } as const;
      const sinceMs = await this.#sinceMs(partId);
      const { entries, more } = await this.#search.page(partId, filter, page, sinceMs, signal);
      const own = entries.filter(({ number }) => number <= head);
      if (own.length > 0) yield own.map(({ entry }) => ({ partId, entry }));
      at = more ? entries.at(-1)?.number ?? at : head;
    }
  }

  /** Deletes entries that are older than the limit `log_days`, or than their organization keeps them. */
  async forgetOld(): Promise<void> {
    const parts = await this.store.query<{ id: string; ownDays: number }>(
      `SELECT p.id, r.own_log_days AS "ownDays" FROM data_retention r
       JOIN locations l ON l.organization_id = r.organization_id JOIN machines m ON m.location_id = l.id
       JOIN parts p ON p.machine_id = m.id WHERE r.own_log_days IS NOT NULL`,
    );
    for (const { id, ownDays } of parts) {
      // The numbers of a part's entries are in the order of their arrival.
      await this.#forget(
        `part_id = ? AND received_ms < ? AND number IN (
           SELECT number FROM logs WHERE part_id = ? ORDER BY number LIMIT ?
         )`,
        [id, this.clock.nowMs() - ownDays * DAY_MS, id],
      );
    }
    const old = "(part_id, number) IN (SELECT part_id, number FROM logs WHERE received_ms < ? LIMIT ?)";
    await this.#forget(old, [this.#oldestMs]);
  }

  /** Deletes the entries of a condition, some at a time; its last parameter is how many. */
  async #forget(condition: string, values: readonly SqlValue[]): Promise<void> {
    for (;;) {
      const gone = await this.store.transaction(async (sql) => {
        const removed = await sql.query<{ ownerId: string; bytes: number }>(
          `DELETE FROM logs WHERE ${condition}
           RETURNING part_id AS "ownerId", LENGTH(entry) + LENGTH(words) AS bytes`,
          ...values,
          FORGET_AT_ONCE,
        );
        await dropStoredBytes(sql, "logs", removed);
        return removed;
      });
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

/** Stores entries under the numbers up to the head of their part. */
function insertsOf(partId: string, rows: readonly SqlValue[][]): BatchStatement[] {
  const number = "(SELECT number FROM log_heads WHERE part_id = ?) - CAST(? AS BIGINT)";
  const numbered = rows.map((row, at) => [partId, partId, rows.length - 1 - at, ...row]);
  return rowPieces(numbered).map((piece) => ({
    text: `INSERT INTO logs (part_id, number, entry_id, received_ms, written_ms, level, logger, words, entry)
      VALUES ${piece.map(() => `(?, ${number}, ?, ?, ?, ?, ?, ?, ?)`).join(", ")}
      ON CONFLICT (part_id, entry_id) DO NOTHING`,
    values: piece.flat(),
  }));
}

/** The columns of `logs` after the number. */
function rowsOf(entries: readonly LogEntry[], nowMs: number): SqlValue[][] {
  const seen = new Map<string, number>();
  return entries.map((entry) => {
    const timeMs = Math.floor(toMs(entry.time)) || nowMs;
    // Published clients cannot read a page with a time outside of these.
    const isTime = FIRST_MS <= timeMs && timeMs <= LAST_MS;
    const bytes = toBinary(
      LogEntrySchema,
      isTime ? entry : { ...entry, time: { ...entry.time!, ...toTimestamp(nowMs) } },
    );
    const known = knownBytes(entry, isTime ? bytes : undefined);
    const hash = createHash("sha256").update(known).digest("base64url");
    // An entry that occurs twice in one batch was logged twice.
    const times = (seen.get(hash) ?? 0) + 1;
    seen.set(hash, times);
    const id = times === 1 ? hash : `${hash}#${times}`;
    const writtenMs = isTime ? timeMs : nowMs;
    const words = `${entry.loggerName} ${entry.message} ${fieldsText(entry)}`;
    const searched = [searchable(entry.loggerName, LOGGER_LENGTH), searchable(words, SEARCHED_LENGTH)];
    return [id, nowMs, writtenMs, searchable(entry.level), ...searched, bytes];
  });
}

/** What identifies an entry: its message, for which `bytes` will do if no field can have another form. */
function knownBytes(entry: LogEntry, bytes?: Uint8Array): Uint8Array {
  if (bytes && entry.fields.length === 0) return bytes;
  // Go programs send the members of a field in a different order each time.
  return toBinary(LogEntrySchema, { ...entry, fields: entry.fields.map((field) => sortedJson(field)) });
}
