/**
 * Turns: decides who comes next when only a few of many can run at once.
 *
 * Fair among groups, and among the members of a group: whoever had the least time lately comes next, and the waiting
 * places are a shared pool. So a caller that asks again and again, or hangs, takes time from its own group alone.
 */

import { type Clock, race } from "../clock.ts";
import { type PoolHolder, SharedPool } from "./shared_pool.ts";

export interface TurnLimits {
  /** Turns at once, of all groups. */
  readonly turnsMax: number;
  /** The same of one group. */
  readonly turnsOfGroupMax: number;
  /** Limits of the waiting callers: of all, of one group, and of one member of a group. */
  readonly waiting: readonly [number, number, number];
  /** For people: `inferences`. */
  readonly what: string;
}

/** Who asks: `["organization", "key"]`. */
export type TurnCaller = readonly [group: string, member: string];

/** After this time a caller's used time is forgotten. */
const LATELY_MS = 600_000;
/** Groups and members whose time is remembered. */
const GROUPS_MAX = 20_000;

interface Waiting {
  readonly caller: TurnCaller;
  readonly begin: () => void;
}

interface Used {
  ms: number;
  lastMs: number;
}

export class CallerTurns {
  /** Turns under way, by group. */
  readonly #inside = new Map<string, number>();
  #turns = 0;
  readonly #waiting: Waiting[] = [];
  readonly #places: SharedPool;
  readonly #used = new Map<string, Used>();

  constructor(private readonly limits: TurnLimits, private readonly clock: Clock) {
    const levels = ["this server", "one organization", "one caller"];
    const what = `waiting ${limits.what}`;
    this.#places = new SharedPool({ shares: limits.waiting, levels, what }, clock);
  }

  /**
   * Waits for a turn; call the returned function at its end. Throws `resource_exhausted` if too many wait, also later
   * if a place is needed for a group that has fewer.
   */
  async enter(caller: TurnCaller, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const turn = Promise.withResolvers<void>();
    const place = this.#places.take(caller, (reason) => {
      this.#forget(waiting);
      turn.reject(reason);
    });
    const waiting: Waiting = { caller, begin: () => this.#begin(place, turn.resolve) };
    this.#waiting.push(waiting);
    this.#next();
    try {
      await race(turn.promise, signal, () => this.#leave(caller, this.clock.monotonicMs()));
    } catch (error) {
      place.release();
      this.#forget(waiting);
      throw error;
    }
    const beganMs = this.clock.monotonicMs();
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#leave(caller, beganMs);
    };
  }

  #begin(place: PoolHolder, resolve: () => void): void {
    place.release();
    resolve();
  }

  #forget(waiting: Waiting): void {
    const at = this.#waiting.indexOf(waiting);
    if (at >= 0) this.#waiting.splice(at, 1);
  }

  #next(): void {
    const { turnsMax, turnsOfGroupMax } = this.limits;
    while (this.#turns < turnsMax) {
      const free = this.#waiting.filter(({ caller: [group] }) => this.#insideOf(group) < turnsOfGroupMax);
      if (free.length === 0) return;
      const next = free.reduce((best, one) => this.#isBefore(one.caller, best.caller) ? one : best);
      this.#forget(next);
      const [group] = next.caller;
      this.#inside.set(group, this.#insideOf(group) + 1);
      this.#turns++;
      next.begin();
    }
  }

  /** Groups with fewer turns under way come first, then those that had less time. */
  #isBefore([group, member]: TurnCaller, [otherGroup, other]: TurnCaller): boolean {
    if (group === otherGroup) return this.#lately(keyOf(group, member)) < this.#lately(keyOf(group, other));
    const more = this.#insideOf(group) - this.#insideOf(otherGroup);
    return more === 0 ? this.#lately(group) < this.#lately(otherGroup) : more < 0;
  }

  #leave([group, member]: TurnCaller, beganMs: number): void {
    const left = this.#insideOf(group) - 1;
    if (left > 0) this.#inside.set(group, left);
    else this.#inside.delete(group);
    this.#turns--;
    const usedMs = this.clock.monotonicMs() - beganMs;
    for (const key of [group, keyOf(group, member)]) this.#use(key, usedMs);
    this.#next();
  }

  #use(key: string, usedMs: number): void {
    const ms = this.#lately(key) + usedMs;
    this.#used.delete(key);
    this.#used.set(key, { ms, lastMs: this.clock.monotonicMs() });
    const [oldest] = this.#used.keys();
    if (this.#used.size > GROUPS_MAX) this.#used.delete(oldest);
  }

  #insideOf(group: string): number {
    return this.#inside.get(group) ?? 0;
  }

  #lately(key: string): number {
    const used = this.#used.get(key);
    return used && this.clock.monotonicMs() - used.lastMs < LATELY_MS ? used.ms : 0;
  }
}

function keyOf(group: string, member: string): string {
  return `${group}\n${member}`;
}
