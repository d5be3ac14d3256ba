/**
 * Times of messages by one clock. A lidar may stamp its scans with the time since it was switched on, and two computers
 * of a robot may disagree by minutes; the recorder's clock, which noted when each message came, shows it.
 */

import { medianOf } from "../points.ts";

/** A message's time by its sender's clock, and when it was recorded. */
export interface Stamped {
  readonly timeS: number;
  readonly loggedS: number;
}

/** Clocks agree if they differ by less: messages take time, and are recorded late. */
const AGREE_S = 1;

/** By how much the recorder's clock is usually ahead of the senders'. */
export function usualLag(messages: readonly Stamped[]): number {
  return medianOf(Float64Array.from(messages, lagOf));
}

/**
 * Messages of one sender, in the order in which they were recorded, with times by a clock that the recorder's is ahead
 * of by `lagS`. Times that agree with it stay as they are. Beside them: the largest change of a time, 0 if there is none.
 */
export function byClock<T extends Stamped>(
  lagS: number,
  messages: readonly T[],
): { readonly messages: readonly T[]; readonly movedS: number } {
  const moved: T[] = [];
  let movedS = 0;
  for (const run of runsOf(messages)) {
    const offS = usualLag(run) - lagS, isOff = Math.abs(offS) > AGREE_S;
    for (const one of run) moved.push(isOff ? { ...one, timeS: one.timeS + offS } : one);
    if (isOff && Math.abs(offS) > Math.abs(movedS)) movedS = offS;
  }
  return { messages: movedS === 0 ? messages : moved, movedS };
}

function lagOf({ timeS, loggedS }: Stamped): number {
  return loggedS - timeS;
}

/** The messages, divided where their clock was set. */
function runsOf<T extends Stamped>(messages: readonly T[]): T[][] {
  const runs: T[][] = [];
  let last: T | undefined;
  for (const one of messages) {
    if (!last || Math.abs(lagOf(one) - lagOf(last)) > AGREE_S) runs.push([]);
    runs.at(-1)?.push(one);
    last = one;
  }
  return runs;
}
