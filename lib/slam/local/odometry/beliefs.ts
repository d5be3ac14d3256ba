/** What scans have shown about odometry: how late it is, and whether it or the matches are closer to the truth. */

import { isRight, type OdometryVerdicts } from "./proof.ts";
import { type OdometryScale, UNSCALED } from "./scale.ts";

export interface OdometryBeliefs {
  readonly delayS: number;
  readonly scale: OdometryScale;
  readonly verdicts: OdometryVerdicts;
  /** The times of the readings at which it froze for a while, without making up for it. */
  readonly frozenAtS: readonly number[];
}

/** Those about the readings themselves. */
export type ReadingBeliefs = Omit<OdometryBeliefs, "verdicts">;

const PARTS = ["translation", "rotation"] as const;
/** A difference of factors below this is not worth a new map. */
const SCALE_OFF = 0.004;

/** Nothing is known. */
export const NO_BELIEFS: OdometryBeliefs = {
  delayS: 0,
  scale: UNSCALED,
  verdicts: { translation: "open", rotation: "open" },
  frozenAtS: [],
};

/**
 * Whether what was mapped under the earlier beliefs is wrong under the later ones: motions of late odometry counted for
 * another time, motions of odometry that is worse than the matches counted more than these, or of odometry that is right
 * not enough, and frozen odometry held the robot back until the scans showed that it moved.
 */
export function isWrongUnder(earlier: OdometryBeliefs, later: OdometryBeliefs): boolean {
  if (earlier.delayS !== later.delayS) return true;
  if (PARTS.some((part) => Math.abs(later.scale[part] - earlier.scale[part]) > SCALE_OFF)) return true;
  if (isRight(later.verdicts) && !isRight(earlier.verdicts)) return true;
  if (later.frozenAtS.some((one) => !earlier.frozenAtS.includes(one))) return true;
  return PARTS.some((part) => later.verdicts[part] === "refuted" && earlier.verdicts[part] !== "refuted");
}
