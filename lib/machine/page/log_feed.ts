/**
 * The last records of the program's log, and whoever follows it.
 *
 * Keeps a bounded number of records of bounded length. A follower that does not take its records in time loses the
 * oldest of them and is told how many; it never holds up the log.
 */

import type { Clock } from "../../base/clock.ts";
import type { LogRecord, Sink } from "../../base/log/log.ts";

const KEPT_RECORDS = 1000;
/** Records that wait for one follower. */
const WAITING_RECORDS = 2000;
const TEXT_CHARS = 4000;
const FOLLOWERS_MAX = 32;
/** Records are sent together, so that a flood costs few messages. */
const BATCH_MS = 100;
const BATCH_RECORDS = 500;

/** A record as a follower gets it; the fields are JSON. */
export type FedRecord = Omit<LogRecord, "fields"> & { readonly fields: string };

export interface LogBatch {
  readonly records: readonly FedRecord[];
  /** Records before these that were lost. */
  readonly leftOut: number;
}

interface Follower {
  waiting: FedRecord[];
  leftOut: number;
  wake: () => void;
}

export class LogFeed {
  readonly #last: FedRecord[] = [];
  readonly #followers = new Set<Follower>();
  readonly #closing = new AbortController();

  constructor(private readonly clock: Clock) {}

  readonly sink: Sink = (record) => {
    const fed = fedRecord(record);
    this.#last.push(fed);
    if (this.#last.length > KEPT_RECORDS) this.#last.splice(0, this.#last.length - KEPT_RECORDS);
    for (const follower of this.#followers) {
      follower.waiting.push(fed);
      if (follower.waiting.length > WAITING_RECORDS) {
        follower.waiting.shift();
        follower.leftOut++;
      }
      follower.wake();
    }
  };

  /** Whether another follower is admitted. */
  get hasPlace(): boolean {
    return this.#followers.size < FOLLOWERS_MAX;
  }

  /** The last `backlog` records, then every later one, until `caller` aborts or the feed is closed. */
  async *follow(backlog: number, caller: AbortSignal): AsyncGenerator<LogBatch> {
    const signal = AbortSignal.any([caller, this.#closing.signal]);
    const waiting = backlog === 0 ? [] : this.#last.slice(-backlog);
    const follower: Follower = { waiting, leftOut: 0, wake: () => {} };
    const stop = () => follower.wake();
    this.#followers.add(follower);
    signal.addEventListener("abort", stop);

    try {
      // The first batch says that the following has begun, also if there is nothing to say.
      yield take(follower);
      while (!signal.aborted) {
        if (follower.waiting.length === 0) {
          await new Promise<void>((resolve) => follower.wake = resolve);
          follower.wake = () => {};
          await this.#pause(signal);
        }
        if (!signal.aborted && follower.waiting.length > 0) yield take(follower);
      }
    } finally {
      signal.removeEventListener("abort", stop);
      this.#followers.delete(follower);
    }
  }

  /** Ends all following, so that a port need not wait for it. */
  close(): Promise<void> {
    this.#closing.abort();
    return Promise.resolve();
  }

  async #pause(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const end = () => {
        cancel();
        signal.removeEventListener("abort", end);
        resolve();
      };
      const cancel = this.clock.after(BATCH_MS, end);
      signal.addEventListener("abort", end);
      if (signal.aborted) end();
    });
  }
}

function take(follower: Follower): LogBatch {
  const { leftOut } = follower;
  follower.leftOut = 0;
  return { records: follower.waiting.splice(0, BATCH_RECORDS), leftOut };
}

function fedRecord({ message, fields, ...record }: LogRecord): FedRecord {
  return { ...record, message: shortened(message), fields: shortened(jsonOf(fields)) };
}

function jsonOf(fields: object): string {
  if (Object.keys(fields).length === 0) return "";
  try {
    return JSON.stringify(fields, (_, value) => typeof value === "bigint" ? String(value) : value);
  } catch {
    // A cycle, or an object that refuses.
    return "";
  }
}

function shortened(text: string): string {
  return text.length <= TEXT_CHARS ? text : `${text.slice(0, TEXT_CHARS)}… (${text.length} characters)`;
}
