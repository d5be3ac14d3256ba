/**
 * Cancellation of a call: what an `AbortController` does, at a tenth of its cost.
 *
 * Every call has a cancellation and hardly any call uses it, so an `AbortSignal` is created only on demand.
 */

import type { SvcError } from "../../base/error.ts";

type Reject = (reason: SvcError) => void;

export class Cancellation {
  #reason: SvcError | undefined;
  #settled = false;
  #controller: AbortController | undefined;
  /** Waits that a cancellation ends: hardly ever more than one. */
  #wait: Reject | undefined;
  #otherWaits: Set<Reject> | undefined;

  /** Why the call was canceled; `undefined` if it was not. */
  get reason(): SvcError | undefined {
    return this.#reason;
  }

  /** Aborts with `reason`. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#reason) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** The first reason counts. */
  cancel(reason: SvcError): void {
    if (this.#reason || this.#settled) return;
    this.#reason = reason;
    this.#wait?.(reason);
    for (const wait of this.#otherWaits ?? []) wait(reason);
    this.#controller?.abort(reason);
  }

  /** The call has ended: a later cancellation has no effect. */
  settle(): void {
    this.#settled = true;
  }

  throwIfCanceled(): void {
    if (this.#reason) throw this.#reason;
  }

  /** `work`, or a rejection with the reason as soon as there is one. */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#reason) reject(this.#reason);
      else if (this.#wait) (this.#otherWaits ??= new Set()).add(reject);
      else this.#wait = reject;
      const done = () => {
        if (this.#wait === reject) this.#wait = undefined;
        else this.#otherWaits?.delete(reject);
      };
      work.then((value) => {
        done();
        resolve(value);
      }, (error) => {
        done();
        reject(error);
      });
    });
  }
}
