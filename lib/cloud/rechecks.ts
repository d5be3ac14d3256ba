/**
 * Long calls are checked again: at once after a notice that their key, or an account's roles, have changed, soon after
 * something else that roles depend on has, and now and then in any case. A call that is refused then ends. Because
 * notices may be lost, the audit log is read for such changes as well.
 */

import { Deadlines } from "../base/async/deadlines.ts";
import { KeyCounts } from "../base/async/key_counts.ts";
import { Semaphore } from "../base/async/semaphore.ts";
import type { Clock } from "../base/clock.ts";
import { BriefMap } from "../base/collections/brief_map.ts";
import { LinkedList } from "../base/collections/linked_list.ts";
import { type Code, SvcError } from "../base/error.ts";
import type { CallContext } from "../wire/rpc/service.ts";
import { RightsChanges, type RightsChangesParts } from "./rights_changes.ts";

/** Interval of the checks, and of the looks into the audit log. */
const RECHECK_MS = 5_000;
/**
 * Limits of the checks of one group's calls in a second, after something has changed and else: the many calls of a large
 * fleet are checked less often, and take the time of the database from no new call, nor the time of others' checks.
 */
const RECHECKS_PER_SECOND = 200;
const IDLE_RECHECKS_PER_SECOND = 20;
/** However many there are: nobody delays the end of a key by more calls with it. */
const RECHECK_MOST_MS = 60_000;
/** How many are checked at once; when thousands are due, the others wait in their order. */
const RECHECKS_AT_ONCE = 16;
/** Checks of one call are at least this far apart, however many notices arrive. */
const APART_MS = 1_000;
const REFUSALS: readonly Code[] = ["unauthenticated", "permission_denied"];

type WatchedContext = Pick<CallContext, "entity" | "cancel">;

export class Rechecks {
  readonly #turns = new Semaphore(RECHECKS_AT_ONCE);
  readonly #deadlines: Deadlines;
  /** How many calls each group has. */
  readonly #groups = new KeyCounts();
  /** By the key or the account. */
  readonly #calls = new BriefMap<string, LinkedList<WatchedCall>>();
  readonly #changes: RightsChanges;

  constructor(private readonly parts: RightsChangesParts) {
    this.#deadlines = new Deadlines(parts.clock);
    this.#changes = new RightsChanges(parts, (id) => this.#checkCallsOf(id));
  }

  /** Ends a call when `check` refuses it; the returned function stops checking. */
  readonly watch = (ctx: WatchedContext, group: string, check: () => Promise<void>): () => void => {
    const { entity = "" } = ctx;
    const call: WatchedCall = new WatchedCall({
      clock: this.parts.clock,
      deadlines: this.#deadlines,
      turns: this.#turns,
      intervalMs: () => this.#intervalMs(group, RECHECKS_PER_SECOND),
      isDue: (checkedMs) => {
        // While there are long calls, one of them asks every few seconds.
        this.#changes.follow();
        return this.#isDue(group, checkedMs);
      },
      check,
      refused: (error) => ctx.cancel(error),
    });
    this.#groups.add(group, 1);
    const calls = this.#calls.getOrInsertComputed(entity, () => new LinkedList());
    const link = calls.add(call);
    return () => {
      if (!calls.delete(link)) return;
      call.stop();
      if (calls.size === 0) this.#calls.delete(entity);
      this.#groups.add(group, -1);
    };
  };

  async close(): Promise<void> {
    for (const calls of this.#calls.values()) for (const call of calls.values()) call.stop();
    await this.#changes.close();
  }

  #intervalMs(group: string, perSecond: number): number {
    const spreadMs = 1000 * this.#groups.of(group) / perSecond;
    return Math.min(Math.max(RECHECK_MS, spreadMs), RECHECK_MOST_MS);
  }

  /** Whether a call must be checked now, not an interval later, if its last check began at that time. */
  #isDue(group: string, checkedMs: number): boolean {
    if (checkedMs <= this.#changes.changedMs) return true;
    const nextMs = this.parts.clock.monotonicMs() + this.#intervalMs(group, RECHECKS_PER_SECOND);
    return nextMs - checkedMs > this.#intervalMs(group, IDLE_RECHECKS_PER_SECOND);
  }

  #checkCallsOf(id: string): void {
    for (const call of this.#calls.get(id)?.values() ?? []) call.checkSoon();
  }
}

interface WatchedParts {
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly turns: Semaphore;
  readonly intervalMs: () => number;
  readonly isDue: (checkedMs: number) => boolean;
  readonly check: () => Promise<void>;
  readonly refused: (error: SvcError) => void;
}

/** A call and its next check. */
class WatchedCall {
  #stopTimer = () => {};
  #isOver = false;
  #beganMs = -Infinity;
  /** When the last check began, unless it could not be made. */
  #checkedMs = -Infinity;
  #isWaiting = false;
  #isChecking = false;
  /** Something has changed since the check under way began. */
  #isStale = false;

  constructor(private readonly parts: WatchedParts) {
    // Thousands of machines may have begun their calls together, and must not be checked together for ever.
    this.#checkLater(parts.intervalMs() * Math.random());
  }

  stop(): void {
    this.#isOver = true;
    this.#stopTimer();
  }

  checkSoon(): void {
    if (this.#isOver || this.#isWaiting) return;
    if (this.#isChecking) this.#isStale = true;
    else this.#checkAgain();
  }

  /** How long the next check has to wait for the last one. */
  get #apartMs(): number {
    return Math.max(0, this.#beganMs + APART_MS - this.parts.clock.monotonicMs());
  }

  /** Checks after a time, if a check is due then. */
  #checkLater(ms = this.parts.intervalMs()): void {
    this.#stopTimer();
    this.#stopTimer = this.parts.deadlines.around(ms, () => {
      if (this.parts.isDue(this.#checkedMs)) void this.#check();
      else this.#checkLater();
    });
  }

  /** Checks as soon as the last check allows. */
  #checkAgain(): void {
    this.#stopTimer();
    this.#stopTimer = this.parts.deadlines.after(this.#apartMs, () => void this.#check());
  }

  async #check(): Promise<void> {
    const { clock, turns, check, refused } = this.parts;
    this.#isWaiting = true;
    await turns.acquire();
    this.#isWaiting = false;
    this.#isChecking = true;
    this.#beganMs = clock.monotonicMs();
    try {
      if (!this.#isOver) await check();
      this.#checkedMs = this.#beganMs;
    } catch (thrown) {
      this.#checkedMs = -Infinity;
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
    if (this.#isStale) this.#checkAgain();
    else this.#checkLater();
    this.#isStale = false;
  }
}
