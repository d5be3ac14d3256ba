/**
 * A module's standard output and standard error, as lines of the log.
 *
 * It promises that a module that writes without end costs the machine little: of each stream only so many lines a
 * second are logged, and so many read; the rest waits in the pipe, where the module waits with it.
 */

import type { Clock } from "../../base/clock.ts";
import type { Level, Logger } from "../../base/log/log.ts";
import type { RunningProcess } from "../../base/process.ts";

const WINDOW_MS = 1_000;
/** Lines of a stream that are logged in a window; further ones are counted. */
const LOGGED_MAX = 200;
/** Characters of a stream that are read in a window. */
const READ_CHARS_MAX = 1024 * 1024;
const LAST_CHARS = 300;
/** How long the rest of the output may take to come once the process has ended. */
const DRAIN_MS = 1_000;

export class ModuleOutput {
  /** What it last wrote to standard error: that mostly tells why it ended. */
  lastError: string | undefined;
  readonly #hearing: Promise<unknown>;

  /** `errorLevel`: of what it writes to standard error. */
  constructor(
    process: RunningProcess,
    logger: Logger,
    private readonly clock: Clock,
    errorLevel: Level = "error",
  ) {
    const [out, error] = [logger.child("StdOut"), logger.child("StdErr")];
    this.#hearing = Promise.all([
      this.#hear(process.stdout, out, (line) => out.info(line)),
      this.#hear(process.stderr, error, (line) => {
        this.lastError = line.slice(0, LAST_CHARS);
        error[errorLevel](line);
      }),
    ]);
  }

  /** Waits for what is still in the pipes; a process that outlived its parent may keep them open. */
  async drained(): Promise<void> {
    const over = new AbortController();
    await Promise.race([this.#hearing, this.clock.sleep(DRAIN_MS, over.signal).catch(() => {})]);
    over.abort();
  }

  async #hear(lines: AsyncIterable<string>, logger: Logger, write: (line: string) => void): Promise<void> {
    let endMs = 0, logged = 0, chars = 0;
    const tell = () => {
      if (logged > LOGGED_MAX) logger.warn(`${logged - LOGGED_MAX} lines within a second are left out`);
    };
    for await (const line of lines) {
      const nowMs = this.clock.monotonicMs();
      if (nowMs >= endMs) {
        tell();
        [endMs, logged, chars] = [nowMs + WINDOW_MS, 0, 0];
      }
      if (line.trim() === "") continue;
      chars += line.length;
      if (++logged <= LOGGED_MAX) write(line);
      if (chars > READ_CHARS_MAX) await this.clock.sleep(endMs - nowMs);
    }
    tell();
  }
}
