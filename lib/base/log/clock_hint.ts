/**
 * What an error of a TLS connection owes to the clock of this computer. Boards without a battery begin in 1970 until
 * they have the time from the network, and then no certificate is valid yet.
 */

/** A clock before this date was never set. */
const EARLIEST_MS = 1_735_689_600_000;

/**
 * The end of the message of a failed connection, if the clock may be the reason. Unknown authorities, wrong names and
 * other faults of certificates do not depend on the time, unless the clock is certainly wrong: to it, the authority
 * itself is not valid yet, and then counts as unknown. `remedy` says what happens until the time is set.
 */
export function clockHint(message: string, nowMs: number, remedy = "set the time"): string {
  if (!/\bcert(ificate)?\b/i.test(message)) return "";
  const date = new Date(nowMs).toISOString().slice(0, 10);
  if (nowMs < EARLIEST_MS) return `; the clock of this device says ${date}, which is wrong: ${remedy}`;
  return /not.?valid.?yet|not.?yet.?valid|expired/i.test(message)
    ? `; is ${date}, as the clock of this device says, right?`
    : "";
}
