/**
 * The times at which a job runs, from its `schedule`. The only file that uses the cron parser.
 */

import { Cron } from "croner";
import { parseDurationMs } from "../../base/schema/schema.ts";

export type Schedule =
  /** Again as soon as a run has ended. */
  | { readonly kind: "continuous" }
  /** First after `everyMs`, then at every multiple of it. */
  | { readonly kind: "every"; readonly everyMs: number }
  /** At calendar times, in the machine's time zone; `undefined` when none is left. */
  | { readonly kind: "cron"; readonly nextMs: (afterMs: number) => number | undefined };

/**
 * Reads `continuous`, a duration such as `1m30s`, or a cron line: 5 fields, 6 (seconds first), 7 (year last), or a word
 * such as `@daily`.
 */
export function parseSchedule(text: string): Schedule | undefined {
  const words = text.trim().split(/\s+/);
  if (words.length === 1 && words[0].toLowerCase() === "continuous") return { kind: "continuous" };
  const everyMs = parseDurationMs(text);
  if (everyMs !== undefined) {
    return everyMs > 0 ? { kind: "every", everyMs: Math.max(1, everyMs) } : undefined;
  }
  if (words.length < 5 && !words[0].startsWith("@")) return undefined;
  try {
    const cron = new Cron(words.join(" "), { paused: true });
    const nextMs = (afterMs: number) => cron.nextRun(new Date(afterMs))?.getTime();
    // A day that no year has, such as the 30th of February.
    return nextMs(0) === undefined ? undefined : { kind: "cron", nextMs };
  } catch {
    return undefined;
  }
}
