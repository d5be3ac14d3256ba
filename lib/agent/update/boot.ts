/**
 * The boot rule: decides which version of a program starts, only from links and a count of failed starts.
 *
 * It needs no record, no clock and no cloud, so it works even if all of these are lost. If a version fails
 * `STARTS_MAX` times in a row, or cannot run at all, the rule returns to the previous good one; if that fails, too,
 * the two take turns. The agent applies the rule to the runtime. A shell script (`loader.ts`) applies it to the agent
 * itself, and a test compares the script with this function.
 */

import { type BackoffLimits, backoffMs } from "../../base/async/backoff.ts";

/** The pause after failed starts in a row. */
const RESTART: BackoffLimits = { firstMs: 1_000, mostMs: 300_000, jitter: 0 };

/** The links of one program in the `bin` folder; their values are names of files in `cache`. */
export interface VersionLinks {
  /** The version that starts. */
  readonly current?: string;
  /** The version to return to. */
  readonly previous?: string;
  /** The version that the boot rule gave up. */
  readonly broken?: string;
}

export type LinkName = keyof VersionLinks;

/** The starts of a file since its last healthy run. */
export interface Count {
  readonly file: string;
  readonly starts: number;
  /** Starts of any file since the last healthy run of any. */
  readonly failures: number;
}

/** The count in memory, which a full disk does not prevent and a power loss erases. */
export interface PassingCount extends Count {
  /** The value of `current` at that time; if that link could not be changed, `file` starts in its place. */
  readonly over: string | undefined;
}

export interface BootSeen {
  readonly links: VersionLinks;
  readonly count?: Count;
  readonly passing?: PassingCount;
  readonly runnable: (file: string) => boolean;
}

export type BootOp =
  | { readonly op: "link"; readonly link: LinkName; readonly file: string }
  /** Both counts; the passing one also notes the value of `current`. */
  | { readonly op: "count"; readonly count: Count };

export interface BootPlan {
  /** The file to start; `undefined` if none can. */
  readonly file?: string;
  /** The writes before the start, in this order. A failed write does not change which file starts. */
  readonly ops: readonly BootOp[];
  /** Pause before the start. */
  readonly delayMs: number;
}

/** Failed starts in a row after which a version is given up. */
export const STARTS_MAX = 3;

export function bootPlan(seen: BootSeen): BootPlan {
  const { links, count, passing, runnable } = seen;
  const { current, previous, broken } = links;
  const instead = startedInstead(seen);
  const now = instead ?? current;
  // The passing count applies only for the same `current`; the durable count applies only to its own file.
  const counts = [passing?.over === current ? passing : undefined, count];
  const starts = counts.find((one) => one !== undefined && one.file === now)?.starts ?? 0;
  const failures = Math.max(count?.failures ?? 0, passing?.failures ?? 0);
  // After a power loss the program starts at once, however often power was lost.
  const delayMs = backoffMs(RESTART, passing?.failures ?? 0);
  const counted = (file: string, starts: number): BootOp => {
    return { op: "count", count: { file, starts, failures: failures + 1 } };
  };
  const usable = now !== undefined && runnable(now);
  // After a start of a replacement, `current` gets its next turn.
  const turns = now === current ? [previous, broken] : [current, previous, broken];
  const other = turns.find((file) => file && file !== now && runnable(file));
  if (other === undefined || (usable && starts < STARTS_MAX)) {
    const next = Math.min(starts + 1, STARTS_MAX);
    return usable ? { file: now, ops: [counted(now, next)], delayMs } : { ops: [], delayMs };
  }
  const turned: BootOp[] = [{ op: "link", link: "current", file: other }];
  if (other === current) turned.pop();
  else if (current !== undefined) {
    // Written first, because this link must explain a running replacement. No file loses its last link.
    const turn: BootOp = { op: "link", link: "broken", file: current };
    if (other === previous) turned.unshift(turn);
    else turned.push(turn);
  }
  const ops = [...turned, counted(other, 1)];
  return { file: other, ops, delayMs };
}

/** The file that starts in place of the given-up `current` while the disk refused to change the link. */
export function startedInstead({ links, passing }: Pick<BootSeen, "links" | "passing">): string | undefined {
  return passing && passing.over === links.current && passing.file !== links.current
    ? passing.file
    : undefined;
}
