/**
 * A module's standard output and standard error, as lines of the log.
 *
 * A module that writes without end costs the machine little: per second and stream, a limited number of lines is logged
 * and a limited amount is read. The rest stays in the pipe and blocks the module.
 */

import type { Clock } from "../../base/clock.ts";
import type { Level, Logger } from "../../base/log/log.ts";
import type { RunningProcess } from "../../base/process.ts";
import { counted } from "../../base/log/counted.ts";

const WINDOW_MS = 1_000;
/** Limit of logged lines of a stream in a window; further ones are only counted. */
const LOGGED_MAX = 200;
/** Limit of characters read from a stream in a window. */
const READ_CHARS_MAX = 1024 * 1024;
/** Counted with each line, as a line costs time, too, when it is empty. */
const LINE_CHARS = 64;
const LAST_CHARS = 300;
/** Time for the rest of the output after the end of the process. */
const DRAIN_MS = 1_000;

// deno-lint-ignore no-control-regex
const COLOURS = /\x1b\[[0-9;:]*[A-Za-z]/g;
/** The time that loggers write before a line; the log has its own. */
const TIME = /^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?[\s:|-]*(?=\S)/;

export class ModuleOutput {
  /** The last line of its standard error, which usually says why it ended. */
  lastError: string | undefined;
  readonly #listening: Promise<unknown>;

  /** `errorLevel`: level of the lines of standard error. */
  constructor(
    process: RunningProcess,
    logger: Logger,
    private readonly clock: Clock,
    errorLevel: Level = "error",
  ) {
    const [out, error] = [logger.child("StdOut"), logger.child("StdErr")];
    this.#listening = Promise.all([
      this.#hear(process.stdout, out, (line) => out.info(line)),
      this.#hear(process.stderr, error, (line) => {
        this.lastError = line.slice(0, LAST_CHARS);
        error[errorLevel](line);
      }),
    ]);
  }

  /**
   * Waits for the rest in the pipes. The wait is limited, because a process that outlived its parent may keep them
   * open.
   */
  async drained(): Promise<void> {
    const over = new AbortController();
    await Promise.race([this.#listening, this.clock.sleep(DRAIN_MS, over.signal).catch(() => {})]);
    over.abort();
  }

  async #hear(lines: AsyncIterable<string>, logger: Logger, write: (line: string) => void): Promise<void> {
    let endMs = 0, logged = 0, chars = 0;
    const tell = () => {
      if (logged > LOGGED_MAX) logger.warn(`dropped ${counted(logged - LOGGED_MAX, "line")} within a second`);
    };
    for await (const line of lines) {
      const nowMs = this.clock.monotonicMs();
      if (nowMs >= endMs) {
        tell();
        [endMs, logged, chars] = [nowMs + WINDOW_MS, 0, 0];
      }
      chars += LINE_CHARS + line.length;
      if (line.trim() !== "" && ++logged <= LOGGED_MAX) write(plain(line));
      if (chars > READ_CHARS_MAX) await this.clock.sleep(endMs - nowMs);
    }

    tell();
  }
}

/** A line without colours, and without a time of its own. */
function plain(line: string): string {
  return line.replaceAll(COLOURS, "").replace(TIME, "").trimEnd();
}
