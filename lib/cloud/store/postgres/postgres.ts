/**
 * The store in a database of PostgreSQL, which any number of control planes may share.
 *
 * Transactions are serializable; a transaction that conflicts with others runs again.
 *
 * The room owns everything specific to PostgreSQL: its address, the proof of its identity, its errors, and its
 * roles.
 */

import postgres from "postgres";
import { type BackoffLimits, backoffMs } from "../../../base/async/backoff.ts";
import { SerialQueue } from "../../../base/async/serial_queue.ts";
import { CallerTurns } from "../../../base/async/turns.ts";
import type { Clock } from "../../../base/clock.ts";
import { type Code, messageOf, SvcError } from "../../../base/error.ts";
import { FAIR_READS, STATEMENT_MS, type StoreCaller, StoreCallers, TRANSACTION_MS } from "../callers.ts";
import { type Lookup, sqlOf } from "../lookups.ts";
import type { NoticeKeys, Notices, NoticeTopic } from "../notices.ts";
import {
  type BatchStatement,
  queryOne,
  type Sql,
  type SqlRow,
  type SqlValue,
  type Store,
  type StoreWaiting,
} from "../store.ts";
import { postgresAddress, type ServerAddress } from "./address.ts";
import { LookupTrips } from "./lookup_trips.ts";
import { NoticeLine } from "./notice_line.ts";
import { PostgresPool, type RunText } from "./pool.ts";
import { NoticeOpener, NoticeSealer } from "./sealed_notices.ts";
import { ChosenClient, type DriverClient, ServerChoice } from "./server_choice.ts";
import { NumberedTexts } from "./statements.ts";

const CONNECTIONS_MAX = 10;
/** Limit of connections that one group occupies. */
const CONNECTIONS_OF_GROUP_MAX = 4;
const CONNECT_SECONDS = 10;
/** Time for statements to end when the store closes. */
const END_S = 5;
const SERIALIZABLE = "isolation level serializable read write";
/** Tries of a transaction; the pauses between them grow up to the given one. */
const ATTEMPTS_MAX = 30;
const RETRY: BackoffLimits = { firstMs: 2, mostMs: 200, jitter: 1 };
/** A fixed number, the same in every version: a process holds it while it changes tables. */
const SCHEMA_LOCK = 77_341;
/** How long a change of tables waits for another change, which may move many rows. */
const EXCLUSIVE_WAIT_MS = 30 * 60_000;
const INT8 = 20;
/** Time between two warnings of ignored notices. */
const WARN_AGAIN_MS = 10 * 60_000;
const REFUSALS = {
  unsealed:
    "no control plane with this one's keys sent it: it is from another database role (REVOKE CONNECT ON " +
    "DATABASE … FROM PUBLIC), from a control plane of an older version (update it), or from one with other keys",
  repeated:
    "it came before: another database role repeats what it heard (REVOKE CONNECT ON DATABASE … FROM PUBLIC)",
  clock:
    "its time is more than 5 minutes away: set the clocks of the computers with control planes, or look for " +
    "another database role that repeats what it heard",
} as const;

/** Of all stores: their statements are the same. */
const TEXTS = new NumberedTexts();

type DriverOptions = Parameters<typeof postgres>[0];

export class PostgresStore implements Store {
  readonly notices: Notices;
  readonly #pool: PostgresPool;
  readonly #line: NoticeLine;
  readonly #callers = new StoreCallers();
  readonly #lookups = new LookupTrips((text, values) => this.#queryText(text, values));
  readonly #turns: CallerTurns;
  #closing: Promise<void> | undefined;

  /** `rootCertificate`: the content of the file that the URL names. */
  constructor(url: string, private readonly clock: Clock, rootCertificate?: string) {
    const { waitingMax, waitingOfGroupMax, what, ownGroup } = FAIR_READS;
    this.#turns = new CallerTurns({
      turnsMax: CONNECTIONS_MAX,
      turnsOfGroupMax: CONNECTIONS_OF_GROUP_MAX,
      waiting: [waitingMax, waitingOfGroupMax, waitingOfGroupMax],
      ...{ what, ownGroup },
    }, clock);
    const address = postgresAddress(url, rootCertificate);
    const { database, user, password } = address;
    const settings = {
      application_name: "svc-cloud",
      synchronous_commit: "on",
      statement_timeout: STATEMENT_MS,
      lock_timeout: STATEMENT_MS,
      idle_in_transaction_session_timeout: TRANSACTION_MS,
    };
    const connect = ({ host, port, ...server }: ServerAddress, connection: object, more: object) => {
      // The driver accepts these options, although its type has no lifetime without an end.
      return postgres(
        {
          ...{ database, user, password },
          // The driver would divide an address of IPv6 at its colons.
          ...{ host: [host], port: [port], ...server },
          max: CONNECTIONS_MAX,
          connect_timeout: CONNECT_SECONDS,
          onnotice: () => {},
          // Nothing waits for the driver's own statements, and a failure of theirs would end the program.
          fetch_types: false,
          // A connection that ends counts as lost.
          idle_timeout: null,
          max_lifetime: null,
          connection,
          types: { int8: { to: INT8, from: [INT8], parse: Number, serialize: String } },
          ...more,
        } as unknown as DriverOptions,
      );
    };
    const choice = new ServerChoice(
      address,
      STATEMENT_MS,
      (server) => connect(server, settings, { max: 1 }),
      clock,
    );
    const open = (more: object) =>
      new ChosenClient(async (signal) => {
        const server = await choice.choose(signal);
        const session = { ...settings, default_transaction_read_only: true };
        // These sessions always satisfy this: so a PGTARGETSESSIONATTRS in the environment does not count.
        return connect(server, session, {
          target_session_attrs: "read-only",
          ...more,
        }) as unknown as DriverClient;
      });
    this.#pool = new PostgresPool((onclose) => open({ onclose }), clock);
    this.#line = new NoticeLine((events) => open({ max: 1, ...events }), clock);
    this.notices = new PostgresNotices(this.#pool, this.#line, clock);
  }

  forCaller<T>(caller: StoreCaller, work: () => T): T {
    return this.#callers.run(caller, work);
  }

  query<R>(statement: string | Lookup, ...values: SqlValue[]): Promise<R[]> {
    if (typeof statement === "string") return this.#queryText(statement, values);
    return this.#lookups.query(this.#callers.call, statement, values) as Promise<R[]>;
  }

  transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    return this.#transaction(SERIALIZABLE, work);
  }

  async batch(statements: readonly BatchStatement[]): Promise<readonly SqlRow[]> {
    let stopped: readonly SqlRow[] = [];
    await this.#attempt(() =>
      this.#pool.batch(
        SERIALIZABLE,
        (run) => statements.map(({ text, values }) => queryRows<SqlRow>(run, text, values)),
        (answers) => {
          stopped = answers.find((rows, at) => statements[at]?.stops && rows.length > 0) ?? [];
          return stopped.length === 0;
        },
      )
    );
    return stopped;
  }

  exclusive<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    return this.#transaction("isolation level read committed read write", async (sql) => {
      // The time of this transaction grows with the tables.
      for (const limit of ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"]) {
        await sql.query(`SET LOCAL ${limit} = 0`);
      }
      // Any role on this database can hold the lock.
      await sql.query(`SET LOCAL lock_timeout = ${EXCLUSIVE_WAIT_MS}`);
      await sql.query(`SELECT pg_advisory_xact_lock(${SCHEMA_LOCK})`);
      await sql.query("SET LOCAL lock_timeout = 0");
      return await work(sql);
    }, { isUnlimited: true });
  }

  get waiting(): StoreWaiting {
    return { database_connections: this.#turns.waiting };
  }

  async bytes(): Promise<number> {
    const text = "SELECT pg_database_size(current_database()) AS bytes";
    const { bytes } = await queryOne<{ bytes: number }>(this, text);
    return bytes;
  }

  async serverMs(): Promise<number> {
    const text = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS ms";
    const { ms } = await queryOne<{ ms: number }>(this, text);
    return ms;
  }

  /**
   * Autovacuum never counts tables of fewer than 50 rows, and PostgreSQL takes those for much larger: it would read all
   * roles for one machine's, because a table without a row seemed to have 880.
   */
  async countNew(sql: Sql): Promise<void> {
    const uncounted = await sql.query<{ name: string }>(
      `SELECT c.oid::regclass::text AS name FROM pg_class c
       WHERE c.relkind = 'r' AND c.reltuples < 0 AND c.relnamespace = current_schema()::regnamespace`,
    );
    for (const { name } of uncounted) await sql.query(`ANALYZE ${name}`);
  }

  /** Nothing to do: PostgreSQL has its own autovacuum. */
  shrink(): Promise<void> {
    return Promise.resolve();
  }

  get copyTo(): never {
    throw new SvcError(
      "failed_precondition",
      "a PostgreSQL database is copied by PostgreSQL's own tools: run pg_dump first, then copy the files and the " +
        "keys (docs/cloud.md, Backups)",
    );
  }

  /** Rewrites the table's file; archives of the server's own log are out of reach. */
  scrub(table: string): Promise<void> {
    return this.exclusive(async (sql) => {
      await sql.query(`CREATE TEMPORARY TABLE scrubbed ON COMMIT DROP AS SELECT * FROM ${table}`);
      await sql.query(`TRUNCATE ${table}`);
      await sql.query(`INSERT INTO ${table} SELECT * FROM scrubbed`);
    });
  }

  close(): Promise<void> {
    return this.#closing ??= Promise.all([this.#line.close(), this.#pool.close(END_S)]).then(
      () => {},
    );
  }

  #queryText<R>(text: string, values: readonly SqlValue[]): Promise<R[]> {
    return this.#inTurn(() => queryRows<R>(this.#pool.query, text, values));
  }

  /** Waits for a connection, in turns that are fair among callers. */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const { group, signal } = this.#callers.current;
    const leave = await this.#turns.enter([group], signal);
    try {
      return await work();
    } finally {
      leave();
    }
  }

  #transaction<T>(
    mode: string,
    work: (sql: Sql) => Promise<T>,
    options?: { readonly isUnlimited: boolean },
  ): Promise<T> {
    return this.#attempt(() =>
      this.#pool.transaction(
        mode,
        (run) => work({ query: (statement, ...values) => queryRows(run, statement, values) }),
        options,
      )
    );
  }

  /** Runs a transaction in turn, again if it conflicts with another. */
  async #attempt<T>(run: () => Promise<T>): Promise<T> {
    for (let attempt = 1;; attempt++) {
      try {
        return await this.#inTurn(run);
      } catch (error) {
        if (!isConflict(error) || attempt === ATTEMPTS_MAX) throw failure("commit", error);
        await this.clock.sleep(backoffMs(RETRY, attempt));
      }
    }
  }
}

/** By NOTIFY; listens on a connection of its own. */
class PostgresNotices implements Notices {
  readonly shared = true;
  /** One statement after another, so that notices arrive in their order. */
  readonly #statements = new SerialQueue();
  readonly #sealer: NoticeSealer;
  #keys: NoticeKeys | undefined;
  #warnedMs = -Infinity;

  constructor(
    private readonly pool: PostgresPool,
    private readonly line: NoticeLine,
    private readonly clock: Clock,
  ) {
    this.#sealer = new NoticeSealer(clock);
  }

  useKeys(keys: NoticeKeys): void {
    this.#keys = keys;
  }

  async tell(topic: NoticeTopic, text: string): Promise<void> {
    await this.#statements.run(async () => {
      const [secret] = await this.#keys?.valid() ?? [];
      if (secret === undefined) {
        throw new SvcError("failed_precondition", "a notice needs the control plane's own keys: found none");
      }
      const pieces = this.#sealer.seal(topic, text, secret);
      const notify = `SELECT ${pieces.map(() => "pg_notify(?, ?)").join(", ")}`;
      await queryRows(this.pool.query, notify, pieces.flatMap((piece) => [channelOf(topic), piece]));
    });
  }

  async hear(
    topic: NoticeTopic,
    listener: (text: string) => void,
    missed: () => void = () => {},
  ): Promise<() => Promise<void>> {
    const opener = new NoticeOpener(topic, this.clock);
    /** Keys may come from a file, so pieces wait for each other. */
    const listening = new SerialQueue();
    let stopped = false;
    const hear = async (piece: string) => {
      const heard = opener.open(piece, await this.#keys?.valid().catch(() => []) ?? []);
      if ("refused" in heard) this.#refuse(heard.refused);
      if ("text" in heard && !stopped) listener(heard.text);
    };
    try {
      const heard = (piece: string) => void listening.run(() => hear(piece));
      const unlisten = await this.line.hear(channelOf(topic), { heard, missed });
      return async () => {
        stopped = true;
        await unlisten();
      };
    } catch (error) {
      throw failure("LISTEN", error);
    }
  }

  /** Warns rarely, because the sender controls the number of refused notices. */
  #refuse(why: "unsealed" | "repeated" | "clock"): void {
    const nowMs = this.clock.monotonicMs();
    if (!this.#keys || nowMs - this.#warnedMs < WARN_AGAIN_MS) return;
    this.#warnedMs = nowMs;
    this.#keys.warn(`a notice in the database is ignored, because ${REFUSALS[why]}`);
  }
}

function channelOf(topic: NoticeTopic): string {
  return `svc_cloud_${topic}`;
}

async function queryRows<R>(
  run: RunText,
  statement: string | Lookup,
  values: readonly SqlValue[],
): Promise<R[]> {
  const text = sqlOf(statement);
  try {
    return await run(TEXTS.of(text), values) as R[];
  } catch (error) {
    throw failure(text, error);
  }
}

const CODES_OF: { readonly [state: string]: Code } = {
  "23505": "already_exists",
  "23503": "failed_precondition",
  "23502": "invalid_argument",
  "23514": "invalid_argument",
  "40001": "aborted",
  "40P01": "aborted",
  // The server became a standby under a connection through something in between.
  "25006": "unavailable",
  "25P03": "deadline_exceeded",
  "53100": "resource_exhausted",
  "53300": "resource_exhausted",
  "55P03": "unavailable",
  "57014": "deadline_exceeded",
  "57P01": "unavailable",
  // The server ends connections because one of its processes died, recovers, or shuts down.
  "57P02": "unavailable",
  "57P03": "unavailable",
};

function isConflict(error: unknown): boolean {
  return SvcError.from(failure("", error)).code === "aborted";
}

function failure(text: string, error: unknown): unknown {
  const { code: state, severity } = error as { code?: string; severity?: string };
  if (error instanceof SvcError || state === undefined) return error;
  if (state === "22021") {
    return new SvcError("invalid_argument", "a text has a zero byte, wanted none", { cause: error });
  }
  if (state === "57014") {
    const what = `the statement did not end within ${STATEMENT_MS / 1000} s and was interrupted`;
    return new SvcError("deadline_exceeded", `database: ${what}: ask for less (${shown(text)})`, {
      cause: error,
    });
  }
  // The caller's data does not fit into a column or exceeds a limit of the database, so it cannot be stored or
  // compared.
  if (/^(22|54)[0-9A-Z]{3}$/.test(state) || state === "MAX_PARAMETERS_EXCEEDED") {
    const what = `a value cannot be used: ${messageOf(error)}`;
    return new SvcError("invalid_argument", `database: ${what} (${shown(text)})`, { cause: error });
  }
  // Other errors than the server's come from the connection.
  const code = CODES_OF[state] ?? (severity === undefined ? "unavailable" : "internal");
  return new SvcError(code, `database: ${messageOf(error)} (${shown(text)})`, { cause: error });
}

function shown(text: string): string {
  return text.trim().slice(0, 80);
}
