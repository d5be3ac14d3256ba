/**
 * Brings a journal up to date with a buffer, and pauses after an error of the disk.
 */

import type { Clock } from "../clock.ts";
import { messageOf } from "../error.ts";
import type { LogBuffer } from "./buffer.ts";
import type { LogJournal } from "./journal.ts";
import type { Logger } from "./log.ts";

/** Pause after a disk error. */
const DISK_RETRY_MS = 1_000;

export interface JournalWriterParts {
  /** Without one, entries are kept in memory only. */
  readonly journal?: LogJournal;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class JournalWriter {
  /** Entries up to this number are in the journal. */
  #journaled: number;
  #isFailing = false;
  #retryAtMs = -Infinity;

  constructor(private readonly parts: JournalWriterParts, private readonly buffer: LogBuffer) {
    this.#journaled = buffer.next - 1;
  }

  /** Writes what is new, unless the disk has just failed. Entries up to `acked` are delivered or given up. */
  save(acked: number): void {
    const { journal, clock, logger } = this.parts;
    if (!journal || clock.monotonicMs() < this.#retryAtMs) return;

    try {
      journal.write(this.buffer.after(this.#journaled), acked);
      this.#journaled = this.buffer.next - 1;
      journal.trim(this.buffer.first);
      if (this.#isFailing) logger.info("logs for the cloud are written to disk again");
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) {
        logger.warn(`logs for the cloud wait in memory for the disk: ${messageOf(error)}`);
      }
      this.#isFailing = true;
      this.#retryAtMs = clock.monotonicMs() + DISK_RETRY_MS;
    }
  }

  /** Writes for the last time, whatever the disk did before. */
  close(acked: number): void {
    this.#retryAtMs = -Infinity;
    this.save(acked);
    this.parts.journal?.close();
  }
}
