/** How long to wait before something that has failed is tried again, or before the next round of regular work. */

import { SvcError } from "../error.ts";

export interface BackoffLimits {
  /** The pause after the first failure; it doubles with each further one. */
  readonly firstMs: number;
  readonly mostMs: number;
  /**
   * The share of a pause that is random, 0 to 1, so that many clients of one server do not come back in the same
   * moment. 0 is for what no other program tries at the same time.
   */
  readonly jitter: number;
}

/** The random share of an interval. */
const INTERVAL_JITTER = 0.1;
/** Doublings beyond this make no difference, whatever the limits. */
const DOUBLINGS_MAX = 40;

/**
 * The pause in milliseconds after `failures` failures in a row, of at most `mostMs`: the share
 * `jitter` of it is multiplied by a random number. A whole number, which a column of a database takes. None after no
 * failure.
 */
export function backoffMs(
  { firstMs, mostMs, jitter }: BackoffLimits,
  failures: number,
  random: () => number = Math.random,
): number {
  if (failures < 1) return 0;

  const wholeMs = Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, DOUBLINGS_MAX));
  return jitter === 0 ? wholeMs : Math.round(wholeMs * (1 - jitter + jitter * random()));
}

/** Shortens an interval by up to a tenth, so that machines that start together, as after a power cut, drift apart. */
export function unevenMs(intervalMs: number, random: () => number = Math.random): number {
  return intervalMs * (1 - INTERVAL_JITTER * random());
}

/**
 * How long to wait before the next request to a server that has refused the last one with `error`: as `backoffMs`
 * after so many failures in a row, but never shorter than the server asks for.
 */
export function requestPauseMs(
  limits: BackoffLimits,
  failures: number,
  error: unknown,
  random?: () => number,
): number {
  return Math.max(backoffMs(limits, failures, random), SvcError.from(error).retryMs ?? 0);
}
