/**
 * Turns: decides who comes next when only a few of many can run at once.
 *
 * Fair among groups: a group has one turn at a time and a number of waiting places, and the waiting group that had the
 * least time lately comes next. So a caller that asks again and again, or hangs, takes time from its own group alone.
 */

import { type Clock, race } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";

export interface TurnLimits {
  /** Turns at once, of all groups. */
  readonly turnsMax: number;
  /** Limits of the waiting callers, of one group and of all. */
  readonly waitingMax: number;
  readonly waitingOfGroupMax: number;
  /** For people: `inferences`. */
  readonly what: string;
}

/** After this time a group's used time is forgotten. */
const LATELY_MS = 600_000;
/** Groups whose time is remembered. */
const GROUPS_MAX = 10_000;

interface Waiting {
  readonly group: string;
  readonly begin: () => void;
}

interface Used {
  ms: number;
  lastMs: number;
}

export class CallerTurns {
  readonly #inside = new Set<string>();
  readonly #waiting: Waiting[] = [];
  readonly #used = new Map<string, Used>();

  constructor(private readonly limits: TurnLimits, private readonly clock: Clock) {}

  /** Waits for a turn; call the returned function at its end. Throws `resource_exhausted` if too many wait. */
  async enter(group: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const { waitingMax, waitingOfGroupMax, what } = this.limits;
    const ofGroup = this.#waiting.filter((one) => one.group === group).length;
    if (ofGroup >= waitingOfGroupMax || this.#waiting.length >= waitingMax) {
      const whose = ofGroup >= waitingOfGroupMax ? " of this organization" : "";
      const found = whose ? ofGroup : this.#waiting.length;
      throw new SvcError("resource_exhausted", `${found} ${what}${whose} wait already: try again later`);
    }
    const turn = Promise.withResolvers<void>();
    const waiting: Waiting = { group, begin: turn.resolve };
    this.#waiting.push(waiting);
    this.#next();
    try {
      await race(turn.promise, signal, () => this.#leave(group, this.clock.monotonicMs()));
    } catch (error) {
      const at = this.#waiting.indexOf(waiting);
      if (at >= 0) this.#waiting.splice(at, 1);
      throw error;
    }
    const beganMs = this.clock.monotonicMs();
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#leave(group, beganMs);
    };
  }

  #next(): void {
    while (this.#inside.size < this.limits.turnsMax) {
      const free = this.#waiting.filter(({ group }) => !this.#inside.has(group));
      if (free.length === 0) return;
      const next = free.reduce((best, one) =>
        this.#lately(one.group) < this.#lately(best.group) ? one : best
      );
      this.#waiting.splice(this.#waiting.indexOf(next), 1);
      this.#inside.add(next.group);
      next.begin();
    }
  }

  #leave(group: string, beganMs: number): void {
    const nowMs = this.clock.monotonicMs();
    this.#inside.delete(group);
    const ms = this.#lately(group) + nowMs - beganMs;
    this.#used.delete(group);
    this.#used.set(group, { ms, lastMs: nowMs });
    const [oldest] = this.#used.keys();
    if (this.#used.size > GROUPS_MAX) this.#used.delete(oldest);
    this.#next();
  }

  #lately(group: string): number {
    const used = this.#used.get(group);
    return used && this.clock.monotonicMs() - used.lastMs < LATELY_MS ? used.ms : 0;
  }
}
