/**
 * The program of a process that runs SQLite for svc-cloud: one connection to one file, one statement after another.
 *
 * SQLite has no way to stop a statement from outside of its thread that Deno offers, so the statements run in a process
 * that svc-cloud can kill. Its end rolls back whatever was not committed. Statements that only read cannot write.
 */

import { DatabaseSync, type StatementSync } from "node:sqlite";
import { type Code, messageOf, SvcError } from "../../../base/error.ts";
import type { BatchStatement, SqlRow, SqlValue } from "../store.ts";
import {
  frameOf,
  type SqliteAnswer,
  SqliteFrames,
  type SqliteRequest,
  type StatementAnswer,
} from "./frames.ts";

/** The process's standard input and output. */
export interface WorkerPipe {
  /** Waits for bytes and returns their number; `null` at the end. */
  read(into: Uint8Array): number | null;
  /** Writes all of the bytes. */
  write(bytes: Uint8Array): void;
}

/** For SQLite's own waits: opening a file, repairing it after a crash. */
const OPENING_MS = 5_000;
const STATEMENTS_MAX = 500;
/** Memory of SQLite itself, for a statement's temporary values and the cache. */
const HEAP_BYTES_MAX = 256 * 1024 ** 2;
/** Rows travel in pages of about this size, so that their reader has turns for others in between. */
const PAGE_BYTES = 128 * 1024;
const READ_BYTES = 64 * 1024;
/** What a value takes beside the characters of a text or the bytes of a blob. */
const VALUE_BYTES = 8;

/** Answers requests until the input ends or a request closes the connection. */
export function serveSqlite(pipe: WorkerPipe): void {
  const frames = new SqliteFrames<SqliteRequest>();
  const buffer = new Uint8Array(READ_BYTES);
  const send = (answer: SqliteAnswer) => pipe.write(frameOf(answer));
  let connection: SqliteConnection | undefined;

  for (let count = pipe.read(buffer); count !== null; count = pipe.read(buffer)) {
    for (const request of frames.add(buffer.slice(0, count))) {
      if ("close" in request) {
        connection?.close();
        return send({ answers: [] });
      }
      if ("statements" in request) {
        const all = request.statements.map(([text, ...values]) => () => connection!.run(text, values));
        sendAnswers(send, all);
      } else if ("batch" in request) {
        sendAnswers(send, [() => connection!.batch(request.batch)]);
      } else {
        sendAnswers(send, [() => {
          connection = new SqliteConnection(request);
          return [];
        }]);
      }
    }
  }
  connection?.close();
}

/** Runs the statements of a request, and sends their rows in pages. */
function sendAnswers(send: (answer: SqliteAnswer) => void, all: readonly (() => SqlRow[])[]): void {
  let answers: StatementAnswer[] = [];
  let bytes = 0;
  const take = (answer: StatementAnswer) => {
    if (bytes >= PAGE_BYTES) {
      send({ answers, more: true });
      [answers, bytes] = [[], 0];
    }
    answers.push(answer);
    for (const row of answer.rows ?? []) bytes += bytesOf(row);
  };
  for (const [at, run] of all.entries()) {
    try {
      for (const page of pagesOf(run())) take({ at, ...page });
    } catch (error) {
      const { code, message } = SvcError.from(error);
      take({ at, failed: { code, message } });
    }
  }
  send({ answers });
}

class SqliteConnection {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor({ open: file, reads }: { readonly open: string; readonly reads: boolean }) {
    try {
      this.#database = new DatabaseSync(file);
      // Deno's option for it is younger than some of the supported versions.
      this.run(`PRAGMA busy_timeout = ${OPENING_MS}`);
      // Of a new file, and of one that is rewritten.
      if (!reads) this.run("PRAGMA auto_vacuum = INCREMENTAL");
      this.run("PRAGMA journal_mode = WAL");
      this.run("PRAGMA synchronous = FULL");
      this.run("PRAGMA foreign_keys = ON");
      this.run(`PRAGMA hard_heap_limit = ${HEAP_BYTES_MAX}`);
      // A writer waits in the process of svc-cloud, where it can be given up.
      this.run(reads ? "PRAGMA query_only = ON" : "PRAGMA busy_timeout = 0");
    } catch (error) {
      throw new SvcError("unavailable", `cannot open the database ${file}: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }

  /** Runs a statement. */
  run(text: string, values: readonly SqlValue[] = []): SqlRow[] {
    try {
      // Neither by `exec`, whose errors have no code, nor by `iterate`, which loses errors in Deno 2.9.6.
      return this.#prepare(text).all(...values) as SqlRow[];
    } catch (error) {
      throw failure(text, error);
    }
  }

  /** Runs statements within the present transaction, all or none. Returns the rows that stopped it. */
  batch(statements: readonly BatchStatement[]): SqlRow[] {
    if (!this.#database.isTransaction) {
      // Without one the savepoint would begin, and its end commit, a transaction of its own.
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

/** Pages of a statement's rows; at least one. */
function* pagesOf(all: readonly SqlRow[]): Generator<Pick<StatementAnswer, "columns" | "rows">> {
  const columns = all.length > 0 ? Object.keys(all[0]) : [];
  let rows: SqlValue[][] = [];
  let bytes = 0;
  for (const row of all) {
    const ofRow = Object.values(row);
    rows.push(ofRow);
    bytes += bytesOf(ofRow);
    if (bytes < PAGE_BYTES) continue;
    yield { columns, rows };
    [rows, bytes] = [[], 0];
  }
  yield { columns, rows };
}

function bytesOf(values: readonly SqlValue[]): number {
  return values.reduce<number>((sum, value) => {
    const content = typeof value === "string" || value instanceof Uint8Array ? value.length : 0;
    return sum + VALUE_BYTES + content;
  }, 0);
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

function failure(text: string, error: unknown): SvcError {
  const number = (error as { errcode?: number }).errcode ?? 0;
  const code = CODES_OF[number] ?? CODES_OF[number & 0xff] ?? "internal";
  return new SvcError(code, `database: ${messageOf(error)} (${text.trim().slice(0, 80)})`, { cause: error });
}
