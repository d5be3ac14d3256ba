/**
 * The connections to a PostgreSQL database.
 *
 * The driver does not survive the loss of a connection during a transaction: it goes on to use it, which ends the
 * program, or another transaction's, once it has connected again; and a connection that was lost while it wrote never
 * writes again. So the loss of one connection ends the transactions on all of them, and the next statement gets new
 * ones.
 *
 * A server that can no longer be heard, because of a network that drops packets or a computer that has lost its power,
 * ends no connection. The server's own limits end every statement, so one without an answer beyond these limits shows
 * a lost connection.
 */

import { Deadlines } from "../../../base/async/deadlines.ts";
import type { Clock } from "../../../base/clock.ts";
import { LinkedList } from "../../../base/collections/linked_list.ts";
import { SvcError } from "../../../base/error.ts";
import { STATEMENT_MS, TRANSACTION_MS } from "../callers.ts";
import type { SqlRow, SqlValue } from "../store.ts";
import { BATCHED_TEXTS, runStatement, type StatementSender } from "./statements.ts";

/** A client with several connections. */
export interface Client {
  readonly query: RunText;
  begin(mode: string, work: (connection: StatementSender) => Promise<unknown>): Promise<unknown>;
  /** Takes a connection out of turn, for one user, until it is released. */
  reserve(): Promise<Reserved>;
  end(options: { readonly timeout: number }): Promise<void>;
}

interface Reserved extends StatementSender {
  release(): void;
}

/** Runs a statement; returns its rows. Throws the driver's errors. */
export type RunText = (text: string, values: readonly SqlValue[]) => Promise<readonly SqlRow[]>;

/** Time for statements on the other connections to end. */
const END_S = 1;
/** The server has ended a statement, or a transaction that waits for its next one, before this time. */
const SILENCE_MS = STATEMENT_MS + TRANSACTION_MS;

/** A client, and what ends its transactions. */
interface Connections {
  readonly client: Client;
  readonly transactions: LinkedList<(error: unknown) => void>;
  isLost: boolean;
}

export class PostgresPool {
  #now: Connections | undefined;
  readonly #ends = new Set<Promise<unknown>>();
  readonly #deadlines: Deadlines;
  #isClosed = false;

  /** `connect` makes a client that calls `onclose` at the end of each connection. */
  constructor(
    private readonly connect: (onclose: () => void) => Client,
    clock: Clock,
  ) {
    this.#deadlines = new Deadlines(clock);
  }

  readonly query: RunText = async (text, values) => {
    const connections = this.#connections;
    const { promise: silent, reject } = Promise.withResolvers<never>();
    const watch = new SilenceWatch(this.#deadlines, SILENCE_MS, () => {
      reject(unanswered());
      this.#lose(connections);
    });
    return await Promise.race([watch.answer(connections.client.query(text, values)), silent]);
  };

  /**
   * Commits all of `work`, or nothing. Throws the driver's errors, and those of `work`. `isUnlimited`: the server has
   * no limit for its statements.
   */
  async transaction<T>(
    mode: string,
    work: (run: RunText) => Promise<T>,
    { isUnlimited = false } = {},
  ): Promise<T> {
    const connections = this.#connections;
    const limitMs = isUnlimited ? Infinity : SILENCE_MS;
    const watch = new SilenceWatch(this.#deadlines, limitMs, () => this.#lose(connections));
    const begun = watch.answer(connections.client.begin(mode, async (connection) => {
      const run: RunText = async (text, values) => {
        if (connections.isLost) throw gone();
        try {
          return await watch.answer(runStatement(connection, text, values));
        } catch (error) {
          if (isLoss(error)) this.#lose(connections);
          throw error;
        }
      };
      try {
        const result = await work(run);
        if (!connections.isLost) return result;
      } catch (error) {
        if (!connections.isLost) throw error;
      }
      // The driver must neither commit nor roll back: it may have no connection for it.
      return await new Promise<never>(() => {});
    }));
    return await this.#unlessLost(connections, watch, begun as Promise<T>);
  }

  /**
   * The same for statements that do not depend on each other's rows: they go to the server together with the start of the
   * transaction. `send` sends them; the transaction commits if it `accepts` their rows.
   */
  async batch(
    mode: string,
    send: (run: RunText) => readonly Promise<readonly SqlRow[]>[],
    accepts: (answers: readonly (readonly SqlRow[])[]) => boolean,
  ): Promise<void> {
    const connections = this.#connections;
    const watch = new SilenceWatch(this.#deadlines, SILENCE_MS, () => this.#lose(connections));
    const ended = watch.answer(this.#runBatch(connections, mode, send, accepts));
    await this.#unlessLost(connections, watch, ended);
  }

  async #runBatch(
    connections: Connections,
    mode: string,
    send: (run: RunText) => readonly Promise<readonly SqlRow[]>[],
    accepts: (answers: readonly (readonly SqlRow[])[]) => boolean,
  ): Promise<void> {
    const reserved = await connections.client.reserve();
    // The driver must not use a connection that is gone.
    if (connections.isLost) throw gone();
    const run: RunText = (text, values) => runStatement(reserved, text, values, BATCHED_TEXTS);
    // If the start fails, the others fail too, because sessions are read-only outside of transactions.
    const answers = await Promise.allSettled([run(`BEGIN ${mode}`, []), ...send(run)]);
    const failed = answers.find((answer) => answer.status === "rejected");
    if (failed && isLoss(failed.reason)) this.#lose(connections);
    if (connections.isLost) throw failed?.reason ?? gone();

    const rows = answers.slice(1).map((answer) => answer.status === "fulfilled" ? answer.value : []);
    try {
      await run(!failed && accepts(rows) ? "COMMIT" : "ROLLBACK", []);
    } catch (error) {
      if (isLoss(error)) this.#lose(connections);
      throw failed?.reason ?? error;
    } finally {
      if (!connections.isLost) reserved.release();
    }
    if (failed) throw failed.reason;
  }

  async #unlessLost<T>(connections: Connections, watch: SilenceWatch, ended: Promise<T>): Promise<T> {
    const { promise: lost, reject } = Promise.withResolvers<never>();
    const link = connections.transactions.add(reject);
    try {
      return await Promise.race([ended, lost]);
    } finally {
      connections.transactions.delete(link);
      watch.end();
    }
  }

  async close(seconds: number): Promise<void> {
    this.#isClosed = true;
    await this.#now?.client.end({ timeout: seconds });
    await Promise.all(this.#ends);
  }

  get #connections(): Connections {
    if (this.#now) return this.#now;
    const connections: Connections = {
      client: this.connect(() => this.#lose(connections)),
      transactions: new LinkedList(),
      isLost: false,
    };
    return this.#now = connections;
  }

  #lose(connections: Connections): void {
    if (connections.isLost || this.#isClosed) return;
    connections.isLost = true;
    for (const end of connections.transactions.values()) end(gone());
    if (this.#now === connections) this.#now = undefined;
    const end = connections.client.end({ timeout: END_S }).finally(() => this.#ends.delete(end));
    this.#ends.add(end);
  }
}

/** Calls `onSilent` if an answer is awaited and none has come for the time of the limit. */
class SilenceWatch {
  #awaited = 0;
  #cancel: (() => void) | undefined;
  #hasEnded = false;

  constructor(
    private readonly deadlines: Deadlines,
    private readonly limitMs: number,
    private readonly onSilent: () => void,
  ) {}

  async answer<T>(answer: Promise<T>): Promise<T> {
    this.#awaited++;
    this.#beginAgain();
    try {
      return await answer;
    } finally {
      this.#awaited--;
      this.#beginAgain();
    }
  }

  end(): void {
    this.#hasEnded = true;
    this.#beginAgain();
  }

  #beginAgain(): void {
    this.#cancel?.();
    const isWaiting = this.#awaited > 0 && !this.#hasEnded && this.limitMs !== Infinity;
    this.#cancel = isWaiting ? this.deadlines.after(this.limitMs, this.onSilent) : undefined;
  }
}

function gone(): SvcError {
  const why = "whether it holds a change that was under way is unknown: look, and try again";
  return new SvcError("unavailable", `database: a connection was lost; ${why}`);
}

function unanswered(): SvcError {
  return new SvcError("unavailable", `database: the server did not answer within ${SILENCE_MS / 1000} s`);
}

/** Whether an error is the end of a connection: the server's farewell, or none. */
function isLoss(error: unknown): boolean {
  const { code = "", severity } = error as { readonly code?: string; readonly severity?: string };
  if (severity !== undefined) return severity === "FATAL" || severity === "PANIC";
  return /^(CONNECTION_[A-Z]+|CONNECT_TIMEOUT|E[A-Z]+)$/.test(code);
}
