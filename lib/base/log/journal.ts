/**
 * Log entries on disk until they are delivered: a folder of segments to which lines are appended.
 *
 * Each line is JSON: an entry, or `{"ack": n}`, which says that every entry up to number n is finished, or both. The
 * number of its first entry names a segment; the journal removes it once every entry in it is delivered or given up.
 * Numbers have no gaps, so missing entries can be counted.
 *
 * After `write` returns, the end of the process loses nothing; a power loss may take what the system has not written
 * yet. A line that was cut short counts as missing.
 */

import { SvcError } from "../error.ts";
import { LineFile } from "../files/line_file.ts";
import type { LogFiles, ReadFiles } from "../files/files.ts";
import type { Level } from "./log.ts";
import type { JsonObject } from "../schema/schema.ts";

export interface StoredLog {
  /** 1 for the folder's first entry. */
  readonly number: number;
  /** Unique; the same each time the entry is sent. */
  readonly id: string;
  readonly timeMs: number;
  readonly level: Level;
  readonly logger: string;
  readonly caller?: string;
  readonly message: string;
  readonly fields: JsonObject;
}

export interface Recovered {
  readonly journal: LogJournal;
  /** The entries above `acked`, in order. */
  readonly entries: StoredLog[];
  /** Every entry up to this number is delivered or given up. */
  readonly acked: number;
  /** The number of the next entry. */
  readonly next: number;
}

type Line = Partial<StoredLog> & { ack?: number };

export type JournalHost = ReadFiles & LogFiles;

const NAME = /^(\d{16})\.jsonl$/;

export class LogJournal {
  #file?: LineFile;
  #recordedAck = 0;

  /** `segments`: the numbers that name them, ascending. New lines go to the last one. */
  private constructor(
    private readonly host: JournalHost,
    private readonly folder: string,
    private readonly segmentBytes: number,
    private readonly segments: number[],
  ) {
    if (segments.length > 0) this.#file = new LineFile(host, this.#path(segments.at(-1)!));
  }

  /** Reads what earlier runs left in the folder; only one process may use it. Throws if it cannot be read. */
  static async open(host: JournalHost, folder: string, segmentBytes: number): Promise<Recovered> {
    const segments = (await namesIn(host, folder)).flatMap((name) =>
      NAME.exec(name)?.slice(1).map(Number) ?? []
    );
    const journal = new LogJournal(host, folder, segmentBytes, segments);
    const entries: StoredLog[] = [];
    let acked = 0;
    let last = 0;
    for (const segment of segments) {
      last = Math.max(last, segment - 1);
      for (const line of linesOf(await host.readFile(journal.#path(segment)))) {
        if (line.ack) acked = Math.max(acked, line.ack);
        // A write that failed halfway was repeated: its first lines are there twice.
        if (!line.number || line.number <= last) continue;
        last = line.number;
        entries.push(line as StoredLog);
      }
    }

    journal.#recordedAck = acked;
    const left = entries.filter(({ number }) => number > acked);
    return { journal, entries: left, acked, next: Math.max(last, acked) + 1 };
  }

  /**
   * Appends entries, and records that every entry up to `acked` is delivered or given up. If it throws, call it again.
   */
  write(entries: readonly StoredLog[], acked: number): void {
    const full = !this.#file || this.#file.sizeBytes >= this.segmentBytes;
    const [first] = entries;
    if (full && first) this.#begin(first.number);
    const lines: Line[] = [...entries];
    if (acked !== this.#recordedAck) lines.push({ ...lines.pop(), ack: acked });
    if (!this.#file || lines.length === 0) return;
    this.#file.append(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    this.#recordedAck = acked;
  }

  /** Removes the segments in which every entry has a number below `oldest`. */
  trim(oldest: number): void {
    for (;;) {
      const [first, second] = this.segments;
      if (first === undefined || second === undefined || second > oldest) return;
      try {
        this.host.removeFile(this.#path(first));
      } catch (error) {
        if (!isMissing(error)) throw error;
      }
      this.segments.shift();
    }
  }

  close(): void {
    this.#file?.close();
  }

  #begin(number: number): void {
    this.#file?.close();
    if (this.segments.at(-1) !== number) this.segments.push(number);
    this.#file = new LineFile(this.host, this.#path(number));
    // Each segment records how far delivery has come: the ones before it may be removed.
    this.#recordedAck = -1;
  }

  #path(segment: number): string {
    return `${this.folder}/${String(segment).padStart(16, "0")}.jsonl`;
  }
}

async function namesIn(host: JournalHost, folder: string): Promise<string[]> {
  try {
    return await host.readFolder(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

function linesOf(bytes: Uint8Array): Line[] {
  return new TextDecoder().decode(bytes).split("\n").flatMap((text) => {
    try {
      const line: Line | null = JSON.parse(text);
      return line !== null && typeof line === "object" ? [line] : [];
    } catch {
      return [];
    }
  });
}

function isMissing(error: unknown): boolean {
  return error instanceof SvcError && error.code === "not_found";
}
