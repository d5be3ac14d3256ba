/**
 * Calls many callbacks at the same interval with few timers. Thousands of connections that each look after themselves
 * every few seconds would keep the runtime, and its memory, busy with timers of their own.
 */

import type { Clock } from "../clock.ts";

/** Callbacks that begin within this part of the interval share a timer. */
const SLOTS = 64;

export class SharedInterval {
  readonly #groups = new Map<number, Group>();

  constructor(private readonly clock: Clock, private readonly intervalMs: number) {}

  /** Calls `run` at the interval, the first time up to 1/64 of it early, until the returned function is called. */
  every(run: () => void): () => void {
    const { clock, intervalMs } = this;
    const slot = Math.floor(clock.monotonicMs() / intervalMs * SLOTS) % SLOTS;
    let group = this.#groups.get(slot);
    if (!group) {
      group = new Group(clock, intervalMs, () => this.#groups.delete(slot));
      this.#groups.set(slot, group);
    }
    return group.add(run);
  }
}

/** The callbacks that share a timer. */
class Group {
  /** Wrapped, because the same callback may be there twice. */
  readonly #members = new Set<{ readonly run: () => void }>();
  #dueMs: number;
  #stop: () => void = () => {};

  constructor(
    private readonly clock: Clock,
    private readonly intervalMs: number,
    private readonly empty: () => void,
  ) {
    this.#dueMs = clock.monotonicMs();
    this.#startTimer();
  }

  add(run: () => void): () => void {
    const member = { run };
    this.#members.add(member);
    return () => {
      if (!this.#members.delete(member) || this.#members.size > 0) return;
      this.#stop();
      this.empty();
    };
  }

  #startTimer(): void {
    const nowMs = this.clock.monotonicMs();
    // After a standstill of the computer it goes on at the same phase.
    const missed = Math.floor((nowMs - this.#dueMs) / this.intervalMs);
    this.#dueMs += (missed + 1) * this.intervalMs;
    this.#stop = this.clock.after(this.#dueMs - nowMs, () => {
      this.#startTimer();
      for (const member of [...this.#members]) if (this.#members.has(member)) member.run();
    });
  }
}
