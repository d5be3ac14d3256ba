/**
 * The passes of a machine, one at a time: a change ends the pass under way and starts another one, and failed resources
 * are retried while nothing changes.
 *
 * The room owns a pass: the wanted resources, the graph of present ones, the plan between them and its steps.
 */

import type { Clock } from "../../../base/clock.ts";
import { chainOf, SvcError } from "../../../base/error.ts";

export interface PassesParts {
  /** Applies what is wanted now. */
  readonly pass: (overtaken: AbortSignal) => Promise<void>;
  /** Builds the failed resources once more. */
  readonly retry: (overtaken: AbortSignal) => Promise<void>;
  readonly hasFailed: () => boolean;
  readonly clock: Clock;
  readonly retryMs: number;
  /** Receives what must not happen. */
  readonly bug: (message: string) => void;
}

export class Passes {
  /** The passes under way, and whether the newest one is outdated already. */
  #running: Promise<void> | undefined;
  #outdated = false;
  #retrying = false;
  #closed = false;
  #overtaken = new AbortController();
  #callOffRetry: () => void = () => {};

  constructor(private readonly parts: PassesParts) {}

  /** Whether a change is being applied. A retry of failed resources does not count. */
  get busy(): boolean {
    return this.#outdated || (this.#running !== undefined && !this.#retrying);
  }

  /** Ends when no pass is under way; never rejects. */
  get running(): Promise<void> | undefined {
    return this.#running;
  }

  /** Begins another pass; resolves when none is outdated. */
  refresh(): Promise<void> {
    this.#outdated = true;
    this.#overtaken.abort(new SvcError("aborted", "another pass has begun"));
    return this.#running ??= this.#run();
  }

  /** Ends the pass under way, and begins no other. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#overtaken.abort(new SvcError("unavailable", "the machine is shutting down"));
    this.#callOffRetry();
    await this.#running;
  }

  /** Runs passes until none is outdated; the promise never rejects. */
  async #run(retry = false): Promise<void> {
    this.#callOffRetry();
    this.#overtaken = new AbortController();
    try {
      this.#retrying = retry;
      if (retry) await this.parts.retry(this.#overtaken.signal);
      this.#retrying = false;
      while (this.#outdated && !this.#closed) {
        this.#outdated = false;
        this.#overtaken = new AbortController();
        await this.parts.pass(this.#overtaken.signal);
      }
    } catch (error) {
      this.parts.bug(`a pass ended early: ${chainOf(error)}`);
    }

    this.#running = undefined;
    if (!this.parts.hasFailed() || this.#closed) return;
    const again = () => this.#running = this.#run(true);
    this.#callOffRetry = this.parts.clock.after(this.parts.retryMs, again);
  }
}
