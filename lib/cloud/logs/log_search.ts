/**
 * Searches through the stored logs of one machine, a page at a time.
 *
 * Owns the order of answers and their size. A search with conditions examines a limited range of entries at a time, so
 * that no statement takes long, and yields to others in between. In a long entry it searches only the beginning.
 */

import { type LogEntry, LogEntrySchema } from "../../../proto/gen/common_pb.ts";
import { CallerTurns } from "../../base/async/turns.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { fromBinary } from "../../wire/rpc/proto.ts";
import { placeholders, type SqlValue, type Store } from "../store/store.ts";

/** The conditions on entries. */
export interface LogFilter {
  /** Entries with this text in their logger, message or fields as `fieldsText` writes them, in any letter case. */
  readonly filter?: string;
  /** Entries of these levels; of all levels if it is empty. */
  readonly levels?: readonly string[];
  /** Entries of loggers with this text in their name. */
  readonly logger?: string;
  /** Bounds of the time at which the machine wrote them. */
  readonly fromMs?: number;
  readonly untilMs?: number;
}

/**
 * `arrival` orders by the numbers of the entries; the others by the time at which the machine wrote them, then by
 * number.
 */
export type LogOrdering = "newest first" | "oldest first" | "arrival";

/** Where an entry stands in every order. */
export interface LogCursor {
  readonly writtenMs: number;
  /** Its number in the order of arrival. */
  readonly number: number;
}

export interface NumberedLog extends LogCursor {
  readonly entry: LogEntry;
}

/** Entries that fit into one answer. */
export interface LogsFound {
  readonly entries: readonly NumberedLog[];
  /** Whether more entries follow. */
  readonly more: boolean;
}

export interface LogPaging {
  readonly order: LogOrdering;
  readonly limit: number;
  /** Entries that follow this cursor in the order. */
  readonly after?: LogCursor;
}

/** Limit of the entries in one answer, in bytes; a longer entry is alone in its answer. */
const PAGE_BYTES_MAX = 16 * 1024 ** 2;
/**
 * Entries that a search examines in one turn: fewer if a turn takes longer than `TURN_MS`, more if it is much shorter.
 */
const TURN_ROWS = { first: 20, max: 20_000 };
const TURN_MS = 20;
/** Limits of the searched text, and of the searched part of an entry: their product bounds the work. */
const TEXT_LENGTH_MAX = 256;
export const SEARCHED_LENGTH = 16 * 1024;
export const LOGGER_LENGTH = 1024;
const LEVELS_MAX = 100;
/** Limits of concurrent searches; searches in the logs of one machine wait for each other. */
const TURNS = {
  turnsMax: 4,
  turnsOfGroupMax: 1,
  waiting: [10_000, 1_000, 1_000],
  what: "log searches",
} as const;

interface Sized extends LogCursor {
  readonly bytes: number;
}

/** Conditions of a statement, with their values. */
class Conditions {
  readonly #all: string[] = [];
  readonly values: SqlValue[] = [];

  add(condition: string, ...values: SqlValue[]): this {
    this.#all.push(condition);
    this.values.push(...values);
    return this;
  }

  and(more: Conditions): Conditions {
    const both = new Conditions();
    for (const { text, values } of [this, more]) if (text !== "") both.add(text, ...values);
    return both;
  }

  get text(): string {
    return this.#all.join(" AND ");
  }
}

export class LogSearch {
  readonly #turns: CallerTurns;

  constructor(private readonly store: Store, private readonly clock: Clock) {
    this.#turns = new CallerTurns(TURNS, clock);
  }

  /**
   * Entries received since `sinceMs`, up to the limit and to the size of an answer; at least one, if there is one.
   * Throws the reason of `signal` if it aborts first, `invalid_argument` for a filter that is too long.
   */
  async page(
    partId: string,
    filter: LogFilter,
    { order, after, limit }: LogPaging,
    sinceMs: number,
    signal?: AbortSignal,
  ): Promise<LogsFound> {
    const sorting = new Sorting(order);
    const chosen = new Conditions().add("part_id = ?", partId).and(boundsOf(filter));
    const wanted = new Conditions().add("received_ms >= ?", sinceMs).and(contentOf(filter));
    const isSearch = Boolean(filter.filter || filter.logger || filter.levels?.length);
    const found: Sized[] = [];
    let bytes = 0;
    let rows: number = TURN_ROWS.first;
    for (let at = after;;) {
      signal?.throwIfAborted();
      const rest = at ? chosen.and(sorting.after(at)) : chosen;
      const leave = isSearch ? await this.#turns.enter([partId], signal) : undefined;
      const begunMs = this.clock.monotonicMs();
      let end: LogCursor | undefined;
      try {
        end = isSearch ? await this.#cursor(rest, sorting, rows) : undefined;
        const stretch = (end ? rest.and(sorting.upTo(end)) : rest).and(wanted);
        found.push(...await this.#sizes(stretch, sorting, limit + 1 - found.length));
      } finally {
        leave?.();
      }
      const tookMs = this.clock.monotonicMs() - begunMs;
      bytes = found.reduce((sum, one) => sum + one.bytes, 0);
      if (!end || found.length > limit || bytes > PAGE_BYTES_MAX) break;
      at = end;
      if (tookMs > TURN_MS) rows = Math.ceil(rows / 4);
      else if (tookMs < TURN_MS / 4) rows = Math.min(TURN_ROWS.max, rows * 2);
    }
    const count = Math.min(fitting(found), limit);
    return {
      entries: await this.#entries(partId, found.slice(0, count), sorting),
      more: found.length > count,
    };
  }

  /** The cursor of the last of the next `rows` entries; `undefined` if fewer follow. */
  async #cursor(rest: Conditions, { text }: Sorting, rows: number): Promise<LogCursor | undefined> {
    const [cursor] = await this.store.query<LogCursor>(
      `SELECT number, written_ms AS "writtenMs" FROM logs WHERE ${rest.text} ORDER BY ${text} LIMIT 1 OFFSET ?`,
      ...rest.values,
      rows - 1,
    );
    return cursor;
  }

  /** Reads only the sizes, so that entries that do not fit are never read. */
  async #sizes({ text, values }: Conditions, sorting: Sorting, limit: number): Promise<Sized[]> {
    return await this.store.query<Sized>(
      `SELECT number, written_ms AS "writtenMs", LENGTH(entry) AS bytes FROM logs
       WHERE ${text} ORDER BY ${sorting.text} LIMIT ?`,
      ...values,
      limit,
    );
  }

  async #entries(partId: string, found: readonly LogCursor[], { text }: Sorting): Promise<NumberedLog[]> {
    if (found.length === 0) return [];
    const rows = await this.store.query<LogCursor & { entry: Uint8Array }>(
      `SELECT number, written_ms AS "writtenMs", entry FROM logs
       WHERE part_id = ? AND number IN (${placeholders(found)}) ORDER BY ${text}`,
      partId,
      ...found.map(({ number }) => number),
    );
    return rows.map(({ entry, ...cursor }) => ({ ...cursor, entry: fromBinary(LogEntrySchema, entry) }));
  }
}

/** An order in SQL. */
class Sorting {
  readonly text: string;
  readonly #columns: string;
  readonly #follows: ">" | "<";

  constructor(private readonly order: LogOrdering) {
    const direction = order === "newest first" ? "DESC" : "ASC";
    const columns = order === "arrival" ? ["number"] : ["written_ms", "number"];
    this.text = columns.map((column) => `${column} ${direction}`).join(", ");
    this.#columns = `(${columns.join(", ")})`;
    this.#follows = order === "newest first" ? "<" : ">";
  }

  after(cursor: LogCursor): Conditions {
    return this.#compared(this.#follows, cursor);
  }

  upTo(cursor: LogCursor): Conditions {
    return this.#compared(this.#follows === ">" ? "<=" : ">=", cursor);
  }

  #compared(how: string, { writtenMs, number }: LogCursor): Conditions {
    const values = this.order === "arrival" ? [number] : [writtenMs, number];
    return new Conditions().add(`${this.#columns} ${how} (${placeholders(values)})`, ...values);
  }
}

/** How many entries fit into one answer: at least one. */
function fitting(found: readonly Sized[]): number {
  let bytes = 0;
  const over = found.findIndex((one, index) => (bytes += one.bytes) > PAGE_BYTES_MAX && index > 0);
  return over < 0 ? found.length : over;
}

/** The bounds of time, which an index answers. */
function boundsOf({ fromMs, untilMs }: LogFilter): Conditions {
  const bounds = new Conditions();
  if (fromMs !== undefined) bounds.add("written_ms >= ?", Math.floor(fromMs));
  if (untilMs !== undefined) bounds.add("written_ms <= ?", Math.floor(untilMs));
  return bounds;
}

/** The conditions on the content, which require examining each entry. */
function contentOf({ filter = "", levels = [], logger = "" }: LogFilter): Conditions {
  const content = new Conditions();
  if (filter !== "") addSearch(content, `SUBSTR(words, 1, ${SEARCHED_LENGTH})`, ["filter", filter]);
  if (logger !== "") addSearch(content, `SUBSTR(logger, 1, ${LOGGER_LENGTH})`, ["source", logger]);
  if (levels.length > LEVELS_MAX) {
    const found = `levels has ${levels.length} levels`;
    throw new SvcError("invalid_argument", `${found}, wanted at most ${LEVELS_MAX}`);
  }
  if (levels.length > 0) {
    content.add(`level IN (${placeholders(levels)})`, ...levels.map((level) => level.toLowerCase()));
  }
  return content;
}

/** Requires that `column` contains the searched text; both are in lower case. LIKE compares letter by letter. */
function addSearch(content: Conditions, column: string, [what, part]: readonly [string, string]): void {
  if (part.length > TEXT_LENGTH_MAX) {
    const found = `${what} has ${part.length} letters`;
    throw new SvcError("invalid_argument", `${found}, wanted at most ${TEXT_LENGTH_MAX}`);
  }
  content.add(`REPLACE(${column}, ?, '') <> ${column}`, searchable(part));
}

/**
 * The searchable form of a text: in lower case, without characters that PostgreSQL cannot store, and cut at the limit.
 */
export function searchable(text: string, lengthMax = Infinity): string {
  return text.slice(0, lengthMax).toLowerCase().replaceAll("\0", " ").toWellFormed();
}
