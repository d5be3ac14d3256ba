/**
 * Measures how long the event loop of svc-cloud delays callers because of work in its only thread.
 *
 * A late timer shows a delay. Delays above 100 ms are logged, once in an interval. A busy computer delays
 * everything, too: the busy time is the part of a delay in which the program's own thread computed.
 */

import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log/log.ts";

/** Interval of the measurements. */
const TICK_MS = 20;
const LOGGED_MS = 100;
/** The program is behind with its work if a timer was late by this much a moment ago, or is so now. */
const BEHIND_MS = 500;
const MOMENT_MS = 2_000;
/** At most one line in this interval. */
const LOG_EVERY_MS = 60_000;
/** Upper bounds of the classes in the metrics. */
export const DELAY_BOUNDS_MS = [10, 25, 50, 100, 200, 500, 1_000, 5_000] as const;

/** Times by class: up to each bound, and beyond the last one. */
export interface TimeClasses {
  readonly counts: readonly number[];
  readonly sumMs: number;
}

export interface DelayFigures {
  readonly delay: TimeClasses;
  readonly busy: TimeClasses;
  /** The longest delay since the start. */
  readonly longestMs: number;
}

export class LoopDelay {
  readonly #delay = newClasses();
  readonly #busy = newClasses();
  #longestMs = 0;
  /** Delays since the last line of the log. */
  #unlogged = { count: 0, longestMs: 0 };
  #loggedMs = -Infinity;
  #lateAtMs = -Infinity;
  /** When the next measurement is due. */
  #dueMs = Infinity;
  #cancel = () => {};

  /** `cpuMs`: the processor time of the program's own thread so far. Measures from `start` on. */
  constructor(
    private readonly clock: Clock,
    private readonly logger: Pick<Logger, "warn">,
    private readonly cpuMs: () => number,
  ) {}

  /** To be called when the first caller can come: while a program starts, it delays nobody. */
  start(): void {
    this.#cancel = this.#later();
  }

  get figures(): DelayFigures {
    return structuredClone({ delay: this.#delay, busy: this.#busy, longestMs: this.#longestMs });
  }

  get isBehind(): boolean {
    const nowMs = this.clock.monotonicMs();
    return nowMs - this.#dueMs > BEHIND_MS || nowMs - this.#lateAtMs < MOMENT_MS;
  }

  close(): void {
    this.#cancel();
    this.#dueMs = Infinity;
  }

  #later(cpuMs = this.cpuMs()): () => void {
    const dueMs = this.#dueMs = this.clock.monotonicMs() + TICK_MS;
    return this.clock.after(TICK_MS, () => {
      // Reads the processor time once per tick, because it takes a system call.
      const nowCpuMs = this.cpuMs();
      const lateMs = Math.max(0, this.clock.monotonicMs() - dueMs);
      this.#cancel = this.#later(nowCpuMs);
      this.#note(lateMs, Math.min(lateMs, nowCpuMs - cpuMs));
    });
  }

  #note(lateMs: number, busyMs: number): void {
    addTime(this.#delay, lateMs);
    addTime(this.#busy, busyMs);
    this.#longestMs = Math.max(this.#longestMs, lateMs);
    if (lateMs > LOGGED_MS) {
      this.#unlogged.count++;
      this.#unlogged.longestMs = Math.max(this.#unlogged.longestMs, lateMs);
    }
    const nowMs = this.clock.monotonicMs();
    if (lateMs > BEHIND_MS) this.#lateAtMs = nowMs;
    if (lateMs <= LOGGED_MS || nowMs - this.#loggedMs < LOG_EVERY_MS) return;
    const { count, longestMs } = this.#unlogged;
    this.#loggedMs = nowMs;
    this.#unlogged = { count: 0, longestMs: 0 };
    this.logger.warn("svc-cloud answered nobody for a while; see svc_cloud_event_loop_delay in /metrics", {
      times: count,
      longest_ms: Math.round(longestMs),
    });
  }
}

function newClasses(): { counts: number[]; sumMs: number } {
  return { counts: [...DELAY_BOUNDS_MS, Infinity].map(() => 0), sumMs: 0 };
}

function addTime(classes: { counts: number[]; sumMs: number }, ms: number): void {
  const found = DELAY_BOUNDS_MS.findIndex((bound) => ms <= bound);
  const at = found < 0 ? DELAY_BOUNDS_MS.length : found;
  classes.counts[at] = (classes.counts[at] ?? 0) + 1;
  classes.sumMs += ms;
}
