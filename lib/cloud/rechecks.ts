/**
 * Long calls are checked again: soon after a notice that their key, or an account's roles, have changed, and now and
 * then in any case, because notices may be lost and objects move. A call that is refused then ends.
 */

import { Deadlines } from "../base/async/deadlines.ts";
import { Semaphore } from "../base/async/semaphore.ts";
import type { Clock } from "../base/clock.ts";
import { type Code, SvcError } from "../base/error.ts";
import type { CallContext } from "../wire/rpc/service.ts";
import type { Audit } from "./access/audit.ts";
import { type Notices, UNKNOWN_CHANGE } from "./store/notices.ts";

/** Interval of the checks without notices. */
const RECHECK_MS = 5_000;
/**
 * Limit of these checks of one group's calls in a second: the many calls of a large fleet are checked less often, and
 * take the time of the database from no new call, nor the time of others' checks.
 */
const RECHECKS_PER_SECOND = 200;
/** However many there are: nobody delays the end of a key by more calls with it. */
const RECHECK_MOST_MS = 60_000;
/** How many are checked at once; when thousands are due, the others wait in their order. */
const RECHECKS_AT_ONCE = 16;
/** Checks of one call are at least this far apart, however many notices arrive. */
const APART_MS = 1_000;
const REFUSALS: readonly Code[] = ["unauthenticated", "permission_denied"];

/** Another process may have another computer's clock. */
const CLOCKS_APART_MS = 60_000;

type WatchedContext = Pick<CallContext, "entity" | "cancel">;

export interface RechecksParts {
  readonly clock: Clock;
  readonly notices: Notices;
  readonly audit: Pick<Audit, "keysChangedSince">;
}

export class Rechecks {
  readonly #turns = new Semaphore(RECHECKS_AT_ONCE);
  readonly #deadlines: Deadlines;
  /** How many calls each group has. */
  readonly #groups = new Map<string, number>();
  /** By the key or the account. */
  readonly #calls = new Map<string, Set<WatchedCall>>();
  #listening: Promise<() => Promise<void>> | undefined;
  /** When changes were looked for. */
  #changedMs = 0;
  #looking: Promise<void> | undefined;
  #hasMore = false;
  #isClosed = false;

  constructor(private readonly parts: RechecksParts) {
    this.#deadlines = new Deadlines(parts.clock);
  }

  /** Ends a call when `check` refuses it; the returned function stops checking. */
  readonly watch = (ctx: WatchedContext, group: string, check: () => Promise<void>): () => void => {
    const { entity = "" } = ctx;
    const call: WatchedCall = new WatchedCall({
      clock: this.parts.clock,
      deadlines: this.#deadlines,
      turns: this.#turns,
      intervalMs: () => this.#intervalMs(group),
      check: () => {
        this.#hear();
        return check();
      },
      refused: (error) => ctx.cancel(error),
    });
    this.#groups.set(group, (this.#groups.get(group) ?? 0) + 1);
    this.#calls.getOrInsertComputed(entity, () => new Set()).add(call);
    return () => {
      const calls = this.#calls.get(entity);
      if (!calls?.delete(call)) return;
      call.stop();
      if (calls.size === 0) this.#calls.delete(entity);
      const others = (this.#groups.get(group) ?? 0) - 1;
      if (others > 0) this.#groups.set(group, others);
      else this.#groups.delete(group);
    };
  };

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const calls of this.#calls.values()) for (const call of calls) call.stop();
    await (await this.#listening?.catch(() => undefined))?.();
    await this.#looking;
  }

  #intervalMs(group: string): number {
    const spreadMs = 1000 * (this.#groups.get(group) ?? 0) / RECHECKS_PER_SECOND;
    return Math.min(Math.max(RECHECK_MS, spreadMs), RECHECK_MOST_MS);
  }

  /** Listens from the first check of a long call on: before it, no call is older than the interval. */
  #hear(): void {
    if (this.#isClosed || this.#listening) return;
    this.#changedMs = this.parts.clock.nowMs();
    const look = () => {
      this.#hasMore = true;
      this.#looking ??= this.#lookForChanges();
    };
    this.#listening = this.parts.notices.hear("changes", (text) => {
      const [, id] = /^key (.+)$/.exec(text) ?? [];
      if (id !== undefined) this.#checkCallsOf(id);
      else if (text === UNKNOWN_CHANGE) look();
    }, look);
    // The next check tries again; until then the interval holds.
    this.#listening.catch(() => this.#listening = undefined);
  }

  /** Something has changed that no notice names. */
  async #lookForChanges(): Promise<void> {
    while (this.#hasMore) {
      this.#hasMore = false;
      const sinceMs = this.#changedMs - CLOCKS_APART_MS;
      this.#changedMs = this.parts.clock.nowMs();
      // Without an answer the interval holds.
      const changed = await this.parts.audit.keysChangedSince(sinceMs).catch(() => []);
      for (const id of changed) this.#checkCallsOf(id);
    }
    // Set in the same step that finds no more, so that the next change begins anew.
    this.#looking = undefined;
  }

  #checkCallsOf(id: string): void {
    this.#calls.get(id)?.forEach((call) => call.checkSoon());
  }
}

interface WatchedParts {
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly turns: Semaphore;
  readonly intervalMs: () => number;
  readonly check: () => Promise<void>;
  readonly refused: (error: SvcError) => void;
}

/** A call and its next check. */
class WatchedCall {
  #stopTimer = () => {};
  #isOver = false;
  #beganMs = -Infinity;
  #isWaiting = false;
  #isChecking = false;
  /** Something has changed since the check under way began. */
  #isStale = false;

  constructor(private readonly parts: WatchedParts) {
    // Thousands of machines may have begun their calls together, and must not be checked together for ever.
    this.#startTimer(parts.intervalMs() * Math.random());
  }

  stop(): void {
    this.#isOver = true;
    this.#stopTimer();
  }

  checkSoon(): void {
    if (this.#isOver || this.#isWaiting) return;
    if (this.#isChecking) this.#isStale = true;
    else this.#startTimer(this.#apartMs);
  }

  /** How long the next check has to wait for the last one. */
  get #apartMs(): number {
    return Math.max(0, this.#beganMs + APART_MS - this.parts.clock.monotonicMs());
  }

  #startTimer(ms: number): void {
    this.#stopTimer();
    this.#stopTimer = this.parts.deadlines.after(ms, () => void this.#check());
  }

  async #check(): Promise<void> {
    const { clock, turns, intervalMs, check, refused } = this.parts;
    this.#isWaiting = true;
    await turns.acquire();
    this.#isWaiting = false;
    this.#isChecking = true;
    this.#beganMs = clock.monotonicMs();
    try {
      if (!this.#isOver) await check();
    } catch (thrown) {
      const error = SvcError.from(thrown);
      if (REFUSALS.includes(error.code)) {
        this.stop();
        refused(error);
      }
      // The handler reports an unreachable database and missing resources.
    } finally {
      turns.release();
      this.#isChecking = false;
    }
    if (this.#isOver) return;
    this.#startTimer(this.#isStale ? this.#apartMs : intervalMs());
    this.#isStale = false;
  }
}
