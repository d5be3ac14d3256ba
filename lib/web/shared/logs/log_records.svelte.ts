/** A log as a page follows it: a bounded number of records, paused and filtered. */

const KEPT = 5000;
const RETRY_MS = 1500;
/**
 * Why a log is no longer followed. A text, because an error would keep the functions on its stack, and with them the
 * view, for as long as the library keeps the stream that it ended.
 */
const LEFT = "nobody looks at the log any more";

export const SHOWN_LEVELS = ["debug", "info", "warn", "error"] as const;
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
  #held: ShownRecord[] = [];
  #key = 0;

  /** Follows the source for as long as the component lives; while there is none, it waits. For its beginning. */
  constructor(source: () => LogSource | undefined) {
    $effect(() => {
      const present = source();
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
    const known = SHOWN_LEVELS.find((one) => one === level) ?? "info";
    const text = `${record.logger} ${record.message} ${record.fields}`.toLowerCase();
    return { ...record, key: this.#key++, level: known, text };
  }
}
