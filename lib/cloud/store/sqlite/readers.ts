/**
 * The few processes that read from an SQLite file. Statements go to them in batches, in turns that are fair among
 * callers.
 *
 * A process answers one statement after another, and most take microseconds, so one process serves everybody until a
 * statement is slow. Then the statements behind it go to another process. A group with slow statements in
 * `SLOW_READS_MAX` processes gets no further process, so that the others stay free for everybody else.
 */

import { FairQueue, type FairTurn } from "../../../base/async/fair_queue.ts";
import { KeyCounts } from "../../../base/async/key_counts.ts";
import type { Clock } from "../../../base/clock.ts";
import { SvcError } from "../../../base/error.ts";
import {
  FAIR_READS,
  OWN_GROUP,
  SLOW_READS_MAX,
  STATEMENT_MS,
  type StoreCaller,
  type StoreCallers,
} from "../callers.ts";
import type { SqlValue } from "../store.ts";
import type { StatementRequest } from "./frames.ts";
import { BATCH_MAX, type Reader, ReaderPool } from "./reader_pool.ts";
import { Interrupted, type SqliteAddress, type SqliteProcess, type StatementOutcome } from "./process.ts";

/** Limit of statements of a call that are sent together. */
const TOGETHER_MAX = 16;
/** Interval of the checks of a running statement, and the processor time between two checks that makes it slow. */
const LOOK_MS = 50;
const COMPUTED_MS = 25;
/** A statement is slow after this time even if it only waits, for a disk or for the processor. */
const SLOW_MS = 2_000;
/** Longest wait of a statement. */
const WAITING_MAX_MS = 60_000;
/** How often a statement is restarted because another one ended its process. */
const RUNS_MAX = 5;

/** A statement and its caller. */
interface Query {
  readonly statement: StatementRequest;
  readonly resolve: (rows: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** The statements of one call in the same turn, which are sent together. */
interface Reading {
  readonly group: string;
  readonly signal?: AbortSignal;
  readonly sinceMs: number;
  readonly queries: Query[];
  runs: number;
  /** The processes that have it, and whether it waits for one. */
  held: number;
  waits: boolean;
  settled: boolean;
}

export class SqliteReaders {
  readonly #queue: FairQueue<Reading>;
  readonly #pool: ReaderPool<Reading>;
  /** The statements of calls in this turn. A map that is cleared would hold on to them, so each turn has a map. */
  #gathered = new Map<StoreCaller, Reading>();
  #isNextDue = false;
  /** Slow statements under way, by group. */
  readonly #slow = new KeyCounts();
  #closed = false;

  constructor(
    start: () => SqliteProcess,
    private readonly cpuMs: SqliteAddress["cpuMs"],
    private readonly callers: StoreCallers,
    private readonly clock: Clock,
  ) {
    this.#pool = new ReaderPool(start, clock, () => this.#closed || this.#next());
    const isBlocked = (group: string) => group !== OWN_GROUP && this.#slow.of(group) >= SLOW_READS_MAX;
    this.#queue = new FairQueue({ ...FAIR_READS, turnsOfGroupMax: BATCH_MAX, isBlocked }, clock);
  }

  /** The number of waiting statements; those of one call count once. */
  get waiting(): number {
    return this.#queue.size;
  }

  query<R>(text: string, values: readonly SqlValue[]): Promise<R[]> {
    if (this.#closed) return Promise.reject(closed());
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    try {
      this.#gather({ statement: [text, ...values], resolve, reject });
    } catch (error) {
      return Promise.reject(error);
    }
    if (!this.#isNextDue) {
      this.#isNextDue = true;
      queueMicrotask(() => {
        this.#isNextDue = false;
        this.#gathered = new Map();
        this.#next();
      });
    }
    return promise as Promise<R[]>;
  }

  /** Queues a statement with others of the same call, or by itself. */
  #gather(query: Query): void {
    const { call } = this.callers;
    const others = call && this.#gathered.get(call);
    if (others?.waits && others.queries.length < TOGETHER_MAX) return void others.queries.push(query);
    const { group, signal } = this.callers.current;
    const reading = this.#add({ group, signal, sinceMs: this.clock.monotonicMs() }, query);
    if (call) this.#gathered.set(call, reading);
  }

  #add(from: Pick<Reading, "group" | "signal" | "sinceMs">, query: Query): Reading {
    const { group, signal, sinceMs } = from;
    const fresh = { runs: 0, held: 0, waits: true, settled: false };
    const reading: Reading = { group, signal, sinceMs, queries: [query], ...fresh };
    this.#queue.add([group], reading);
    return reading;
  }

  /** One of the statements took too long or ended its process, so from now on each of them runs by itself. */
  #separate(item: Reading): void {
    if (item.settled || this.#closed) return;
    item.settled = true;
    for (const query of item.queries) {
      try {
        this.#add(item, query);
      } catch (error) {
        query.reject(error);
      }
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const reading of this.#queue.drain()) this.#refuse(reading, closed());
    // Nobody needs the answers of statements that are still running.
    await this.#pool.close(closed());
  }

  #next(): void {
    while (this.#queue.size > 0) {
      let reader: Reader<Reading> | undefined;
      try {
        reader = this.#pool.free();
      } catch (error) {
        // No process can be started, so all waiting statements are refused.
        for (const reading of this.#queue.drain()) this.#refuse(reading, error);
        return;
      }
      const turn = reader && this.#queue.next();
      if (!reader || !turn) return;
      void this.#read(reader, turn);
    }
  }

  async #read(reader: Reader<Reading>, turn: FairTurn<Reading>): Promise<void> {
    const { item, leave } = turn;
    item.waits = false;
    const givenUp = this.#givenUp(item);
    if (givenUp !== undefined) {
      leave(0);
      return this.#refuse(item, givenUp);
    }
    item.runs++;
    item.held++;
    this.#pool.give(reader, turn);
    if (reader.given.length === 1) this.#watch(reader);
    try {
      const statements = item.queries.map(({ statement }) => statement);
      this.#settle(item, await reader.process.statements(STATEMENT_MS, statements));
    } catch (error) {
      if (item.queries.length > 1 && !(error instanceof Interrupted)) this.#separate(item);
      const isOver = !(error instanceof Interrupted) || this.#closed || item.runs >= RUNS_MAX;
      if (isOver) this.#refuse(item, error);
      else if (item.held === 1) this.#again(item);
    } finally {
      item.held--;
      this.#answered(reader, turn);
    }
  }

  #settle(item: Reading, outcomes: readonly StatementOutcome[]): void {
    if (item.settled) return;
    item.settled = true;
    for (const [at, { resolve, reject }] of item.queries.entries()) {
      const { rows = [], failed } = outcomes[at] ?? {};
      if (failed) reject(failed);
      else resolve(rows);
    }
  }

  #refuse(item: Reading, error: unknown): void {
    if (item.settled) return;
    item.settled = true;
    for (const { reject } of item.queries) reject(error);
  }

  #again(item: Reading): void {
    if (item.settled || item.waits || item.runs >= RUNS_MAX) return;
    item.waits = true;
    try {
      this.#queue.add([item.group], item);
    } catch (error) {
      this.#refuse(item, error);
    }
  }

  #answered(reader: Reader<Reading>, turn: FairTurn<Reading>): void {
    const wasFirst = reader.given[0] === turn;
    reader.given.splice(reader.given.indexOf(turn), 1);
    turn.leave(wasFirst ? this.clock.monotonicMs() - reader.begunMs : 0);
    if (wasFirst) this.#watch(reader, turn.item.group);
    if (this.#closed) return;
    this.#next();
    this.#pool.shrinkLater();
  }

  /** Watches the first statement of a process, whose former one was of the group `ended`. */
  #watch(reader: Reader<Reading>, ended?: string): void {
    reader.stopWatch?.();
    reader.stopWatch = undefined;
    if (reader.isSlow && ended !== undefined) this.#slow.add(ended, -1);
    reader.isSlow = false;
    reader.begunMs = this.clock.monotonicMs();
    if (reader.given.length === 0 || this.#closed) return;
    this.#lookLater(reader);
  }

  /** On a busy computer every statement is late, so the processor time of the process counts. */
  #lookLater(reader: Reader<Reading>, knownMs?: number): void {
    const { process } = reader;
    reader.stopWatch = this.clock.after(LOOK_MS, () => {
      const cpuMs = this.cpuMs?.(process.pid);
      const computed = cpuMs === undefined || (knownMs !== undefined && cpuMs - knownMs >= COMPUTED_MS);
      const isLate = this.clock.monotonicMs() - reader.begunMs >= SLOW_MS;
      if (process.isOpen && (computed || isLate)) this.#isSlow(reader);
      else this.#lookLater(reader, process.isOpen ? cpuMs : undefined);
    });
  }

  /** Sends the statements behind a slow one to another process; the first answer counts. */
  #isSlow(reader: Reader<Reading>): void {
    reader.isSlow = true;
    const [slow, ...behind] = reader.given;
    if (!slow) return;
    const { group } = slow.item;
    this.#slow.add(group, 1);
    for (const { item } of behind) this.#again(item);
    this.#next();
  }

  #givenUp({ signal, sinceMs, settled }: Reading): unknown {
    if (signal?.aborted) return signal.reason;
    const waitedMs = this.clock.monotonicMs() - sinceMs;
    if (waitedMs < WAITING_MAX_MS && !settled) return undefined;
    const why = `database: the statement waited ${
      Math.round(waitedMs / 1000)
    } s for its turn: try again later`;
    return new SvcError("unavailable", why);
  }
}

function closed(): SvcError {
  return new SvcError("unavailable", "the database is closed");
}
