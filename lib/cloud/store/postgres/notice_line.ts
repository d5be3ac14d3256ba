/**
 * The connection on which a control plane listens for notices.
 *
 * A server that restarts ends the connection, and refuses new ones for a while. The line then connects again for as
 * long as it takes, and tells its listeners that they may have missed notices. The driver's own `listen` tries once.
 *
 * A listener waits for hours, so the line asks the server for a sign of life from time to time: a connection that has
 * become silent is replaced like one that has ended.
 */

import { type BackoffLimits, backoffMs } from "../../../base/async/backoff.ts";
import { type Clock, deadline, race } from "../../../base/clock.ts";
import { SvcError } from "../../../base/error.ts";

/** What the line uses of the driver's client, which has a single connection. */
export interface LineClient {
  unsafe(statement: string): PromiseLike<unknown>;
  end(options: { readonly timeout: number }): Promise<void>;
}

export interface LineEvents {
  onclose(): void;
  onnotify(channel: string, text: string): void;
}

export interface LineListener {
  readonly heard: (text: string) => void;
  /** Notices may have been lost. */
  readonly missed: () => void;
}

const AGAIN: BackoffLimits = { firstMs: 100, mostMs: 2_000, jitter: 0.5 };
const END_S = 5;
/** Interval of the signs of life, and the time limit of an answer. */
const ALIVE_MS = 30_000;
const ANSWER_MS = 20_000;

export class NoticeLine {
  readonly #listeners = new Map<string, Set<LineListener>>();
  readonly #closing = new AbortController();
  #client: LineClient | undefined;
  #returning: Promise<void> | undefined;

  constructor(private readonly connect: (events: LineEvents) => LineClient, private readonly clock: Clock) {}

  /** Listens until the returned function is called. Throws the driver's error if the database is away. */
  async hear(channel: string, listener: LineListener): Promise<() => Promise<void>> {
    const listeners = this.#listeners.getOrInsertComputed(channel, () => new Set());
    listeners.add(listener);
    const leave = () => {
      listeners.delete(listener);
      if (listeners.size > 0 || this.#listeners.get(channel) !== listeners) return false;
      return this.#listeners.delete(channel);
    };
    try {
      await this.#ask(this.#connected(), `LISTEN "${channel}"`);
    } catch (error) {
      leave();
      throw error;
    }
    return async () => {
      if (!leave() || this.#closing.signal.aborted) return;
      await this.#ask(this.#connected(), `UNLISTEN "${channel}"`);
    };
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#client?.end({ timeout: END_S });
    await this.#returning;
  }

  #connected(): LineClient {
    return this.#client ??= this.#connect();
  }

  #connect(): LineClient {
    const client: LineClient = this.connect({
      onclose: () => this.#replace(client),
      onnotify: (channel, text) => {
        for (const { heard } of [...this.#listeners.get(channel) ?? []]) heard(text);
      },
    });
    void this.#watch(client);
    return client;
  }

  /** Runs a statement. Throws the driver's error, or `unavailable` without an answer in time. */
  async #ask(client: LineClient, statement: string): Promise<void> {
    const late = deadline(this.clock, ANSWER_MS, () => {
      return new SvcError("unavailable", `database: no answer to ${statement} within ${ANSWER_MS / 1000} s`);
    });
    try {
      await race(Promise.resolve(client.unsafe(statement)), late.signal);
    } catch (error) {
      if (late.signal.aborted) this.#replace(client);
      throw error;
    } finally {
      late.done();
    }
  }

  /** Asks for signs of life as long as the connection is in use. */
  async #watch(client: LineClient): Promise<void> {
    const { signal } = this.#closing;
    do {
      await this.clock.sleep(ALIVE_MS, signal).catch(() => {});
      if (signal.aborted || this.#client !== client) return;
      // Without an answer the connection is replaced; another failure ends it with an event of its own.
      await this.#ask(client, "SELECT 1").catch(() => {});
    } while (this.#client === client);
  }

  #replace(client: LineClient): void {
    if (this.#closing.signal.aborted || this.#client !== client) return;
    // A connection that was lost while it wrote never writes again, so the next one has a client of its own.
    this.#client = undefined;
    void client.end({ timeout: 0 });
    if (this.#listeners.size === 0) return;
    this.#returning ??= this.#return().finally(() => this.#returning = undefined);
  }

  /** Listens again on everything. */
  async #return(): Promise<void> {
    const { signal } = this.#closing;
    for (let attempt = 1; !signal.aborted; attempt++) {
      try {
        for (const channel of [...this.#listeners.keys()]) {
          await this.#ask(this.#connected(), `LISTEN "${channel}"`);
        }
        for (const listeners of [...this.#listeners.values()]) {
          for (const { missed } of [...listeners]) missed();
        }
        return;
      } catch {
        // The server is still away.
        await this.clock.sleep(backoffMs(AGAIN, attempt), signal).catch(() => {});
      }
    }
  }
}
