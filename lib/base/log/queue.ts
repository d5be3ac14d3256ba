/**
 * The queue of log entries to the cloud: it survives being offline, and the end of the process.
 *
 * The journal has every entry before the call that logs it returns. The queue sends one batch at a time, in order. It
 * sends unacknowledged entries again, after a growing pause, and so does the next process. So each entry arrives at
 * least once, with an `id` by which the receiver drops repeats; after its acknowledgement is recorded it is not sent
 * again. The queue is bounded: it drops the oldest entries, and a warning among the entries says how many.
 *
 * A failing disk costs no entry while the process lives: entries wait in memory until the disk works again.
 */

import { type BackoffLimits, backoffMs } from "../async/backoff.ts";
import { type Clock, deadline, race } from "../clock.ts";
import { messageOf, SvcError } from "../error.ts";
import type { Logger, LogRecord, Sink } from "./log.ts";
import { type JournalHost, LogJournal, type Recovered, type StoredLog } from "./journal.ts";
import { formatFields } from "./line.ts";

export type QueuedLog = Omit<StoredLog, "number">;

export interface QueueLimits {
  /** Limit of waiting entries. */
  readonly entries: number;
  /** Limit of their size, approximately: in memory; on disk the same and up to two segments more. */
  readonly bytes: number;
  readonly segmentBytes: number;
  /** Longer messages are cut, longer fields left out. */
  readonly entryChars: number;
  readonly batchEntries: number;
  readonly batchBytes: number;
}

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
/** The pause after a failure; each consecutive failure doubles it. */
const RETRY: BackoffLimits = { firstMs: 1_000, mostMs: 30_000, jitter: 0.3 };
/** Time limits of the last delivery: for all of it, and for one batch. */
const EXIT_MS = 10_000;
const EXIT_SEND_MS = 1_500;
/** Pause after a disk error. */
const DISK_RETRY_MS = 1_000;
/** Distinct failures that are reported until a batch arrives. */
const FAILURES_LOGGED = 10;
/** Approximate size of an entry besides its texts. */
const ENTRY_BYTES = 150;

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

/** An entry and its size for the limit. */
interface Waiting {
  readonly entry: StoredLog;
  readonly bytes: number;
}

export class LogQueue {
  readonly #journal?: LogJournal;
  readonly #limits: QueueLimits;
  /** In order; the first `#underWay` of them are being sent. */
  readonly #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #underWay = 0;
  /** Makes the ids of this process's entries unique. */
  readonly #run = crypto.randomUUID().slice(0, 8);
  #next: number;
  /** Entries up to this number are delivered or given up. */
  #acked: number;
  /** Entries up to this number are in the journal. */
  #journaled: number;
  /** Dropped entries that no warning has counted yet. */
  #lost: number;
  #diskFailing = false;
  #diskRetryAtMs = -Infinity;
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
    this.#limits = { ...LIMITS, ...parts.limits };
    this.#journal = journal;
    this.#acked = acked;
    this.#next = next;
    this.#journaled = next - 1;
    this.#lost = next - 1 - acked - entries.length;
    for (const entry of entries) this.#add({ entry, bytes: sizeOf(entry, JSON.stringify(entry.fields)) });
    this.#delivering = this.#deliver();
  }

  readonly sink: Sink = (record) => {
    if (this.#closed || record.logger === this.parts.logger.name) return;
    this.#queue(record);
    this.#save();
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
    this.#diskRetryAtMs = -Infinity;

    this.#save();
    this.#journal?.close();
    if (this.#waiting.length > 0) {
      logger.warn("logs for the cloud are left for the next start", { waiting: this.#waiting.length });
    }
  }

  #queue({ message, fields, ...rest }: LogRecord): void {
    const number = this.#next++;
    const { entryChars } = this.#limits;
    const fieldsText = formatFields(fields);
    const entry = {
      number,
      id: `${this.#run}-${number}`,
      ...rest,
      message: message.length <= entryChars
        ? message
        : `${message.slice(0, entryChars)}… (cut, it has ${message.length} characters)`,
      fields: fieldsText.length <= entryChars
        ? JSON.parse(fieldsText)
        : { fields: `left out, they have ${fieldsText.length} characters` },
    };
    this.#add({ entry, bytes: sizeOf(entry, fieldsText.slice(0, entryChars)) });
  }

  /** Drops some of the oldest entries when there are too many, but none that is being sent, and not this one. */
  #add(one: Waiting): void {
    const { entries, bytes } = this.#limits;
    this.#waiting.push(one);
    this.#waitingBytes += one.bytes;
    const tooMany = () => this.#waiting.length > entries || this.#waitingBytes > bytes;
    while (tooMany() && this.#waiting.length > this.#underWay + 1) {
      // Removing from the front moves the rest: not for each entry.
      const some = Math.min(Math.ceil(entries / 100), this.#waiting.length - this.#underWay - 1);
      for (const dropped of this.#waiting.splice(this.#underWay, some)) {
        this.#waitingBytes -= dropped.bytes;
        this.#lost++;
      }
    }
  }

  /** Brings the journal up to date. */
  #save(): void {
    const { clock, logger } = this.parts;
    if (!this.#journal || clock.monotonicMs() < this.#diskRetryAtMs) return;

    let fresh = this.#waiting.length;
    while (fresh > 0 && this.#waiting[fresh - 1].entry.number > this.#journaled) fresh--;

    try {
      this.#journal.write(this.#waiting.slice(fresh).map(({ entry }) => entry), this.#acked);
      this.#journaled = this.#next - 1;
      this.#journal.trim(this.#waiting[0]?.entry.number ?? this.#next);
      if (this.#diskFailing) logger.info("logs for the cloud are written to disk again");
      this.#diskFailing = false;
    } catch (error) {
      if (!this.#diskFailing) {
        logger.warn(`logs for the cloud wait in memory for the disk: ${messageOf(error)}`);
      }
      this.#diskFailing = true;
      this.#diskRetryAtMs = clock.monotonicMs() + DISK_RETRY_MS;
    }
  }

  async #deliver(): Promise<void> {
    let failures = 0;
    for (;;) {
      if (this.#waiting.length === 0) {
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
        this.#save();
        if (this.#closing.signal.aborted) return;
        await this.#pause(backoffMs(RETRY, ++failures, this.parts.random));
      }
    }
  }

  async #collect(): Promise<void> {
    const { clock, collectMs = COLLECT_MS } = this.parts;
    const endMs = clock.monotonicMs() + collectMs;
    while (!this.#isUrgent && this.#waiting.length < this.#limits.batchEntries) {
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
    const batch = this.#nextBatch();
    const limitMs = this.#closing.signal.aborted ? EXIT_SEND_MS : SEND_MS;
    const late = () =>
      new SvcError("deadline_exceeded", `cannot deliver logs: no answer within ${limitMs} ms`);
    const { signal, done } = deadline(clock, limitMs, late, this.#givenUp.signal);
    this.#underWay = batch.length;

    try {
      await race((async () => await send(batch, signal))(), signal);
    } finally {
      done();
      this.#underWay = 0;
    }

    for (const { bytes } of this.#waiting.splice(0, batch.length)) this.#waitingBytes -= bytes;
    this.#acked = (this.#waiting[0]?.entry.number ?? this.#next) - 1;
    if (this.#lost > 0) this.#queueOverflow();
    this.#save();
    if (this.#reported.size > 0) logger.info("logs reach the cloud again");
    this.#reported.clear();
  }

  #nextBatch(): QueuedLog[] {
    const { batchEntries, batchBytes } = this.#limits;
    const batch: QueuedLog[] = [];
    let sum = 0;
    for (const { entry: { number: _own, ...log }, bytes } of this.#waiting) {
      sum += bytes;
      if (batch.length >= batchEntries || batch.length > 0 && sum > batchBytes) break;
      batch.push(log);
    }
    return batch;
  }

  #queueOverflow(): void {
    const message = `Overflowed ${this.#lost} logs while offline. The oldest ones were dropped.`;
    this.#lost = 0;
    const { clock, logger } = this.parts;
    this.#queue({ timeMs: clock.nowMs(), level: "warn", logger: logger.name, message, fields: {} });
  }

  /** Reports each failure once, until a batch arrives. */
  #tell(failure: string): void {
    if (this.#reported.has(failure) || this.#reported.size >= FAILURES_LOGGED) return;
    this.#reported.add(failure);
    this.parts.logger.warn(`logs do not reach the cloud: ${failure}`, { waiting: this.#waiting.length });
  }
}

function sizeOf({ message, logger }: StoredLog, fields: string): number {
  return ENTRY_BYTES + message.length + logger.length + fields.length;
}
