/**
 * Lookups in the main thread of svc-cloud: a read-only connection, besides those of the processes.
 *
 * A reader of the write-ahead log waits for nobody, and sees every commit that was acknowledged before it started.
 * Everything that could take long goes to the processes: a lookup whose plan does not use indexes, one with more rows
 * than it declares, and lookups beyond their share of a turn's time or of the total time, as on a slow disk.
 */

import { type Clock, nextTurn } from "../../../base/clock.ts";
import type { Lookup } from "../lookups.ts";
import type { SqlRow, SqlValue } from "../store.ts";
import { type RunStatement, SqliteConnection } from "./connection.ts";

/** Time limit of all lookups in one turn of the event loop, during which nobody else is served. */
const TURN_MS = 10;
/**
 * The time budget of lookups grows by this share of the total time, up to the limit. When it is used up, lookups
 * pause until half of it is available again. On a busy computer a single lookup may wait for the processor, which
 * alone must not cause a pause.
 */
const SHARE = 0.25;
const ALLOWED_MS = 50;
/** Pause before the file is opened again. */
const REOPEN_MS = 1_000;
/** Limit of lookups whose plans are remembered. */
const PLANS_MAX = 500;

export class MainThreadLookups {
  #connection: SqliteConnection | undefined;
  /** By their text: lookups that may run here, and those whose plans violate the rules of lookups. */
  readonly #statements = new Map<string, RunStatement>();
  readonly #unbounded = new Set<string>();
  #spentMs = 0;
  /** The time that is left for lookups, and when it was counted. */
  #allowedMs = ALLOWED_MS;
  #countedMs: number;
  #rests = false;
  #reopenMs = -Infinity;
  #callOff: (() => void) | undefined;
  #isClosed = false;

  constructor(private readonly file: string, private readonly clock: Clock) {
    this.#countedMs = clock.monotonicMs();
  }

  /** The rows of a lookup; `undefined` if a process has to read them. */
  read({ text, rowsMax }: Lookup, values: readonly SqlValue[]): SqlRow[] | undefined {
    const beganMs = this.clock.monotonicMs();
    if (this.#isClosed || !this.#mayBegin(beganMs)) return undefined;
    try {
      const run = this.#statements.get(text) ?? this.#prepare(text, rowsMax, beganMs);
      const rows = run?.(values);
      return rows && rows.length > rowsMax ? undefined : rows;
    } catch {
      // A process reports the reason.
      return undefined;
    } finally {
      this.#spent(this.clock.monotonicMs() - beganMs);
    }
  }

  /** Comes before the end of the writer, whose connection empties the write-ahead log as the last one. */
  close(): void {
    this.#isClosed = true;
    this.#callOff?.();
    this.#statements.clear();
    this.#connection?.close();
    this.#connection = undefined;
  }

  #mayBegin(nowMs: number): boolean {
    this.#allowedMs = Math.min(ALLOWED_MS, this.#allowedMs + (nowMs - this.#countedMs) * SHARE);
    this.#countedMs = nowMs;
    this.#rests = this.#allowedMs < (this.#rests ? ALLOWED_MS / 2 : 0);
    return !this.#rests && this.#spentMs < TURN_MS;
  }

  #open(nowMs: number): SqliteConnection | undefined {
    if (nowMs < this.#reopenMs) return undefined;
    try {
      return new SqliteConnection(this.file, "lookups");
    } catch {
      this.#reopenMs = nowMs + REOPEN_MS;
      return undefined;
    }
  }

  /** The prepared lookup; `undefined` if its plan violates the rules of lookups. */
  #prepare(text: string, rowsMax: number, nowMs: number): RunStatement | undefined {
    const connection = this.#connection ??= this.#open(nowMs);
    if (!connection || this.#unbounded.has(text)) return undefined;
    if (this.#statements.size + this.#unbounded.size >= PLANS_MAX) {
      this.#statements.clear();
      this.#unbounded.clear();
    }
    const limited = `${text}\nLIMIT ${rowsMax + 1}`;
    const steps = connection.run(`EXPLAIN QUERY PLAN ${limited}`).map(({ detail }) => String(detail));
    if (unboundedSteps(limited, steps).length > 0) {
      this.#unbounded.add(text);
      return undefined;
    }
    const run = connection.prepared(limited);
    this.#statements.set(text, run);
    return run;
  }

  #spent(ms: number): void {
    this.#spentMs += ms;
    this.#allowedMs -= ms;
    this.#callOff ??= nextTurn(() => {
      this.#callOff = undefined;
      this.#spentMs = 0;
    });
  }
}

/** By an index with equal values: `SEARCH p USING INDEX parts_by_machine (machine_id=? AND name=?)`. */
const SEARCH =
  /^SEARCH \w+ USING (?:(?:COVERING )?INDEX \w+|INTEGER PRIMARY KEY) \(\S+=\?(?: AND \S+=\?)*\)(?: LEFT-JOIN)?$/;
/** Steps that do not read a table themselves. */
const FRAMES =
  /^(?:COMPOUND QUERY|LEFT-MOST SUBQUERY|UNION ALL|SCAN CONSTANT ROW|SETUP|RECURSIVE STEP|(?:CO-ROUTINE|MATERIALIZE) \w+|(?:CORRELATED )?(?:SCALAR|LIST) SUBQUERY \d+)$/;

/** The steps of a plan, as SQLite describes them, that violate the rules of lookups. */
export function unboundedSteps(text: string, steps: readonly string[]): string[] {
  // The result of a WITH clause has itself been found by indexes.
  const found = new Set([...text.matchAll(/(\w+) \([\w, ]+\) AS \(/g)].map(([, name]) => `SCAN ${name}`));
  return steps.filter((step) => !SEARCH.test(step) && !FRAMES.test(step) && !found.has(step));
}
