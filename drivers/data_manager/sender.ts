/**
 * Sends the spool's data to the control plane, several files at the same time, because the way there may be long. The
 * data of one source arrive in the order of capture, except pictures.
 *
 * A file leaves the spool once the control plane acknowledges it. While the control plane is away, the sender
 * retries the same file after growing pauses. A file that the control plane refuses for good is set aside, and one that
 * fails for a reason that may be its own is tried again after the others, so that the others get through.
 */

import { type BackoffLimits, requestPauseMs, unevenMs } from "../../lib/base/async/backoff.ts";
import { type Clock, deadline, race } from "../../lib/base/clock.ts";
import { type Code, messageOf, SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import type { Captured, Uploader } from "../../lib/resource/uploader.ts";
import type { Spool } from "./spool.ts";

const RETRY: BackoffLimits = { firstMs: 1_000, mostMs: 60_000, jitter: 0.3 };
/** Time limit for sending one file; it grows with the file's size. */
const SEND_MS = 30_000;
const SLOWEST_BYTES_PER_MS = 32;
/** Error codes after which the control plane would refuse the same data again. */
const REFUSALS: readonly Code[] = [
  "invalid_argument",
  "not_found",
  "failed_precondition",
  "already_exists",
  "out_of_range",
  "unimplemented",
];

/** Error codes that say nothing about the data. */
const OUTAGES: readonly Code[] = ["unavailable", "unauthenticated", "permission_denied", "canceled"];
/** A round ends after this many files in a row that fail for reasons that may be their own. */
const FAILED_MAX = 3;

/** Files under way at the same time, and their bytes together, unless one file alone has more. */
const OPEN_MAX = 8;
const OPEN_BYTES_MAX = 32 * 1024 * 1024;

export interface SenderParts {
  readonly spool: Spool;
  readonly uploader: Uploader;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Interval between two rounds; if absent, the sender sends only on request. */
  readonly intervalMs?: number;
  /** Whether a round at its interval may begin now; one on request always may. Never rejects. */
  readonly allowed: (signal: AbortSignal) => Promise<boolean>;
  /** Puts further files into the spool before each round. */
  readonly collect: () => Promise<void>;
}

export class Sender {
  readonly #closing = new AbortController();
  readonly #working: Promise<void>;
  #round: Promise<void> | undefined;
  #lastMs: number | undefined;
  #failure: string | undefined;

  constructor(private readonly parts: SenderParts) {
    this.#working = parts.intervalMs === undefined ? Promise.resolve() : this.#work(parts.intervalMs);
  }

  /** The time of the last complete round, and the reason if the newest round was not complete. */
  get status(): { lastMs?: number; failure?: string } {
    return { lastMs: this.#lastMs, failure: this.#failure };
  }

  /** Sends all data that is there now. Throws the reason if it cannot. */
  async sync(signal?: AbortSignal): Promise<void> {
    const sending = (async () => {
      // A round under way may have begun before the newest data arrived.
      await this.#round?.catch(() => {});
      await this.#begin();
    })();
    await (signal ? race(sending, signal) : sending);
  }

  async close(): Promise<void> {
    this.#closing.abort(new SvcError("canceled", "the data manager closes"));
    await this.#working;
    await this.#round?.catch(() => {});
  }

  async #work(intervalMs: number): Promise<void> {
    const { clock, allowed } = this.parts;
    const { signal } = this.#closing;
    for (let pauseMs = unevenMs(intervalMs), failures = 0; !signal.aborted;) {
      await clock.sleep(pauseMs, signal).catch(() => {});
      if (signal.aborted) return;
      pauseMs = unevenMs(intervalMs);
      if (!await allowed(signal) || signal.aborted) {
        failures = 0;
        continue;
      }
      try {
        await this.#begin();
        failures = 0;
      } catch (error) {
        pauseMs = requestPauseMs(RETRY, ++failures, error);
      }
    }
  }

  #begin(): Promise<void> {
    return this.#round ??= this.#send().finally(() => this.#round = undefined);
  }

  async #send(): Promise<void> {
    const { spool, clock, logger, collect } = this.parts;
    this.#closing.signal.throwIfAborted();
    try {
      await collect();
      await spool.seal();
      await this.#handAll();
    } catch (error) {
      const failure = messageOf(error);
      if (failure !== this.#failure && !this.#closing.signal.aborted) {
        logger.warn(`captured data does not reach the cloud: ${failure}`, { waiting: spool.counts.waiting });
      }
      this.#failure = failure;
      throw error;
    }
    if (this.#failure !== undefined) logger.info("captured data reaches the cloud again");
    this.#failure = undefined;
    this.#lastMs = clock.nowMs();
  }

  /**
   * The first file goes alone: it shows whether the control plane is there. A file that fails is held until the end of the
   * round, so that later ones of its source wait for it, and others do not.
   */
  async #handAll(): Promise<void> {
    const failed = new Map<number, { readonly hasFailed: boolean }>();
    try {
      await this.#handEach(failed);
    } finally {
      for (const [number, how] of failed) this.parts.spool.release(number, how);
    }
  }

  async #handEach(failed: Map<number, { readonly hasFailed: boolean }>): Promise<void> {
    const { spool } = this.parts;
    const open = new Set<Promise<void>>();
    const failures: unknown[] = [];
    let [openBytes, most, failedInRow] = [0, 1, 0];
    const fail = (error: unknown, number?: number, kind?: Captured["kind"]) => {
      failures.push(error);
      const { code } = SvcError.from(error);
      // A key that may upload data may be one that must not make sequences.
      const isOwn = kind === "sequence" && code === "permission_denied";
      const isOutage = number === undefined || !isOwn && OUTAGES.includes(code);
      failedInRow += isOutage ? FAILED_MAX : 1;
      if (number !== undefined) failed.set(number, { hasFailed: !isOutage });
    };
    for (;;) {
      const room = open.size === 0 ? Infinity : OPEN_BYTES_MAX - openBytes;
      const mayOpen = open.size < most && failedInRow < FAILED_MAX;
      const next = mayOpen ? await spool.next(room).catch((error) => fail(error)) : undefined;
      if (next) {
        const { number, bytes, data } = next;
        openBytes += bytes;
        const handing = this.#hand(number, data).then(
          () => void ([failedInRow, most] = [0, OPEN_MAX]),
          (error) => fail(error, number, data.kind),
        ).finally(() => {
          open.delete(handing);
          openBytes -= bytes;
        });
        open.add(handing);
      } else if (open.size > 0) {
        await Promise.race(open);
      } else if (failures.length > 0) {
        throw failures[0];
      } else {
        return;
      }
    }
  }

  async #hand(number: number, data: Captured): Promise<void> {
    const { spool, uploader, clock, logger } = this.parts;
    const bytes = data.kind === "file" ? data.content.length : 0;
    const limitMs = SEND_MS + bytes / SLOWEST_BYTES_PER_MS;
    const late = () =>
      new SvcError("deadline_exceeded", `cannot hand over captured data: no answer within ${limitMs} ms`);
    const { signal, done } = deadline(clock, limitMs, late, this.#closing.signal);
    try {
      await race(uploader.send(data, signal), signal);
      spool.done(number);
    } catch (thrown) {
      const error = SvcError.from(thrown);
      if (!REFUSALS.includes(error.code)) throw error;
      const { componentName, methodName } = data.source;
      logger.error(`the cloud refuses captured data of ${componentName || "files"}: ${error.message}`, {
        method: methodName,
      });
      spool.refuse(number);
    } finally {
      done();
    }
  }
}
