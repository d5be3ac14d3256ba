/** The windows of a pipeline: the time from one tick of its schedule to the next, in UTC. */

import { SvcError } from "../../base/error.ts";
import { parseSchedule } from "../../machine/config/schedule.ts";

/** Milliseconds since 1970; the end is not in it. */
export interface Span {
  readonly fromMs: number;
  readonly untilMs: number;
}

const FIELDS = 5;
const SCHEDULE_LENGTH_MAX = 200;
/** The first step back in the search for the last tick, and the last. */
const STEP_MS = 60_000;
const STEPS_MS_MAX = 10 * 366 * 24 * 3600 * 1000;

export class PipelineWindows {
  readonly #nextMs: (afterMs: number) => number | undefined;

  /** Throws `invalid_argument` for a schedule that is not a cron line of five fields, or never ticks. */
  constructor(schedule: string) {
    const isShort = schedule.length <= SCHEDULE_LENGTH_MAX;
    const isCron = isShort && schedule.trim().split(/\s+/).length === FIELDS && !schedule.includes("=");
    const parsed = isCron ? parseSchedule(`CRON_TZ=UTC ${schedule.trim()}`) : undefined;
    if (parsed?.kind !== "cron" || parsed.nextMs(0) === undefined) {
      const found = JSON.stringify(schedule.slice(0, SCHEDULE_LENGTH_MAX));
      throw new SvcError(
        "invalid_argument",
        `schedule: found ${found}, wanted a cron line of five fields in UTC, such as "0 * * * *"`,
      );
    }
    this.#nextMs = parsed.nextMs;
  }

  /** The first tick after a time. */
  after(ms: number): number {
    return this.#nextMs(ms) ?? Infinity;
  }

  /** The window that holds a time. */
  around(ms: number): Span {
    for (let step = STEP_MS; step <= STEPS_MS_MAX; step *= 2) {
      let tick = this.after(ms - step);
      if (tick > ms) continue;
      for (let next = this.after(tick); next <= ms; next = this.after(tick)) tick = next;
      return { fromMs: tick, untilMs: this.after(tick) };
    }
    const untilMs = this.after(ms);
    return { fromMs: Math.max(0, ms - STEPS_MS_MAX), untilMs };
  }
}
