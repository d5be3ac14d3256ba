/**
 * A robot with two driven wheels in a building: its true pose, its wheels' odometry, and its sensors' measurements. It
 * is a function of its commands, their times and its seed.
 *
 * Wheels slip: the robot moves a little less than they turn, by a changing share. It stops before it touches an
 * obstacle, while its wheels keep turning.
 */

import { SvcError } from "../../base/error.ts";
import { randomFrom } from "../../geometry/random.ts";
import { compose2d, IDENTITY_2D, type Pose2d } from "../pose2d.ts";
import { type Building, clearance, obstaclesAt, rangeTo } from "./building.ts";

export interface RobotSettings {
  readonly building: Building;
  readonly start: Pose2d;
  /** The greatest share of a movement that the wheels lose. */
  readonly wheelSlip: number;
  readonly seed: number;
}

const STEP_S = 0.02;
/** Interval of the changes of the slip. */
const SLIP_S = 0.5;
const RADIUS_M = 0.2;
/** A longer time without a query is not simulated step by step. */
const LONGEST_S = 600;
const GRAVITY_M_PER_S2 = 9.81;

export interface RobotMotion {
  readonly linearMps: number;
  readonly angularRps: number;
}

const STANDING: RobotMotion = { linearMps: 0, angularRps: 0 };

export class SimulatedRobot {
  #timeS: number | undefined;
  #truth: Pose2d;
  #odometry: Pose2d = IDENTITY_2D;
  #command: RobotMotion = STANDING;
  #motion: RobotMotion = STANDING;
  #slipUntilS = -Infinity;
  #slip = { linear: 0, angular: 0 };
  readonly #random: () => number;

  constructor(private readonly settings: RobotSettings) {
    this.#truth = settings.start;
    this.#random = randomFrom(settings.seed);
  }

  get building(): Building {
    return this.settings.building;
  }

  /** Sets the wheels' command from now on. */
  drive(timeS: number, command: RobotMotion): void {
    this.#advance(timeS);
    this.#command = command;
  }

  get driving(): boolean {
    return this.#command.linearMps !== 0 || this.#command.angularRps !== 0;
  }

  /** Its true pose in the building. */
  truth(timeS: number): Pose2d {
    this.#advance(timeS);
    return this.#truth;
  }

  /** Its pose by its wheels, from its start. */
  odometry(timeS: number): Pose2d {
    this.#advance(timeS);
    return this.#odometry;
  }

  /** Its motion, which its gyroscope and accelerometer measure. */
  motion(timeS: number): RobotMotion {
    this.#advance(timeS);
    return this.#motion;
  }

  /** The wheels' command. */
  command(): RobotMotion {
    return this.#command;
  }

  /** Acceleration in its own frame, in m/s²: x ahead, y to the left, z up. */
  acceleration(timeS: number): readonly [number, number, number] {
    const { linearMps, angularRps } = this.motion(timeS);
    return [0, linearMps * angularRps, GRAVITY_M_PER_S2];
  }

  #advance(timeS: number): void {
    this.#timeS ??= timeS;
    if (timeS - this.#timeS > LONGEST_S) this.#timeS = timeS - LONGEST_S;
    while (this.#timeS < timeS) {
      const stepS = Math.min(STEP_S, timeS - this.#timeS);
      if (!this.driving) {
        this.#motion = STANDING;
        this.#timeS = timeS;
        return;
      }
      this.#timeS += stepS;
      this.#step(this.#timeS, stepS);
    }
  }

  #step(timeS: number, stepS: number): void {
    const { linearMps, angularRps } = this.#command;
    if (timeS >= this.#slipUntilS) {
      const { wheelSlip } = this.settings;
      this.#slip = { linear: wheelSlip * this.#random(), angular: wheelSlip * (2 * this.#random() - 1) };
      this.#slipUntilS = timeS + SLIP_S;
    }
    this.#odometry = compose2d(this.#odometry, arc(linearMps * stepS, angularRps * stepS));
    const moved = {
      linearMps: linearMps * (1 - this.#slip.linear),
      angularRps: angularRps * (1 - this.#slip.angular) + this.#slip.angular * linearMps,
    };
    const next = compose2d(this.#truth, arc(moved.linearMps * stepS, moved.angularRps * stepS));
    const obstacles = obstaclesAt(this.building, timeS);
    const before = clearance(obstacles, this.#truth.x, this.#truth.y);
    const after = clearance(obstacles, next.x, next.y);
    // The robot may always move away, because a person may have come too near.
    const free = after >= RADIUS_M || after >= before;
    this.#motion = free ? moved : { linearMps: 0, angularRps: moved.angularRps };
    this.#truth = free ? next : { ...this.#truth, yaw: next.yaw };
  }
}

/** A short movement along a circle. */
function arc(lengthM: number, angle: number): Pose2d {
  return { x: lengthM * Math.cos(angle / 2), y: lengthM * Math.sin(angle / 2), yaw: angle };
}

export interface LidarSettings {
  readonly beams: number;
  readonly maxRangeM: number;
  /** The standard deviation of a range. */
  readonly noiseM: number;
  /** How long a turn takes; undefined: none. */
  readonly sweepS?: number;
}

/** Where a robot is, and how it got there in the latest moments. */
export interface RobotMoment {
  readonly timeS: number;
  readonly at: Pose2d;
  readonly motion?: RobotMotion;
}

/**
 * One turn of a lidar that ends at a moment: x, y, x, y, … of the returns in the lidar's frame, x ahead, and when each
 * was measured. Beams go counter-clockwise from behind; beams that meet nothing within the range give no point.
 */
export function scanAt(
  building: Building,
  { timeS, at, motion = STANDING }: RobotMoment,
  { beams, maxRangeM, noiseM, sweepS = 0 }: LidarSettings,
  random: () => number,
): { readonly points: Float32Array; readonly offsetsS?: Float32Array } {
  const obstacles = obstaclesAt(building, timeS);
  const points = new Float32Array(2 * beams), offsetsS = new Float32Array(beams);
  let to = 0;
  for (let beam = 0; beam < beams; beam++) {
    const angle = -Math.PI + 2 * Math.PI * beam / beams;
    const offsetS = sweepS * ((beam + 1) / beams - 1);
    const from = offsetS === 0
      ? at
      : compose2d(at, arc(motion.linearMps * offsetS, motion.angularRps * offsetS));
    const range = rangeTo(obstacles, from.x, from.y, from.yaw + angle) + noiseM * normal(random);
    if (!(range > 0 && range <= maxRangeM)) continue;
    points[2 * to] = range * Math.cos(angle);
    points[2 * to + 1] = range * Math.sin(angle);
    offsetsS[to++] = offsetS;
  }
  return { points: points.slice(0, 2 * to), ...(sweepS > 0 ? { offsetsS: offsetsS.slice(0, to) } : {}) };
}

/** A number of the normal distribution (the method of Box and Muller). */
export function normal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** A vehicle in a building, which gives the sensors mounted on it their place. */
export interface Simulated {
  readonly simulation: SimulatedRobot;
}

/** The robot of a vehicle. Throws `failed_precondition`, about `who`, for a vehicle without a simulated building. */
export function simulationOf(vehicle: object, who: string): SimulatedRobot {
  const { simulation } = vehicle as Partial<Simulated>;
  if (simulation instanceof SimulatedRobot) return simulation;
  throw new SvcError(
    "failed_precondition",
    `${who} drives in no simulated building; set "building" of a fake base of this machine`,
  );
}
