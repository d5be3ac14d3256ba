/** A log as a page follows it: a bounded number of records, paused and filtered. */

const KEPT = 5000;
const RETRY_MS = 1500;
/**
 * Why a log is no longer followed. A text, because an error would keep the functions on its stack, and with them the
 * view, for as long as the library keeps the stream that it ended.
 */
const LEFT = "nobody looks at the log any more";

export const SHOWN_LEVELS = ["debug", "info", "warn", "error"] as const;
/** What modules may write above an error. */
const FATAL = ["dpanic", "panic", "fatal"];
export type ShownLevel = typeof SHOWN_LEVELS[number];

/** A record as its source gives it. */
export interface SourceRecord {
  readonly timeMs: number;
  readonly level: string;
  readonly logger: string;
  readonly message: string;
  /** As JSON; empty for none. */
  readonly fields: string;
  readonly caller: string;
  /** Who wrote it, where a log has several writers. */
  readonly origin?: string;
}

export interface SourceBatch {
  readonly records: readonly SourceRecord[];
  /** Records that the source could not keep up with. */
  readonly leftOut: number;
}

/** Where a log comes from. */
export interface LogSource {
  /** Its last records, oldest first and in one batch, then what follows. */
  follow(signal: AbortSignal): AsyncIterable<SourceBatch>;
  /** The records before those, oldest first; `undefined` if there are none. */
  older?(): Promise<readonly SourceRecord[] | undefined>;
  /** What went wrong, in words. */
  problemOf(error: unknown): string;
}

export interface ShownRecord extends Omit<SourceRecord, "level"> {
  readonly key: number;
  readonly level: ShownLevel;
  /** All of it in lower case, for filters. */
  readonly text: string;
}

export class LogRecords {
  records = $state.raw<readonly ShownRecord[]>([]);
  /** Records that came while it was paused. */
  waiting = $state(0);
  leftOut = $state(0);
  problem = $state<string>();
  paused = $state(false);
  /** Earlier records can be had, and are asked for. */
  hasOlder = $state(false);
  isAsking = $state(false);
  #source: LogSource | undefined;
  #held: ShownRecord[] = [];
  #key = 0;

  /** Follows the source for as long as the component lives; while there is none, it waits. For its beginning. */
  constructor(source: () => LogSource | undefined) {
    $effect(() => {
      const present = source();
      this.#source = present;
      if (!present) return;
      const over = new AbortController();
      void this.#follow(present, over.signal);
      return () => over.abort(LEFT);
    });
  }

  pause(paused: boolean): void {
    this.paused = paused;
    if (!paused) this.#show([]);
  }

  clear(): void {
    this.records = [];
    this.leftOut = 0;
    this.hasOlder = false;
  }

  /** Shows the records before the first one, as far as there is room. */
  async askOlder(): Promise<void> {
    const source = this.#source;
    if (!source?.older || this.isAsking) return;
    this.isAsking = true;
    try {
      const older = await source.older();
      if (source !== this.#source) return;
      this.problem = undefined;
      if (older) this.records = [...older.map((record) => this.#shown(record)), ...this.records];
      this.hasOlder = older !== undefined && this.records.length < KEPT;
    } catch (error) {
      if (source === this.#source) this.problem = source.problemOf(error);
    } finally {
      this.isAsking = false;
    }
  }

  async #follow(source: LogSource, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        let isFirst = true;
        for await (const { records, leftOut } of source.follow(signal)) {
          if (signal.aborted) return;
          // The source gives its last records again.
          if (isFirst) {
            this.records = [];
            this.#held = [];
            this.hasOlder = source.older !== undefined;
          }
          isFirst = false;
          this.problem = undefined;
          this.leftOut += leftOut;
          this.#show(records.map((record) => this.#shown(record)));
        }
      } catch (error) {
        if (signal.aborted) return;
        this.problem = source.problemOf(error);
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  #show(arrived: readonly ShownRecord[]): void {
    this.#held.push(...arrived);
    if (this.#held.length > KEPT) this.#held.splice(0, this.#held.length - KEPT);
    this.waiting = this.paused ? this.#held.length : 0;
    if (this.paused) return;
    const all = this.records.length === 0 ? this.#held : [...this.records, ...this.#held];
    this.records = all.slice(-KEPT);
    this.#held = [];
  }

  #shown({ level, ...record }: SourceRecord): ShownRecord {
    const known = SHOWN_LEVELS.find((one) => one === level) ?? (FATAL.includes(level) ? "error" : "info");
    const text = `${record.origin ?? ""} ${record.logger} ${record.message} ${record.fields}`.toLowerCase();
    return { ...record, key: this.#key++, level: known, text };
  }
}
