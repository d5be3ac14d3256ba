/**
 * A kept connection on which the control plane announces changes, for callers that would otherwise only poll.
 *
 * While it is open, callers poll rarely (`PollTimer`), for lost announcements; at a control plane without this call,
 * they poll at the published intervals. A broken connection is renewed after a growing pause of up to a minute, which differs between
 * machines, so that a restarted control plane is not overrun. After a reconnect everything counts as changed.
 *
 * The room owns how a machine hears of changes and orders of its control plane.
 */

import { type BackoffLimits, requestPauseMs } from "../../base/async/backoff.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { CloudClient } from "../client.ts";

const RETRY: BackoffLimits = { firstMs: 2_000, mostMs: 60_000, jitter: 0.5 };
/** A connection that lasted this long resets the pause. */
const GOOD_MS = 60_000;
/** Pause after `unimplemented`: an update may add the call. */
const UNIMPLEMENTED: BackoffLimits = { firstMs: 3_600_000, mostMs: 3_600_000, jitter: 0.5 };

export interface ChangeFeedParts {
  readonly client: Pick<CloudClient, "address" | "changes">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A number from 0 up to 1. */
  readonly random: () => number;
}

/** The kinds of changes. */
export type Changed = "config" | "restart" | "release";

const KINDS: readonly Changed[] = ["config", "restart", "release"];

/** What callers need of a feed. */
export type Announcements = Pick<ChangeFeed, "hear" | "connection">;

export class ChangeFeed {
  readonly #parts: ChangeFeedParts;
  readonly #listeners = new Set<readonly [what: Changed | "end", listener: () => void]>();
  readonly #closed = new AbortController();
  #running: Promise<void> | undefined;
  #connections = 0;
  #isOpen = false;

  constructor(parts: ChangeFeedParts) {
    this.#parts = parts;
  }

  /** The number of the open connection, on which every change is announced; `undefined` while there is none. */
  get connection(): number | undefined {
    return this.#isOpen ? this.#connections : undefined;
  }

  /**
   * Calls `listener` whenever a poll may bring something new, or at the `end` of a connection, until the returned
   * function is called.
   */
  hear(what: Changed | "end", listener: () => void): () => void {
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
      const why = problem ? chainOf(problem) : "it ended the connection";
      logger.debug(`${client.address} does not tell of changes, which are asked for: ${why}`);
      const pauseMs = requestPauseMs(silent ? UNIMPLEMENTED : RETRY, failures, problem, random);
      await clock.sleep(pauseMs, signal).catch(() => {});
    }
  }

  /** One connection. `again` means that it follows another one, so announcements may have been missed. */
  async #follow(again: boolean): Promise<void> {
    let missed = again;
    try {
      for await (const news of this.#parts.client.changes(this.#closed.signal)) {
        if (!this.#isOpen) this.#connections++;
        this.#isOpen = true;
        for (const what of KINDS) if (news[what] || missed) this.#tell(what);
        missed = false;
      }
    } finally {
      if (this.#isOpen) {
        this.#isOpen = false;
        this.#tell("end");
      }
    }
  }

  #tell(what: Changed | "end"): void {
    for (const [wanted, listener] of [...this.#listeners]) if (wanted === what) listener();
  }
}
