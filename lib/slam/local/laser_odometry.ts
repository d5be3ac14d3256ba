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
/** How uncertain a way is that one point tells; so many points tell it at least. */
const POINT_M = 0.06;
const POINTS_MIN = 0.1;
/** How far off the way is that the robot's speed tells, before anything is known of it; and how fast that is learned. */
const UNKNOWN_M = 0.3;
const VARIANCE_SHARE = 0.05;
/** Its speed is that of so long a time; it goes on at it for so long between two scans. */
const SPEED_S = 1;
const STEADY_S = 0.5;
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
  readonly #speed = new Speed();
  #errorByScan = 0;
  #errorByTime = 0;

  /** Takes a scan, and its pose, that later ones are compared with. */
  begin(points: Float64Array, pose: Pose2d): void {
    this.#begun = points;
    this.#key = pose;
  }

  /** `byTime` is where the robot is if it moves on as before. */
  predictions(points: Float64Array, last: Pose2d, byTime: Pose2d, dt: number): Predictions {
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
    const inMap = { x, y, points: barest.points };
    const steady = this.#steady(compared, last, inMap, dt);
    return { poses: steady ? [steady, compared, ...guesses] : [compared, ...guesses], barest: inMap };
  }

  /**
   * Where few points say how far the robot went, it went on at its speed: the pose with that; undefined where they say
   * enough.
   */
  #steady(pose: Pose2d, last: Pose2d, { x, y, points }: Barest, dt: number): Pose2d | undefined {
    const step = between2d(last, pose), { wayM, varianceM2 } = this.#speed.expected(dt);
    const sureness = varianceM2 / (varianceM2 + POINT_M ** 2 / Math.max(POINTS_MIN, points));
    this.#speed.learn(step.x, dt, sureness);
    if (dt > STEADY_S) return undefined;
    const heading = last.yaw + 0.5 * step.yaw;
    const onX = last.x + wayM * Math.cos(heading) - pose.x, onY = last.y + wayM * Math.sin(heading) - pose.y;
    const along = (1 - sureness) * (x * onX + y * onY);
    return { x: pose.x + along * x, y: pose.y + along * y, yaw: pose.yaw };
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

/** How fast the robot drives ahead, by what scans say: its latest way over the time that it took. */
class Speed {
  #wayM = 0;
  #timeS = 0;
  #varianceM2 = UNKNOWN_M ** 2;

  /** How far it goes in a time, and how far off that is as a rule. */
  expected(dt: number): { readonly wayM: number; readonly varianceM2: number } {
    return { wayM: this.#timeS > 0 ? dt * this.#wayM / this.#timeS : 0, varianceM2: this.#varianceM2 };
  }

  /** Times of single scans may be those of their arrival, so that only sums of them say something. */
  learn(wayM: number, dt: number, sureness: number): void {
    const off = Math.min(UNKNOWN_M, Math.abs(wayM - this.expected(dt).wayM));
    this.#varianceM2 += VARIANCE_SHARE * sureness * (off * off - this.#varianceM2);
    const kept = Math.exp(-sureness * dt / SPEED_S);
    this.#wayM = kept * this.#wayM + sureness * wayM;
    this.#timeS = kept * this.#timeS + sureness * dt;
  }
}

function errorOf(guess: Pose2d, found: Pose2d): number {
  const off = between2d(guess, found);
  return Math.min(ERROR_MAX, Math.hypot(off.x, off.y) + Math.abs(off.yaw));
}
