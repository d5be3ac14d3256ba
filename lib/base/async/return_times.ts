/**
 * When refused callers are to come back: one after another, at the rate at which work ends.
 *
 * A server that was behind for a moment refuses many callers. If all of them came back after the same pause, it would
 * spend its time on refusals from then on, although it could do the work. So each caller gets a time of its own, the
 * later the more callers have been refused before. A caller that asks before its time gets the same time again, and moves
 * nobody else's.
 */

import type { Clock } from "../clock.ts";

export interface ReturnLimits {
  /** The shortest pause, and the longest one. */
  readonly firstMs: number;
  readonly mostMs: number;
}

/** The least and the most returns a second, whatever has ended lately. */
const RATE_MIN = 20;
const RATE_MAX = 500;
/** The rate is that of the last whole period of this length. */
const PERIOD_MS = 1_000;
/** Callers whose times are remembered, of all and of one group; further ones get a random one of the later times. */
const CALLERS_MAX = 20_000;
const CALLERS_OF_GROUP_MAX = CALLERS_MAX / 2;

/** The times of a group's callers, in the order of these times. */
interface Line {
  readonly times: Map<string, number>;
  lastMs: number;
}

export class ReturnTimes {
  readonly #lines = new Map<string, Line>();
  #known = 0;
  #beganMs: number;
  #ended = 0;
  #perSecond = RATE_MIN;

  constructor(
    private readonly limits: ReturnLimits,
    private readonly clock: Clock,
    private readonly random: () => number = Math.random,
  ) {
    this.#beganMs = clock.monotonicMs();
  }

  /** Some work has ended. */
  ended(): void {
    this.#ended++;
    this.#beginPeriod(this.clock.monotonicMs());
  }

  /** The pause of a refused caller in milliseconds, a whole number. Groups have lines of their own. */
  pauseMs(group: string, caller: string): number {
    const { firstMs, mostMs } = this.limits;
    const nowMs = this.clock.monotonicMs();
    this.#beginPeriod(nowMs);
    this.#forgetPast(group, nowMs);
    const line = this.#lines.get(group) ?? { times: new Map(), lastMs: 0 };
    const known = line.times.get(caller);
    if (known !== undefined) return this.#pause(Math.max(known - nowMs, firstMs));

    const atMs = Math.max(nowMs + firstMs, line.lastMs + 1000 / this.#perSecond);
    const isFull = this.#known >= CALLERS_MAX || line.times.size >= CALLERS_OF_GROUP_MAX;
    if (isFull || atMs - nowMs > mostMs) {
      return Math.round(mostMs * (1 + this.random()) / 2);
    }
    line.times.set(caller, atMs);
    line.lastMs = atMs;
    this.#lines.set(group, line);
    this.#known++;
    return this.#pause(atMs - nowMs);
  }

  #pause(ms: number): number {
    return Math.round(ms + this.limits.firstMs * this.random());
  }

  /** Forgets the times of a group that are over. */
  #forgetPast(group: string, nowMs: number): void {
    const { times } = this.#lines.get(group) ?? {};
    for (const [caller, atMs] of times ?? []) {
      if (atMs > nowMs) break;
      times?.delete(caller);
      this.#known--;
    }
    if (times?.size === 0) this.#lines.delete(group);
  }

  /** Begins a period, once the last one is over: measures the rate, and forgets the times that are over. */
  #beginPeriod(nowMs: number): void {
    const tookMs = nowMs - this.#beganMs;
    if (tookMs < PERIOD_MS) return;
    this.#perSecond = Math.min(Math.max(1000 * this.#ended / tookMs, RATE_MIN), RATE_MAX);
    this.#ended = 0;
    this.#beganMs = nowMs;
    // Those of groups that are refused no longer would leave no room for others.
    for (const group of [...this.#lines.keys()]) this.#forgetPast(group, nowMs);
  }
}
