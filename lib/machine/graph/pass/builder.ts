/**
 * The builder: constructs and closes instances, each within its time.
 *
 * It builds at most `parallel` instances at once, logs a progress line for each slow build, and closes an instance
 * that arrives too late or is no longer wanted. A build past its deadline holds no slot, even if it never ends.
 */

import { Semaphore } from "../../../base/async/semaphore.ts";
import { type Clock, deadline, race } from "../../../base/clock.ts";
import { chainOf, SvcError } from "../../../base/error.ts";
import type { Logger } from "../../../base/log/log.ts";
import { formatDuration } from "../../../base/schema/schema.ts";
import type { ResourceName } from "../../../resource/name.ts";
import type { Resource } from "../../../resource/resource.ts";

export interface BuildLimits {
  /** Builds at once. */
  readonly concurrentBuilds: number;
  readonly buildTimeoutMs: number;
  readonly closeTimeoutMs: number;
  /** How long the end waits for unfinished builds. */
  readonly lateTimeoutMs: number;
}

export const BUILD_LIMITS: BuildLimits = {
  concurrentBuilds: 10,
  buildTimeoutMs: 120_000,
  closeTimeoutMs: 30_000,
  lateTimeoutMs: 5_000,
};

/** A slow build is logged after 2 s, after 5 s, and every 5 s from then on. */
const SLOW_FIRST_MS = 2_000;
const SLOW_EVERY_MS = 5_000;

/** Variables that change `buildTimeoutMs`; the second name is the published one. */
export const BUILD_TIMEOUT_VARIABLES = [
  "SVC_RESOURCE_CONFIGURATION_TIMEOUT",
  "VIAM_RESOURCE_CONFIGURATION_TIMEOUT",
] as const;

export class Builder {
  readonly #limits: BuildLimits;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #builds: Semaphore;
  readonly #slowBuilds: Semaphore;
  /** Abandoned builds, and the closing of their late instances, for which only the end waits. */
  readonly #late = new Set<Promise<void>>();

  constructor(limits: BuildLimits, clock: Clock, logger: Logger) {
    this.#limits = limits;
    this.#clock = clock;
    this.#logger = logger;
    this.#builds = new Semaphore(limits.concurrentBuilds);
    this.#slowBuilds = new Semaphore(Math.max(1, Math.floor(limits.concurrentBuilds / 2)));
  }

  /**
   * Waits for a slot; call `leave` at the end. Builds that were `slow` at their last attempt get at most half of the
   * slots, so that the others need not wait for them, however many there are.
   */
  async enter(slow: boolean): Promise<void> {
    if (slow) await this.#slowBuilds.acquire();
    await this.#builds.acquire();
  }

  leave(slow: boolean): void {
    this.#builds.release();
    if (slow) this.#slowBuilds.release();
  }

  /** The instance that `construct` makes, unless `givenUp` aborts or its time ends first. */
  async make(
    name: ResourceName,
    construct: (signal: AbortSignal) => Resource | Promise<Resource>,
    givenUp: AbortSignal,
  ): Promise<Resource> {
    const { buildTimeoutMs } = this.#limits;
    const limit = formatDuration(buildTimeoutMs);
    const late = () => new SvcError("deadline_exceeded", `${name} was not built within ${limit}`);
    const { signal, done } = deadline(this.#clock, buildTimeoutMs, late, givenUp);
    const callOff = this.#tellIfSlow(name);
    const work = Promise.resolve().then(() => construct(signal));
    try {
      return await race(work, signal);
    } catch (error) {
      if (signal.aborted) this.discard(work);
      throw error;
    } finally {
      callOff();
      done();
    }
  }

  /** Closes the result of `work` whenever it arrives. */
  discard(work: Promise<Resource>): void {
    const ended: Promise<void> = work.then((instance) => this.close(instance), () => {})
      .finally(() => this.#late.delete(ended));
    this.#late.add(ended);
  }

  /** Closes an instance; logs a failure and goes on. */
  async close(instance: Resource): Promise<void> {
    const { closeTimeoutMs } = this.#limits;
    const limit = formatDuration(closeTimeoutMs);
    const late = () => new SvcError("deadline_exceeded", `it did not close within ${limit}`);
    const { signal, done } = deadline(this.#clock, closeTimeoutMs, late);
    this.#logger.debug(`closing ${instance.name}`);
    try {
      await race(Promise.resolve().then(() => instance.close()), signal);
      this.#logger.debug(`closed ${instance.name}`);
    } catch (error) {
      this.#logger.error(`cannot close ${instance.name}: ${chainOf(error)}`);
    } finally {
      done();
    }
  }

  /** Waits a while for abandoned builds. */
  async end(): Promise<void> {
    if (this.#late.size === 0) return;
    const late = () => new SvcError("deadline_exceeded", "abandoned builds are still running");
    const { signal, done } = deadline(this.#clock, this.#limits.lateTimeoutMs, late);
    try {
      await race(Promise.all(this.#late), signal);
    } catch (error) {
      this.#logger.warn(chainOf(error), { count: this.#late.size });
    } finally {
      done();
    }
  }

  #tellIfSlow(name: ResourceName): () => void {
    let elapsedMs = 0;
    let callOff = () => {};
    const tellAt = (atMs: number) => {
      callOff = this.#clock.after(atMs - elapsedMs, () => {
        elapsedMs = atMs;
        this.#logger.warn(`${name} is still being built after ${formatDuration(atMs)}`);
        tellAt(atMs === SLOW_FIRST_MS ? SLOW_EVERY_MS : atMs + SLOW_EVERY_MS);
      });
    };
    tellAt(SLOW_FIRST_MS);
    return () => callOff();
  }
}
