/**
 * Whose turn it is: organizations take turns, whatever each has submitted. Pure.
 *
 * Next is the organization that has waited longest since it had a job started, with its oldest job; one with as many
 * jobs running as it may have waits until one of them ends. So between two starts of one organization every other
 * that waits has one, and no job waits longer than its own organization's older jobs make it.
 */

export interface Waiting {
  readonly id: string;
  readonly organizationId: string;
}

export interface Share {
  /** How many of its jobs are worked on. */
  readonly running: number;
  /** Greater than that of all that had a job started before; 0 for who never had. */
  readonly turn: number;
}

/** A job of each organization in turn; `startable` is how many of the first ones may start at once, given room. */
export interface FairOrder<T extends Waiting> {
  readonly jobs: readonly T[];
  readonly startable: number;
}

/**
 * The order in which jobs start if no other comes. `waiting` is in the order of submission; an organization has at
 * most `runningMax` jobs running.
 */
export function fairOrder<T extends Waiting>(
  waiting: readonly T[],
  shares: ReadonlyMap<string, Share>,
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
    // Of those whose turn is the same, the one that came first: the map is in that order.
    let next: string | undefined;
    for (const [id, { running, turn }] of open) {
      if (running < runningMax && (next === undefined || turn < open.get(next)!.turn)) next = id;
    }
    if (next === undefined) {
      // Everybody has to wait for their own to end.
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
