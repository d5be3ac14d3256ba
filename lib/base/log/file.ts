/**
 * The log file: the lines of the console, in a limited number of files of limited size.
 *
 * The sink writes `<path>`. A full file becomes `<path>.1`, the former `<path>.1` becomes `<path>.2`, and so on; the
 * oldest is removed. Each step is one rename, so a process killed at any moment leaves intact files and the next
 * process continues. A file that others have moved or removed is made anew within a second. The system has every line before the call returns. Disk errors never reach the caller: the sink
 * reports the first one, passes the lines that it could not write to another sink, if it has one, and writes their
 * count into the file at the gap.
 */

import type { Clock } from "../clock.ts";
import { messageOf, SvcError } from "../error.ts";
import { LineFile } from "../files/line_file.ts";
import type { LogFiles } from "../files/files.ts";
import type { LogRecord, Sink } from "./log.ts";
import { formatLine } from "./line.ts";

/** A file of this size is full; it exceeds the size by one line at most. */
const LOG_FILE_BYTES = 10 * 1024 * 1024;
/** Full files that are kept beside the current one. */
const LOG_FILES_KEPT = 9;
/** Interval of the looks at what others, such as logrotate, have done to the file. */
const LOOK_MS = 1_000;
/** Pause after a disk error. */
const RETRY_MS = 1_000;

export interface LogFileParts {
  readonly host: LogFiles;
  readonly clock: Clock;
  readonly path: string;
  /** Called once when the file cannot be written or renamed, and once when it can again. */
  readonly report: (message: string) => void;
  /** Gets the lines that cannot be written into the file. Without it they are lost. */
  readonly instead?: { readonly sink: Sink; readonly name: string };
  readonly fileBytes?: number;
  readonly filesKept?: number;
}

export class LogFile {
  readonly #file: LineFile;
  readonly #fileBytes: number;
  readonly #filesKept: number;
  #missing = 0;
  #retryAtMs = -Infinity;
  #rotateAtMs = -Infinity;
  #lookAtMs = -Infinity;

  constructor(private readonly parts: LogFileParts) {
    this.#file = new LineFile(parts.host, parts.path);
    this.#fileBytes = parts.fileBytes ?? LOG_FILE_BYTES;
    this.#filesKept = parts.filesKept ?? LOG_FILES_KEPT;
  }

  readonly sink: Sink = (record) => {
    const { clock, report, path } = this.parts;
    if (clock.monotonicMs() < this.#retryAtMs) {
      this.#divert(record);
      return;
    }

    try {
      if (clock.monotonicMs() >= this.#lookAtMs) {
        this.#file.look();
        this.#lookAtMs = clock.monotonicMs() + LOOK_MS;
      }
      this.#file.append(this.#missingNote(record) + `${formatLine(record)}\n`);
    } catch (error) {
      if (this.#missing === 0) {
        report(`cannot write the log file, its lines ${this.#fate()}: ${messageOf(error)}`);
      }
      this.#retryAtMs = clock.monotonicMs() + RETRY_MS;
      this.#divert(record);
      return;
    }

    if (this.#missing > 0) {
      report(`the log file "${path}" is written again, ${this.#missing} lines are missing`);
    }
    this.#missing = 0;
    if (this.#file.sizeBytes >= this.#fileBytes) this.#rotate();
  };

  close(): void {
    this.#file.close();
  }

  #fate(): string {
    const { instead } = this.parts;
    return instead ? `go to ${instead.name}` : "are lost";
  }

  #divert(record: LogRecord): void {
    this.#missing++;
    this.parts.instead?.sink(record);
  }

  #missingNote({ timeMs }: LogRecord): string {
    if (this.#missing === 0) return "";
    const message = `${this.#missing} lines before this one could not be written`;
    return `${formatLine({ timeMs, level: "warn", logger: "rdk.log_file", message, fields: {} })}\n`;
  }

  /** If the rename fails, the file keeps growing: too long is better than not written. */
  #rotate(): void {
    const { clock, report, path } = this.parts;
    if (clock.monotonicMs() < this.#rotateAtMs) return;
    this.#file.close();
    try {
      // The next older file replaces the oldest. After a kill left a gap, only the files below the gap move up.
      for (let number = this.#filesKept; number > 0; number--) this.#move(number - 1, number);
      this.#rotateAtMs = -Infinity;
    } catch (error) {
      if (this.#rotateAtMs === -Infinity) {
        report(`the log file "${path}" cannot be rotated and grows: ${messageOf(error)}`);
      }
      this.#rotateAtMs = clock.monotonicMs() + RETRY_MS;
    }
  }

  #move(from: number, to: number): void {
    const name = (number: number) => number === 0 ? this.parts.path : `${this.parts.path}.${number}`;
    try {
      this.parts.host.moveFile(name(from), name(to));
    } catch (error) {
      if (!(error instanceof SvcError && error.code === "not_found")) throw error;
    }
  }
}
