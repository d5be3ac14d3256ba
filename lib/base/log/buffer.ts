/**
 * The buffer of log entries that wait for delivery: bounded, in order, with the oldest dropped first.
 */

import { formatFields } from "./line.ts";
import type { Recovered, StoredLog } from "./journal.ts";
import type { LogRecord } from "./log.ts";

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

/** Approximate size of an entry besides its texts. */
const ENTRY_BYTES = 150;

/** Batches are at most this much smaller on a slow line, or where they are refused: down to a single entry. */
const DIVISION_MAX = 128;

/** An entry and its size for the limit. */
interface Waiting {
  readonly entry: StoredLog;
  readonly bytes: number;
}

export class LogBuffer {
  /** In order; the first `#underWay` of them are being sent. */
  readonly #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #underWay = 0;
  #division = 1;
  /** Makes the ids of this process's entries unique. */
  readonly #run = crypto.randomUUID().slice(0, 8);
  #next: number;
  /** Dropped entries that nobody has asked for yet. */
  #lost: number;

  /** Begins with what an earlier process left. */
  constructor(
    private readonly limits: QueueLimits,
    { entries, acked, next }: Pick<Recovered, "entries" | "acked" | "next">,
  ) {
    this.#next = next;
    this.#lost = next - 1 - acked - entries.length;
    for (const entry of entries) this.#add({ entry, bytes: sizeOf(entry, JSON.stringify(entry.fields)) });
  }

  get size(): number {
    return this.#waiting.length;
  }

  /** Whether a batch would have as many entries as it may. */
  get hasWholeBatch(): boolean {
    return this.#waiting.length >= this.limits.batchEntries;
  }

  /** The number of the next entry. */
  get next(): number {
    return this.#next;
  }

  /** The number of the first entry that waits, or of the next one. */
  get first(): number {
    return this.#waiting[0]?.entry.number ?? this.#next;
  }

  add({ message, fields, ...rest }: LogRecord): void {
    const number = this.#next++;
    const { entryChars } = this.limits;
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

  /** The entries after this number, in order. */
  after(number: number): StoredLog[] {
    const last = this.#waiting.findLastIndex(({ entry }) => entry.number <= number);
    return this.#waiting.slice(last + 1).map(({ entry }) => entry);
  }

  /** By how much batches are smaller than they may be. */
  get division(): number {
    return this.#division;
  }

  /** A batch took too long, or was too much: the next ones are smaller. */
  halveBatches(): void {
    this.#division = Math.min(DIVISION_MAX, this.#division * 2);
  }

  /** Batches have room for more. */
  doubleBatches(): void {
    this.#division = Math.max(1, this.#division / 2);
  }

  /** The next batch; its entries are kept until `endBatch`. */
  beginBatch(): QueuedLog[] {
    const [batchEntries, batchBytes] = [
      this.limits.batchEntries / this.#division,
      this.limits.batchBytes / this.#division,
    ];
    const batch: QueuedLog[] = [];
    let sum = 0;
    for (const { entry: { number: _own, ...log }, bytes } of this.#waiting) {
      sum += bytes;
      if (batch.length > 0 && (batch.length >= batchEntries || sum > batchBytes)) break;
      batch.push(log);
    }
    this.#underWay = batch.length;
    return batch;
  }

  /** Removes the batch if it was delivered. */
  endBatch(isDelivered: boolean): void {
    const delivered = isDelivered ? this.#waiting.splice(0, this.#underWay) : [];
    for (const { bytes } of delivered) this.#waitingBytes -= bytes;
    this.#underWay = 0;
  }

  /** The number of entries dropped since the last call. */
  takeLost(): number {
    const lost = this.#lost;
    this.#lost = 0;
    return lost;
  }

  /** Drops some of the oldest entries when there are too many, but none that is being sent, and not this one. */
  #add(one: Waiting): void {
    const { entries, bytes } = this.limits;
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
}

function sizeOf({ message, logger }: StoredLog, fields: string): number {
  return ENTRY_BYTES + message.length + logger.length + fields.length;
}
