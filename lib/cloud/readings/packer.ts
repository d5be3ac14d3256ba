/**
 * Makes files of readings in a content process: decoding and packing thousands of contents takes too long for this one,
 * and strangers have written them. Without content processes it is done here.
 */

import { SvcError } from "../../base/error.ts";
import { CallerTurns } from "../../base/async/turns.ts";
import type { TurnCaller } from "../../base/async/fair_queue.ts";
import type { Clock } from "../../base/clock.ts";
import { type ContentOptions, type ContentProcess, withContent } from "../sandbox/content/process.ts";
import type { ReadingFileRequest } from "./file_requests.ts";
import {
  buildFile,
  type FileReading,
  type FileSummary,
  type FileTimes,
  fileWithout,
  type MadeFile,
} from "./reading_file.ts";

export interface Packing {
  /** A file with these readings, in the order of their cursors. */
  pack(readings: readonly FileReading[]): Promise<MadeFile>;
  /** The file without its readings of these times, or without the `oldest` ones of them. */
  without(content: Uint8Array, times: FileTimes, oldest?: number): Promise<MadeFile>;
}

/** The caller for what svc-cloud does by itself. */
export const OWN_PACKING: TurnCaller = ["svc-cloud"];

const TURNS = { turnsMax: 2, turnsOfGroupMax: 1, waiting: [64, 16, 8], what: "changes of files" } as const;
const TIME_MS = 60_000;
/** Limit of a file of readings. */
export const READING_FILE_BYTES_MAX = 256 * 1024 ** 2;

export class ReadingPacker {
  readonly #turns: CallerTurns;

  constructor(clock: Clock, private readonly content: ContentOptions | undefined) {
    this.#turns = new CallerTurns(TURNS, clock);
  }

  /** Runs `work` in its turn, within a limited time. */
  async run<T>(
    caller: TurnCaller,
    signal: AbortSignal,
    work: (packing: Packing, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const leave = await this.#turns.enter(caller, signal);
    try {
      if (!this.content) return await work({ pack: buildFile, without: fileWithout }, signal);
      return await withContent(this.content, TIME_MS, tooLong, signal, (process, signal) => {
        return work(packingIn(process, signal), signal);
      });
    } finally {
      leave();
    }
  }
}

function packingIn(process: ContentProcess, signal: AbortSignal): Packing {
  const made = async (request: ReadingFileRequest, body: readonly Uint8Array[]): Promise<MadeFile> => {
    const { head, bytes } = await process.ask(request, body, signal, READING_FILE_BYTES_MAX);
    return { ...head.summary as unknown as FileSummary, content: bytes };
  };
  return {
    pack: (readings) => {
      const facts = readings.map(({ payload, ...one }) => ({ ...one, bytes: payload.length }));
      const head = new TextEncoder().encode(JSON.stringify(facts));
      const body = [
        head,
        ...readings.map(({ payload }) => payload),
      ];
      const bytes = body.reduce((sum, { length }) => sum + length, 0);
      return made({ ask: "pack", facts: head.length, bytes }, body);
    },
    without: (content, times, oldest) =>
      made({ ask: "without", times, oldest, bytes: content.length }, [content]),
  };
}

function tooLong(): SvcError {
  return new SvcError("deadline_exceeded", `files of readings took more than ${TIME_MS / 1000} s`);
}
