/**
 * One movement at a time: a newer command takes over from the one that runs, and a caller who goes away stops what
 * it started.
 *
 * `Operation` owns who moves a device now. It promises that two movements never overlap: the older one has ended
 * before the newer one begins.
 */

import { joined, SvcError } from "../base/error.ts";

export class Operation {
  readonly #takenOver = new SvcError("canceled", "a newer command took over");
  #current?: AbortController;
  #ended: Promise<void> = Promise.resolve();

  /** `halt` brings the device to rest; it must not go through this operation. */
  constructor(private readonly halt: () => Promise<void>) {}

  /** Whether a movement is under way. */
  get running(): boolean {
    return this.#current !== undefined;
  }

  /**
   * Takes over: interrupts what runs, waits for its end, then does `work`. Resolves to `true` when the work is
   * done and to `false` when a newer command took over, which is no error.
   *
   * The device is halted when `caller` aborts (then this rejects with its reason) and when the work fails; not
   * when a newer command takes over, since that one decides. `work` heeds its signal and never calls `run`.
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

  /** Interrupts what runs and halts the device, whether or not anybody still waits for it. */
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
