/**
 * The lookups that a call asks for in one step go to the server in one statement: a trip, and waking a process of the
 * server for it, take many times as long as the lookups.
 */

import { SvcError } from "../../../base/error.ts";
import type { StoreCaller } from "../callers.ts";
import type { Lookup } from "../lookups.ts";
import type { SqlRow, SqlValue } from "../store.ts";

/** Limit of the lookups of a trip: every connection keeps a prepared statement for each combination. */
const TOGETHER_MAX = 4;

interface Asked {
  readonly lookup: Lookup;
  readonly values: readonly SqlValue[];
  readonly resolve: (rows: SqlRow[]) => void;
  readonly reject: (error: unknown) => void;
}

/** Runs a statement with `?` for its values; returns its rows. */
type RunStatement = (text: string, values: readonly SqlValue[]) => Promise<SqlRow[]>;

export class LookupTrips {
  /** By the call. A map that is emptied would hold on to its calls, so another one takes its place. */
  #asked = new Map<StoreCaller | undefined, Asked[]>();

  constructor(private readonly run: RunStatement) {}

  query(call: StoreCaller | undefined, lookup: Lookup, values: readonly SqlValue[]): Promise<SqlRow[]> {
    const { promise, resolve, reject } = Promise.withResolvers<SqlRow[]>();
    const asked: Asked = { lookup, values, resolve, reject };
    const others = this.#asked.get(call);
    if (others) {
      others.push(asked);
      if (others.length >= TOGETHER_MAX) this.#send(call);
    } else {
      this.#asked.set(call, [asked]);
      // What the call asks for without waiting for an answer comes before this.
      queueMicrotask(() => queueMicrotask(() => this.#send(call)));
    }
    return promise;
  }

  #send(call: StoreCaller | undefined): void {
    const asked = this.#asked.get(call) ?? [];
    this.#asked.delete(call);
    if (this.#asked.size === 0) this.#asked = new Map();
    if (asked.length > 1) void this.#together(asked);
    else for (const one of asked) void this.#alone(one);
  }

  async #alone({ lookup, values, resolve, reject }: Asked): Promise<void> {
    await this.run(lookup.text, values).then(resolve, reject);
  }

  async #together(asked: readonly Asked[]): Promise<void> {
    // Rows of different columns fit into one result as JSON.
    const text = asked.map(({ lookup }, at) =>
      `SELECT ${at} AS at, to_json(q) AS found FROM (${lookup.text}) q`
    );
    try {
      const rows = await this.run(text.join(" UNION ALL "), asked.flatMap(({ values }) => values));
      for (const [number, { resolve }] of asked.entries()) {
        resolve(rows.filter(({ at }) => at === number).map(({ found }) => found as unknown as SqlRow));
      }
    } catch (error) {
      // One with a value that cannot be used must not fail the others.
      const isOfOne = SvcError.from(error).code === "invalid_argument";
      for (const one of asked) {
        if (isOfOne) void this.#alone(one);
        else one.reject(error);
      }
    }
  }
}
