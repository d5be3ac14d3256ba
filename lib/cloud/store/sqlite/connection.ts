/**
 * A connection to an SQLite file: its settings, its prepared statements and its errors.
 */

import { DatabaseSync, type StatementSync } from "node:sqlite";
import { type Code, messageOf, SvcError } from "../../../base/error.ts";
import type { BatchStatement, SqlRow, SqlValue } from "../store.ts";

/** Time limit of SQLite's own waits: opening a file, repairing it after a crash. */
const OPENING_MS = 5_000;
const STATEMENTS_MAX = 500;
/** Memory of SQLite itself, for a statement's temporary values and the cache. */
const HEAP_BYTES_MAX = 256 * 1024 ** 2;

/** Size to which the write-ahead log shrinks once nobody reads an old state: it grows during a backup, for example. */
const LOG_BYTES_MAX = 32 * 1024 ** 2;

/** Runs a statement with these values; returns its rows. */
export type RunStatement = (values: readonly SqlValue[]) => SqlRow[];

export class SqliteConnection {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  /** A connection for `lookups` is in the main thread: it never waits for a lock, and cannot write. */
  constructor(file: string, use: "reads" | "writes" | "lookups") {
    try {
      const isInMainThread = use === "lookups";
      this.#database = new DatabaseSync(file, { readOnly: isInMainThread });
      // Deno's option for it is younger than some of the supported versions.
      this.run(`PRAGMA busy_timeout = ${isInMainThread ? 0 : OPENING_MS}`);
      if (isInMainThread) return;
      // Takes effect for a new file, and for one that is rewritten.
      if (use === "writes") this.run("PRAGMA auto_vacuum = INCREMENTAL");
      this.run("PRAGMA journal_mode = WAL");
      if (use === "writes") this.run(`PRAGMA journal_size_limit = ${LOG_BYTES_MAX}`);
      this.run("PRAGMA synchronous = FULL");
      this.run("PRAGMA foreign_keys = ON");
      this.run(`PRAGMA hard_heap_limit = ${HEAP_BYTES_MAX}`);
      // Writers wait in the main process, where waiting can be canceled.
      this.run(use === "reads" ? "PRAGMA query_only = ON" : "PRAGMA busy_timeout = 0");
    } catch (error) {
      const problem = `cannot open the database ${file}: ${messageOf(error)}${hintAt(error)}`;
      throw new SvcError("unavailable", problem, { cause: error });
    }
  }

  /** Runs a statement. */
  run(text: string, values: readonly SqlValue[] = []): SqlRow[] {
    try {
      // Not `exec`, whose errors have no code, and not `iterate`, which loses errors in Deno 2.9.6.
      return this.#prepare(text).all(...values) as SqlRow[];
    } catch (error) {
      throw failure(text, error);
    }
  }

  /** A statement that runs often. */
  prepared(text: string): RunStatement {
    const statement = this.#database.prepare(text);
    return (values) => statement.all(...values) as SqlRow[];
  }

  /** Runs statements within the present transaction, all or none. Returns the rows that stopped it. */
  batch(statements: readonly BatchStatement[]): SqlRow[] {
    if (!this.#database.isTransaction) {
      // Without a transaction the savepoint would start one of its own, and commit it at its end.
      throw new SvcError("unavailable", "database: the transaction of this batch was rolled back: try again");
    }
    this.run("SAVEPOINT batch");
    try {
      for (const { text, values, stops } of statements) {
        const rows = this.run(text, values);
        if (!stops || rows.length === 0) continue;
        this.run("ROLLBACK TO batch");
        this.run("RELEASE batch");
        return rows;
      }
      this.run("RELEASE batch");
      return [];
    } catch (error) {
      this.run("ROLLBACK TO batch");
      this.run("RELEASE batch");
      throw error;
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
  7: "resource_exhausted",
  13: "resource_exhausted",
  275: "invalid_argument",
  787: "failed_precondition",
  1299: "invalid_argument",
  1555: "already_exists",
  2067: "already_exists",
};

/** Why a file cannot be opened, by SQLite's result codes; SQLite also writes where it only reads. */
const HINTS: { readonly [code: number]: string } = {
  8: "the file or its disk is read-only: copy the folder to a disk where this user may write",
  10: "its disk is full or damaged",
  11: "it is damaged: make a control plane of a backup, with svc-cloud restore",
  13: "its disk is full: make room on it",
  14:
    "the file, its folder or its disk is not writable for this user: to read it, copy the folder to another disk",
  26: "something else is in the file: make a control plane of a backup, with svc-cloud restore",
};

function hintAt(error: unknown): string {
  const cause = error instanceof SvcError ? error.cause : error;
  const hint = HINTS[((cause as { errcode?: number } | undefined)?.errcode ?? 0) & 0xff];
  return hint === undefined ? "" : `; ${hint}`;
}

function failure(text: string, error: unknown): SvcError {
  const number = (error as { errcode?: number }).errcode ?? 0;
  const code = CODES_OF[number] ?? CODES_OF[number & 0xff] ?? "internal";
  return new SvcError(code, `database: ${messageOf(error)} (${text.trim().slice(0, 80)})`, { cause: error });
}
