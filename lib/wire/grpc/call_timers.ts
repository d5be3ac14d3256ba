/** What a call of a gRPC client waits for beside its stream: its deadline, its caller's signal, pauses before a retry. */

import type { Clock } from "../../base/clock.ts";

export class CallTimers {
  readonly #deadlineMs: number | undefined;
  readonly #release: (() => void)[] = [];

  /** Calls `late` when the time of the call is over; without `timeoutMs` there is no limit. */
  constructor(private readonly clock: Clock, timeoutMs: number | undefined, late: () => void) {
    if (timeoutMs === undefined) return;
    this.#deadlineMs = clock.monotonicMs() + timeoutMs;
    this.after(timeoutMs, late);
  }

  get remainingMs(): number | undefined {
    return this.#deadlineMs === undefined ? undefined : this.#deadlineMs - this.clock.monotonicMs();
  }

  after(ms: number, work: () => void): void {
    this.#release.push(this.clock.after(ms, work));
  }

  /** Calls `aborted` when the signal aborts, at once if it has. */
  onAbort(signal: AbortSignal, aborted: () => void): void {
    if (signal.aborted) return aborted();
    signal.addEventListener("abort", aborted, { once: true });
    this.#release.push(() => signal.removeEventListener("abort", aborted));
  }

  /** Stops waiting for anything. */
  release(): void {
    for (const release of this.#release.splice(0)) release();
  }
}
