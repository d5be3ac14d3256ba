/**
 * Base: a platform that drives over ground. Its Y axis points forwards and its Z axis up, so that a positive
 * angle turns left. Distances are in mm, angles in degrees; powers are fractions from -1 to 1.
 */

import { BaseService } from "../../../proto/gen/base_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import { ORIGIN, type Vec3 } from "../../geometry/pose.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Actuator, Call } from "../../resource/resource.ts";
import { refusingNaN } from "../shared/numbers.ts";
import { callOf, ComponentClient, componentHandlers } from "../shared/resource.ts";

/** A platform that drives. */
export interface Base extends Actuator {
  /**
   * Drives the given distance at the given speed; resolves when done or when another command interrupts it.
   * If one argument is negative, the base drives backwards. A distance or speed of 0 stops the base.
   */
  moveStraight(distanceMm: number, speedMmPerSec: number, call?: Call): Promise<void>;
  /** Turns on the spot; resolves like `moveStraight`. */
  spin(angleDeg: number, speedDegPerSec: number, call?: Call): Promise<void>;
  /** Drives at fractions of full power until the next command. */
  setPower(linear: Vec3, angular: Vec3, call?: Call): Promise<void>;
  /** Drives at a velocity (mm/s and degrees/s) until the next command. */
  setVelocity(linearMmPerSec: Vec3, angularDegPerSec: Vec3, call?: Call): Promise<void>;
  /** Width, turning radius and wheel circumference, in mm or m as their names say. */
  getProperties(call?: Call): Promise<BaseProperties>;
}

/** Sizes of a base; 0 if it does not know them. */
export interface BaseProperties {
  /** Distance between the left and the right wheels. */
  readonly widthMeters: number;
  /** 0 for a base that turns on the spot. */
  readonly turningRadiusMeters: number;
  /** Way of one turn of a wheel. */
  readonly wheelCircumferenceMeters: number;
}

class BaseClient extends ComponentClient<typeof BaseService> implements Base {
  async moveStraight(distanceMm: number, speedMmPerSec: number, call?: Call): Promise<void> {
    const wholeMm = BigInt(Math.round(distanceMm));
    await this.rpc.moveStraight(
      { ...this.request(call), distanceMm: wholeMm, mmPerSec: speedMmPerSec },
      call,
    );
  }

  async spin(angleDeg: number, speedDegPerSec: number, call?: Call): Promise<void> {
    await this.rpc.spin({ ...this.request(call), angleDeg, degsPerSec: speedDegPerSec }, call);
  }

  async setPower(linear: Vec3, angular: Vec3, call?: Call): Promise<void> {
    await this.rpc.setPower({ ...this.request(call), linear, angular }, call);
  }

  async setVelocity(linearMmPerSec: Vec3, angularDegPerSec: Vec3, call?: Call): Promise<void> {
    const request = { ...this.request(call), linear: linearMmPerSec, angular: angularDegPerSec };
    await this.rpc.setVelocity(request, call);
  }

  async getProperties(call?: Call): Promise<BaseProperties> {
    const answer = await this.rpc.getProperties(this.request(call), call);
    const { widthMeters, turningRadiusMeters, wheelCircumferenceMeters } = answer;
    return { widthMeters, turningRadiusMeters, wheelCircumferenceMeters };
  }

  async stop(call?: Call): Promise<void> {
    await this.rpc.stop(this.request(call), call);
  }

  async isMoving(call?: Call): Promise<boolean> {
    return (await this.rpc.isMoving({ name: this.name.far }, call)).isMoving;
  }
}

/** The API `rdk:component:base`. */
export const BaseApi: Api<Base> = {
  name: "rdk:component:base",
  desc: BaseService,
  namedBy: ["name"],
  monitored: ["MoveStraight", "Spin", "SetPower", "SetVelocity"],
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) => new BaseClient(name, channel, BaseService),
  serve: (find) =>
    refusingNaN(service(BaseService, {
      ...componentHandlers(find),
      moveStraight: async (request, ctx) => {
        const { name, distanceMm, mmPerSec } = request;
        await find(name).moveStraight(Number(distanceMm), mmPerSec, callOf(request, ctx));
        return {};
      },
      spin: async (request, ctx) => {
        await find(request.name).spin(request.angleDeg, request.degsPerSec, callOf(request, ctx));
        return {};
      },
      setPower: async (request, ctx) => {
        const { name, linear = ORIGIN, angular = ORIGIN } = request;
        await find(name).setPower(linear, angular, callOf(request, ctx));
        return {};
      },
      setVelocity: async (request, ctx) => {
        const { name, linear = ORIGIN, angular = ORIGIN } = request;
        await find(name).setVelocity(linear, angular, callOf(request, ctx));
        return {};
      },
      getProperties: (request, ctx) => find(request.name).getProperties(callOf(request, ctx)),
      stop: async (request, ctx) => {
        await find(request.name).stop(callOf(request, ctx));
        return {};
      },
      isMoving: async (request, ctx) => ({
        isMoving: await find(request.name).isMoving({ signal: ctx.signal }),
      }),
    })),
};
