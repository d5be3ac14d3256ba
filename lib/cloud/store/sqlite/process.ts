/**
 * One connection to an SQLite file, in a process of its own: its statements, their deadlines and its end.
 *
 * A statement that exceeds its deadline is interrupted by killing the process, which rolls back what was not committed.
 * Whoever needs another connection starts one.
 */

import type { Clock } from "../../../base/clock.ts";
import { assert, messageOf, SvcError } from "../../../base/error.ts";
import type { PipedProcess } from "../../../base/process.ts";
import type { BatchStatement, SqlRow, SqlValue } from "../store.ts";
import {
  concatenated,
  frameOf,
  type SqliteAnswer,
  SqliteFrames,
  type SqliteRequest,
  type StatementRequest,
} from "./frames.ts";

/** Starts a process that runs `serveSqlite`; only a process that `rewrites` may rewrite the whole file. */
export type StartSqlite = (rewrites?: boolean) => PipedProcess;

export interface SqliteAddress {
  readonly file: string;
  readonly start: StartSqlite;
  /** The processor time of a process so far; `undefined` if the system does not report it. */
  readonly cpuMs?: (pid: number) => number | undefined;
}

/** The rows of a statement, or its failure. */
export type StatementOutcome = { readonly rows: unknown[]; failed?: SvcError };

interface Asked {
  readonly text: string;
  readonly deadlineMs: number;
  readonly outcomes: StatementOutcome[];
  readonly resolve: (outcomes: StatementOutcome[]) => void;
  readonly reject: (error: unknown) => void;
}

/** Time limit for opening or closing a file, which may repair or shorten its write-ahead log. */
const OPENING_MS = 60_000;
/** Lines of its standard error that an error shows. */
const LAST_LINES = 3;

/** Another statement has ended the process before this one began. */
export class Interrupted extends SvcError {
  constructor(why: SvcError) {
    super(why.code, why.message);
  }
}

export class SqliteProcess {
  readonly #process: PipedProcess;
  /** The requests, in the order of their answers; the first one is running. */
  readonly #asked: Asked[] = [];
  #unsent: Uint8Array[] = [];
  #sending = false;
  #late: (() => void) | undefined;
  #ended: SvcError | undefined;
  #closing: Promise<void> | undefined;
  readonly #over: Promise<void>;
  /** Whether it has opened the file. */
  isOpen = false;
  /** Resolves when it has, or has failed to. */
  readonly opened: Promise<void>;

  constructor(
    start: StartSqlite,
    private readonly file: string,
    reads: boolean,
    private readonly clock: Clock,
  ) {
    this.#process = start();
    this.#over = this.#watch();
    this.opened = this.#ask({ open: file, reads }, "open", OPENING_MS).then(rowsOf).then(
      () => void (this.isOpen = true),
      (error) => this.#end(SvcError.from(error)),
    );
  }

  get pid(): number {
    return this.#process.pid;
  }

  /** Why the process no longer answers. */
  get ended(): SvcError | undefined {
    return this.#ended;
  }

  /** Runs a statement after those that were asked before. */
  async query<R>(deadlineMs: number, text: string, ...values: SqlValue[]): Promise<R[]> {
    return rowsOf(await this.statements(deadlineMs, [[text, ...values]])) as R[];
  }

  /** Runs several statements in one trip, with a common deadline. Rejects if none of them has an outcome. */
  statements(deadlineMs: number, statements: readonly StatementRequest[]): Promise<StatementOutcome[]> {
    const [first = ""] = statements[0] ?? [];
    const text = statements.length > 1 ? `${statements.length} statements, the first ${first}` : first;
    return this.#ask({ statements }, text, deadlineMs, statements.length);
  }

  /** Ends the process after the statements that were asked before. */
  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  /** Runs the statements within the present transaction, all or none. Returns the rows that stopped it. */
  async batch(deadlineMs: number, batch: readonly BatchStatement[]): Promise<SqlRow[]> {
    return rowsOf(await this.#ask({ batch }, batch[0]?.text ?? "", deadlineMs)) as SqlRow[];
  }

  /** Ends the process at once; pending requests get the reason. */
  interrupt(why: SvcError): void {
    this.#end(why);
  }

  async #close(): Promise<void> {
    if (!this.#ended) await this.#ask({ close: true }, "close", OPENING_MS).catch(() => {});
    this.#end(new SvcError("unavailable", "the database is closed"));
    await this.#over;
  }

  #ask(request: SqliteRequest, text: string, deadlineMs: number, count = 1): Promise<StatementOutcome[]> {
    if (this.#ended) return Promise.reject(new Interrupted(this.#ended));
    const { promise, resolve, reject } = Promise.withResolvers<StatementOutcome[]>();
    try {
      this.#unsent.push(...frameOf(request));
    } catch (error) {
      const why = `database: a value cannot be stored: ${messageOf(error)}`;
      return Promise.reject(new SvcError("invalid_argument", why));
    }
    const outcomes = Array.from({ length: count }, () => ({ rows: [] }));
    this.#asked.push({ text, deadlineMs, outcomes, resolve, reject });
    if (this.#asked.length === 1) this.#startDeadline();
    if (!this.#sending) {
      this.#sending = true;
      // Requests of the same turn travel together.
      queueMicrotask(() => void this.#send());
    }
    return promise;
  }

  async #send(): Promise<void> {
    try {
      while (this.#unsent.length > 0) await this.#process.write(concatenated(this.#unsent.splice(0)));
    } catch {
      // The process has ended, which the end of its output shows.
    }
    this.#sending = false;
  }

  #startDeadline(): void {
    const [oldest] = this.#asked;
    if (!oldest) return;
    const { text, deadlineMs } = oldest;
    this.#late = this.clock.after(deadlineMs, () => {
      const what = `the statement did not end within ${deadlineMs / 1000} s and was interrupted`;
      this.#end(new SvcError("deadline_exceeded", `database: ${what}: ask for less (${shown(text)})`));
    });
  }

  #take({ answers, more }: SqliteAnswer): void {
    const [oldest] = this.#asked;
    assert(oldest, "the process of the database answered without a request");
    const { outcomes, resolve } = oldest;
    for (const { at, columns = [], rows = [], failed } of answers) {
      const outcome = outcomes[at];
      assert(outcome, "the process of the database answered another statement");
      if (failed) outcome.failed = new SvcError(failed.code, failed.message);
      for (const row of rows) {
        const named: { [column: string]: SqlValue } = {};
        for (const [at, column] of columns.entries()) named[column] = row[at] ?? null;
        outcome.rows.push(named);
      }
    }
    if (more) return;
    this.#asked.shift();
    this.#late?.();
    this.#late = undefined;
    if (this.#asked.length > 0) this.#startDeadline();
    resolve(outcomes);
  }

  async #watch(): Promise<void> {
    const lastLines = this.#lastLines();
    const frames = new SqliteFrames<SqliteAnswer>();
    try {
      for await (const piece of this.#process.output) {
        for (const answer of frames.add(piece)) if (this.#asked.length > 0) this.#take(answer);
      }
    } catch {
      // The end of the process has the reason.
    }
    this.#process.signal("SIGKILL", { group: true });
    const { code, signal } = await this.#process.exited;
    const lines = await lastLines;
    const output = lines.length > 0 ? `: ${lines.join(" ")}` : "";
    const how = signal ?? `exit code ${code}`;
    const running = this.#asked[0] ? ` while it ran ${shown(this.#asked[0].text)}` : "";
    this.#end(
      new SvcError("unavailable", `database: the process for ${this.file} ended${running} (${how})${output}`),
    );
  }

  /** What it complained of last. */
  async #lastLines(): Promise<string[]> {
    const lines: string[] = [];
    try {
      for await (const line of this.#process.stderr) {
        lines.push(line.trim());
        if (lines.length > LAST_LINES) lines.shift();
      }
    } catch {
      // Its last words are lost.
    }
    return lines;
  }

  /** The running statement gets the reason; the statements behind it were merely interrupted. */
  #end(why: SvcError): void {
    if (this.#ended) return;
    this.#ended = why;
    this.#late?.();
    this.#process.signal("SIGKILL", { group: true });
    const [first, ...behind] = this.#asked.splice(0);
    first?.reject(why);
    for (const { reject } of behind) reject(new Interrupted(why));
  }
}

function rowsOf([outcome]: readonly StatementOutcome[]): unknown[] {
  if (outcome?.failed) throw outcome.failed;
  return outcome?.rows ?? [];
}

function shown(text: string): string {
  return text.trim().replace(/\s+/g, " ").slice(0, 80);
}
