/** Distinguishes jumps of odometry, and its catching up after a standstill, from motion. */

import type { OdometryReading } from "../../mapping.ts";
import { between2d } from "../../pose2d.ts";

/**
 * A motion between two readings is a jump if it is larger than this plus, for each second between them, a multiple of
 * the greatest speed so far or a minimum speed.
 */
const JUMP_M = 0.3;
const JUMP_RAD = 0.3;
const JUMP_FACTOR = 2;
const JUMP_MPS = 2;
const JUMP_RPS = 3;
/**
 * Odometry that was frozen for this long may catch up in one step: a motion that is larger than this, and than a
 * multiple of the greatest motion seen in such a time.
 */
const CATCHING_UP_S = 0.5;
const CATCHING_UP_M = 0.1;
const CATCHING_UP_RAD = 0.1;
const CATCHING_UP_FACTOR = 3;
/** The assumed turning speed of a robot that has not turned yet. */
const CATCHING_UP_RPS = 0.5;
/** Shortest span for a speed, and the longest. */
const BASE_S = 0.1;
const REACH_S = 1;

/** Distinguishes jumps from fast motion: two in a row mean a fast robot. */
export class OdometryJumps {
  #fastestMps = JUMP_MPS;
  #fastestRps = JUMP_RPS;
  /** The greatest speeds so far, and the reading from which the next are measured. */
  #seenMps = 0;
  #seenRps = 0;
  #base: OdometryReading | undefined;
  #isAfterJump = false;

  /** Whether odometry, frozen since a time, now catches up. A few equal readings are not a standstill. */
  isCatchingUp(sinceS: number, from: OdometryReading, to: OdometryReading): boolean {
    if (from.timeS - sinceS < CATCHING_UP_S) return false;
    const stoodS = to.timeS - sinceS;
    const { x, y, yaw } = between2d(from.pose, to.pose), dt = to.timeS - from.timeS;
    const movedM = Math.hypot(x, y), turned = Math.abs(yaw);
    const isUsual = movedM < CATCHING_UP_M + CATCHING_UP_FACTOR * this.#seenMps * dt &&
      turned < CATCHING_UP_RAD + CATCHING_UP_FACTOR * this.#seenRps * dt;
    if (isUsual) return false;
    const mps = this.#seenMps > 0 ? this.#seenMps : JUMP_MPS;
    const rps = Math.max(CATCHING_UP_RPS, this.#seenRps);
    return movedM <= JUMP_M + JUMP_FACTOR * mps * stoodS && turned <= JUMP_RAD + JUMP_FACTOR * rps * stoodS;
  }

  /** The greatest speed so far. */
  get fastestMps(): number {
    return this.#seenMps;
  }

  #learn(to: OdometryReading): void {
    const dt = this.#base ? to.timeS - this.#base.timeS : 0;
    if (this.#base && dt < BASE_S) return;
    if (this.#base && dt <= REACH_S) {
      const { x, y, yaw } = between2d(this.#base.pose, to.pose);
      this.#seenMps = Math.max(this.#seenMps, Math.hypot(x, y) / dt);
      this.#seenRps = Math.max(this.#seenRps, Math.abs(yaw) / dt);
    }
    this.#base = to;
  }

  isJump(from: OdometryReading, to: OdometryReading): boolean {
    const { x, y, yaw } = between2d(from.pose, to.pose), dt = to.timeS - from.timeS;
    const movedM = Math.hypot(x, y), turned = Math.abs(yaw);
    const isFar = movedM > JUMP_M + JUMP_FACTOR * this.#fastestMps * dt ||
      turned > JUMP_RAD + JUMP_FACTOR * this.#fastestRps * dt;
    const isJump = isFar && !this.#isAfterJump;
    this.#isAfterJump = isJump;
    if (isJump) {
      this.#base = undefined;
      return true;
    }
    this.#learn(to);
    const spanS = Math.max(dt, BASE_S);
    this.#fastestMps = Math.max(this.#fastestMps, movedM / spanS);
    this.#fastestRps = Math.max(this.#fastestRps, turned / spanS);
    return false;
  }
}
