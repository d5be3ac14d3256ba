/**
 * De-duplicates log records: a repeated message is written three times, announced, and then counted.
 *
 * Records are equal if logger, message and fields are. A window begins with a message's first record. A notice
 * replaces the fourth record in it; the rest are held back. A summary counts the held back records, with the next log
 * record after the window's end or on `flush`: no record is lost silently.
 */

import type { Clock } from "../clock.ts";
import { formatFields } from "./line.ts";
import type { Fields, LogRecord, Sink } from "./record.ts";

const REPEAT_WINDOW_MS = 10_000;
const REPEATS_WRITTEN = 3;
/** Windows open at a time; with more, the oldest closes early. */
export const REPEATS_WATCHED = 1_000;
/** Longer records are never held back. */
export const REPEAT_CHARS_MAX = 4_000;

/** Fields that differ between otherwise equal records (published names). */
const VARYING = ["grpc.time_ms", "grpc.start_time", "log_ts"] as const;

interface Window {
  readonly first: LogRecord;
  readonly endMs: number;
  count: number;
}

export class Deduplicator {
  /** By the identity of a record. All windows have the same length, so the first in order ends first. */
  readonly #windows = new Map<string, Window>();
  #nextEndMs = Infinity;

  constructor(private readonly clock: Clock, private readonly next: Sink) {}

  /** Passes on the record, a notice in its place, or nothing. */
  write(record: LogRecord): void {
    this.expire();
    const key = keyOf(record);
    if (key.length > REPEAT_CHARS_MAX) return this.next(record);

    const window = this.#windows.get(key);
    if (!window) {
      if (this.#windows.size >= REPEATS_WATCHED) this.#closeOldest();
      const endMs = this.clock.monotonicMs() + REPEAT_WINDOW_MS;
      this.#windows.set(key, { first: record, endMs, count: 1 });
      this.#nextEndMs = Math.min(this.#nextEndMs, endMs);
      return this.next(record);
    }

    window.count++;
    if (window.count <= REPEATS_WRITTEN) this.next(record);
    else if (window.count === REPEATS_WRITTEN + 1) {
      const reported = `Message logged ${REPEATS_WRITTEN} times; suppressing for rest of window`;
      this.next({ ...record, message: `${reported} (${seconds(REPEAT_WINDOW_MS)}): ${record.message}` });
    }
  }

  /** Closes the windows whose time has ended. */
  expire(): void {
    while (this.clock.monotonicMs() >= this.#nextEndMs) this.#closeOldest();
  }

  /** Closes every window. */
  flush(): void {
    while (this.#windows.size > 0) this.#closeOldest();
  }

  #closeOldest(): void {
    const [window] = this.#windows;
    if (!window) return;
    const [key, { first, endMs, count }] = window;
    this.#windows.delete(key);
    const [oldest] = this.#windows.values();
    this.#nextEndMs = oldest?.endMs ?? Infinity;
    if (count <= REPEATS_WRITTEN) return;
    // The window's end as the time keeps the lines in order: nothing can have been written since.
    const lateMs = this.clock.monotonicMs() - endMs;
    const past = seconds(Math.min(REPEAT_WINDOW_MS, REPEAT_WINDOW_MS + lateMs));
    this.next({
      ...first,
      timeMs: this.clock.nowMs() - Math.max(0, lateMs),
      message: `Message logged ${count} times in past ${past}: ${first.message}`,
    });
  }
}

function keyOf({ logger, message, fields }: LogRecord): string {
  return `${logger}\0${message}\0${formatFields(constant(fields))}`;
}

function constant(fields: Fields): Fields {
  if (!VARYING.some((name) => name in fields)) return fields;
  const kept: Record<string, unknown> = { ...fields };
  for (const name of VARYING) delete kept[name];
  return kept;
}

function seconds(ms: number): string {
  return `${Math.max(1, Math.ceil(ms / 1000))}s`;
}
