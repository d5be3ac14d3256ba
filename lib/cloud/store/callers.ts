/**
 * On whose behalf a statement runs, so that no organization takes the database from the others.
 *
 * The edge of a call says it once (`Store.forCaller`), and everything that the call awaits belongs to it.
 */

import { AsyncLocalStorage } from "node:async_hooks";

export interface StoreCaller {
  /** Shares the time of the database with everything else of this group: an organization, or a key without one. */
  readonly group: string;
  /** Statements that wait for their turn are given up when it aborts. */
  readonly signal?: AbortSignal;
}

/** The group of svc-cloud's own work, which has neither a limit of its turns nor of its time. */
export const OWN_GROUP = "";

/** Slow reads of one group that run at once. */
export const SLOW_READS_MAX = 2;
/** Limits of the reads that wait. */
export const FAIR_READS = {
  waitingMax: 50_000,
  waitingOfGroupMax: 10_000,
  what: "queries of the database",
  ownGroup: OWN_GROUP,
};

/** How long a statement of a call may take; it is interrupted after that. */
export const STATEMENT_MS = 10_000;
/** How long a transaction of a call may take, with the pauses between its statements. */
export const TRANSACTION_MS = 30_000;

const OWN: StoreCaller = { group: OWN_GROUP };

export class StoreCallers {
  readonly #storage = new AsyncLocalStorage<StoreCaller>();

  /**
   * The caller of the code that runs now; svc-cloud itself if nobody was named. What still runs after the caller has
   * gone, such as a clean-up, is not given up.
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
