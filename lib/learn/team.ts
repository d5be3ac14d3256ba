/**
 * A team of threads that train one network together: each works on its share of every batch, and all take the
 * same steps.
 *
 * Owns the shared memory in which the threads add up their gradients. Promises the same sums, bit for bit, on
 * every thread and in every run. A thread sleeps while it waits for the others, for a limited time.
 */

import { SvcError } from "../base/error.ts";

/** Longest time that the other threads may take for one step or one measurement. */
const WAIT_MS_MAX = 10 * 60_000;
/** The count of arrivals once the team is disbanded: no threads that still arrive make it positive. */
const DISBANDED = -(2 ** 30);
/** Most numbers added up at a time: four times as many as our largest network has. */
const NUMBERS_MAX = 1_000_000;

/** The message to a thread: its rank in the team, and the memory of all. */
export interface TeamSlot {
  readonly rank: number;
  readonly arrived: SharedArrayBuffer;
  /** The last numbers of each thread. */
  readonly brought: readonly SharedArrayBuffer[];
}

/** The places of a team of `size` threads. */
export function teamSlots(size: number): TeamSlot[] {
  const brought = Array.from({ length: size }, () => new SharedArrayBuffer(4 * NUMBERS_MAX));
  const arrived = new SharedArrayBuffer(4);
  return brought.map((_, rank) => ({ rank, arrived, brought }));
}

/**
 * Ends the work of a team: each thread throws `canceled` at its next meeting, and a sleeping one at once. The end of a
 * worker would not do, because the runtime ends none that computes or sleeps.
 */
export function disband(team: readonly TeamSlot[]): void {
  for (const { arrived } of team) {
    const count = new Int32Array(arrived);
    Atomics.store(count, 0, DISBANDED);
    Atomics.notify(count, 0);
  }
}

/** The place of a thread that works alone, which exchanges no numbers. */
export function soleSlot(): TeamSlot {
  return { rank: 0, arrived: new SharedArrayBuffer(4), brought: [new SharedArrayBuffer(0)] };
}

export class Team {
  readonly #brought: readonly Float32Array[];
  readonly #arrived: Int32Array;
  #meetings = 0;

  constructor(private readonly place: TeamSlot) {
    this.#brought = place.brought.map((buffer) => new Float32Array(buffer));
    this.#arrived = new Int32Array(place.arrived);
  }

  get size(): number {
    return this.#brought.length;
  }

  get rank(): number {
    return this.place.rank;
  }

  /** Replaces each thread's numbers by the sums over all threads. */
  add(parts: readonly Float32Array[]): void {
    if (this.size === 1) return;
    this.#each(parts, (part, start) => this.#brought[this.rank]?.set(part, start));
    this.#meet();
    this.#each(parts, (part, start) => {
      for (let at = 0; at < part.length; at++) {
        let sum = 0;
        for (const brought of this.#brought) sum += brought[start + at] ?? 0;
        part[at] = sum;
      }
    });
    // No thread may bring its next numbers before all threads have read these.
    this.#meet();
  }

  #each(parts: readonly Float32Array[], run: (part: Float32Array, start: number) => void): void {
    let start = 0;
    for (const part of parts) {
      run(part, start);
      start += part.length;
    }
  }

  #meet(): void {
    const wanted = ++this.#meetings * this.size;
    if (Atomics.add(this.#arrived, 0, 1) + 1 === wanted) Atomics.notify(this.#arrived, 0);
    for (;;) {
      const found = Atomics.load(this.#arrived, 0);
      if (found < 0) throw new SvcError("canceled", "The team of threads is disbanded");
      if (found >= wanted) return;
      if (Atomics.wait(this.#arrived, 0, found, WAIT_MS_MAX) !== "timed-out") continue;
      throw new SvcError("deadline_exceeded", `A thread of the training gave no sign for ${WAIT_MS_MAX} ms`);
    }
  }
}
