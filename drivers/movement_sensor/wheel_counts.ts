/**
 * The positions of two wheels' motors, and whether they count from the same zero position as before.
 *
 * A reset by a call to this machine is known. One within a module or on another machine is not, nor that a module was
 * started again, whose motor counts from 0 then: it is recognized by a position that was far from 0 and is suddenly as
 * near to it as the motor's speed allows.
 */

import type { Motor } from "../../lib/api/actuators/motor.ts";
import { hasUnseenResets, zeroMark } from "../../lib/api/shared/zero_resets.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";

export type MotorPair = readonly [left: Motor, right: Motor];
/** In revolutions. */
export type WheelPositions = readonly [left: number, right: number];

export interface WheelReading {
  readonly positions: WheelPositions;
  /** Since the reading before. */
  readonly seconds: number;
  /** Whether the way since the reading before is unknown. */
  readonly isAnew: boolean;
}

/** No wheel is faster from one reading to the next than so many times its speed before, and so much more. */
const FASTER = 4;
const FASTER_PER_SEC = 2;
/** Inaccuracy of a position just after a reset, in revolutions. */
const NEAR_ZERO = 0.01;

export class WheelCounts {
  #marks: string | undefined;
  #last: { readonly positions: WheelPositions; readonly atMs: number } | undefined;
  /** Revolutions per second, as far as they are known. */
  #speeds: WheelPositions = [0, 0];

  constructor(
    private readonly motors: MotorPair,
    private readonly tools: { readonly clock: Clock; readonly logger: Logger },
  ) {}

  /** Reads both motors; undefined while one is given another zero position. Throws if a motor does not answer. */
  async read(signal: AbortSignal): Promise<WheelReading | undefined> {
    const [left, right] = this.motors;
    const marks = zeroMarks(this.motors);
    const positions = await Promise.all([readPosition(left, signal), readPosition(right, signal)]);
    // Which zero position these have is not known.
    if (marks === undefined || marks !== zeroMarks(this.motors)) return undefined;

    const atMs = this.tools.clock.monotonicMs(), last = this.#last;
    const seconds = Math.max(atMs - (last?.atMs ?? atMs), 1) / 1000;
    const isReset = !last || marks !== this.#marks;
    const isAnew = isReset || this.#jumped(last.positions, positions, seconds);
    if (!isAnew) {
      const speed = (wheel: 0 | 1) => (positions[wheel] - last.positions[wheel]) / seconds;
      this.#speeds = [speed(0), speed(1)];
    }

    this.#marks = marks;
    this.#last = { positions, atMs };
    return { positions, seconds, isAnew };
  }

  #jumped(before: WheelPositions, now: WheelPositions, seconds: number): boolean {
    const jumped = ([0, 1] as const).filter((wheel) =>
      hasUnseenResets(this.motors[wheel]) &&
      isFromZero(before[wheel], now[wheel], this.#speeds[wheel] * seconds, seconds)
    );
    for (const wheel of jumped) {
      const unknown = "its way since the last reading is unknown";
      this.tools.logger.info(`${this.motors[wheel].name} counts from another zero position: ${unknown}`);
    }
    return jumped.length > 0;
  }
}

/** Whether a position comes from another zero, of a wheel that should have turned by `turned`. */
function isFromZero(before: number, now: number, turned: number, seconds: number): boolean {
  const isNearZero = now >= Math.min(turned, 0) - NEAR_ZERO && now <= Math.max(turned, 0) + NEAR_ZERO;
  return isNearZero && Math.abs(now - before) > FASTER * Math.abs(turned) + FASTER_PER_SEC * seconds;
}

/** What tells a reset of a motor; `undefined` while there is one. */
function zeroMarks(pair: MotorPair): string | undefined {
  const marks = pair.map(zeroMark);
  return marks.includes(undefined) ? undefined : marks.join();
}

async function readPosition(motor: Motor, signal: AbortSignal): Promise<number> {
  const position = await motor.getPosition({ signal });
  if (Number.isFinite(position)) return position;
  throw new SvcError("unavailable", `${motor.name} says that it is at ${position}`);
}
