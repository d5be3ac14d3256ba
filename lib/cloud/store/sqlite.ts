/**
 * The store in one SQLite file.
 *
 * Owns two connections, one that writes and one that reads, so that nobody sees uncommitted data. An acknowledged
 * commit is on disk. Transactions that wait at the same time share one commit, and each rolls back alone if it fails,
 * so that many small ones cost few disk writes.
 */

import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { Clock } from "../../base/clock.ts";
import { type Code, messageOf, SvcError } from "../../base/error.ts";
import { type Notices, type NoticeTopic, OwnNotices } from "./notices.ts";
import type { Sql, SqlValue, Store } from "./store.ts";

/** How long another process may lock the file, and how often to try again. */
const BUSY_MS = 10_000;
const LOOK_MS = 5;
/** The same for SQLite's own waits, which block everything else: opening a file, repairing it after a crash. */
const OPENING_MS = 5_000;
/** How long transactions are collected for a shared commit, and how many at most. */
const COLLECT_MS = 2;
const GROUP_MAX = 256;
const STATEMENTS_MAX = 500;

type Work = (sql: Sql) => Promise<unknown>;

interface Waiting {
  readonly work: Work;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

export class SqliteStore implements Store {
  readonly notices: Notices;
  readonly #writer: Connection;
  readonly #reader: Connection;
  #waiting: Waiting[] = [];
  #pumping: Promise<void> | undefined;
  #closed = false;

  constructor(file: string, private readonly clock: Clock) {
    this.#writer = new Connection(file);
    this.#reader = new Connection(file);
    this.#reader.run("PRAGMA query_only = ON");
    this.#writer.run("PRAGMA busy_timeout = 0");
    this.notices = new FileNotices(clock, () => this.#closed ? undefined : this.#writer.othersVersion());
  }

  query<R>(text: string, ...values: SqlValue[]): Promise<R[]> {
    return this.#reader.query(text, ...values);
  }

  transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new SvcError("unavailable", "the database is closed"));
    return new Promise<unknown>((resolve, reject) => {
      this.#waiting.push({ work, resolve, reject });
      this.#pumping ??= this.#pump();
    }) as Promise<T>;
  }

  exclusive<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    return this.transaction(work);
  }

  async bytes(): Promise<number> {
    const text = "SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size()";
    const [{ bytes }] = await this.query<{ bytes: number }>(text);
    return bytes;
  }

  async scrub(_table: string): Promise<void> {
    while (this.#pumping) await this.#pumping;
    // Transactions that come meanwhile wait as they do for one another.
    const scrubbing = this.#scrub().finally(() => {
      this.#pumping = this.#waiting.length > 0 ? this.#pump() : undefined;
    });
    this.#pumping = scrubbing.catch(() => {});
    await scrubbing;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#pumping;
    this.#reader.close();
    this.#writer.close();
  }

  /** Rewrites the whole file, and empties the write-ahead log. */
  async #scrub(): Promise<void> {
    await this.#patiently(() => this.#writer.run("VACUUM"));
    await this.#patiently(async () => {
      const [{ busy }] = await this.#writer.query<{ busy: number }>("PRAGMA wal_checkpoint(TRUNCATE)");
      if (busy !== 0) throw new SvcError("unavailable", "database: another process reads from it");
    });
  }

  async #pump(): Promise<void> {
    while (this.#waiting.length > 0) {
      // A disk write blocks everything: transactions that come meanwhile share the next commit.
      await this.clock.sleep(COLLECT_MS);
      const group = this.#waiting.splice(0, GROUP_MAX);
      try {
        const outcomes = await this.#commit(group);
        for (const tell of outcomes) tell();
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    this.#pumping = undefined;
  }

  async #commit(group: readonly Waiting[]): Promise<(() => void)[]> {
    const outcomes: (() => void)[] = [];
    await this.#begin();
    try {
      for (const one of group) outcomes.push(await this.#attempt(one));
      this.#writer.run("COMMIT");
      return outcomes;
    } catch (error) {
      this.#writer.undo();
      throw error;
    }
  }

  /** Waits for another process to finish without blocking this one. */
  #begin(): Promise<void> {
    return this.#patiently(() => this.#writer.run("BEGIN IMMEDIATE"));
  }

  async #patiently(run: () => void | Promise<void>): Promise<void> {
    const giveUpAtMs = this.clock.monotonicMs() + BUSY_MS;
    for (;;) {
      try {
        return await run();
      } catch (error) {
        if ((error as SvcError).code !== "unavailable" || this.clock.monotonicMs() > giveUpAtMs) throw error;
        await this.clock.sleep(LOOK_MS);
      }
    }
  }

  async #attempt({ work, resolve, reject }: Waiting): Promise<() => void> {
    this.#writer.run("SAVEPOINT one");
    let failed: unknown;
    const sql: Sql = {
      query: async <R>(text: string, ...values: SqlValue[]) => {
        if (failed !== undefined) throw failed;
        try {
          return await this.#writer.query<R>(text, ...values);
        } catch (error) {
          throw failed = error;
        }
      },
    };
    try {
      const value = await work(sql);
      if (failed !== undefined) throw failed;
      this.#writer.run("RELEASE one");
      return () => resolve(value);
    } catch (error) {
      this.#writer.run("ROLLBACK TO one");
      this.#writer.run("RELEASE one");
      return () => reject(error);
    }
  }
}

/** Interval of the check whether another process has changed the file. */
const OTHERS_MS = 250;

/** Notices of this process, and the news that another process, such as a command beside it, has changed something. */
class FileNotices extends OwnNotices {
  constructor(private readonly clock: Clock, private readonly othersVersion: () => number | undefined) {
    super();
  }

  override async hear(topic: NoticeTopic, listener: (text: string) => void): Promise<() => Promise<void>> {
    const stop = await super.hear(topic, listener);
    if (topic !== "changes") return stop;
    let known = this.othersVersion();
    const look = () => {
      const version = this.othersVersion();
      if (version !== undefined && version !== known) {
        known = version;
        listener("the database");
      }
      callOff = this.clock.after(OTHERS_MS, look);
    };
    let callOff = this.clock.after(OTHERS_MS, look);
    return () => {
      callOff();
      return stop();
    };
  }
}

class Connection {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(file: string) {
    try {
      this.#database = new DatabaseSync(file);
      // Deno's option for it is younger than some of the supported versions.
      this.run(`PRAGMA busy_timeout = ${OPENING_MS}`);
      this.run("PRAGMA journal_mode = WAL");
      this.run("PRAGMA synchronous = FULL");
      this.run("PRAGMA foreign_keys = ON");
    } catch (error) {
      throw new SvcError("unavailable", `cannot open the database ${file}: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }

  run(text: string): void {
    try {
      // Not by `exec`, whose errors have no code.
      this.#prepare(text).run();
    } catch (error) {
      throw failure(text, error);
    }
  }

  /** Rolls back the rest of a failed commit; a full disk may have done so already. */
  undo(): void {
    try {
      this.#database.exec("ROLLBACK");
    } catch {
      // There is nothing to roll back.
    }
  }

  /** Changes whenever another connection commits; `undefined` if it cannot be read now. */
  othersVersion(): number | undefined {
    try {
      return this.#prepare("PRAGMA data_version").get()?.data_version as number | undefined;
    } catch {
      return undefined;
    }
  }

  // deno-lint-ignore require-await
  async query<R>(text: string, ...values: SqlValue[]): Promise<R[]> {
    try {
      return this.#prepare(text).all(...values) as R[];
    } catch (error) {
      throw failure(text, error);
    }
  }

  close(): void {
    this.#statements.clear();
    this.#database.close();
  }

  #prepare(text: string): StatementSync {
    let statement = this.#statements.get(text);
    if (!statement) {
      if (this.#statements.size >= STATEMENTS_MAX) this.#statements.clear();
      this.#statements.set(text, statement = this.#database.prepare(text));
    }
    return statement;
  }
}

/** By SQLite's extended result codes. */
const CODES_OF: { readonly [code: number]: Code } = {
  5: "unavailable",
  13: "resource_exhausted",
  787: "failed_precondition",
  1299: "invalid_argument",
  1555: "already_exists",
  2067: "already_exists",
};

function failure(text: string, error: unknown): SvcError {
  const number = (error as { errcode?: number }).errcode ?? 0;
  const code = CODES_OF[number] ?? CODES_OF[number & 0xff] ?? "internal";
  return new SvcError(code, `database: ${messageOf(error)} (${text.trim().slice(0, 80)})`, { cause: error });
}
