/**
 * The interface of the control plane's database, the same over SQLite and PostgreSQL.
 *
 * SQL is written once, in the common subset: `?` for values; columns of TEXT, BIGINT, DOUBLE PRECISION and BYTEA;
 * booleans as 0 and 1; times in milliseconds. Transactions are serializable and may begin anywhere at any time; once
 * one resolves it is on disk and survives a crash of the program or the computer.
 *
 * Failures are `SvcError`s: `already_exists` for a violated uniqueness, `failed_precondition` for a reference to a
 * missing row, `unavailable` without the database, `resource_exhausted` without space, `deadline_exceeded` for a
 * statement that was interrupted because it took too long.
 *
 * The room owns all data on disk: the database and its migrations, and the contents of uploads.
 */

import { assert } from "../../base/error.ts";
import type { Lookup } from "./lookups.ts";
import type { Notices } from "./notices.ts";
import type { StoreCaller } from "./callers.ts";

export type SqlValue = string | number | null | Uint8Array;
export type SqlRow = { readonly [column: string]: SqlValue };

/** Runs one statement and returns its rows. */
export interface Sql {
  query<R = SqlRow>(statement: string | Lookup, ...values: SqlValue[]): Promise<R[]>;
}

/** The row of a statement that always has one, such as a count. */
export async function queryOne<R>(sql: Sql, statement: string | Lookup, ...values: SqlValue[]): Promise<R> {
  const [row] = await sql.query<R>(statement, ...values);
  assert(row !== undefined, "a statement that always has a row has none");
  return row;
}

/** A statement, or a part of one, with its values. */
export interface SqlText {
  readonly text: string;
  readonly values: readonly SqlValue[];
}

/** A statement of a batch. */
export interface BatchStatement extends SqlText {
  /** If it returns rows, the batch is rolled back, and they are its result. */
  readonly stops?: boolean;
}

/** Outside of transactions, each statement runs by itself and only reads. */
export interface Store extends Sql {
  /** Messages between the control planes on this database. */
  readonly notices: Notices;
  /** Runs `work`; its statements and transactions, and those of everything that it awaits, count for this caller. */
  forCaller<T>(caller: StoreCaller, work: () => T): T;
  /**
   * Commits all of `work` or nothing. It may run more than once, so it must have no effects besides its statements and
   * wait for nothing else; after a failed statement it must end.
   */
  transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /**
   * Commits all of the statements or none, in one trip to the database, which it shares with others: for a transaction
   * that needs no results in between. Returns the rows that stopped it.
   */
  batch(statements: readonly BatchStatement[]): Promise<readonly SqlRow[]>;
  /** The same for changes of the tables themselves: no two of them run at once, not even in two processes. */
  exclusive<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** The lengths of the queues for the database. */
  readonly waiting: StoreWaiting;
  /** Its size on disk. */
  bytes(): Promise<number>;
  /** The time of day of the database's own computer, if it may have one. */
  serverMs(): Promise<number | undefined>;
  /**
   * Writes the database as it is at one moment into a new SQLite file, while others read and write. Getting it throws
   * `failed_precondition` for a database that has tools of its own for that.
   */
  readonly copyTo: (file: string) => Promise<void>;
  /**
   * Counts the rows of new tables for the planner of statements, if the database does not do so itself. Within `exclusive`.
   */
  countNew(sql: Sql): Promise<void>;
  /** Returns the space of deleted rows to the disk, a little at a time, until `signal` aborts. */
  shrink(signal: AbortSignal): Promise<void>;
  /** Erases deleted rows of a table from the database's files, too. Others wait meanwhile. */
  scrub(table: string): Promise<void>;
  close(): Promise<void>;
}

/** The lengths of a store's queues, by the names that metrics have for them. */
export type StoreWaiting = { readonly [queue: string]: number };

/** Databases limit the values of a statement; a few hundred of them cost hardly more than one. */
const IDS_A_QUERY = 512;
/** The rows of a statement: a few, or this many at once. */
const FEW_ROWS = 16;
const MANY_ROWS = 64;

/**
 * The rows in pieces for statements with a row each of values. The pieces have few different sizes, because every
 * connection to the database keeps a prepared statement of each size that it has seen.
 */
export function rowPieces<T>(rows: readonly T[]): (readonly T[])[] {
  const pieces: (readonly T[])[] = [];
  for (let at = 0; at < rows.length; at += pieces.at(-1)!.length) {
    const size = rows.length - at >= MANY_ROWS ? MANY_ROWS : FEW_ROWS;
    pieces.push(rows.slice(at, at + size));
  }
  return pieces;
}

/**
 * The rows of all ids, however many; `textOf` makes the statement from the placeholders of some of them. They may have
 * an id several times, so that the statement comes in few different sizes.
 */
export async function queryByIds<T>(
  sql: Sql,
  ids: readonly string[],
  textOf: (places: string) => string,
): Promise<T[]> {
  const found: T[] = [];
  for (let start = 0; start < ids.length; start += IDS_A_QUERY) {
    const some = ids.slice(start, start + IDS_A_QUERY);
    const size = 2 ** Math.ceil(Math.log2(some.length));
    const padded = [...some, ...Array<string>(size - some.length).fill(some[0]!)];
    found.push(...await sql.query<T>(textOf(placeholders(padded)), ...padded));
  }
  return found;
}

/**
 * `(CAST(? AS TEXT), CAST(? AS BIGINT)), …`: the placeholders of a table of values, one for each of the rows. In such a
 * table PostgreSQL has to be given the types.
 */
export function typedRows(rows: readonly unknown[], ...types: readonly ("TEXT" | "BIGINT")[]): string {
  const row = `(${types.map((type) => `CAST(? AS ${type})`).join(", ")})`;
  return rows.map(() => row).join(", ");
}

/** `?, ?, ?`: one placeholder per value. */
export function placeholders(values: readonly unknown[]): string {
  return values.map(() => "?").join(", ");
}
