/**
 * Budgets for what a peer may do on one connection that costs us more than the peer, or that achieves nothing.
 *
 * Each budget allows a burst and refills with time; frames that well-behaved peers send in answer to ours (credit for
 * our data, pings about it, resets that crossed our answer) are earned by what we send. A peer that overdraws one gets
 * ENHANCE_YOUR_CALM and loses the connection. For the costliest actions all connections of a port share a further
 * budget: when it is used up, the connections that used most of it end.
 */

import type { Clock } from "../../base/clock.ts";

interface Limits {
  readonly burst: number;
  readonly perSecond: number;
}

interface Budget extends Limits {
  /** Its name in the error of an overdraft. */
  readonly what: string;
  /** The shared budget of all connections of a port. */
  readonly together?: Limits;
}

const MiB = 1024 * 1024;

const BUDGETS = {
  /** Streams that the peer opens and resets, or makes us reset: each was a wasted call. */
  resets: {
    what: "reset streams",
    burst: 2000,
    perSecond: 200,
    together: { burst: 4000, perSecond: 1000 },
  },
  /** Entries of SETTINGS; a frame counts as one more. */
  settings: { what: "settings", burst: 1000, perSecond: 100 },
  /** Each one forces an answer. */
  pings: { what: "pings", burst: 2000, perSecond: 500 },
  /** WINDOW_UPDATE. */
  credits: { what: "window updates", burst: 20_000, perSecond: 5000 },
  /** Frames without effect: empty DATA and CONTINUATION, PRIORITY, unknown types, closed streams. */
  idle: { what: "frames without effect", burst: 5000, perSecond: 500 },
  /** Unpacked header fields beyond a call's usual size. */
  headerBytes: {
    what: "header fields",
    burst: 16 * MiB,
    perSecond: 8 * MiB,
    together: { burst: 32 * MiB, perSecond: 16 * MiB },
  },
} satisfies Record<string, Budget>;

export type BudgetName = keyof typeof BUDGETS;

/** When the shared budget is used up, each connection keeps this share of its own. */
const MODEST_SHARE = 1 / 10;

/** An amount that refills with time. */
class Bucket {
  #amount: number;
  #atMs: number;

  constructor(private readonly clock: Clock, private readonly limits: Limits) {
    this.#amount = limits.burst;
    this.#atMs = clock.monotonicMs();
  }

  /** Takes an amount, even beyond zero: then it returns false. */
  take(amount: number): boolean {
    // Reads the clock only where it matters.
    if (this.#amount < amount) this.#refill();
    this.#amount -= amount;
    return this.#amount >= 0;
  }

  put(amount: number): void {
    this.#amount = Math.min(this.limits.burst, this.#amount + amount);
  }

  /** The used share of the whole that has not refilled yet. */
  get usedShare(): number {
    this.#refill();
    return 1 - this.#amount / this.limits.burst;
  }

  #refill(): void {
    const nowMs = this.clock.monotonicMs();
    this.put((nowMs - this.#atMs) / 1000 * this.limits.perSecond);
    this.#atMs = nowMs;
  }
}

/** The shared budgets of all connections of a port. */
export class PortBudgets {
  readonly #left = new Map<BudgetName, Bucket>();

  constructor(clock: Clock) {
    for (const [name, { together }] of Object.entries<Budget>(BUDGETS)) {
      if (together) this.#left.set(name as BudgetName, new Bucket(clock, together));
    }
  }

  /** Takes from a budget; false on an overdraft. */
  take(name: BudgetName, amount: number): boolean {
    return this.#left.get(name)?.take(amount) ?? true;
  }
}

/** The budgets of one connection. */
export class Budgets {
  readonly #left = new Map<BudgetName, Bucket>();

  constructor(private readonly clock: Clock, private readonly port?: PortBudgets) {}

  /** Takes from a budget; returns the name of an overdrawn one. */
  spend(name: BudgetName, amount: number): string | undefined {
    if (amount === 0) return undefined;
    const left = this.#of(name);
    const enough = left.take(amount);
    const enoughForAll = this.port?.take(name, amount) ?? true;
    if (enough && (enoughForAll || left.usedShare <= MODEST_SHARE)) return undefined;
    return `too many ${BUDGETS[name].what}`;
  }

  earn(name: BudgetName, amount: number): void {
    this.#left.get(name)?.put(amount);
  }

  #of(name: BudgetName): Bucket {
    let left = this.#left.get(name);
    if (!left) this.#left.set(name, left = new Bucket(this.clock, BUDGETS[name]));
    return left;
  }
}
