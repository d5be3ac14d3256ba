/**
 * Predicts where the robot is where nothing but scans says how it moved: the scan is compared with the last one that
 * went into the submaps, from several guesses, and with what the robot did before.
 *
 * Times of scans may be those of their arrival. So the robot may have moved as far as in the time before, or as far as
 * between the scans before: what was right lately is tried first.
 */

import { between2d, compose2d, IDENTITY_2D, type Pose2d } from "../pose2d.ts";
import { type Barest, ScanMotion, type ScanMotionResult } from "./scan_motion.ts";

/** With so many of the points on lines, a guess was good enough; with fewer, the scans may not belong together. */
const SHARE_GOOD = 0.8;
const SHARE_POOR = 0.5;
/** What another guess must do better. */
const SHARE_GAIN = 0.02;
/** Turns that are tried where no guess fits. */
const TURNS_RAD = [12, -12, 24, -24, 36, -36, 48, -48, 60, -60, 72, -72, 84, -84].map((one) =>
  one * Math.PI / 180
);
/** How fast the motion between two scans, and the usual errors of both guesses, follow the latest. */
const MOTION_SHARE = 0.5;
const ERROR_SHARE = 0.05;
/** One error counts for so much at most: metres and radians. */
const ERROR_MAX = 0.3;

/** Where the robot may be, and what the scan says least of. */
export interface Predictions {
  /** The likeliest first. */
  readonly poses: readonly Pose2d[];
  /** In the frame of the poses; undefined if scans do not belong together. */
  readonly barest: Barest | undefined;
}

export class LaserOdometry {
  readonly #motion = new ScanMotion();
  /** The scan to compare with, until `#motion` has it. */
  #begun: Float64Array | undefined;
  #key = IDENTITY_2D;
  /** From one scan to the next. */
  #step = IDENTITY_2D;
  #errorByScan = 0;
  #errorByTime = 0;

  /** Takes a scan, and its pose, that later ones are compared with. */
  begin(points: Float64Array, pose: Pose2d): void {
    this.#begun = points;
    this.#key = pose;
  }

  /** `byTime` is where the robot is if it moves on as before. */
  predictions(points: Float64Array, last: Pose2d, byTime: Pose2d): Predictions {
    if (this.#begun) this.#motion.begin(this.#begun);
    this.#begun = undefined;
    const byScan = compose2d(last, this.#step);
    const guesses = this.#errorByScan < this.#errorByTime ? [byScan, byTime] : [byTime, byScan];
    const found = this.#compared(points, [...guesses, last], last);
    if (!found) return { poses: guesses, barest: undefined };
    const { pose, share, barest } = found;
    const compared = compose2d(this.#key, pose);
    if (share < SHARE_POOR) return { poses: [...guesses, compared], barest: undefined };
    const { x, y } = compose2d({ x: 0, y: 0, yaw: this.#key.yaw }, { ...barest, yaw: 0 });
    return { poses: [compared, ...guesses], barest: { x, y, points: barest.points } };
  }

  #compared(points: Float64Array, guesses: readonly Pose2d[], last: Pose2d): ScanMotionResult | undefined {
    let best: ScanMotionResult | undefined;
    const shareOf = () => best?.share ?? 0;
    const look = (guess: Pose2d) => {
      const found = this.#motion.match(points, between2d(this.#key, guess));
      if (found.share > shareOf() + SHARE_GAIN) best = found;
    };
    for (const guess of guesses) {
      if (shareOf() < SHARE_GOOD) look(guess);
    }
    for (const turn of TURNS_RAD) {
      if (shareOf() < SHARE_POOR) look({ ...last, yaw: last.yaw + turn });
    }
    return best;
  }

  /** Learns from where the robot was found. */
  learn(last: Pose2d, byTime: Pose2d, found: Pose2d): void {
    const step = between2d(last, found), known = this.#step;
    this.#errorByScan += ERROR_SHARE * (errorOf(known, step) - this.#errorByScan);
    this.#errorByTime += ERROR_SHARE * (errorOf(between2d(last, byTime), step) - this.#errorByTime);
    this.#step = {
      x: known.x + MOTION_SHARE * (step.x - known.x),
      y: known.y + MOTION_SHARE * (step.y - known.y),
      yaw: known.yaw + MOTION_SHARE * (step.yaw - known.yaw),
    };
  }
}

function errorOf(guess: Pose2d, found: Pose2d): number {
  const off = between2d(guess, found);
  return Math.min(ERROR_MAX, Math.hypot(off.x, off.y) + Math.abs(off.yaw));
}
