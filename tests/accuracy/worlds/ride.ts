/** What a robot does and measures in a world: its true poses, its odometry, its scans. */

import { randomFrom } from "../../../lib/geometry/random.ts";
import type { OdometryReading, RangeScan } from "../../../lib/slam/mapping.ts";
import {
  between2d,
  compose2d,
  IDENTITY_2D,
  interpolate2d,
  type Pose2d,
  wrapAngle,
} from "../../../lib/slam/pose2d.ts";
import { type Obstacles, obstaclesAt, rangeTo } from "../../../lib/slam/simulation/building.ts";
import { normal } from "../../../lib/slam/simulation/robot.ts";
import type { World } from "./matrix.ts";

const FIRST_S = 1000;
const STEP_S = 0.01;
const LINEAR_MPS2 = 0.8;
const ANGULAR_RPS2 = 3;
const NEAR_M = 0.02;
/** The robot stands for this long at the end, so that odometry that comes late has come. */
const STANDING_S = 1;
const ODOMETRY_HZ = 20;
const SLIP = 0.05;
const SLIP_S = 0.5;
const LATE_S = 0.2;
const FROZEN_S = 10;
const JUMP_M = 1;
/** People are seen as they were this long ago at most. */
const PEOPLE_S = 0.02;
/** A lidar sees nothing nearer. */
const RANGE_MIN_M = 0.05;

/** The poses of a ride at equal intervals from `FIRST_S`. */
export class Ride {
  readonly truth: readonly Pose2d[];
  readonly #odometry: readonly Pose2d[];

  constructor(private readonly world: World) {
    this.truth = drivenIn(world);
    this.#odometry = measuredBy(this.truth, world);
  }

  get endS(): number {
    return FIRST_S + (this.truth.length - 1) * STEP_S;
  }

  truthAt(timeS: number): Pose2d {
    return at(this.truth, timeS);
  }

  /** In the frame of the first pose, as the true poses are not. */
  odometry(): OdometryReading[] {
    if (this.world.fault === "absent") return [];
    const readings: OdometryReading[] = [];
    // Half a reading off the scans.
    for (let timeS = FIRST_S + 0.003; timeS < this.endS; timeS += 1 / ODOMETRY_HZ) {
      readings.push({ timeS, pose: at(this.#odometry, timeS) });
    }
    return readings;
  }

  *scans(): Generator<RangeScan> {
    const { lidar } = this.world, random = randomFrom(this.world.seed + 77);
    let turned = 0;
    for (let timeS = FIRST_S + lidar.sweepS; timeS <= this.endS; timeS += 1 / lidar.scanHz) {
      yield this.#scan(timeS, turned, random);
      turned = (turned + lidar.driftShare * lidar.stepRad) % lidar.stepRad;
    }
  }

  #scan(timeS: number, turned: number, random: () => number): RangeScan {
    const { lidar, walls, walkers } = this.world;
    const { beams, stepRad, sweepS, noiseM, maxRangeM } = lidar;
    const points = new Float32Array(3 * beams), offsetsS = new Float32Array(beams);
    let to = 0, obstacles: Obstacles | undefined, seenS = -Infinity, pose = this.truthAt(timeS);
    for (let beam = 0; beam < beams; beam++) {
      const offsetS = beams > 1 ? sweepS * (beam / (beams - 1) - 1) : 0, nowS = timeS + offsetS;
      if (!obstacles || nowS - seenS > PEOPLE_S) {
        obstacles = obstaclesAt({ walls, doors: [], people: walkers }, nowS);
        seenS = nowS;
      }
      if (sweepS > 0) pose = this.truthAt(nowS);
      const angle = (beam - (beams - 1) / 2) * stepRad + turned;
      const range = rangeTo(obstacles, pose.x, pose.y, pose.yaw + angle) + noiseM * normal(random);
      if (!(range > RANGE_MIN_M && range <= maxRangeM)) continue;
      offsetsS[to] = offsetS;
      points[3 * to] = range * Math.cos(angle);
      points[3 * to++ + 1] = range * Math.sin(angle);
    }
    const seen = points.slice(0, 3 * to);
    return sweepS > 0 ? { timeS, points: seen, offsetsS: offsetsS.slice(0, to) } : { timeS, points: seen };
  }
}

function at(poses: readonly Pose2d[], timeS: number): Pose2d {
  const place = Math.max(0, Math.min(poses.length - 1, (timeS - FIRST_S) / STEP_S));
  const before = Math.floor(place), after = Math.min(poses.length - 1, before + 1);
  return interpolate2d(poses[before], poses[after], place - before);
}

/** Turns on the spot to the next place of the way, and drives there; brakes to a stop before each. */
function drivenIn({ way, speedMps, turnRps, endS }: World): Pose2d[] {
  let pose: Pose2d = { ...way[0], yaw: way.length > 1 ? headingTo(way[0], way[1]) : 0 };
  const poses = [pose];
  let linear = 0, angular = 0, next = 1;
  const standing = Math.round(STANDING_S / STEP_S);
  for (let step = 0; step * STEP_S < endS - STANDING_S; step++) {
    const goal = way[next];
    let wantedMps = 0, wantedRps = 0;
    if (goal) {
      const away = Math.hypot(goal.x - pose.x, goal.y - pose.y);
      const turn = wrapAngle(headingTo(pose, goal) - pose.yaw);
      if (away < NEAR_M && Math.abs(linear) < 0.05) next++;
      else {
        wantedRps = Math.sign(turn) * Math.min(turnRps, Math.sqrt(ANGULAR_RPS2 * Math.abs(turn)));
        const isAhead = Math.abs(turn) < 0.1 || (linear > 0 && Math.abs(turn) < 0.4);
        if (isAhead) wantedMps = Math.min(speedMps, Math.sqrt(LINEAR_MPS2 * away));
        if (isAhead && away < 0.2) wantedRps = 0;
        if (away < 0.2 && !isAhead) next++;
      }
    }
    linear = towards(linear, wantedMps, LINEAR_MPS2 * STEP_S);
    angular = towards(angular, wantedRps, ANGULAR_RPS2 * STEP_S);
    pose = compose2d(pose, arc(linear * STEP_S, angular * STEP_S));
    poses.push(pose);
  }
  while (Math.abs(linear) > 0 || Math.abs(angular) > 0) {
    linear = towards(linear, 0, LINEAR_MPS2 * STEP_S);
    angular = towards(angular, 0, ANGULAR_RPS2 * STEP_S);
    pose = compose2d(pose, arc(linear * STEP_S, angular * STEP_S));
    poses.push(pose);
  }
  for (let step = 0; step < standing; step++) poses.push(pose);
  return poses;
}

function headingTo(from: { x: number; y: number }, to: { x: number; y: number }): number {
  return Math.atan2(to.y - from.y, to.x - from.x);
}

function towards(value: number, wanted: number, most: number): number {
  return Math.abs(wanted - value) <= most ? wanted : value + Math.sign(wanted - value) * most;
}

function arc(lengthM: number, angle: number): Pose2d {
  return { x: lengthM * Math.cos(angle / 2), y: lengthM * Math.sin(angle / 2), yaw: angle };
}

/** The poses by odometry at the same times. */
function measuredBy(truth: readonly Pose2d[], { fault, isOther, seed }: World): Pose2d[] {
  const steps = truth.map((pose, k) => k === 0 ? IDENTITY_2D : between2d(truth[k - 1], pose));
  const middle = Math.floor(truth.length * 0.35), random = randomFrom(seed + 33);
  if (fault === "slips 5 %") return summed(slipping(steps, isOther, random));
  if (fault === "jumps 1 m") {
    const angle = 2 * Math.PI * random();
    const jump = { x: JUMP_M * Math.cos(angle), y: JUMP_M * Math.sin(angle), yaw: isOther ? 0.5 : 0 };
    return summed(steps.map((step, k) => k === middle ? compose2d(step, jump) : step));
  }
  const whole = summed(steps), frozen = Math.round(FROZEN_S / STEP_S);
  if (fault === "late 0.2 s") return whole.map((_, k) => whole[Math.max(0, k - Math.round(LATE_S / STEP_S))]);
  if (fault !== "frozen 10 s") return whole;
  const isFrozen = (k: number) => k >= middle && k < middle + frozen;
  if (isOther) return summed(steps.map((step, k) => isFrozen(k) ? IDENTITY_2D : step));
  return whole.map((pose, k) => isFrozen(k) ? whole[middle] : pose);
}

/** The wheels turn farther than the robot drives, by a share that changes, or that stays. */
function slipping(steps: readonly Pose2d[], isSteady: boolean, random: () => number): Pose2d[] {
  let linear = SLIP, angular = SLIP * (2 * random() - 1);
  return steps.map(({ x, y, yaw }, k) => {
    if (!isSteady && k % Math.round(SLIP_S / STEP_S) === 0) {
      linear = SLIP * random();
      angular = SLIP * (2 * random() - 1);
    }
    return { x: x / (1 - linear), y, yaw: yaw / (1 - angular) + (isSteady ? 0 : angular * x) };
  });
}

function summed(steps: readonly Pose2d[]): Pose2d[] {
  let pose = IDENTITY_2D;
  return steps.map((step) => pose = compose2d(pose, step));
}
