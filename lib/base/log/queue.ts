/**
 * The queue of log entries to the cloud: it survives being offline, and the end of the process.
 *
 * The journal has every entry before the call that logs it returns. The queue sends one batch at a time, in order. It
 * sends unacknowledged entries again, after a growing pause, and so does the next process. So each entry arrives at
 * least once, with an `id` by which the receiver drops repeats; after its acknowledgement is recorded it is not sent
 * again. The queue is bounded: it drops the oldest entries, and a warning among the entries says how many.
 *
 * A batch that is refused is divided, so that an entry which is refused alone is left out and keeps no others, and so that
 * batches fit through proxies with a limit.
 *
 * A failing disk costs no entry while the process lives: entries wait in memory until the disk works again.
 */

import { type BackoffLimits, requestPauseMs } from "../async/backoff.ts";
import { type Clock, deadline, race } from "../clock.ts";
import { type Code, messageOf, SvcError } from "../error.ts";
import type { Logger, Sink } from "./log.ts";
import { LogBuffer, type QueuedLog, type QueueLimits } from "./buffer.ts";
import { type JournalHost, LogJournal, type Recovered } from "./journal.ts";
import { JournalWriter } from "./journal_writer.ts";

/** The limits of the published runtime where it has them. */
const LIMITS: QueueLimits = {
  entries: 20_000,
  bytes: 8 * 1024 * 1024,
  segmentBytes: 512 * 1024,
  entryChars: 32 * 1024,
  batchEntries: 100,
  batchBytes: 1024 * 1024,
};

/** How long entries are collected for a batch, unless the caller wants another time. */
const COLLECT_MS = 100;
/** Interval of the checks whether a batch is full. */
const COLLECT_LOOK_MS = 1_000;
const SEND_MS = 4_000;
/** The same on a slow line, which gets smaller batches, too. */
const SLOW_SEND_MS = 32_000;
/** The pause after a failure; each consecutive failure doubles it. */
const RETRY: BackoffLimits = { firstMs: 1_000, mostMs: 30_000, jitter: 0.3 };
/** Time limits of the last delivery: for all of it, and for one batch. */
const EXIT_MS = 10_000;
const EXIT_SEND_MS = 1_500;
/** Distinct failures that are reported until a batch arrives. */
const FAILURES_LOGGED = 10;
/** Error codes that say that the entries themselves are not wanted. */
const REFUSALS: readonly Code[] = ["invalid_argument", "out_of_range"];
/** Error codes that smaller batches may not meet. */
const TOO_MUCH: readonly Code[] = ["deadline_exceeded", "resource_exhausted", ...REFUSALS];

export interface LogQueueParts {
  readonly host: JournalHost;
  readonly clock: Clock;
  /** The journal's folder; no other process uses it. */
  readonly folder: string;
  /** Delivers a batch; rejects if it was not, or not certainly, delivered. */
  readonly send: (batch: readonly QueuedLog[], signal: AbortSignal) => Promise<void>;
  /** Receives reports of trouble with the queue itself, which are not queued. */
  readonly logger: Logger;
  readonly limits?: Partial<QueueLimits>;
  /** For the pauses between tries. */
  readonly random?: () => number;
  /** How long entries are collected for a batch; a full batch, an error and the end do not wait. */
  readonly collectMs?: number;
}

export class LogQueue {
  readonly #buffer: LogBuffer;
  readonly #writer: JournalWriter;
  /** Entries up to this number are delivered or given up. */
  #acked: number;
  /** Failures reported since the last batch arrived. */
  readonly #reported = new Set<string>();
  /** An error waits. */
  #isUrgent = false;
  #somethingWaits = Promise.withResolvers<void>();
  readonly #closing = new AbortController();
  readonly #givenUp = new AbortController();
  #closed = false;
  readonly #delivering: Promise<void>;

  /** Loads what an earlier process left. If the journal cannot be read, reports it and works without one. */
  static async open(parts: LogQueueParts): Promise<LogQueue> {
    const { host, folder, logger, limits } = parts;
    const segmentBytes = limits?.segmentBytes ?? LIMITS.segmentBytes;
    try {
      return new LogQueue(parts, await LogJournal.open(host, folder, segmentBytes));
    } catch (error) {
      logger.warn(`logs for the cloud are kept in memory only: ${messageOf(error)}`);
      return new LogQueue(parts, { entries: [], acked: 0, next: 1 });
    }
  }

  private constructor(
    private readonly parts: LogQueueParts,
    { journal, entries, acked, next }: Omit<Recovered, "journal"> & { journal?: LogJournal },
  ) {
    const { clock, logger } = parts;
    this.#buffer = new LogBuffer({ ...LIMITS, ...parts.limits }, { entries, acked, next });
    this.#writer = new JournalWriter({ journal, clock, logger }, this.#buffer);
    this.#acked = acked;
    this.#delivering = this.#deliver();
  }

  readonly sink: Sink = (record) => {
    if (this.#closed || record.logger === this.parts.logger.name) return;
    this.#buffer.add(record);
    this.#writer.save(this.#acked);
    this.#isUrgent ||= record.level === "error";
    this.#somethingWaits.resolve();
  };

  /** Sends what waits, for a limited time; the next process sends the rest. */
  async close(): Promise<void> {
    if (this.#closed) return;
    const { clock, logger } = this.parts;
    this.#closing.abort();
    this.#somethingWaits.resolve();

    const late = new SvcError("deadline_exceeded", "cannot deliver the last logs: there is no more time");
    const stop = clock.after(EXIT_MS, () => this.#givenUp.abort(late));
    await this.#delivering;
    stop();
    this.#closed = true;
    this.#writer.close(this.#acked);
    if (this.#buffer.size > 0) {
      logger.warn("logs for the cloud are left for the next start", { waiting: this.#buffer.size });
    }
  }

  async #deliver(): Promise<void> {
    let failures = 0;
    for (;;) {
      if (this.#buffer.size === 0) {
        if (this.#closing.signal.aborted) return;
        await this.#somethingWaits.promise;
        this.#somethingWaits = Promise.withResolvers();
        continue;
      }
      await this.#collect();
      try {
        await this.#sendBatch();
        failures = 0;
      } catch (error) {
        this.#tell(messageOf(error));
        if (TOO_MUCH.includes(SvcError.from(error).code)) this.#buffer.halveBatches();
        this.#writer.save(this.#acked);
        if (this.#closing.signal.aborted) return;
        await this.#pause(requestPauseMs(RETRY, ++failures, error, this.parts.random));
      }
    }
  }

  async #collect(): Promise<void> {
    const { clock, collectMs = COLLECT_MS } = this.parts;
    const endMs = clock.monotonicMs() + collectMs;
    while (!this.#isUrgent && !this.#buffer.hasWholeBatch) {
      const leftMs = endMs - clock.monotonicMs();
      if (leftMs <= 0 || this.#closing.signal.aborted) break;
      await this.#pause(Math.min(leftMs, COLLECT_LOOK_MS));
    }
    this.#isUrgent = false;
  }

  /** Ends early when the queue closes. */
  async #pause(ms: number): Promise<void> {
    await this.parts.clock.sleep(ms, this.#closing.signal).catch(() => {});
  }

  async #sendBatch(): Promise<void> {
    const { clock, send, logger } = this.parts;
    const batch = this.#buffer.beginBatch();
    const slowMs = Math.min(SLOW_SEND_MS, SEND_MS * this.#buffer.division);
    const limitMs = this.#closing.signal.aborted ? EXIT_SEND_MS : slowMs;
    const late = () =>
      new SvcError("deadline_exceeded", `cannot deliver logs: no answer within ${limitMs} ms`);
    const { signal, done } = deadline(clock, limitMs, late, this.#givenUp.signal);
    const beganMs = clock.monotonicMs();
    let isDelivered = false;
    try {
      await race((async () => await send(batch, signal))(), signal);
      isDelivered = true;
    } catch (error) {
      const isLeftOut = batch.length === 1 && REFUSALS.includes(SvcError.from(error).code);
      if (!isLeftOut) throw error;
      logger.warn(`the cloud refuses an entry, which is left out: ${messageOf(error)}`);
      isDelivered = true;
    } finally {
      done();
      this.#buffer.endBatch(isDelivered);
    }

    // Twice the batch in half the time must be possible.
    if (clock.monotonicMs() - beganMs <= limitMs / 4) this.#buffer.doubleBatches();
    this.#acked = this.#buffer.first - 1;
    this.#warnOfLost();
    this.#writer.save(this.#acked);
    if (this.#reported.size > 0) logger.info("logs reach the cloud again");
    this.#reported.clear();
  }

  #warnOfLost(): void {
    const lost = this.#buffer.takeLost();
    if (lost === 0) return;
    const { clock, logger } = this.parts;
    const message = `Overflowed ${lost} logs while offline. The oldest ones were dropped.`;
    this.#buffer.add({ timeMs: clock.nowMs(), level: "warn", logger: logger.name, message, fields: {} });
  }

  /** Reports each failure once, until a batch arrives. */
  #tell(failure: string): void {
    if (this.#reported.has(failure) || this.#reported.size >= FAILURES_LOGGED) return;
    this.#reported.add(failure);
    this.parts.logger.warn(`logs do not reach the cloud: ${failure}`, { waiting: this.#buffer.size });
  }
}
