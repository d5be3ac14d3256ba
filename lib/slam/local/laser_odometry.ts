/**
 * Predicts the robot's pose without odometry: compares the scan with the last scan in the submaps, from several
 * guesses.
 *
 * The time of a scan may be the time of its arrival. One guess therefore repeats the last velocity, and one repeats the
 * motion between the last two scans. The guess that has recently been better comes first.
 */

import { between2d, compose2d, IDENTITY_2D, type Pose2d, wrapAngle } from "../pose2d.ts";
import type { LeastConstrained } from "./line_equations.ts";
import { ScanMotion, type ScanMotionResult } from "./scan_motion.ts";

/** Share of points on lines above which a guess is accepted, and below which the scans may not overlap. */
const SHARE_GOOD = 0.8;
const SHARE_POOR = 0.5;
/** Share below which two scans cannot be compared, if there is odometry as well. */
const SHARE_LEAST = 0.35;
/** Fewest points across each direction that determine a motion clearly. */
const CLEAR_POINTS = 15;
/** Share of points by which another guess must be better. */
const SHARE_GAIN = 0.02;
/** Largest angle between a pose and the pose from the last scan. */
const CONFIRMED_RAD = 3 * Math.PI / 180;
/** Turns to try if no guess fits. */
const TURNS_RAD = [12, -12, 24, -24, 36, -36, 48, -48, 60, -60, 72, -72, 84, -84].map((one) =>
  one * Math.PI / 180
);
/** Weight of the latest value in the averages of the motion between two scans and of the errors of both guesses. */
const MOTION_SHARE = 0.3;
const ERROR_SHARE = 0.05;
/** Largest error that counts: metres and radians. */
const ERROR_MAX = 0.3;

/** Candidates for the robot's pose, and the direction that the scan constrains least. */
export interface Predictions {
  /** The likeliest first. */
  readonly poses: readonly [Pose2d, ...Pose2d[]];
  /** In the frame of the poses; undefined if the scans do not overlap. */
  readonly leastConstrained: LeastConstrained | undefined;
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

  /** Sets the scan, and its pose, that later scans are compared with. */
  begin(points: Float64Array, pose: Pose2d): void {
    this.#begun = points;
    this.#key = pose;
  }

  /** The robot's pose from the last scan, near a guess or turned from it; undefined if the scans may not overlap. */
  poseFrom(points: Float64Array, guess: Pose2d): Pose2d | undefined {
    const found = this.#compared(points, [guess], guess);
    return found && found.share >= SHARE_LEAST ? compose2d(this.#key, found.pose) : undefined;
  }

  /** The motion since the last scan in the submaps, if this scan determines it clearly in all directions. */
  clearMotion(points: Float64Array, guesses: readonly [Pose2d, ...Pose2d[]]): Pose2d | undefined {
    const found = this.#compared(points, guesses, guesses[0]);
    return found && found.share >= SHARE_GOOD && found.leastConstrained.points >= CLEAR_POINTS
      ? found.pose
      : undefined;
  }

  /** By what share of the points the motion by scans since the last scan fits better than that by odometry. */
  fitsMore(points: Float64Array, scans: Pose2d, odometry: Pose2d): number {
    return this.#last().fitsMore(points, scans, odometry);
  }

  /** Whether the last scan confirms a pose, and no less than another. */
  confirms(points: Float64Array, pose: Pose2d, other: Pose2d): boolean {
    const found = this.#motionFrom(points, pose);
    const turned = wrapAngle(compose2d(this.#key, found.pose).yaw - pose.yaw);
    if (found.share < SHARE_LEAST || Math.abs(turned) > CONFIRMED_RAD) return false;
    return found.share >= this.#motionFrom(points, other).share - SHARE_GAIN;
  }

  /** `byTime` is the robot's pose if it keeps its motion. */
  predictions(points: Float64Array, last: Pose2d, byTime: Pose2d): Predictions {
    const byScan = compose2d(last, this.#step);
    const isByScan = this.#errorByScan < this.#errorByTime;
    const guesses = isByScan ? [byScan, byTime] as const : [byTime, byScan] as const;
    const found = this.#compared(points, [...guesses, last], last);
    if (!found) return { poses: guesses, leastConstrained: undefined };
    const { pose, share, leastConstrained } = found;
    const compared = compose2d(this.#key, pose);
    if (share < SHARE_POOR) return { poses: [...guesses, compared], leastConstrained: undefined };
    const { x, y } = compose2d({ x: 0, y: 0, yaw: this.#key.yaw }, { ...leastConstrained, yaw: 0 });
    return { poses: [compared, ...guesses], leastConstrained: { x, y, points: leastConstrained.points } };
  }

  #compared(points: Float64Array, guesses: readonly Pose2d[], last: Pose2d): ScanMotionResult | undefined {
    let best: ScanMotionResult | undefined;
    const shareOf = () => best?.share ?? 0;
    const look = (guess: Pose2d) => {
      const found = this.#motionFrom(points, guess);
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

  /** The motion since the last scan, from a guess of the pose. */
  #motionFrom(points: Float64Array, guess: Pose2d): ScanMotionResult {
    return this.#last().match(points, between2d(this.#key, guess));
  }

  /** The last scan, ready to compare with. */
  #last(): ScanMotion {
    if (this.#begun) this.#motion.begin(this.#begun);
    this.#begun = undefined;
    return this.#motion;
  }

  /** Updates the usual errors of both guesses with the pose that was found. */
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
