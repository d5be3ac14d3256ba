/**
 * Decides whose turn it is: organizations take turns, regardless of how much each has submitted. Pure.
 *
 * The organization whose last start is longest ago comes next, with its oldest job; an organization with its full
 * number of running jobs waits until one of them ends. So between two starts of one organization every other waiting
 * organization has a start, and a job is delayed only by older jobs of its own organization.
 */

export interface Waiting {
  readonly id: string;
  readonly organizationId: string;
}

export interface QueueShare {
  /** The number of its running jobs. */
  readonly running: number;
  /** Greater than that of every organization with an earlier last start; 0 if there was none. */
  readonly turn: number;
}

/** A job of each organization in turn; `startable` says how many of the first ones may start at once, given room. */
export interface FairOrder<T extends Waiting> {
  readonly jobs: readonly T[];
  readonly startable: number;
}

/**
 * The order in which jobs start if no other comes. `waiting` is in the order of submission; an organization has at
 * most `runningMax` running jobs.
 */
export function fairOrder<T extends Waiting>(
  waiting: readonly T[],
  shares: ReadonlyMap<string, QueueShare>,
  runningMax: number,
): FairOrder<T> {
  let last = Math.max(0, ...[...shares.values()].map(({ turn }) => turn));
  const open = new Map<string, { running: number; turn: number; readonly jobs: T[] }>();
  for (const job of waiting) {
    const { running, turn } = shares.get(job.organizationId) ?? { running: 0, turn: 0 };
    const one = open.get(job.organizationId) ?? { running, turn, jobs: [] };
    one.jobs.push(job);
    open.set(job.organizationId, one);
  }
  for (const one of open.values()) one.jobs.reverse();
  const jobs: T[] = [];
  let startable: number | undefined;
  while (open.size > 0) {
    // If turns are equal, the first in the map wins, which is in the order of arrival.
    let next: string | undefined;
    for (const [id, { running, turn }] of open) {
      if (running < runningMax && (next === undefined || turn < open.get(next)!.turn)) next = id;
    }
    if (next === undefined) {
      // Every organization waits for a job of its own to end.
      startable ??= jobs.length;
      for (const one of open.values()) one.running = 0;
      continue;
    }
    const one = open.get(next)!;
    jobs.push(one.jobs.pop()!);
    one.running++;
    one.turn = ++last;
    if (one.jobs.length === 0) open.delete(next);
  }
  return { jobs, startable: startable ?? jobs.length };
}
