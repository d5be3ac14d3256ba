/** Work on the database and on stored files that outlasts a while in which they are away: hours of training hang on it. */

import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { backoffMs } from "../../base/async/backoff.ts";
import type { FileStore } from "../store/files.ts";

const AWAY_MS_MAX = 10 * 60_000;
const PAUSE = { firstMs: 500, mostMs: 15_000, jitter: 0.5 };

/** One outage: knows how long it has lasted. */
class Outage {
  #failures = 0;
  #sinceMs = 0;

  constructor(private readonly clock: Clock, private readonly signal: AbortSignal) {}

  /** Waits a moment, longer each time. Throws an error that does not pass, or the error of an outage that is too long. */
  async wait(thrown: unknown): Promise<void> {
    const nowMs = this.clock.monotonicMs();
    if (this.#failures === 0) this.#sinceMs = nowMs;
    const isOver = nowMs - this.#sinceMs >= AWAY_MS_MAX;
    if (SvcError.from(thrown).code !== "unavailable" || isOver) throw thrown;

    await this.clock.sleep(backoffMs(PAUSE, ++this.#failures), this.signal);
  }

  end(): void {
    this.#failures = 0;
  }
}

/** Repeats work that fails with `unavailable`, for at most ten minutes. */
export async function outlastOutages<T>(
  clock: Clock,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const outage = new Outage(clock, signal);
  for (;;) {
    try {
      return await work();
    } catch (error) {
      await outage.wait(error);
    }
  }
}

/** A stored content; goes on where it was when the store comes back within ten minutes. */
export async function* readThroughOutages(
  files: Pick<FileStore, "read">,
  sha256: string,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const outage = new Outage(clock, signal);
  for (let offset = 0;;) {
    try {
      for await (const piece of files.read(sha256, offset)) {
        outage.end();
        offset += piece.length;
        yield piece;
      }
      return;
    } catch (error) {
      await outage.wait(error);
    }
  }
}
