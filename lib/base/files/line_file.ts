/**
 * A file of lines that only grows: what is in it stays whole whatever happens to the process or the disk.
 *
 * A line that was cut short by a kill, a full disk or a power loss stays where it is as a line of its own; the next
 * one begins after it. Only the last line of a file can be cut short, those before it cannot.
 */

import type { AppendFile, LogFiles } from "./files.ts";

const ENCODER = new TextEncoder();

export class LineFile {
  #file?: AppendFile;
  #sizeBytes = 0;

  /** Does not touch the file: the first `append` opens it, and makes it where there is none. */
  constructor(private readonly host: LogFiles, readonly path: string) {}

  /** As of the last `append`; 0 for what is no regular file. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Adds lines; the last one ends with a newline too. Where it throws, part of them may be there. */
  append(lines: string): void {
    try {
      const mend = this.#file ? "" : this.#open();
      const bytes = ENCODER.encode(mend + lines);
      this.#file!.append(bytes);
      if (this.#file!.regular) this.#sizeBytes += bytes.length;
    } catch (error) {
      this.close();
      throw error;
    }
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  /** Returns what ends a line that was cut short. */
  #open(): string {
    this.#file = this.host.openAppend(this.path);
    this.#sizeBytes = this.#file.regular ? this.#file.sizeBytes : 0;
    return this.#file.endsLine ? "" : "\n";
  }
}
