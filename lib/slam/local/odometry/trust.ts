/**
 * Decides whether odometry can be trusted. A frozen wheel encoder, a sensor that restarts elsewhere, or a lidar that
 * does not point in the direction of travel yields motions that the scans contradict.
 */

import { between2d, type Pose2d } from "../../pose2d.ts";
import type { SeenPose } from "./standstill.ts";

/** Largest error of a motion: metres, radians, and a share of the motion. */
const ERROR_M = 0.08;
const ERROR_RAD = 0.06;
const ERROR_SHARE = 0.25;
/** Odometry agrees with a motion if it is off by less than this share. Smaller motions do not count. */
const AGREEING_SHARE = 0.4;
const MOTION_M = 0.05;
const MOTION_RAD = 0.03;
/** A turn of at least this shows whether the scans turn the other way. */
const MIRRORED_RAD = 0.1;
/** One in this many scans is compared; all of them while odometry is in doubt. */
const COMPARED_EVERY = 4;
/** While odometry may be frozen, a scan is compared if the last one was so long ago. */
const COMPARED_AFTER_S = 0.4;
/**
 * Odometry is frozen if it has not changed for this long and this many comparisons in a row show a larger motion of the
 * scans. One comparison may be wrong because people walk by.
 */
const HANGING_S = 0.5;
const HANGING_TIMES = 4;
const HANGING_M = 0.05;
const HANGING_RAD = 0.05;
/** One scan may be compared wrongly because of people: odometry fails at once only after this many in a row. */
const CONTRADICTIONS_MIN = 3;
/** A share of a scan that one or two people do not cover. */
const EVIDENT = 0.35;
/** The doubt that each contradiction adds, the least that counts, and the most. An agreement takes 1 away. */
const CONTRADICTION = 2;
const DOUBTED = 12;
const DOUBT_MAX = 40;
/** What a scan that shows no motion clearly takes away. */
const UNCLEAR = 0.2;

export class OdometryTrust {
  #doubt = 0;
  /** The number of contradictions of each kind since odometry was last right. */
  #seen = { mirrored: 0, turn: 0, way: 0 };
  /** The number of the last comparisons in a row that contradicted odometry. */
  #contradictions = 0;
  #scans = 0;
  /** The number of comparisons in a row in which the scans moved and odometry did not. */
  #moving = 0;
  /** The first pose from the scans since odometry froze. */
  #standing: Pose2d | undefined;
  #standingScans = 0;
  /** For how long odometry had stood still at the last comparison. */
  #comparedS = 0;

  /** Whether the next scan should be compared; `isPoor`: it does not fit where odometry puts it. */
  isDue(isPoor: boolean): boolean {
    return this.#scans++ % COMPARED_EVERY === 0 || isPoor || this.#doubt > 0;
  }

  /**
   * Compares a motion from odometry with the same motion from scans, which fits so much more of the scan: 0 to 1.
   */
  compare(odometry: Pose2d, scans: Pose2d, fitsMore: number): void {
    const off = between2d(odometry, scans), offM = Math.hypot(off.x, off.y), offRad = Math.abs(off.yaw);
    const movedM = Math.hypot(scans.x, scans.y), turned = Math.abs(scans.yaw);
    const isContradicting = offM > ERROR_M + ERROR_SHARE * movedM ||
      offRad > ERROR_RAD + ERROR_SHARE * turned;
    if (!isContradicting) this.#contradictions = 0;
    else if (fitsMore >= EVIDENT) this.#contradictions++;
    if (isContradicting) {
      this.#doubt = Math.min(DOUBT_MAX, this.#doubt + CONTRADICTION);
      const isTurn = offRad > ERROR_RAD + ERROR_SHARE * turned;
      const isMirrored = turned > MIRRORED_RAD && Math.abs(scans.yaw + odometry.yaw) < ERROR_SHARE * turned;
      if (isMirrored) this.#seen.mirrored++;
      else this.#seen[isTurn ? "turn" : "way"]++;
    } else if (offM < movedM * AGREEING_SHARE && movedM > MOTION_M) this.#agrees();
    else if (offRad < turned * AGREEING_SHARE && turned > MOTION_RAD) this.#agrees();
  }

  /** The scans show no motion clearly: an earlier doubt fades. */
  noteUnclear(): void {
    this.#fade(UNCLEAR);
  }

  /**
   * Whether odometry, unchanged for `lastedS`, is frozen. `seen` returns the pose from the scans, or only that they show
   * the robot elsewhere, or nothing; it is called until the robot has moved.
   */
  isHanging(lastedS: number, seen: () => SeenPose | "elsewhere" | undefined): boolean {
    if (!this.mayHang(lastedS)) {
      this.#standing = undefined;
      this.#moving = 0;
      this.#comparedS = 0;
    } else if (this.#moving < HANGING_TIMES && this.#isStandingDue(lastedS)) {
      this.#comparedS = lastedS;
      const now = seen();
      const isElsewhere = now === "elsewhere" || now?.isElsewhere;
      const isMoving = isElsewhere || (now !== undefined && this.#hasMovedTo(now));
      this.#moving = isMoving ? this.#moving + 1 : 0;
    }
    return this.#moving >= HANGING_TIMES;
  }

  /** Whether the robot is no longer where the scans showed it first. */
  #hasMovedTo(now: Pose2d): boolean {
    this.#standing ??= now;
    const { x, y, yaw } = between2d(this.#standing, now);
    return Math.hypot(x, y) > HANGING_M || Math.abs(yaw) > HANGING_RAD;
  }

  /** Whether a scan shall show if odometry, unchanged for `lastedS`, is frozen. */
  #isStandingDue(lastedS: number): boolean {
    return this.#standingScans++ % COMPARED_EVERY === 0 || this.#moving > 0 ||
      lastedS - this.#comparedS >= COMPARED_AFTER_S;
  }

  /** Whether odometry has been unchanged for so long that it may be frozen. */
  mayHang(lastedS: number): boolean {
    return lastedS >= HANGING_S;
  }

  #agrees(): void {
    this.#fade(1);
  }

  #fade(by: number): void {
    this.#doubt = Math.max(0, this.#doubt - by);
    if (this.#doubt === 0) this.#seen = { mirrored: 0, turn: 0, way: 0 };
  }

  /** Whether the last comparisons contradicted odometry. */
  get isContradicting(): boolean {
    return this.#contradictions >= CONTRADICTIONS_MIN;
  }

  get isDoubted(): boolean {
    return this.#doubt >= DOUBTED;
  }

  /** Why odometry is doubted; undefined if it is not. */
  get reason(): string | undefined {
    if (!this.isDoubted) return undefined;
    const { mirrored, turn, way } = this.#seen, all = mirrored + turn + way;
    if (mirrored > turn && mirrored >= way) {
      return `in ${mirrored} of ${all} comparisons the scans turned the other way than odometry: the lidar may hang ` +
        "upside down, or the movement sensor may, and the map is mirrored then";
    }
    return turn > way
      ? `in ${turn} of ${all} comparisons its turns contradict those of the scans`
      : `in ${way} of ${all} comparisons its ways contradict those of the scans`;
  }
}
