/**
 * The boot rule: which version of a program is started, decided from links and a count of failed starts alone.
 *
 * It needs no record, no clock and no cloud, so it holds when all of those are gone. A version that has failed
 * `STARTS_MAX` times in a row, or cannot be run at all, is given up for the one that was good before it; where
 * both fail they take turns. The agent applies it to the runtime; to the agent itself a shell script applies it
 * (`loader.ts`), which a test holds against this function.
 */

/** What stands in the `bin` folder for one program; the names of files in `cache`. */
export interface Links {
  /** What is started. */
  readonly current?: string;
  /** What is gone back to. */
  readonly previous?: string;
  /** What the boot rule gave up. */
  readonly broken?: string;
}

export type LinkName = keyof Links;

/** Starts of a file since it was last known to be well. */
export interface Count {
  readonly file: string;
  readonly starts: number;
  /** Starts of whatever file, since anything was well. */
  readonly failures: number;
}

export interface BootSeen {
  readonly links: Links;
  /** As it survives a power loss. */
  readonly count?: Count;
  /** As it survives a full disk. */
  readonly passing?: Count;
  readonly runnable: (file: string) => boolean;
}

export type BootOp =
  | { readonly op: "link"; readonly link: LinkName; readonly file: string }
  | { readonly op: "count"; readonly count: Count };

export interface BootPlan {
  /** What to start; `undefined` where nothing can be. */
  readonly file?: string;
  /** What to write first, in this order. A write that fails changes nothing about what is started. */
  readonly ops: readonly BootOp[];
  /** How long to wait before the start. */
  readonly delayMs: number;
}

/** So many failed starts in a row and a version is given up. */
export const STARTS_MAX = 3;

export function bootPlan({ links, count, passing, runnable }: BootSeen): BootPlan {
  const { current, previous, broken } = links;
  const starts = Math.max(0, ...[count, passing].map((one) => one?.file === current ? one!.starts : 0));
  const failures = Math.max(count?.failures ?? 0, passing?.failures ?? 0);
  // A machine that has lost power starts at once, however often that was.
  const delayMs = restartDelayMs(passing?.failures ?? 0);
  const counted = (file: string, starts: number): BootOp => {
    return { op: "count", count: { file, starts, failures: failures + 1 } };
  };
  const usable = current !== undefined && runnable(current);
  const other = [previous, broken].find((file) => file && file !== current && runnable(file));
  if (other === undefined || (usable && starts < STARTS_MAX)) {
    return usable ? { file: current, ops: [counted(current, starts + 1)], delayMs } : { ops: [], delayMs };
  }
  const ops: BootOp[] = [{ op: "link", link: "current", file: other }, counted(other, 1)];
  // Told first: what runs then can only have come here by giving up.
  if (current !== undefined) ops.unshift({ op: "link", link: "broken", file: current });
  return { file: other, ops, delayMs };
}

const DELAY_FIRST_MS = 1_000;
const DELAY_MAX_MS = 300_000;

/** How long to wait after so many failed starts in a row: nothing at first, then twice as long each time. */
export function restartDelayMs(failures: number): number {
  return failures < 1 ? 0 : Math.min(DELAY_MAX_MS, DELAY_FIRST_MS * 2 ** Math.min(failures - 1, 30));
}
