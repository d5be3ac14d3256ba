/**
 * Lookups in the main thread of svc-cloud: a connection that only reads, beside those of the processes.
 *
 * A reader of the write-ahead log waits for nobody, and sees every commit that was acknowledged before it began. What
 * could take long goes to the processes: a lookup whose plan does not go by indexes, one with more rows than it
 * declares, lookups beyond a turn's share of time, and all of them for a while after one was slow.
 */

import { type Clock, nextTurn } from "../../../base/clock.ts";
import type { Lookup } from "../lookups.ts";
import type { SqlRow, SqlValue } from "../store.ts";
import { SqliteConnection } from "./connection.ts";

/** The time of all lookups in one turn of the event loop, in which nobody else is served. */
const TURN_MS = 4;
/** A lookup that takes longer waits for the disk; then the processes read for a hundred times as long. */
const SLOW_MS = 10;
const REST_FACTOR = 100;
/** Before the file is opened again. */
const REOPEN_MS = 1_000;
/** Lookups whose plans are known. */
const PLANS_MAX = 500;

export class MainThreadLookups {
  #connection: SqliteConnection | undefined;
  /** By their text, whether plans keep what lookups promise. */
  readonly #plans = new Map<string, boolean>();
  #spentMs = 0;
  #restUntilMs = -Infinity;
  #callOff: (() => void) | undefined;
  #isClosed = false;

  constructor(private readonly file: string, private readonly clock: Clock) {}

  /** The rows of a lookup; `undefined` if a process has to read them. */
  read({ text, rowsMax }: Lookup, values: readonly SqlValue[]): SqlRow[] | undefined {
    const beganMs = this.clock.monotonicMs();
    if (this.#isClosed || this.#spentMs >= TURN_MS || beganMs < this.#restUntilMs) return undefined;
    const connection = this.#connection ??= this.#open();
    if (!connection) return undefined;
    try {
      const limited = `${text}\nLIMIT ${rowsMax + 1}`;
      if (!this.#isBounded(connection, limited)) return undefined;
      const rows = connection.run(limited, values);
      return rows.length > rowsMax ? undefined : rows;
    } catch {
      // A process tells why.
      return undefined;
    } finally {
      this.#spent(this.clock.monotonicMs() - beganMs);
    }
  }

  /** Comes before the end of the writer, whose connection empties the write-ahead log as the last one. */
  close(): void {
    this.#isClosed = true;
    this.#callOff?.();
    this.#connection?.close();
    this.#connection = undefined;
  }

  #open(): SqliteConnection | undefined {
    try {
      return new SqliteConnection(this.file, "lookups");
    } catch {
      this.#restUntilMs = this.clock.monotonicMs() + REOPEN_MS;
      return undefined;
    }
  }

  #isBounded(connection: SqliteConnection, text: string): boolean {
    const known = this.#plans.get(text);
    if (known !== undefined) return known;
    const steps = connection.run(`EXPLAIN QUERY PLAN ${text}`).map(({ detail }) => String(detail));
    if (this.#plans.size >= PLANS_MAX) this.#plans.clear();
    const isBounded = unboundedSteps(text, steps).length === 0;
    this.#plans.set(text, isBounded);
    return isBounded;
  }

  #spent(ms: number): void {
    this.#spentMs += ms;
    if (ms > SLOW_MS) this.#restUntilMs = this.clock.monotonicMs() + ms * REST_FACTOR;
    this.#callOff ??= nextTurn(() => {
      this.#callOff = undefined;
      this.#spentMs = 0;
    });
  }
}

/** By an index with equal values: `SEARCH p USING INDEX parts_by_machine (machine_id=? AND name=?)`. */
const SEARCH =
  /^SEARCH \w+ USING (?:(?:COVERING )?INDEX \w+|INTEGER PRIMARY KEY) \(\S+=\?(?: AND \S+=\?)*\)(?: LEFT-JOIN)?$/;
/** Steps that read no table themselves. */
const FRAMES =
  /^(?:COMPOUND QUERY|LEFT-MOST SUBQUERY|UNION ALL|SCAN CONSTANT ROW|SETUP|RECURSIVE STEP|(?:CO-ROUTINE|MATERIALIZE) \w+|(?:CORRELATED )?(?:SCALAR|LIST) SUBQUERY \d+)$/;

/** The steps of a plan, as SQLite tells them, that a lookup may not have. */
export function unboundedSteps(text: string, steps: readonly string[]): string[] {
  // What a WITH clause has found has gone by indexes itself.
  const found = new Set([...text.matchAll(/(\w+) \([\w, ]+\) AS \(/g)].map(([, name]) => `SCAN ${name}`));
  return steps.filter((step) => !SEARCH.test(step) && !FRAMES.test(step) && !found.has(step));
}
