/**
 * Changes as a control plane tells them: a connection that is kept, for those who would have to ask otherwise.
 *
 * Promises only haste: whoever hears of changes here also asks now and then, for control planes that do not tell and for
 * what is lost on the way. A connection that breaks is made anew after a pause that grows, up to a minute, and differs
 * from machine to machine, so that a control plane that comes back is not overrun; then everything counts as changed.
 *
 * The room owns how a machine hears of changes and orders of its control plane.
 */

import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { CloudClient } from "../client.ts";

const PAUSE_MIN_MS = 1_000;
const PAUSE_MAX_MS = 60_000;
/** A connection that has lasted this long was a good one: the next pause is short again. */
const GOOD_MS = 60_000;
/** A control plane that does not tell may learn it. */
const UNIMPLEMENTED_PAUSE_MS = 3_600_000;

export interface ChangeFeedParts {
  readonly client: Pick<CloudClient, "address" | "changes">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** What may read differently now. */
export type Changed = "config" | "restart";

export class ChangeFeed {
  readonly #parts: ChangeFeedParts;
  readonly #listeners = new Set<readonly [what: Changed, listener: () => void]>();
  readonly #closed = new AbortController();
  #running: Promise<void> | undefined;

  constructor(parts: ChangeFeedParts) {
    this.#parts = parts;
  }

  /** Calls `listener` whenever it may have something new to ask, until the returned function is called. */
  hear(what: Changed, listener: () => void): () => void {
    const entry = [what, listener] as const;
    this.#listeners.add(entry);
    this.#running ??= this.#run();
    return () => void this.#listeners.delete(entry);
  }

  async close(): Promise<void> {
    this.#closed.abort(new SvcError("canceled", "the program ends"));
    await this.#running;
  }

  async #run(): Promise<void> {
    const { client, clock, logger, random } = this.#parts;
    const { signal } = this.#closed;
    for (let failures = 0; !signal.aborted;) {
      const beganMs = clock.monotonicMs();
      const problem = await this.#follow(failures > 0).then(() => undefined, SvcError.from);
      if (signal.aborted) return;
      failures = clock.monotonicMs() - beganMs >= GOOD_MS ? 1 : failures + 1;
      const silent = problem?.code === "unimplemented";
      const most = silent ? UNIMPLEMENTED_PAUSE_MS : Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** failures);
      const why = problem ? chainOf(problem) : "it ended the connection";
      logger.debug(`${client.address} does not tell of changes, which are asked for: ${why}`);
      await clock.sleep(most * (1 + random()) / 2, signal).catch(() => {});
    }
  }

  /** One connection; `again` if there was one before, so that something may have been missed. */
  async #follow(again: boolean): Promise<void> {
    let missed = again;
    for await (const { config, restart } of this.#parts.client.changes(this.#closed.signal)) {
      if (config || missed) this.#tell("config");
      if (restart || missed) this.#tell("restart");
      missed = false;
    }
  }

  #tell(what: Changed): void {
    for (const [wanted, listener] of [...this.#listeners]) if (wanted === what) listener();
  }
}
