/**
 * The store in one SQLite file.
 *
 * The statements run in separate processes (`worker.ts`): one writes, a few read, and nobody sees uncommitted data. So
 * a slow statement does not block this process, or other callers beyond its share, and its deadline ends it. Only
 * lookups, which cannot be slow, run here (`main_thread.ts`). An acknowledged commit is on disk.
 *
 * The room owns the file of SQLite: the processes that open it, their protocol, and turns.
 */

import type { Clock } from "../../../base/clock.ts";
import { SvcError } from "../../../base/error.ts";
import { type StoreCaller, StoreCallers } from "../callers.ts";
import { type Lookup, sqlOf } from "../lookups.ts";
import { type Notices, type NoticeTopic, OwnNotices, UNKNOWN_CHANGE } from "../notices.ts";
import {
  type BatchStatement,
  queryOne,
  type Sql,
  type SqlRow,
  type SqlValue,
  type Store,
  type StoreWaiting,
} from "../store.ts";
import { MainThreadLookups } from "./main_thread.ts";
import { type SqliteAddress, SqliteProcess } from "./process.ts";
import { SqliteReaders } from "./readers.ts";
import { CALL_LIMITS, SqliteWriter } from "./writer.ts";

/** Time limit of changes of the tables themselves, and of rewriting the file, which take longer with a larger file. */
const TABLES_MS = 3600_000;

/** SQLite's number for files that shrink on request. */
const INCREMENTAL = 2;
/** Pages of 4 KB that are released at once; the same number may stay free. */
const SHRINK_PAGES = 512;

export class SqliteStore implements Store {
  readonly notices: Notices;
  readonly #callers = new StoreCallers();
  readonly #writer: SqliteWriter;
  readonly #readers: SqliteReaders;
  readonly #lookups: MainThreadLookups;
  readonly #rewriting: () => SqliteProcess;
  #closing: Promise<void> | undefined;

  constructor({ file, start, cpuMs }: SqliteAddress, clock: Clock) {
    this.#rewriting = () => new SqliteProcess(() => start(true), file, false, clock);
    this.#writer = new SqliteWriter(
      () => new SqliteProcess(start, file, false, clock),
      this.#callers,
      clock,
    );
    this.#readers = new SqliteReaders(
      () => new SqliteProcess(start, file, true, clock),
      cpuMs,
      this.#callers,
      clock,
    );
    this.#lookups = new MainThreadLookups(file, clock);
    this.notices = new FileNotices(clock, () => this.#writer.othersVersion());
  }

  forCaller<T>(caller: StoreCaller, work: () => T): T {
    return this.#callers.run(caller, work);
  }

  query<R>(statement: string | Lookup, ...values: SqlValue[]): Promise<R[]> {
    const found = typeof statement === "string" ? undefined : this.#lookups.read(statement, values);
    return found ? Promise.resolve(found as R[]) : this.#readers.query<R>(sqlOf(statement), values);
  }

  transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    return this.#writer.transaction(work, CALL_LIMITS);
  }

  batch(statements: readonly BatchStatement[]): Promise<readonly SqlRow[]> {
    return this.#writer.batch(statements);
  }

  exclusive<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    return this.#writer.transaction(work, { statementMs: TABLES_MS, transactionMs: TABLES_MS });
  }

  get waiting(): StoreWaiting {
    return { database_reads: this.#readers.waiting, database_writes: this.#writer.waiting };
  }

  async bytes(): Promise<number> {
    const text = "SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size()";
    const { bytes } = await queryOne<{ bytes: number }>(this, text);
    return bytes;
  }

  serverMs(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  /** Nothing to do: SQLite needs no counts for our statements. */
  countNew(): Promise<void> {
    return Promise.resolve();
  }

  async shrink(signal: AbortSignal): Promise<void> {
    const text =
      `SELECT freelist_count AS free, auto_vacuum AS mode FROM pragma_freelist_count(), pragma_auto_vacuum()`;
    for (let before = Infinity; !signal.aborted;) {
      const { free, mode } = await queryOne<{ free: number; mode: number }>(this, text);
      // A file of an older version has no list of the places of its pages.
      if (mode !== INCREMENTAL || free < SHRINK_PAGES || free >= before) return;
      before = free;
      await this.#writer.alone(TABLES_MS, async (sql) => {
        await sql.query(`PRAGMA incremental_vacuum(${SHRINK_PAGES})`);
      });
    }
  }

  /** Runs in a separate process, which reads one snapshot, so that the writer continues. */
  readonly copyTo = (file: string) => this.#rewrite(`VACUUM INTO '${file.replaceAll("'", "''")}'`);

  /** Rewrites the whole file, and empties the write-ahead log. */
  async scrub(_table: string): Promise<void> {
    await this.#writer.alone(TABLES_MS, () => this.#rewrite("VACUUM"));
    await this.#writer.alone(TABLES_MS, async (sql) => {
      const { busy } = await queryOne<{ busy: number }>(sql, "PRAGMA wal_checkpoint(TRUNCATE)");
      if (busy !== 0) throw new SvcError("unavailable", "database: another process reads from it");
    });
  }

  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #rewrite(text: string): Promise<void> {
    const process = this.#rewriting();
    try {
      await process.query(TABLES_MS, text);
    } finally {
      await process.close();
    }
  }

  async #close(): Promise<void> {
    this.#lookups.close();
    await Promise.all([this.#writer.finish(), this.#readers.close()]);
    // The last connection empties the write-ahead log.
    await this.#writer.close();
  }
}

/** Interval of the check whether another process has changed the file. */
const OTHERS_MS = 250;

/** Notices of this process, and a notice whenever another process, such as a command, has changed the file. */
class FileNotices extends OwnNotices {
  #listeners = 0;
  /** Ends the checks, which begin with the first listener. */
  #watching: Promise<() => Promise<void>> | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly othersVersion: () => Promise<string | undefined>,
  ) {
    super();
  }

  override async hear(topic: NoticeTopic, listener: (text: string) => void): Promise<() => Promise<void>> {
    const stop = await super.hear(topic, listener);
    if (topic !== "changes") return stop;
    this.#listeners++;
    let isOver = false;
    const stopListening = async () => {
      if (isOver) return;
      isOver = true;
      await stop();
      if (--this.#listeners > 0) return;
      const watching = this.#watching;
      this.#watching = undefined;
      await (await watching)?.();
    };
    await (this.#watching ??= this.#watch());
    return stopListening;
  }

  async #watch(): Promise<() => Promise<void>> {
    let known = await this.othersVersion();
    let stopped = false;
    let looking = Promise.resolve();
    const look = async () => {
      const version = await this.othersVersion();
      if (stopped) return;
      if (version !== undefined && version !== known) {
        known = version;
        await this.tell("changes", UNKNOWN_CHANGE);
      }
      callOff = lookLater();
    };
    const lookLater = () => this.clock.after(OTHERS_MS, () => void (looking = look()));
    let callOff = lookLater();
    return async () => {
      stopped = true;
      callOff();
      await looking;
    };
  }
}
