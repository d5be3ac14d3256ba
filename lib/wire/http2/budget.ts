/**
 * What a peer may do on one connection of what costs us more than it, or gets it nowhere.
 *
 * Each budget allows a burst and refills with time; what well-behaved peers send in answer to us (credit for our data,
 * pings about it, resets that crossed our answer) is earned by what we send. Whoever overdraws one is told to calm down
 * and loses the connection.
 */

import type { Clock } from "../../base/clock.ts";

interface Budget {
  /** What it is called where it is overdrawn. */
  readonly what: string;
  readonly burst: number;
  readonly perSecond: number;
}

const MiB = 1024 * 1024;

const BUDGETS = {
  /** Streams that the peer opens and resets, or makes us reset: each was a call begun in vain. */
  resets: { what: "reset streams", burst: 2000, perSecond: 200 },
  /** Entries of SETTINGS; a frame counts as one more. */
  settings: { what: "settings", burst: 1000, perSecond: 100 },
  /** Each makes us answer. */
  pings: { what: "pings", burst: 2000, perSecond: 500 },
  /** WINDOW_UPDATE. */
  credits: { what: "window updates", burst: 20_000, perSecond: 5000 },
  /** Frames without content or effect: empty DATA and CONTINUATION, PRIORITY, unknown types, closed streams. */
  idle: { what: "frames that say nothing", burst: 5000, perSecond: 500 },
  /** Header fields beyond the size that calls usually have, unpacked. */
  headerBytes: { what: "header fields", burst: 64 * MiB, perSecond: 16 * MiB },
} satisfies Record<string, Budget>;

export type BudgetName = keyof typeof BUDGETS;

/** What is left of a connection's budgets. */
export class Budgets {
  readonly #left = new Map<BudgetName, { amount: number; atMs: number }>();

  constructor(private readonly clock: Clock) {}

  /** Takes from a budget; says what there was too much of, when it is overdrawn. */
  spend(name: BudgetName, amount: number): string | undefined {
    const left = this.#of(name);
    left.amount -= amount;
    if (left.amount >= 0) return undefined;
    const { what, burst, perSecond } = BUDGETS[name];
    // The clock is asked only where it matters.
    const nowMs = this.clock.monotonicMs();
    left.amount = Math.min(burst - amount, left.amount + (nowMs - left.atMs) / 1000 * perSecond);
    left.atMs = nowMs;
    return left.amount >= 0 ? undefined : `too many ${what}`;
  }

  earn(name: BudgetName, amount: number): void {
    const left = this.#left.get(name);
    if (left) left.amount = Math.min(BUDGETS[name].burst, left.amount + amount);
  }

  #of(name: BudgetName): { amount: number; atMs: number } {
    let left = this.#left.get(name);
    if (!left) this.#left.set(name, left = { amount: BUDGETS[name].burst, atMs: this.clock.monotonicMs() });
    return left;
  }
}
