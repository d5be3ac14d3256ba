/** What scans have shown about odometry: how late it is, and whether it or the matches are closer to the truth. */

import type { OdometryVerdicts } from "./proof.ts";

export interface OdometryBeliefs {
  readonly delayS: number;
  readonly verdicts: OdometryVerdicts;
}

/** Nothing is known. */
export const NO_BELIEFS: OdometryBeliefs = {
  delayS: 0,
  verdicts: { translation: "open", rotation: "open" },
};

/**
 * Whether what was mapped under the earlier beliefs is wrong under the later ones: motions of late odometry counted for
 * another time, and motions of odometry that is worse than the matches counted more than these.
 */
export function isWrongUnder(earlier: OdometryBeliefs, later: OdometryBeliefs): boolean {
  if (earlier.delayS !== later.delayS) return true;
  return (["translation", "rotation"] as const).some((part) =>
    later.verdicts[part] === "refuted" && earlier.verdicts[part] !== "refuted"
  );
}
