/**
 * The processes that read from an SQLite file: a few, to which statements travel in batches, in turns that are fair
 * among callers.
 *
 * A process answers one statement after another, and most take microseconds: so one process serves everybody until a
 * statement is slow. Then the statements behind it go to another process, and a group with slow statements in some
 * processes gets no further one: the others stay free for everybody else.
 */

import type { Clock } from "../../../base/clock.ts";
import { SvcError } from "../../../base/error.ts";
import { FAIR_READS, SLOW_READS_MAX, STATEMENT_MS, type StoreCallers } from "../callers.ts";
import { FairQueue, type FairTurn, OWN_GROUP } from "../fair_queue.ts";
import type { SqlValue } from "../store.ts";
import type { SqlitePlace } from "./sqlite.ts";
import { Interrupted, type SqliteProcess } from "./process.ts";

/** More than two groups at once can occupy. */
const READERS_MAX = 6;
/** Statements that travel to a process before it has answered the first one. */
const BATCH_MAX = 64;
/** How often a running statement is looked at, and how much a slow one computes between two looks. */
const LOOK_MS = 50;
const COMPUTED_MS = 25;
/** A statement is slow after this time even if it only waits, for a disk or for the processor. */
const SLOW_MS = 2_000;
/** Processes that were not needed for this time end. */
const SHRINK_MS = 60_000;
/** A statement that has waited longer is given up. */
const WAITING_MAX_MS = 60_000;
/** How often a statement begins again because another one ended its process. */
const RUNS_MAX = 5;

interface Reading {
  readonly group: string;
  readonly signal?: AbortSignal;
  readonly sinceMs: number;
  readonly statement: readonly [text: string, ...values: SqlValue[]];
  readonly resolve: (rows: unknown) => void;
  readonly reject: (error: unknown) => void;
  runs: number;
  /** The processes that have it, and whether it waits for one. */
  held: number;
  waits: boolean;
  settled: boolean;
}

/** A process with the statements that it has been given, the running one first. */
class Reader {
  readonly given: FairTurn<Reading>[] = [];
  isSlow = false;
  /** When its first statement began. */
  begunMs = 0;
  stopWatch: (() => void) | undefined;

  constructor(readonly process: SqliteProcess) {}
}

export class SqliteReaders {
  readonly #queue: FairQueue<Reading>;
  #readers: Reader[] = [];
  /** Slow statements under way, by group. */
  readonly #slow = new Map<string, number>();
  /** Processes that nobody needed since the last look. */
  #spare = Infinity;
  /** Processes that end. */
  readonly #leaving = new Set<Promise<void>>();
  #stopShrinking: (() => void) | undefined;
  #closed = false;

  constructor(
    private readonly start: () => SqliteProcess,
    private readonly cpuMs: SqlitePlace["cpuMs"],
    private readonly callers: StoreCallers,
    private readonly clock: Clock,
  ) {
    const isBlocked = (group: string) =>
      group !== OWN_GROUP && (this.#slow.get(group) ?? 0) >= SLOW_READS_MAX;
    this.#queue = new FairQueue({ ...FAIR_READS, turnsOfGroupMax: BATCH_MAX, isBlocked }, clock);
  }

  query<R>(text: string, values: readonly SqlValue[]): Promise<R[]> {
    if (this.#closed) return Promise.reject(closed());
    const { group, signal } = this.callers.current;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const asked = { group, signal, sinceMs: this.clock.monotonicMs(), statement: [text, ...values] as const };
    try {
      const fresh = { resolve, reject, runs: 0, held: 0, waits: true, settled: false };
      this.#queue.add(group, { ...asked, ...fresh });
    } catch (error) {
      return Promise.reject(error);
    }
    this.#next();
    return promise as Promise<R[]>;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#stopShrinking?.();
    for (const { reject } of this.#queue.drain()) reject(closed());
    // Nobody needs the answers of statements that still run.
    for (const { process, given, stopWatch } of this.#readers) {
      stopWatch?.();
      if (given.length > 0) process.interrupt(closed());
    }
    await Promise.all(this.#readers.map(({ process }) => process.close()));
    await Promise.all(this.#leaving);
  }

  #next(): void {
    while (this.#queue.size > 0) {
      const reader = this.#free();
      const turn = reader && this.#queue.next();
      if (!turn) return;
      void this.#read(reader, turn);
    }
  }

  /** The process with the fewest statements; `undefined` if all are slow or full. */
  #free(): Reader | undefined {
    this.#readers = this.#readers.filter(({ process }) => !process.ended);
    let best: Reader | undefined;
    for (const one of this.#readers) {
      if (!one.isSlow && (!best || one.given.length < best.given.length)) best = one;
    }
    if (!best && this.#readers.length < READERS_MAX) this.#readers.push(best = new Reader(this.start()));
    return best && best.given.length < BATCH_MAX ? best : undefined;
  }

  async #read(reader: Reader, turn: FairTurn<Reading>): Promise<void> {
    const { item, leave } = turn;
    item.waits = false;
    const givenUp = this.#givenUp(item);
    if (givenUp !== undefined) {
      leave(0);
      return this.#settle(item, () => item.reject(givenUp));
    }
    item.runs++;
    item.held++;
    reader.given.push(turn);
    this.#spare = Math.min(this.#spare, this.#readers.filter(({ given }) => given.length === 0).length);
    if (reader.given.length === 1) this.#watch(reader);
    try {
      const rows = await reader.process.query(STATEMENT_MS, ...item.statement);
      this.#settle(item, () => item.resolve(rows));
    } catch (error) {
      const isOver = !(error instanceof Interrupted) || this.#closed || item.runs >= RUNS_MAX;
      if (isOver) this.#settle(item, () => item.reject(error));
      else if (item.held === 1) this.#again(item);
    } finally {
      item.held--;
      this.#answered(reader, turn);
    }
  }

  #settle(item: Reading, tell: () => void): void {
    if (item.settled) return;
    item.settled = true;
    tell();
  }

  #again(item: Reading): void {
    if (item.settled || item.waits || item.runs >= RUNS_MAX) return;
    item.waits = true;
    try {
      this.#queue.add(item.group, item);
    } catch (error) {
      this.#settle(item, () => item.reject(error));
    }
  }

  #answered(reader: Reader, turn: FairTurn<Reading>): void {
    const wasFirst = reader.given[0] === turn;
    reader.given.splice(reader.given.indexOf(turn), 1);
    turn.leave(wasFirst ? this.clock.monotonicMs() - reader.begunMs : 0);
    if (wasFirst) this.#watch(reader, turn.item.group);
    if (this.#closed) return;
    this.#next();
    this.#shrinkLater();
  }

  /** Watches the first statement of a process, whose former one was of the group `ended`. */
  #watch(reader: Reader, ended?: string): void {
    reader.stopWatch?.();
    reader.stopWatch = undefined;
    if (reader.isSlow && ended !== undefined) this.#slow.set(ended, this.#slow.get(ended)! - 1);
    if (ended !== undefined && this.#slow.get(ended) === 0) this.#slow.delete(ended);
    reader.isSlow = false;
    reader.begunMs = this.clock.monotonicMs();
    if (reader.given.length === 0 || this.#closed) return;
    this.#lookLater(reader);
  }

  /** A busy computer makes every statement late, so what counts is how much the process has computed. */
  #lookLater(reader: Reader, knownMs?: number): void {
    const { process } = reader;
    reader.stopWatch = this.clock.after(LOOK_MS, () => {
      const cpuMs = this.cpuMs?.(process.pid);
      const computed = cpuMs === undefined || (knownMs !== undefined && cpuMs - knownMs >= COMPUTED_MS);
      const isLate = this.clock.monotonicMs() - reader.begunMs >= SLOW_MS;
      if (process.isOpen && (computed || isLate)) this.#isSlow(reader);
      else this.#lookLater(reader, process.isOpen ? cpuMs : undefined);
    });
  }

  /** The statements behind a slow one go to another process; whichever answers first counts. */
  #isSlow(reader: Reader): void {
    reader.isSlow = true;
    const [{ item: { group } }, ...behind] = reader.given;
    this.#slow.set(group, (this.#slow.get(group) ?? 0) + 1);
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

  #shrinkLater(): void {
    if (this.#closed || this.#stopShrinking || this.#readers.length < 2) return;
    this.#spare = this.#readers.length;
    this.#stopShrinking = this.clock.after(SHRINK_MS, () => {
      this.#stopShrinking = undefined;
      const idle = this.#readers.filter(({ given }) => given.length === 0);
      const surplus = Math.min(this.#spare, idle.length, this.#readers.length - 1);
      for (const reader of idle.slice(0, surplus)) {
        this.#readers.splice(this.#readers.indexOf(reader), 1);
        const leaving = reader.process.close().finally(() => this.#leaving.delete(leaving));
        this.#leaving.add(leaving);
      }
      this.#shrinkLater();
    });
  }
}

function closed(): SvcError {
  return new SvcError("unavailable", "the database is closed");
}
