/**
 * The caller of a statement, so that no organization can monopolize the database.
 *
 * The entry of a call sets it once (`Store.forCaller`), and everything that the call awaits belongs to it.
 */

import { AsyncLocalStorage } from "node:async_hooks";

export interface StoreCaller {
  /** The group that shares the time of the database: an organization, or a key without one. */
  readonly group: string;
  /** Statements and transactions that wait for their turn are given up when it aborts. */
  readonly signal?: AbortSignal;
}

/** The group of svc-cloud's own work, which has no limits of turns or time. */
export const OWN_GROUP = "";

/** Limit of concurrent slow reads of one group. */
export const SLOW_READS_MAX = 2;
/** Limits of the reads that wait. */
export const FAIR_READS = {
  waitingMax: 50_000,
  waitingOfGroupMax: 10_000,
  what: "queries of the database",
  ownGroup: OWN_GROUP,
};

/** Time limit of a statement of a call, after which it is interrupted. */
export const STATEMENT_MS = 10_000;
/** Time limit of a transaction of a call, including the pauses between its statements. */
export const TRANSACTION_MS = 30_000;

const OWN: StoreCaller = { group: OWN_GROUP };

export class StoreCallers {
  readonly #storage = new AsyncLocalStorage<StoreCaller>();

  /**
   * The caller of the running code; svc-cloud itself if none was set. Work after the caller has gone, such as a
   * clean-up, is not given up.
   */
  get current(): StoreCaller {
    const { group, signal } = this.#storage.getStore() ?? OWN;
    return { group, signal: signal?.aborted ? undefined : signal };
  }

  /** The same for every statement of one call; `undefined` for svc-cloud itself. */
  get call(): StoreCaller | undefined {
    return this.#storage.getStore();
  }

  run<T>(caller: StoreCaller, work: () => T): T {
    return this.#storage.run(caller, work);
  }
}
