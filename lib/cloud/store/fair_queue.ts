/**
 * The queue of the database's statements: decides whose statement comes next when only a few can run at once.
 *
 * Fair among groups: a group has a limited number of turns at one time and a number of waiting places, and the waiting
 * group that had the least time lately comes next. A turn costs a look at each waiting group, not at each waiting
 * statement: there are thousands in a second (`CallerTurns` of lib/base is for rarer work, and fair among members too).
 */

import { type Clock, race } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";

export interface FairLimits {
  /** Turns of one group at once; one by default. */
  readonly turnsOfGroupMax?: number;
  /** Limits of the waiting callers, of one group and of all. */
  readonly waitingMax: number;
  readonly waitingOfGroupMax: number;
  /** For people: `queries`. */
  readonly what: string;
  /** Whether a group has no turns for now, for another reason. */
  readonly isBlocked?: (group: string) => boolean;
}

export interface StatementLimits extends FairLimits {
  /** Turns at once, of all groups. */
  readonly turnsMax: number;
}

/** The group of svc-cloud's own work, which has neither a limit of its turns nor of its time. */
export const OWN_GROUP = "";

/** The use of a time counts half after this, and nothing after the other. */
const HALF_MS = 60_000;
const LATELY_MS = 600_000;
/** Groups whose time is remembered. */
const GROUPS_MAX = 10_000;

interface Used {
  ms: number;
  lastMs: number;
}

interface Place<T> {
  readonly item: T;
  readonly number: number;
}

/** A turn of a group; call `leave` once at its end. */
export interface FairTurn<T> {
  readonly item: T;
  /** By default it used the time since it began. */
  leave(usedMs?: number): void;
}

/** Items that wait for a turn, and the groups that have one. */
export class FairQueue<T> {
  readonly #waiting = new Map<string, Place<T>[]>();
  readonly #inside = new Map<string, number>();
  readonly #used = new Map<string, Used>();
  #size = 0;
  #number = 0;

  constructor(private readonly limits: FairLimits, private readonly clock: Clock) {}

  /** How many items wait. */
  get size(): number {
    return this.#size;
  }

  /** Lets an item wait; the returned function takes it back. Throws `resource_exhausted` if too many wait. */
  add(group: string, item: T): () => void {
    const { waitingMax, waitingOfGroupMax, what } = this.limits;
    const places = this.#waiting.get(group) ?? [];
    const isOwn = group === OWN_GROUP;
    const isFull = !isOwn && places.length >= waitingOfGroupMax;
    if (isFull || this.#size >= waitingMax) {
      const whose = isFull ? " of this organization" : "";
      const found = isFull ? places.length : this.#size;
      throw new SvcError("resource_exhausted", `${found} ${what}${whose} wait already: try again later`);
    }
    const place = { item, number: this.#number++ };
    places.push(place);
    this.#waiting.set(group, places);
    this.#size++;
    return () => {
      const at = places.indexOf(place);
      if (at >= 0) this.#remove(group, places, at);
    };
  }

  /** The next item, whose group has a turn from now on; `undefined` if nobody waits that may have one. */
  next(): FairTurn<T> | undefined {
    const { turnsOfGroupMax = 1, isBlocked } = this.limits;
    let best: string | undefined;
    let bestMs = Infinity;
    for (const [group, places] of this.#waiting) {
      if (group !== OWN_GROUP && (this.#inside.get(group) ?? 0) >= turnsOfGroupMax) continue;
      if (isBlocked?.(group)) continue;
      const ms = this.#lately(group);
      const isEarlier = ms === bestMs && places[0].number < this.#waiting.get(best!)![0].number;
      if (ms < bestMs || isEarlier) [best, bestMs] = [group, ms];
    }
    if (best === undefined) return undefined;
    const places = this.#waiting.get(best)!;
    const [{ item }] = places;
    this.#remove(best, places, 0);
    return { item, leave: this.#enter(best) };
  }

  /** Takes every waiting item away. */
  drain(): T[] {
    const all = [...this.#waiting.values()].flat().sort((a, b) => a.number - b.number);
    this.#waiting.clear();
    this.#size = 0;
    return all.map(({ item }) => item);
  }

  #remove(group: string, places: Place<T>[], at: number): void {
    places.splice(at, 1);
    this.#size--;
    if (places.length === 0 && this.#waiting.get(group) === places) this.#waiting.delete(group);
  }

  #enter(group: string): (usedMs?: number) => void {
    const beganMs = this.clock.monotonicMs();
    this.#inside.set(group, (this.#inside.get(group) ?? 0) + 1);
    let left = false;
    return (usedMs = this.clock.monotonicMs() - beganMs) => {
      if (left) return;
      left = true;
      const rest = this.#inside.get(group)! - 1;
      if (rest > 0) this.#inside.set(group, rest);
      else this.#inside.delete(group);
      this.#note(group, usedMs);
    };
  }

  #note(group: string, tookMs: number): void {
    const ms = this.#lately(group) + tookMs;
    this.#used.delete(group);
    this.#used.set(group, { ms, lastMs: this.clock.monotonicMs() });
    const [oldest] = this.#used.keys();
    if (this.#used.size > GROUPS_MAX) this.#used.delete(oldest);
  }

  #lately(group: string): number {
    const used = group === OWN_GROUP ? undefined : this.#used.get(group);
    const agoMs = used ? this.clock.monotonicMs() - used.lastMs : LATELY_MS;
    return agoMs < LATELY_MS ? used!.ms * 2 ** (-agoMs / HALF_MS) : 0;
  }
}

/** Turns for callers that wait for them. */
export class StatementTurns {
  readonly #queue: FairQueue<(leave: () => void) => void>;
  #inside = 0;

  constructor(private readonly limits: StatementLimits, clock: Clock) {
    this.#queue = new FairQueue(limits, clock);
  }

  /** Waits for a turn; call the returned function at its end. Throws `resource_exhausted` if too many wait. */
  async enter(group: string, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    const { promise, resolve } = Promise.withResolvers<() => void>();
    const takeBack = this.#queue.add(group, resolve);
    this.#next();
    if (!signal) return await promise;
    try {
      return await race(promise, signal, (leave) => leave());
    } catch (error) {
      takeBack();
      throw error;
    }
  }

  #next(): void {
    while (this.#inside < this.limits.turnsMax) {
      const turn = this.#queue.next();
      if (!turn) return;
      this.#inside++;
      let left = false;
      turn.item(() => {
        if (left) return;
        left = true;
        this.#inside--;
        turn.leave();
        this.#next();
      });
    }
  }
}
