/**
 * The log of a running job: collects lines for a short time and writes them together.
 *
 * Writing a line never waits and never fails; while the database is away, lines are kept, up to a limit. `close`
 * resolves when every line that can be written has been.
 */

import type { Clock } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Store } from "../store/store.ts";
import type { LogLevel } from "../executors/executor.ts";
import { type NewLog, TrainingJobs } from "./training.ts";
import { counted } from "../../base/log/counted.ts";

const COLLECT_MS = 500;
/** Limit of the lines of one job. */
const LINES_MAX = 50_000;
/** Limit while they cannot be written. */
const HELD_MAX = 5_000;
const AT_ONCE = 500;

export class TrainingLog {
  #held: NewLog[] = [];
  #lines = 0;
  #dropped = 0;
  #cancel?: () => void;
  #writing?: Promise<void>;
  #closed = false;

  constructor(
    private readonly id: string,
    private readonly store: Store,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {}

  write(level: LogLevel, message: string): void {
    if (this.#closed || this.#lines > LINES_MAX) return;
    const atMs = this.clock.nowMs();
    if (this.#lines++ === LINES_MAX) {
      this.#held.push({
        atMs,
        level: "warn",
        message: `a job keeps at most ${LINES_MAX} lines`,
      });
    } else if (this.#held.length < HELD_MAX) this.#held.push({ atMs, level, message });
    else this.#dropped++;
    if (!this.#writing) this.#cancel ??= this.clock.after(COLLECT_MS, () => void this.#flush());
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#writing;
    await this.#flush();
  }

  #flush(): Promise<void> {
    this.#cancel?.();
    this.#cancel = undefined;
    return this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
      if (this.#held.length > 0 && !this.#closed) {
        this.#cancel = this.clock.after(COLLECT_MS, () => void this.#flush());
      }
    });
  }

  async #write(): Promise<void> {
    while (this.#held.length > 0) {
      if (this.#dropped > 0) {
        const message = `${
          counted(this.#dropped, "line is", "lines are")
        } missing here, the database was unavailable`;
        this.#held.push({ atMs: this.clock.nowMs(), level: "warn", message });
        this.#dropped = 0;
      }
      const some = this.#held.slice(0, AT_ONCE);
      try {
        await this.store.transaction((sql) => new TrainingJobs(sql).log(this.id, some));
      } catch (error) {
        return this.logger.warn(`cannot write the log of training job ${this.id}: ${chainOf(error)}`);
      }
      this.#held = this.#held.slice(some.length);
    }
  }
}
