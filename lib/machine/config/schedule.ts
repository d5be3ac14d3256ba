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

/** The shortest interval of `@every`, whose durations are whole seconds (published). */
const EVERY_MS_MIN = 1_000;
const ZONE = /^(?:CRON_)?TZ=(\S*)\s+/;

interface Field {
  readonly min: number;
  readonly max: number;
  /** Words for its values, from `min` on. */
  readonly words?: readonly string[];
}

const SECOND: Field = { min: 0, max: 59 };
const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const FIELDS: readonly Field[] = [
  { min: 0, max: 59 },
  { min: 0, max: 23 },
  { min: 1, max: 31 },
  { min: 1, max: 12, words: MONTHS },
  { min: 0, max: 6, words: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/**
 * Reads `continuous`, a duration such as `1m30s`, `@every 1m30s`, or a cron line: 5 fields, 6 (seconds first), 7 (year
 * last), or a word such as `@daily`. A cron line may begin with its time zone: `CRON_TZ=Asia/Tokyo` or `TZ=…`. A step
 * may begin at a value: `5/15` is the 5th minute and every 15th from there.
 */
export function parseSchedule(text: string): Schedule | undefined {
  const [prefix, zone] = ZONE.exec(text.trim()) ?? [];
  const words = text.trim().slice(prefix?.length ?? 0).split(/\s+/);
  const [first = "", second = ""] = words;
  if (zone === undefined && words.length === 1) {
    if (first.toLowerCase() === "continuous") return { kind: "continuous" };
    const everyMs = parseDurationMs(first);
    if (everyMs !== undefined) return everyOf(everyMs, 1);
  }

  if (first === "@every") {
    const everyMs = words.length === 2 ? parseDurationMs(second) : undefined;
    return everyMs === undefined
      ? undefined
      : everyOf(Math.floor(everyMs / 1000) * 1000 || everyMs, EVERY_MS_MIN);
  }
  if (words.length < 5 && !first.startsWith("@")) return undefined;

  return calendar(words, zone);
}

function everyOf(everyMs: number, leastMs: number): Schedule | undefined {
  return everyMs > 0 ? { kind: "every", everyMs: Math.max(leastMs, everyMs) } : undefined;
}

function calendar(words: readonly string[], zone: string | undefined): Schedule | undefined {
  try {
    const named = zone === "" ? "UTC" : zone;
    const timezone = named === "Local" ? undefined : named;
    const cron = new Cron(steppedFrom(words).join(" "), { paused: true, timezone });
    const nextMs = (afterMs: number) => cron.nextRun(new Date(afterMs))?.getTime();
    // A day that no year has, such as the 30th of February.
    return nextMs(0) === undefined ? undefined : { kind: "cron", nextMs };
  } catch {
    return undefined;
  }
}

/** The same fields without the forms of steps that the parser does not know. */
function steppedFrom(words: readonly string[]): readonly string[] {
  if (words.length < FIELDS.length) return words;
  const fields = words.length > FIELDS.length ? [SECOND, ...FIELDS] : FIELDS;
  return words.map((word, index) => {
    const field = fields[index];
    return field ? word.split(",").map((item) => withoutStart(item, field)).join(",") : word;
  });
}

/** `5/15` as `5-59/15`, and a step beyond the end as its start alone. */
function withoutStart(item: string, field: Field): string {
  const [, from, to, step] = /^([^-/]+)(?:-([^-/]+))?\/(\d+)$/.exec(item) ?? [];
  if (from === undefined || Number(step) === 0) return item;
  const isWhole = from === "*" || from === "?";
  const [start, end] = [isWhole ? field.min : valueOf(from, field), to ? valueOf(to, field) : field.max];
  if (Number.isNaN(start) || Number.isNaN(end) || start > end) return item;
  return Number(step) > end - start ? String(start) : `${start}-${end}/${step}`;
}

function valueOf(text: string, { min, words = [] }: Field): number {
  const at = words.indexOf(text.toLowerCase());
  if (at >= 0) return min + at;
  return /^\d+$/.test(text) ? Number(text) : NaN;
}
