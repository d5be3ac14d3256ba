/**
 * Finds the server to use among those in the address of a PostgreSQL database: the first that takes writes.
 *
 * A standby is no use to a control plane, and the driver's own choice looks at the settings of the session, which
 * svc-cloud makes read-only. A connection pooler is refused: its clients lose the settings that limit svc-cloud's
 * statements, and in transaction mode the notices and the prepared statements as well.
 */

import { type Clock, deadline, race } from "../../../base/clock.ts";
import { messageOf, SvcError } from "../../../base/error.ts";
import type { SqlRow, SqlValue } from "../store.ts";
import type { PostgresAddress, ServerAddress } from "./address.ts";
import type { Client } from "./pool.ts";
import { runStatement, type StatementSender } from "./statements.ts";

/** What the choice uses of the driver's client. */
export interface ProbeClient {
  /** `state` belongs to the connection that ran the statement. */
  unsafe(text: string): PromiseLike<unknown> & { readonly state?: { readonly pid: number } };
  end(options: { readonly timeout: number }): Promise<void>;
}

interface Probe {
  readonly pid: number;
  readonly isStandby: boolean;
  readonly isReadOnly: boolean;
  readonly limitMs: number;
}

/** Time for the connection and the answer; another server has its own. */
const PROBE_MS = 15_000;
const PROBE = `SELECT pg_backend_pid() AS pid, pg_is_in_recovery() AS "isStandby",
  current_setting('default_transaction_read_only') = 'on' AS "isReadOnly",
  (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'statement_timeout')::integer AS "limitMs"`;
const PROTOCOL_VIOLATION = "08P01";
const STARTING_UP = "57P03";

export class ServerChoice {
  /** `connect` opens a client whose statements have the limit `limitMs`, and whose sessions may write by default. */
  constructor(
    private readonly address: PostgresAddress,
    private readonly limitMs: number,
    private readonly connect: (server: ServerAddress) => ProbeClient,
    private readonly clock: Clock,
  ) {}

  /** Throws the driver's error of the only server, `unavailable` with the reasons of several, or that of `signal`. */
  async choose(signal: AbortSignal): Promise<ServerAddress> {
    const failures: { readonly name: string; readonly error: unknown }[] = [];
    for (const server of this.address.servers) {
      try {
        await this.#check(server, signal);
        return server;
      } catch (error) {
        signal.throwIfAborted();
        // A server that refuses the password or the database is there: as with PostgreSQL's own programs, it counts.
        if (isFinal(error)) throw error;
        failures.push({ name: nameOf(server), error });
      }
    }
    if (failures.length === 1) throw failures[0]!.error;
    const reasons = failures.map(({ name, error }) => `${name}: ${messageOf(error)}`).join("; ");
    throw new SvcError("unavailable", `database: no server can be used (${reasons})`);
  }

  async #check(server: ServerAddress, signal: AbortSignal): Promise<void> {
    const late = deadline(this.clock, PROBE_MS, () => {
      return new SvcError(
        "unavailable",
        `database: no answer of ${nameOf(server)} within ${PROBE_MS / 1000} s`,
      );
    });
    const client = this.connect(server);
    try {
      const query = client.unsafe(PROBE);
      const rows = await race(Promise.resolve(query), AbortSignal.any([late.signal, signal]));
      const [probe] = rows as readonly Probe[];
      this.#judge(server, probe!, query.state?.pid);
    } catch (error) {
      const { code, message } = error as { readonly code?: string; readonly message?: string };
      if (code === PROTOCOL_VIOLATION && message?.includes("startup parameter")) throw pooler(server, error);
      throw error;
    } finally {
      late.done();
      await client.end({ timeout: 0 });
    }
  }

  #judge(server: ServerAddress, probe: Probe, pid: number | undefined): void {
    // A pooler gives its clients process numbers of its own.
    if (probe.limitMs !== this.limitMs || probe.pid !== pid) throw pooler(server);
    if (probe.isStandby) throw noWrites(server, "it is a standby");
    if (probe.isReadOnly && this.address.wantsReadWrite) {
      throw noWrites(server, "default_transaction_read_only is on");
    }
  }
}

/** The driver's client, which has several connections. */
export type DriverClient = Omit<Client, "query"> & StatementSender;

/** A client whose server is chosen when a statement needs it. */
export class ChosenClient implements Client {
  readonly #ending = new AbortController();
  #client: Promise<DriverClient> | undefined;

  constructor(private readonly choose: (signal: AbortSignal) => Promise<DriverClient>) {}

  async query(text: string, values: readonly SqlValue[]): Promise<readonly SqlRow[]> {
    return await runStatement(await this.#chosen(), text, values);
  }

  /** Runs a text without values, which may be several statements. */
  async unsafe(text: string): Promise<unknown> {
    const client = await this.#chosen();
    return await client.unsafe(text);
  }

  async begin(mode: string, work: Parameters<Client["begin"]>[1]): Promise<unknown> {
    const client = await this.#chosen();
    return await client.begin(mode, work);
  }

  async reserve(): ReturnType<Client["reserve"]> {
    const client = await this.#chosen();
    return await client.reserve();
  }

  async end(options: { readonly timeout: number }): Promise<void> {
    this.#ending.abort(new SvcError("unavailable", "database: the connection was closed"));
    const client = await this.#client?.catch(() => undefined);
    await client?.end(options);
  }

  async #chosen(): Promise<DriverClient> {
    this.#ending.signal.throwIfAborted();
    const chosen = this.#client ??= this.choose(this.#ending.signal);
    try {
      return await chosen;
    } catch (error) {
      // The next statement looks again.
      if (this.#client === chosen) this.#client = undefined;
      throw error;
    }
  }
}

/** Whether no other server is tried. */
function isFinal(error: unknown): boolean {
  const { code, severity } = error as { readonly code?: string; readonly severity?: string };
  if (error instanceof SvcError) return error.code !== "unavailable";
  return severity !== undefined && code !== STARTING_UP;
}

function pooler(server: ServerAddress, cause?: unknown): SvcError {
  return new SvcError(
    "failed_precondition",
    `database: found a connection pooler such as PgBouncer at ${
      nameOf(server)
    }, wanted PostgreSQL itself: a pooler ` +
      "loses svc-cloud's time limits of statements and its notices. Name the server behind it; svc-cloud keeps few " +
      "connections, and shares them among its callers",
    { cause },
  );
}

function noWrites(server: ServerAddress, why: string): SvcError {
  return new SvcError("unavailable", `database: ${nameOf(server)} takes no writes: ${why}`);
}

function nameOf({ host, port, path }: ServerAddress): string {
  return path ?? `${host.includes(":") ? `[${host}]` : host}:${port}`;
}
