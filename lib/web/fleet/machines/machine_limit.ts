/** The limit of lists of machines, and how they tell of it. Pure. */

import { counted } from "../../../base/log/counted.ts";

/** Machines that a list has at most. One more is asked for, to learn whether some are left out. */
export const MACHINES_MAX = 10_000;
export const ASKED_MACHINES = MACHINES_MAX + 1;

/** `12 machines`; `the first 10000 machines` if some are left out. */
export function countedMachines(count: number): string {
  return count > MACHINES_MAX ? `the first ${MACHINES_MAX} machines` : counted(count, "machine");
}
