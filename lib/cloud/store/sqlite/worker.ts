/**
 * The program of a process that runs SQLite for svc-cloud: one connection to one file, one statement after another.
 *
 * Deno offers no way to stop a statement of SQLite from another thread, so the statements run in a process that
 * svc-cloud can kill. Its end rolls back whatever was not committed. Statements that only read cannot write.
 */

import { SvcError } from "../../../base/error.ts";
import type { SqlRow, SqlValue } from "../store.ts";
import { SqliteConnection } from "./connection.ts";
import {
  concatenated,
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

/** Rows are sent in pages of about this size, so that their reader can serve others in between. */
const PAGE_BYTES = 128 * 1024;
const READ_BYTES = 64 * 1024;
/** The size of a value besides the characters of a text or the bytes of a blob. */
const VALUE_BYTES = 8;

/** Answers requests until the input ends or a request closes the connection. */
export function serveSqlite(pipe: WorkerPipe): void {
  const frames = new SqliteFrames<SqliteRequest>();
  const buffer = new Uint8Array(READ_BYTES);
  const send = (answer: SqliteAnswer) => pipe.write(concatenated(frameOf(answer)));
  let connection: SqliteConnection | undefined;
  /** Statements may arrive before svc-cloud knows that the file cannot be opened. */
  let refusal: unknown;
  const opened = () => {
    if (connection) return connection;
    throw refusal ??
      new SvcError("internal", "database: found a statement before a file, wanted a file first");
  };

  for (let count = pipe.read(buffer); count !== null; count = pipe.read(buffer)) {
    for (const request of frames.add(buffer.slice(0, count))) {
      if ("close" in request) {
        connection?.close();
        return send({ answers: [] });
      }
      if ("statements" in request) {
        const all = request.statements.map(([text, ...values]) => () => opened().run(text, values));
        sendAnswers(send, all);
      } else if ("batch" in request) {
        sendAnswers(send, [() => opened().batch(request.batch)]);
      } else {
        sendAnswers(send, [() => {
          try {
            connection = new SqliteConnection(request.open, request.reads ? "reads" : "writes");
          } catch (error) {
            throw refusal = error;
          }
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

/** Pages of a statement's rows; at least one. */
function* pagesOf(all: readonly SqlRow[]): Generator<Pick<StatementAnswer, "columns" | "rows">> {
  const columns = Object.keys(all[0] ?? {});
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
