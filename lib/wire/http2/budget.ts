/**
 * What a peer may do on one connection of what costs us more than it, or gets it nowhere.
 *
 * Each budget allows a burst and refills with time; what well-behaved peers send in answer to us (credit for our data,
 * pings about it, resets that crossed our answer) is earned by what we send. Whoever overdraws one is told to calm down
 * and loses the connection. Of what costs most, all connections of a port have a budget together: when it is used up,
 * those that had much of it are the ones that go.
 */

import type { Clock } from "../../base/clock.ts";

interface Limits {
  readonly burst: number;
  readonly perSecond: number;
}

interface Budget extends Limits {
  /** What it is called where it is overdrawn. */
  readonly what: string;
  /** The same for all connections of a port. */
  readonly together?: Limits;
}

const MiB = 1024 * 1024;

const BUDGETS = {
  /** Streams that the peer opens and resets, or makes us reset: each was a call begun in vain. */
  resets: {
    what: "reset streams",
    burst: 2000,
    perSecond: 200,
    together: { burst: 4000, perSecond: 1000 },
  },
  /** Entries of SETTINGS; a frame counts as one more. */
  settings: { what: "settings", burst: 1000, perSecond: 100 },
  /** Each makes us answer. */
  pings: { what: "pings", burst: 2000, perSecond: 500 },
  /** WINDOW_UPDATE. */
  credits: { what: "window updates", burst: 20_000, perSecond: 5000 },
  /** Frames without content or effect: empty DATA and CONTINUATION, PRIORITY, unknown types, closed streams. */
  idle: { what: "frames that say nothing", burst: 5000, perSecond: 500 },
  /** Header fields beyond the size that calls usually have, unpacked. */
  headerBytes: {
    what: "header fields",
    burst: 16 * MiB,
    perSecond: 8 * MiB,
    together: { burst: 32 * MiB, perSecond: 16 * MiB },
  },
} satisfies Record<string, Budget>;

export type BudgetName = keyof typeof BUDGETS;

/** Where all connections together have overdrawn a budget, each keeps this share of its own. */
const MODEST_SHARE = 1 / 10;

/** An amount that refills with time. */
class Bucket {
  #amount: number;
  #atMs: number;

  constructor(private readonly clock: Clock, private readonly limits: Limits) {
    this.#amount = limits.burst;
    this.#atMs = clock.monotonicMs();
  }

  /** Takes an amount, if need be more than there is: then it says false. */
  take(amount: number): boolean {
    // The clock is asked only where it matters.
    if (this.#amount < amount) this.#refill();
    this.#amount -= amount;
    return this.#amount >= 0;
  }

  put(amount: number): void {
    this.#amount = Math.min(this.limits.burst, this.#amount + amount);
  }

  /** How much has been taken and has not come back, of all that there is. */
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

/** What is left for all connections of a port together. */
export class PortBudgets {
  readonly #left = new Map<BudgetName, Bucket>();

  constructor(clock: Clock) {
    for (const [name, { together }] of Object.entries<Budget>(BUDGETS)) {
      if (together) this.#left.set(name as BudgetName, new Bucket(clock, together));
    }
  }

  /** Takes from a budget; false when it is overdrawn. */
  take(name: BudgetName, amount: number): boolean {
    return this.#left.get(name)?.take(amount) ?? true;
  }
}

/** What is left of a connection's budgets. */
export class Budgets {
  readonly #left = new Map<BudgetName, Bucket>();

  constructor(private readonly clock: Clock, private readonly port?: PortBudgets) {}

  /** Takes from a budget; says what there was too much of, when it is overdrawn. */
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
