/** The machine's log as this page follows it: a bounded number of records, paused and filtered. */

import { linkProblem, useLink } from "../../link/page_link.svelte.ts";
import { type PageLogRecord, pageServiceOf } from "../../link/page_service.ts";
import { millisOf } from "../../link/wire.ts";

const BACKLOG = 1000;
const KEPT = 5000;
const RETRY_MS = 1500;

export const SHOWN_LEVELS = ["debug", "info", "warn", "error"] as const;
export type ShownLevel = typeof SHOWN_LEVELS[number];

export interface ShownRecord extends Omit<PageLogRecord, "time" | "level"> {
  readonly key: number;
  readonly timeMs: number;
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

  constructor() {
    const link = useLink();
    $effect(() => {
      const { client } = link;
      if (!client) return;
      const over = new AbortController();
      void this.#follow(
        () => pageServiceOf(client).followLogs({ backlog: BACKLOG }, { signal: over.signal }),
        over.signal,
      );
      return () => over.abort();
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

  async #follow(
    begin: () => ReturnType<ReturnType<typeof pageServiceOf>["followLogs"]>,
    signal: AbortSignal,
  ) {
    while (!signal.aborted) {
      try {
        let isFirst = true;
        for await (const { records, leftOut } of begin()) {
          if (signal.aborted) return;
          // The machine gives its last records again.
          if (isFirst) {
            this.records = [];
            this.#held = [];
          }
          isFirst = false;
          this.problem = undefined;
          this.leftOut += Number(leftOut);
          this.#show(records.map((record) => this.#shown(record)));
        }
      } catch (error) {
        if (signal.aborted) return;
        this.problem = linkProblem(error);
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

  #shown({ time, level, ...record }: PageLogRecord): ShownRecord {
    const known = SHOWN_LEVELS.find((one) => one === level) ?? "info";
    const text = `${record.logger} ${record.message} ${record.fields}`.toLowerCase();
    return { ...record, key: this.#key++, timeMs: millisOf(time), level: known, text };
  }
}
