/**
 * Time that moves only when a test says so.
 */

import { assert } from "@std/assert";
import { type Clock, settle, sleepOn } from "../../lib/base/clock.ts";

const STEP_MS = 10;
/** Real time until work that waits for nothing of the clock counts as hanging. */
const STANDSTILL_MS_MAX = 120_000;

/** A clock that stands still until `advance`. Timers run in order of their time, then of their setting. */
export class FakeClock implements Clock {
  #now: number;
  /** The lead of the time of day over the monotonic clock. */
  #aheadMs = 0;
  #sequence = 0;
  readonly #timers = new Map<number, { at: number; run: () => void }>();

  constructor(startMs = 1_700_000_000_000) {
    this.#now = startMs;
  }

  nowMs(): number {
    return this.#now + this.#aheadMs;
  }

  /** Sets the time of day on or, with a number below 0, back; no time passes. */
  setOn(ms: number): void {
    this.#aheadMs += ms;
  }

  monotonicMs(): number {
    return this.#now;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return sleepOn(this, ms, signal);
  }

  after(ms: number, run: () => void): () => void {
    const id = this.#sequence++;
    this.#timers.set(id, { at: this.#now + Math.max(0, ms), run });
    return () => void this.#timers.delete(id);
  }

  /** How many timers are set: a test can wait for its subject to be waiting. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Moves time on by `ms`, running what falls due on the way and letting promises settle in between. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (;;) {
      let next: [number, { at: number; run: () => void }] | undefined;
      for (const entry of this.#timers) if (!next || entry[1].at < next[1].at) next = entry;
      if (!next || next[1].at > end) break;
      this.#timers.delete(next[0]);
      this.#now = Math.max(this.#now, next[1].at);
      next[1].run();
      await settle();
    }
    this.#now = end;
  }
}

/**
 * Moves time on, by short steps, until `work` has ended; it has `limitMs` for that. Gives what `work` gives.
 *
 * Without a timer nothing waits for the time, but for a thread, say, that computes a signature: then it stands still,
 * since a slow computer would otherwise use up the work's own time limits.
 */
export async function passing<T>(clock: FakeClock, limitMs: number, work: Promise<T>): Promise<T> {
  let isOver = false;
  const endMs = clock.nowMs() + limitMs;
  const standstillEndMs = performance.now() + STANDSTILL_MS_MAX;
  const watched = work.finally(() => isOver = true);
  watched.catch(() => {});
  while (!isOver && clock.nowMs() < endMs) {
    // With real sockets between the steps, time does not wait for answers.
    if (clock.pending > 0) await clock.advance(STEP_MS);
    else await settle();
    assert(isOver || performance.now() < standstillEndMs, "not over, and waits for no time");
  }

  assert(isOver, `not over after ${limitMs} ms`);
  return await watched;
}
