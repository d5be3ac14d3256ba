/**
 * The processes that read from an SQLite file: a few, each with one statement at a time, in turns that are fair among
 * callers.
 *
 * Owns the number of the processes: one more starts when a statement has waited for a while, and surplus ones end when
 * nobody needed them for longer.
 */

import type { Clock } from "../../../base/clock.ts";
import { SvcError } from "../../../base/error.ts";
import { FAIR_READS, STATEMENT_MS, type StoreCallers } from "../callers.ts";
import type { SqlValue } from "../store.ts";
import { FairQueue, type FairTurn } from "../fair_queue.ts";
import type { SqliteProcess } from "./process.ts";

/** More than two groups at once can occupy. */
const READERS_MAX = 6;
/** A statement that has waited this long gets another process. */
const GROW_MS = 50;
/** Processes that were not needed for this time end. */
const SHRINK_MS = 60_000;
/** A statement that has waited longer is given up. */
const WAITING_MAX_MS = 60_000;

interface Reading {
  readonly signal?: AbortSignal;
  readonly sinceMs: number;
  readonly run: (reader: SqliteProcess) => Promise<unknown>;
  readonly resolve: (rows: unknown) => void;
  readonly reject: (error: unknown) => void;
}

export class SqliteReaders {
  readonly #queue: FairQueue<Reading>;
  readonly #idle: SqliteProcess[] = [];
  readonly #busy = new Set<SqliteProcess>();
  /** Turns so far, by which a growth sees that nothing went on. */
  #turns = 0;
  /** Processes that nobody needed since the last look. */
  #spare = Infinity;
  /** Processes that end. */
  readonly #leaving = new Set<Promise<void>>();
  #stopGrowing: (() => void) | undefined;
  #stopShrinking: (() => void) | undefined;
  #closed = false;

  constructor(
    private readonly start: () => SqliteProcess,
    private readonly callers: StoreCallers,
    private readonly clock: Clock,
  ) {
    this.#queue = new FairQueue(FAIR_READS, clock);
  }

  query<R>(text: string, values: readonly SqlValue[]): Promise<R[]> {
    if (this.#closed) return Promise.reject(closed());
    const { group, signal } = this.callers.current;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const run = (reader: SqliteProcess) => reader.query<R>(STATEMENT_MS, text, ...values);
    try {
      this.#queue.add(group, { signal, sinceMs: this.clock.monotonicMs(), run, resolve, reject });
    } catch (error) {
      return Promise.reject(error);
    }
    this.#next();
    return promise as Promise<R[]>;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#stopGrowing?.();
    this.#stopShrinking?.();
    for (const { reject } of this.#queue.drain()) reject(closed());
    // Nobody needs the answer of a statement that still runs.
    for (const reader of this.#busy) reader.interrupt(closed());
    await Promise.all([...this.#idle, ...this.#busy].map((reader) => reader.close()));
    await Promise.all(this.#leaving);
  }

  #next(): void {
    while (this.#queue.size > 0) {
      while (this.#idle.at(-1)?.ended) this.#idle.pop();
      if (this.#idle.length === 0) {
        if (this.#busy.size === 0) this.#idle.push(this.start());
        else return this.#growLater();
      }
      const turn = this.#queue.next();
      if (!turn) return;
      this.#turns++;
      void this.#read(turn);
    }
  }

  async #read({ item, leave }: FairTurn<Reading>): Promise<void> {
    const givenUp = this.#givenUp(item);
    if (givenUp !== undefined) {
      leave();
      return item.reject(givenUp);
    }
    const reader = this.#idle.pop()!;
    this.#spare = Math.min(this.#spare, this.#idle.length);
    this.#busy.add(reader);
    try {
      item.resolve(await item.run(reader));
    } catch (error) {
      item.reject(error);
    } finally {
      this.#busy.delete(reader);
      leave();
      if (!reader.ended) this.#idle.push(reader);
      if (!this.#closed) this.#next();
      this.#shrinkLater();
    }
  }

  #givenUp({ signal, sinceMs }: Reading): unknown {
    if (signal?.aborted) return signal.reason;
    const waitedMs = this.clock.monotonicMs() - sinceMs;
    if (waitedMs < WAITING_MAX_MS) return undefined;
    const why = `database: the statement waited ${
      Math.round(waitedMs / 1000)
    } s for its turn: try again later`;
    return new SvcError("unavailable", why);
  }

  #growLater(): void {
    if (this.#stopGrowing || this.#busy.size >= READERS_MAX) return;
    const before = this.#turns;
    this.#stopGrowing = this.clock.after(GROW_MS, () => {
      this.#stopGrowing = undefined;
      if (this.#queue.size === 0) return;
      const isStarting = [...this.#busy].some((reader) => !reader.isOpen);
      const isStuck = this.#turns === before && this.#idle.length === 0;
      if (isStuck && !isStarting) this.#idle.push(this.start());
      this.#next();
    });
  }

  #shrinkLater(): void {
    if (this.#closed || this.#stopShrinking || this.#idle.length + this.#busy.size < 2) return;
    this.#spare = this.#idle.length;
    this.#stopShrinking = this.clock.after(SHRINK_MS, () => {
      this.#stopShrinking = undefined;
      const surplus = Math.min(this.#spare, this.#idle.length - (this.#busy.size > 0 ? 0 : 1));
      for (const reader of surplus > 0 ? this.#idle.splice(-surplus) : []) {
        const leaving = reader.close().finally(() => this.#leaving.delete(leaving));
        this.#leaving.add(leaving);
      }
      this.#shrinkLater();
    });
  }
}

function closed(): SvcError {
  return new SvcError("unavailable", "the database is closed");
}
