/**
 * The boot rule: which version of a program is started, decided from links and a count of failed starts alone.
 *
 * It needs no record, no clock and no cloud, so it holds when all of those are gone. A version that has failed
 * `STARTS_MAX` times in a row, or cannot be run at all, is given up for the one that was good before it; where
 * that fails too they take turns. The agent applies it to the runtime; to the agent itself a shell script applies it
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

/** The count that a full disk does not stop; gone after a power loss. */
export interface PassingCount extends Count {
  /** What `current` was: where that could not be changed, `file` is started in its place. */
  readonly over: string | undefined;
}

export interface BootSeen {
  readonly links: Links;
  readonly count?: Count;
  readonly passing?: PassingCount;
  readonly runnable: (file: string) => boolean;
}

export type BootOp =
  | { readonly op: "link"; readonly link: LinkName; readonly file: string }
  /** Both counts; the passing one notes what `current` is then. */
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

export function bootPlan(seen: BootSeen): BootPlan {
  const { links, count, passing, runnable } = seen;
  const { current, previous, broken } = links;
  const instead = startedInstead(seen);
  const now = instead ?? current;
  // What was counted last in the same place; the count that survives a power loss is for its own file alone.
  const counts = [passing?.over === current ? passing : undefined, count];
  const starts = counts.find((one) => one !== undefined && one.file === now)?.starts ?? 0;
  const failures = Math.max(count?.failures ?? 0, passing?.failures ?? 0);
  // A machine that has lost power starts at once, however often that was.
  const delayMs = restartDelayMs(passing?.failures ?? 0);
  const counted = (file: string, starts: number): BootOp => {
    return { op: "count", count: { file, starts, failures: failures + 1 } };
  };
  const usable = now !== undefined && runnable(now);
  // Whatever was started in its place, `current` gets its next turn.
  const turns = now === current ? [previous, broken] : [current, previous, broken];
  const other = turns.find((file) => file && file !== now && runnable(file));
  if (other === undefined || (usable && starts < STARTS_MAX)) {
    const next = Math.min(starts + 1, STARTS_MAX);
    return usable ? { file: now, ops: [counted(now, next)], delayMs } : { ops: [], delayMs };
  }
  const turned: BootOp[] = [{ op: "link", link: "current", file: other }];
  if (other === current) turned.pop();
  else if (current !== undefined) {
    // Told first: what runs then can only have come here by giving up. But no file loses its last link.
    const told: BootOp = { op: "link", link: "broken", file: current };
    if (other === previous) turned.unshift(told);
    else turned.push(told);
  }
  const ops = [...turned, counted(other, 1)];
  return { file: other, ops, delayMs };
}

/** What is started in the place of `current`, which was given up while the disk took no change of a link. */
export function startedInstead({ links, passing }: Pick<BootSeen, "links" | "passing">): string | undefined {
  return passing && passing.over === links.current && passing.file !== links.current
    ? passing.file
    : undefined;
}

const DELAY_FIRST_MS = 1_000;
const DELAY_MAX_MS = 300_000;

/** How long to wait after so many failed starts in a row: nothing at first, then twice as long each time. */
export function restartDelayMs(failures: number): number {
  return failures < 1 ? 0 : Math.min(DELAY_MAX_MS, DELAY_FIRST_MS * 2 ** Math.min(failures - 1, 30));
}
