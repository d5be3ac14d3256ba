/**
 * The processes that read from an SQLite file: started when all others are slow or full, ended when they have not been
 * needed for a while.
 */

import type { FairTurn } from "../../../base/async/fair_queue.ts";
import type { Clock } from "../../../base/clock.ts";
import type { SvcError } from "../../../base/error.ts";
import type { SqliteProcess } from "./process.ts";

/** Limit of processes: more than two groups together can occupy. */
const READERS_MAX = 6;
/** Limit of readings that are sent to a process before it has answered the first one. */
export const BATCH_MAX = 64;
/** Processes that were not needed for this time end. */
const SHRINK_MS = 60_000;

/** A process with the statements that it has been given, the running one first. */
export class Reader<Item> {
  readonly given: FairTurn<Item>[] = [];
  isSlow = false;
  /** When its first statement started. */
  begunMs = 0;
  stopWatch: (() => void) | undefined;

  constructor(readonly process: SqliteProcess) {}
}

export class ReaderPool<Item> {
  #readers: Reader<Item>[] = [];
  /** Processes that nobody needed since the last check. */
  #spare = Infinity;
  /** Processes that are ending. */
  readonly #leaving = new Set<Promise<void>>();
  #stopShrinking: (() => void) | undefined;
  #closed = false;

  /** @param opened a process that was started for want of a free one is open, or has failed */
  constructor(
    private readonly start: () => SqliteProcess,
    private readonly clock: Clock,
    private readonly opened: () => void,
  ) {}

  /**
   * The process with the fewest statements; `undefined` if all are slow or full. Then it starts another one, and calls
   * `opened` later: a process takes seconds to start on a busy computer, and most slow statements end before. Throws if
   * none can be started.
   */
  free(): Reader<Item> | undefined {
    this.#readers = this.#readers.filter(({ process }) => !process.ended);
    const open = this.#readers.filter(({ process }) => process.isOpen);
    let best: Reader<Item> | undefined;
    for (const one of open) {
      if (!one.isSlow && (!best || one.given.length < best.given.length)) best = one;
    }
    if (!best) {
      let starting = this.#readers.find(({ process }) => !process.isOpen);
      if (!starting && this.#readers.length < READERS_MAX) starting = this.#start();
      // Nothing can be answered before the first one.
      if (open.length === 0) best = starting;
    }
    return best && best.given.length < BATCH_MAX ? best : undefined;
  }

  #start(): Reader<Item> {
    const reader = new Reader<Item>(this.start());
    this.#readers.push(reader);
    void reader.process.opened.then(this.opened);
    return reader;
  }

  /** Gives a statement to a process. */
  give(reader: Reader<Item>, turn: FairTurn<Item>): void {
    reader.given.push(turn);
    this.#spare = Math.min(this.#spare, this.#idle().length);
  }

  /** Ends processes that are not needed from now on. */
  shrinkLater(): void {
    if (this.#closed || this.#stopShrinking || this.#readers.length < 2) return;
    this.#spare = this.#readers.length;
    this.#stopShrinking = this.clock.after(SHRINK_MS, () => {
      this.#stopShrinking = undefined;
      const idle = this.#idle();
      const surplus = Math.min(this.#spare, idle.length, this.#readers.length - 1);
      for (const reader of idle.slice(0, surplus)) {
        this.#readers.splice(this.#readers.indexOf(reader), 1);
        const leaving = reader.process.close().finally(() => this.#leaving.delete(leaving));
        this.#leaving.add(leaving);
      }
      this.shrinkLater();
    });
  }

  /** Ends all processes; statements that are still running end with the error. */
  async close(error: SvcError): Promise<void> {
    this.#closed = true;
    this.#stopShrinking?.();
    for (const { process, given, stopWatch } of this.#readers) {
      stopWatch?.();
      if (given.length > 0) process.interrupt(error);
    }
    await Promise.all(this.#readers.map(({ process }) => process.close()));
    await Promise.all(this.#leaving);
  }

  #idle(): Reader<Item>[] {
    return this.#readers.filter(({ given }) => given.length === 0);
  }
}
