/**
 * One movement at a time: a newer command takes over from the running command, and a caller who goes away
 * stops the movement it started.
 *
 * `Operation` owns the right to move a device. It promises that two movements never overlap: the older
 * movement has ended before the newer one begins.
 */

import { joined, SvcError } from "../base/error.ts";

/** The one motion of a component that runs: a new one ends the one before. */
export class Operation {
  readonly #takenOver = new SvcError("canceled", "a newer command took over");
  #current?: AbortController;
  #ended: Promise<void> = Promise.resolve();

  /** `halt` brings the device to rest; it must not go through this operation. */
  constructor(private readonly halt: () => Promise<void>) {}

  /** Whether a motion runs. */
  get running(): boolean {
    return this.#current !== undefined;
  }

  /**
   * Takes over: interrupts the running movement, waits for its end, then does `work`. Resolves to `true` when
   * the work is done and to `false` when a newer command took over, which is no error.
   *
   * Halts the device when `caller` aborts (then this rejects with the caller's reason) and when the work
   * fails, but not when a newer command takes over, because the newer command moves the device. `work` must
   * heed its signal and never call `run`.
   */
  async run(work: (signal: AbortSignal) => Promise<unknown>, caller?: AbortSignal): Promise<boolean> {
    this.#current?.abort(this.#takenOver);
    const before = this.#ended;
    const mine = this.#current = new AbortController();
    const { promise, resolve: end } = Promise.withResolvers<void>();
    this.#ended = promise;

    const gone = () => mine.abort(caller?.reason);
    caller?.addEventListener("abort", gone, { once: true });
    if (caller?.aborted) gone();

    try {
      await before;
      mine.signal.throwIfAborted();
      await work(mine.signal);
      return true;
    } catch (thrown) {
      if (mine.signal.reason === this.#takenOver && SvcError.from(thrown).code === "canceled") return false;
      if (work !== this.halt) await this.#haltAfter(thrown);
      throw thrown;
    } finally {
      caller?.removeEventListener("abort", gone);
      if (this.#current === mine) this.#current = undefined;
      end();
    }
  }

  /** Interrupts the running movement and halts the device, whether or not a caller still waits. */
  async stop(): Promise<void> {
    await this.run(this.halt);
  }

  async #haltAfter(failure: unknown): Promise<void> {
    try {
      await this.halt();
    } catch (second) {
      throw joined("a movement failed and the device could not be halted either", [failure, second]);
    }
  }
}
