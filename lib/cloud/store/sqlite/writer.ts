/**
 * The process that writes to an SQLite file, and the transactions that wait for it.
 *
 * Transactions that wait at the same time share one commit, and each rolls back alone if it fails, so that many small
 * ones cost few disk writes. A transaction whose statement ends the process fails, and the others of its commit run
 * again on a new process: half a commit is never on disk.
 */

import { FairQueue, type FairTurn } from "../../../base/async/fair_queue.ts";
import { type Clock, deadline, nextTurn, race } from "../../../base/clock.ts";
import { SvcError } from "../../../base/error.ts";
import { OWN_GROUP, STATEMENT_MS, type StoreCallers, TRANSACTION_MS } from "../callers.ts";
import { type Lookup, sqlOf } from "../lookups.ts";
import type { BatchStatement, Sql, SqlRow, SqlValue } from "../store.ts";
import { Interrupted, type SqliteProcess } from "./process.ts";

/**
 * How long another process may lock the file, which is the longest time of a transaction, and the interval of retries.
 */
const BUSY_MS = TRANSACTION_MS;
const LOOK_MS = 5;
/**
 * Limits of a shared commit: how long transactions are collected, their number, and how long their statements may run.
 */
const COLLECT_MS = 2;
const GROUP_MAX = 256;
const GROUP_MS = 50;
/** Time limit of a commit, which waits for the disk. */
const COMMIT_MS = 60_000;
/** How often a transaction runs again because another one in its commit ended the process. */
const RUNS_MAX = 5;

const FAIR_WRITES = {
  turnsOfGroupMax: GROUP_MAX,
  waitingMax: 20_000,
  waitingOfGroupMax: 5_000,
  what: "changes of the database",
  ownGroup: OWN_GROUP,
};

export interface TransactionLimits {
  readonly statementMs: number;
  readonly transactionMs: number;
}

export const CALL_LIMITS: TransactionLimits = { statementMs: STATEMENT_MS, transactionMs: TRANSACTION_MS };

interface Waiting {
  /** An interactive transaction, or a batch of statements. */
  readonly work: ((sql: Sql) => Promise<unknown>) | readonly BatchStatement[];
  readonly limits: TransactionLimits;
  readonly group: string;
  /** A transaction that has not begun when it aborts does not begin. */
  readonly signal?: AbortSignal;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  runs: number;
}

type Outcome = { readonly value: unknown } | { readonly error: unknown };

/** A transaction that has run, and its result for the caller once the commit is on disk. */
interface Attempted {
  readonly waiting: Waiting;
  outcome?: Outcome;
  /** Resolves when its part of the commit is complete. */
  released?: Promise<unknown>;
  /** Whether it ended the process. */
  isCulprit?: boolean;
}

export class SqliteWriter {
  readonly #queue: FairQueue<Waiting>;
  /** The process, which is started on first use. */
  #process: SqliteProcess | undefined;
  #pumping: Promise<void> | undefined;
  /**
   * Whether starting the next transaction may fail, because another process has the file, or the last one did not end
   * well.
   */
  #isDoubtful = false;
  /** When the last batch was answered. */
  #answeredMs = 0;
  #closed = false;

  constructor(
    private readonly start: () => SqliteProcess,
    private readonly callers: StoreCallers,
    private readonly clock: Clock,
  ) {
    this.#queue = new FairQueue(FAIR_WRITES, clock);
  }

  /** The number of waiting transactions. */
  get waiting(): number {
    return this.#queue.size;
  }

  transaction<T>(work: (sql: Sql) => Promise<T>, limits: TransactionLimits): Promise<T> {
    return this.#add(work, limits) as Promise<T>;
  }

  batch(statements: readonly BatchStatement[]): Promise<SqlRow[]> {
    return this.#add(statements, CALL_LIMITS) as Promise<SqlRow[]>;
  }

  #add(work: Waiting["work"], limits: TransactionLimits): Promise<unknown> {
    if (this.#closed) return Promise.reject(new SvcError("unavailable", "the database is closed"));
    const { group, signal } = this.callers.current;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    try {
      this.#queue.add([group], { work, limits, group, signal, resolve, reject, runs: 0 });
    } catch (error) {
      return Promise.reject(error);
    }
    this.#pumping ??= this.#pump();
    return promise;
  }

  /** Runs statements outside of transactions; transactions that arrive meanwhile wait. */
  async alone(limitMs: number, run: (sql: Sql) => Promise<void>): Promise<void> {
    while (this.#pumping) await this.#pumping;
    const running = this.#patiently(() => {
      const writer = this.#running();
      return run({ query: (statement, ...values) => writer.query(limitMs, sqlOf(statement), ...values) });
    }).finally(() => {
      this.#pumping = this.#queue.size > 0 ? this.#pump() : undefined;
    });
    this.#pumping = running.catch(() => {});
    await running;
  }

  /** A value that changes whenever another connection commits; `undefined` if it cannot be read now. */
  async othersVersion(): Promise<string | undefined> {
    if (this.#closed) return undefined;
    try {
      const writer = this.#running();
      const [found] = await writer.query<{ data_version: number }>(
        STATEMENT_MS,
        "PRAGMA data_version",
      );
      // The numbers of two processes cannot be compared.
      return found && `${writer.pid} ${found.data_version}`;
    } catch {
      return undefined;
    }
  }

  /** Ends after the waiting transactions; refuses further ones. */
  async finish(): Promise<void> {
    this.#closed = true;
    while (this.#pumping) await this.#pumping;
  }

  async close(): Promise<void> {
    await this.finish();
    await this.#process?.close();
  }

  #running(): SqliteProcess {
    if (!this.#process || this.#process.ended) this.#process = this.start();
    return this.#process;
  }

  async #pump(): Promise<void> {
    while (this.#queue.size > 0) {
      await this.#collect();
      const attempted: Attempted[] = [];
      try {
        await this.#commit(attempted);
        for (const one of attempted) tell(one);
      } catch (error) {
        for (const { waiting } of attempted) waiting.reject(error);
        // Nothing could start, for instance without a process, so all waiting transactions are refused.
        if (attempted.length === 0) this.#refuse(error);
      }
    }
    this.#pumping = undefined;
  }

  /**
   * Collects transactions for a commit: those that arrive during a disk write, or in consecutive turns. A single
   * transaction does not wait for others.
   */
  async #collect(): Promise<void> {
    const untilMs = this.clock.monotonicMs() + COLLECT_MS;
    for (let size = 0; size < this.#queue.size && this.clock.monotonicMs() < untilMs;) {
      size = this.#queue.size;
      await new Promise<void>((resolve) => void nextTurn(resolve));
    }
  }

  #refuse(error: unknown): void {
    for (const { reject } of this.#queue.drain()) reject(error);
  }

  async #commit(attempted: Attempted[]): Promise<void> {
    const early = this.#isDoubtful ? undefined : this.#beginEarly();
    const writer = early?.writer ?? await this.#begun();
    if (!writer) return;
    this.#isDoubtful = false;
    let isCommitting = false;
    const untilMs = this.clock.monotonicMs() + GROUP_MS;
    try {
      while (attempted.length < GROUP_MAX && this.clock.monotonicMs() < untilMs) {
        const turn = this.#next();
        if (!turn) break;
        const { work } = turn.item;
        if (typeof work !== "function") attempted.push(this.#send(writer, turn, work));
        else if (await early?.hasFailed) attempted.push(unattempted(turn));
        else attempted.push(await this.#attempt(writer, turn, work));
        if (writer.ended) return await this.#again(attempted.splice(0));
      }
      // A failed batch undoes itself, so the commit need not wait for the answers of batches, and is sent with them.
      const isAwaited = attempted.some(({ waiting: { work } }) => typeof work === "function");
      if (isAwaited) { for (const { released } of attempted) await released; }
      if (writer.ended) return await this.#again(attempted.splice(0));
      isCommitting = true;
      await writer.query(COMMIT_MS, "COMMIT");
      for (const { released } of attempted) await released;
    } catch (error) {
      this.#isDoubtful = true;
      if (await early?.hasFailed) return await this.#again(attempted.splice(0));
      const hasCommitBegun = isCommitting && !(error instanceof Interrupted);
      if (writer.ended && !hasCommitBegun) return await this.#again(attempted.splice(0));
      if (writer.ended) {
        const why =
          "the database ended during a commit, and whether it holds the change is unknown: look, and try again";
        throw new SvcError("unavailable", why, { cause: error });
      }
      // A full disk may have rolled back already.
      await writer.query(STATEMENT_MS, "ROLLBACK").catch(() => {});
      throw error;
    }
  }

  /** The next transaction whose caller still waits for it. */
  #next(): FairTurn<Waiting> | undefined {
    for (let turn = this.#queue.next(); turn; turn = this.#queue.next()) {
      const { signal, reject } = turn.item;
      if (!signal?.aborted) return turn;
      turn.leave(0);
      reject(signal.reason);
    }
    return undefined;
  }

  /**
   * Starts a transaction of the file without waiting for it, so that batches and their commit are sent together with
   * its start. If it cannot start, none of them has an effect.
   */
  #beginEarly(): { readonly writer: SqliteProcess; readonly hasFailed: Promise<boolean> } {
    const writer = this.#running();
    const hasFailed = writer.query(STATEMENT_MS, "BEGIN IMMEDIATE").then(() => false, () => true);
    return { writer, hasFailed };
  }

  /** Starts a transaction of the file; refuses the waiting ones if that is impossible. */
  async #begun(): Promise<SqliteProcess | undefined> {
    try {
      return await this.#patiently(async () => {
        const writer = this.#running();
        await writer.query(STATEMENT_MS, "BEGIN IMMEDIATE");
        return writer;
      });
    } catch (error) {
      this.#refuse(error);
      return undefined;
    }
  }

  /** One of the transactions has ended the process, or none could start: the others start again. */
  async #again(attempted: readonly Attempted[]): Promise<void> {
    this.#isDoubtful = true;
    for (const { released } of attempted) await released?.catch(() => {});
    for (const one of attempted) {
      const { waiting, isCulprit } = one;
      if (isCulprit) {
        tell(one);
        continue;
      }
      const { runs, group, reject } = waiting;
      const why = "the database was interrupted again and again by other changes: try again later";
      try {
        if (runs >= RUNS_MAX) throw new SvcError("unavailable", why);
        this.#queue.add([group], waiting);
      } catch (error) {
        reject(error);
      }
    }
  }

  /** Waits for another process to finish with the file. */
  async #patiently<T>(run: () => Promise<T>): Promise<T> {
    const giveUpAtMs = this.clock.monotonicMs() + BUSY_MS;
    for (;;) {
      try {
        return await run();
      } catch (error) {
        const isBusy = SvcError.from(error).code === "unavailable" && !this.#process?.ended;
        if (!isBusy || this.clock.monotonicMs() > giveUpAtMs) throw error;
        await this.clock.sleep(LOOK_MS);
      }
    }
  }

  /** Sends a batch, and does not wait for its answer. */
  #send(
    writer: SqliteProcess,
    { item: waiting, leave }: FairTurn<Waiting>,
    statements: readonly BatchStatement[],
  ): Attempted {
    const { limits: { transactionMs } } = waiting;
    waiting.runs++;
    const attempted: Attempted = { waiting };
    const sentMs = this.clock.monotonicMs();
    attempted.released = writer.batch(transactionMs, statements).then(
      (value) => void (attempted.outcome = { value }),
      (error) => {
        attempted.isCulprit = writer.ended !== undefined && !(error instanceof Interrupted);
        attempted.outcome = { error };
      },
    ).finally(() => {
      const nowMs = this.clock.monotonicMs();
      leave(nowMs - Math.max(sentMs, this.#answeredMs));
      this.#answeredMs = nowMs;
    });
    return attempted;
  }

  async #attempt(
    writer: SqliteProcess,
    { item: waiting, leave }: FairTurn<Waiting>,
    work: (sql: Sql) => Promise<unknown>,
  ): Promise<Attempted> {
    const { limits: { statementMs, transactionMs } } = waiting;
    waiting.runs++;
    let failed: unknown;
    const sql: Sql = {
      query: async <R>(statement: string | Lookup, ...values: SqlValue[]) => {
        if (failed !== undefined) throw failed;
        try {
          return await writer.query<R>(statementMs, sqlOf(statement), ...values);
        } catch (error) {
          throw failed ??= error;
        }
      },
    };
    const late = deadline(this.clock, transactionMs, () => {
      const what = `the transaction did not end within ${transactionMs / 1000} s`;
      return new SvcError("deadline_exceeded", `database: ${what}: try again with less`);
    });
    try {
      // Not awaited: its answer comes before those of the statements that follow.
      writer.query(statementMs, "SAVEPOINT one").catch((error) => failed ??= error);
      const value = await race(work(sql), late.signal);
      if (failed !== undefined) throw failed;
      const released = writer.query(statementMs, "RELEASE one");
      released.catch(() => {});
      return { waiting, released, outcome: { value } };
    } catch (error) {
      failed ??= error;
      if (!writer.ended) await this.#undo(writer, waiting, error);
      const isCulprit = writer.ended !== undefined && !(error instanceof Interrupted);
      return { waiting, outcome: { error }, isCulprit };
    } finally {
      late.done();
      leave();
      failed ??= new SvcError("failed_precondition", "database: the transaction has ended");
    }
  }

  /** Rolls back a failed transaction alone. A full disk may have rolled back all of the commit. */
  async #undo(writer: SqliteProcess, { reject }: Waiting, error: unknown): Promise<void> {
    try {
      writer.query(STATEMENT_MS, "ROLLBACK TO one").catch(() => {});
      await writer.query(STATEMENT_MS, "RELEASE one");
    } catch {
      reject(error);
      throw error;
    }
  }
}

/** A transaction that has not started, which waits again. */
function unattempted({ item, leave }: FairTurn<Waiting>): Attempted {
  leave(0);
  return { waiting: item };
}

/** Gives the caller its result. */
function tell({ waiting: { resolve, reject }, outcome }: Attempted): void {
  if (!outcome) return;
  if ("error" in outcome) reject(outcome.error);
  else resolve(outcome.value);
}
