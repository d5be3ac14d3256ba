/**
 * The files of captures of one format in a folder: the newest one grows until it is full, the oldest ones are removed.
 *
 * No failure of a disk reaches the rest of the program.
 */

import type { AppendFile, LogFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";

export interface CaptureFilesParts {
  readonly folder: string;
  /** The end of the names: `.jsonl.gz`. */
  readonly suffix: string;
  readonly fileBytes: number;
  readonly files: number;
  readonly host: LogFiles;
  readonly clock: Clock;
  /** Left out, failures are not logged. */
  readonly logger?: Logger;
}

export class CaptureFiles {
  #file: AppendFile | undefined;
  #fileBytes = 0;
  #failing = false;
  readonly #names: string[];

  /** `names`: the files of the folder, oldest first. */
  constructor(private readonly parts: CaptureFilesParts, names: readonly string[]) {
    this.#names = names.filter((name) => name.endsWith(parts.suffix));
  }

  /** Whether the next block may continue a file. */
  get isOpen(): boolean {
    return this.#file !== undefined;
  }

  /** Whether the file has room for a block. */
  fits(block: Uint8Array): boolean {
    return this.#fileBytes + block.length <= this.parts.fileBytes;
  }

  /** Appends a block, or reports once why it cannot; never throws. */
  write(block: Uint8Array): void {
    const { logger, folder } = this.parts;
    if (!this.fits(block)) this.close();
    const fresh = this.#file === undefined ? this.#nextName() : undefined;
    try {
      this.#file ??= this.parts.host.openAppend(`${folder}/${fresh}`);
      this.#file.append(block);
    } catch (error) {
      // A partial write is a torn block, so the next block starts a new file.
      this.close();
      // A disk that stays full for days must not push out the good files.
      if (fresh !== undefined) this.#remove(fresh);
      if (!this.#failing) {
        logger?.warn(`everything works, but no diagnostics are kept: ${messageOf(error)}`);
      }
      this.#failing = true;
      return;
    }

    if (this.#failing) logger?.info(`diagnostics are kept again in "${folder}"`);
    this.#failing = false;
    this.#fileBytes += block.length;
    if (fresh !== undefined) this.#names.push(fresh);
    while (this.#names.length > this.parts.files) this.#remove(this.#names.shift()!);
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
    this.#fileBytes = 0;
  }

  /** Names start with a number, because the system's time may jump. */
  #nextName(): string {
    const last = Number.parseInt(this.#names.at(-1) ?? "0");
    const time = new Date(this.parts.clock.nowMs()).toISOString().replaceAll(":", "-");
    return `${String((last || 0) + 1).padStart(6, "0")}-${time}${this.parts.suffix}`;
  }

  /** A file that cannot be removed stays. */
  #remove(name: string): void {
    try {
      this.parts.host.removeFile(`${this.parts.folder}/${name}`);
    } catch (error) {
      this.parts.logger?.debug(`cannot remove an old capture: ${messageOf(error)}`);
    }
  }
}
