/**
 * A base that drives in a simulated building. Lidars and movement sensors of the same machine that name the base
 * measure the building from its place.
 */

import type { Base, BaseProperties } from "../../lib/api/actuators/base.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import type { Vec3 } from "../../lib/geometry/pose.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { Operation } from "../../lib/resource/operation.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";
import { building, type BuildingName, STARTS } from "../../lib/slam/simulation/building.ts";
import { type RobotMotion, type Simulated, SimulatedRobot } from "../../lib/slam/simulation/robot.ts";

/** At full power. */
const FULL_MPS = 0.5;
const FULL_RPS = Math.PI / 2;
/** A faster command gives these speeds: in a step of the simulation, the base would be through a wall. */
const FASTEST_MPS = 5;
const FASTEST_RPS = 50;
const WIDTH_M = 0.4;
const WHEEL_CIRCUMFERENCE_M = 0.3;
const RAD_PER_DEG = Math.PI / 180;

export interface SimulationSettings {
  readonly building: BuildingName;
  readonly people: number;
  readonly startXM?: number;
  readonly startYM?: number;
  readonly startYawDegs: number;
  readonly wheelSlip: number;
  readonly seed: number;
}

export class SimulatedBase extends BaseComponent implements Base, Simulated {
  readonly simulation: SimulatedRobot;
  readonly #operation = new Operation(() => Promise.resolve(this.#drive(0, 0)));

  constructor(name: ResourceName, settings: SimulationSettings, private readonly clock: Clock) {
    super(name);
    const free = STARTS[settings.building];
    const { startXM = free.x, startYM = free.y } = settings;
    this.simulation = new SimulatedRobot({
      building: building(settings.building, settings.people),
      start: { x: startXM, y: startYM, yaw: settings.startYawDegs * RAD_PER_DEG },
      wheelSlip: settings.wheelSlip,
      seed: settings.seed,
    });
  }

  async moveStraight(distanceMm: number, speedMmPerSec: number, call?: Call): Promise<void> {
    if (distanceMm === 0 || speedMmPerSec === 0) return await this.stop();
    checkFinite(distanceMm, speedMmPerSec);
    const linearMps = Math.sign(distanceMm) * within(FASTEST_MPS, speedMmPerSec / 1000);
    await this.#moveFor({ linearMps, angularRps: 0 }, Math.abs(distanceMm / 1000 / linearMps), call);
  }

  async spin(angleDeg: number, speedDegPerSec: number, call?: Call): Promise<void> {
    if (angleDeg === 0 || speedDegPerSec === 0) return await this.stop();
    checkFinite(angleDeg, speedDegPerSec);
    const angularRps = Math.sign(angleDeg) * within(FASTEST_RPS, speedDegPerSec * RAD_PER_DEG);
    await this.#moveFor({ linearMps: 0, angularRps }, Math.abs(angleDeg * RAD_PER_DEG / angularRps), call);
  }

  async setPower(linear: Vec3, angular: Vec3): Promise<void> {
    checkFinite(linear.y, angular.z);
    await this.#move(within(1, linear.y) * FULL_MPS, within(1, angular.z) * FULL_RPS);
  }

  async setVelocity(linearMmPerSec: Vec3, angularDegPerSec: Vec3): Promise<void> {
    checkFinite(linearMmPerSec.y, angularDegPerSec.z);
    const linearMps = within(FASTEST_MPS, linearMmPerSec.y / 1000);
    await this.#move(linearMps, within(FASTEST_RPS, angularDegPerSec.z * RAD_PER_DEG));
  }

  getProperties(): Promise<BaseProperties> {
    return Promise.resolve({
      widthMeters: WIDTH_M,
      turningRadiusMeters: 0,
      wheelCircumferenceMeters: WHEEL_CIRCUMFERENCE_M,
    });
  }

  stop(): Promise<void> {
    return this.#operation.stop();
  }

  isMoving(): Promise<boolean> {
    return Promise.resolve(this.simulation.driving);
  }

  /** The true pose: `{"truth": true}` returns the pose in the building, which no sensor of the base knows. */
  override doCommand(command: JsonObject): Promise<JsonObject> {
    if (command.truth !== true) return super.doCommand(command);
    const { x, y, yaw } = this.simulation.truth(this.clock.monotonicMs() / 1000);
    return Promise.resolve({ x_m: x, y_m: y, yaw_degs: yaw / RAD_PER_DEG });
  }

  override close(): Promise<void> {
    return this.stop();
  }

  /** Until the next command. */
  async #move(linearMps: number, angularRps: number): Promise<void> {
    if (linearMps === 0 && angularRps === 0) return await this.stop();
    await this.#operation.run(() => Promise.resolve(this.#drive(linearMps, angularRps)));
  }

  async #moveFor({ linearMps, angularRps }: RobotMotion, seconds: number, call?: Call): Promise<void> {
    await this.#operation.run(async (signal) => {
      this.#drive(linearMps, angularRps);
      await this.clock.sleep(seconds * 1000, signal);
      this.#drive(0, 0);
    }, call?.signal);
  }

  #drive(linearMps: number, angularRps: number): void {
    this.simulation.drive(this.clock.monotonicMs() / 1000, { linearMps, angularRps });
  }
}

function within(most: number, value: number): number {
  return Math.max(-most, Math.min(value, most));
}

/** Refuses numbers that are not finite: the base would never be anywhere again. */
function checkFinite(...numbers: readonly number[]): void {
  if (numbers.every(Number.isFinite)) return;
  throw new SvcError("invalid_argument", `cannot move by ${numbers.join(" and ")}, wanted finite numbers`);
}
