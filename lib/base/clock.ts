/**
 * Time: the only file with timers and the date.
 *
 * Everything that waits takes a `Clock`, so that tests run on a clock that they move. Every wait ends: at its time, or
 * when its signal aborts (then it rejects with the signal's reason).
 */

import { clearImmediate, setImmediate } from "node:timers";

/** Time, and waiting. */
export interface Clock {
  /** Milliseconds since the Unix epoch; jumps when somebody sets the system's time. */
  nowMs(): number;
  /** Milliseconds that never go back, from an arbitrary start. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `run` once after `ms`; the returned function cancels it. */
  after(ms: number, run: () => void): () => void;
}

const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class SystemClock implements Clock {
  nowMs(): number {
    return Date.now();
  }

  monotonicMs(): number {
    return performance.now();
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return sleepOn(this, ms, signal);
  }

  after(ms: number, run: () => void): () => void {
    const timer = setTimeout(run, Math.min(Math.max(0, ms), LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  }
}

/** Calls `run` once, after all callbacks that are ready now; the returned function cancels it. */
export function nextTurn(run: () => void): () => void {
  const immediate = setImmediate(run);
  return () => clearImmediate(immediate);
}

/** Runs `run` as soon as the runtime has polled the sockets, which takes about a millisecond. */
export function afterPoll(run: () => void): () => void {
  const timer = setTimeout(run, 0);
  return () => clearTimeout(timer);
}

/** Lets every callback that is ready run. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await new Promise<void>((resolve) => void setImmediate(() => resolve()));
  }
}

/** A sleep on any clock with timers. */
export function sleepOn(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const aborted = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.after(ms, () => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    });
    signal?.addEventListener("abort", aborted, { once: true });
  });
}

/** Lets a loop sleep until another part wakes it. A `wake` during the loop's work is kept for its next sleep. */
export class Waker {
  #woken = Promise.withResolvers<void>();

  constructor(private readonly clock: Clock) {}

  wake(): void {
    this.#woken.resolve();
  }

  /** Waits for `wake` or, if a time is given, for the end of that time. */
  async sleep(ms?: number): Promise<void> {
    const { promise: over, resolve } = Promise.withResolvers<void>();
    const cancel = ms === undefined ? () => {} : this.clock.after(ms, resolve);
    await Promise.race([this.#woken.promise, over]);
    cancel();
    this.#woken = Promise.withResolvers();
  }
}

/** A signal that aborts with `reason` after `ms`, or when `parent` does; call `done` to release both. */
export function deadline(
  clock: Clock,
  ms: number,
  reason: () => unknown,
  parent?: AbortSignal,
): { signal: AbortSignal; done: () => void } {
  const controller = new AbortController();
  const follow = () => controller.abort(parent?.reason);
  if (parent?.aborted) follow();
  const cancel = clock.after(ms, () => controller.abort(reason()));
  parent?.addEventListener("abort", follow, { once: true });

  return {
    signal: controller.signal,
    done: () => {
      cancel();
      parent?.removeEventListener("abort", follow);
    },
  };
}

/**
 * `work`, or a rejection with the signal's reason as soon as it aborts. A value that arrives after that goes to
 * `late`.
 */
export function race<T>(work: Promise<T>, signal: AbortSignal, late?: (value: T) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = () => reject(signal.reason);
    if (signal.aborted) aborted();
    signal.addEventListener("abort", aborted, { once: true });
    work.then(
      (value) => {
        signal.removeEventListener("abort", aborted);
        if (signal.aborted) late?.(value);
        else resolve(value);
      },
      (error) => {
        signal.removeEventListener("abort", aborted);
        reject(error);
      },
    );
  });
}
