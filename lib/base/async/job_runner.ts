/**
 * Runs jobs that are noted in a place which several programs share: each job belongs to one runner, as long as that
 * one keeps reporting that it is alive. A job whose runner falls silent is another's, which its owner notices.
 */

import { randomUUID } from "node:crypto";
import { PeriodicWork, type PeriodicWorkParts } from "./periodic_work.ts";

export interface JobRunnerParts extends PeriodicWorkParts {
  readonly steps: JobSteps;
}

/** What a look for jobs consists of, in this order. */
export interface JobSteps {
  /** Notes that this runner is alive until then; is called only while it runs something. */
  renew(untilMs: number): Promise<void>;
  /** Takes care of the jobs of runners that fell silent; is called as often as `renew`. */
  recover?(): Promise<void>;
  /** Cancels what has to end. */
  look?(): Promise<void>;
  /** Starts the next job; false if there is none, or no capacity for it. */
  startNext(): Promise<boolean>;
}

/** How long a runner counts as alive, and how often it reports. Clocks agree to well within the first. */
export const JOB_LEASE_MS = 10_000;
const RENEW_MS = 3_000;

export interface RunningJob<Facts> {
  readonly facts: Facts;
  readonly cancel: (reason: unknown) => void;
}

export class JobRunner<Facts> {
  /** Names this runner in the leases. */
  readonly id: string = randomUUID();
  readonly #running = new Map<string, RunningJob<Facts>>();
  readonly #ends = new Map<string, Promise<void>>();
  readonly #work: PeriodicWork;
  #renewAtMs = -Infinity;

  constructor(private readonly parts: JobRunnerParts) {
    this.#work = new PeriodicWork(parts, [(signal) => this.#look(signal)]);
  }

  get running(): ReadonlyMap<string, RunningJob<Facts>> {
    return this.#running;
  }

  /** Searches for work at once. */
  wake(): void {
    this.#work.wake();
  }

  /** Runs a job whose lease this runner has just taken. `run` does not reject. */
  start(id: string, facts: Facts, run: (signal: AbortSignal) => Promise<void>): void {
    const over = new AbortController();
    this.#running.set(id, { facts, cancel: (reason) => over.abort(reason) });
    const ended = run(over.signal).finally(() => {
      this.#running.delete(id);
      this.#ends.delete(id);
      this.wake();
    });
    this.#ends.set(id, ended);
  }

  /** Starts nothing more, cancels what runs, and waits for its end. */
  async close(reason: unknown): Promise<void> {
    await this.#work.close(reason);
    for (const { cancel } of this.#running.values()) cancel(reason);
    await Promise.all(this.#ends.values());
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { clock, steps } = this.parts;
    if (clock.monotonicMs() >= this.#renewAtMs) {
      if (this.#running.size > 0) await steps.renew(clock.nowMs() + JOB_LEASE_MS);
      await steps.recover?.();
      this.#renewAtMs = clock.monotonicMs() + RENEW_MS;
    }

    await steps.look?.();
    while (!signal.aborted && await steps.startNext());
  }
}
