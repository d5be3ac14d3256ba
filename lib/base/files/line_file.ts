/**
 * A line file: it only grows, and what is in it stays intact whatever happens to the process or the disk.
 *
 * A line that was cut short by a kill, a full disk or a power loss stays in the file as a line of its own; the next
 * line starts after it. Only the last line of a file can be cut short.
 */

import type { AppendFile, LogFiles } from "./files.ts";

const ENCODER = new TextEncoder();

export class LineFile {
  #file?: AppendFile;
  #sizeBytes = 0;

  /** Does not touch the file: the first `append` opens it, and creates it if it is missing. */
  constructor(private readonly host: LogFiles, readonly path: string) {}

  /** Size as of the last `append`; 0 unless it is a regular file. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Appends lines; the last one gets a newline too. If it throws, a part of them may have been written. */
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

  /**
   * Notices what others have done to the file, such as logrotate: after a move or a removal the next `append` makes a
   * new one.
   */
  look(): void {
    if (!this.#file?.regular) return;
    const sizeBytes = this.#file.look();
    if (sizeBytes === undefined) this.close();
    else this.#sizeBytes = sizeBytes;
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  /** Returns the newline that ends a line cut short, or nothing. */
  #open(): string {
    this.#file = this.host.openAppend(this.path);
    this.#sizeBytes = this.#file.regular ? this.#file.sizeBytes : 0;
    return this.#file.endsLine ? "" : "\n";
  }
}
