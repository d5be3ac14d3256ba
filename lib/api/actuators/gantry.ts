/**
 * Gantry: carriages on one or more straight axes, with positions in millimetres from the start of each axis.
 */

import { GantryService } from "../../../proto/gen/gantry_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Actuator, Call } from "../../resource/resource.ts";
import { refusingNaN } from "../shared/numbers.ts";
import { callOf, ComponentClient, componentHandlers } from "../shared/resource.ts";
import { fromKinematicsMessage, type Kinematics, kinematicsHandlers } from "../shared/kinematics.ts";

/** Linear axes. */
export interface Gantry extends Actuator {
  /** Position on each axis, in millimetres. */
  getPosition(call?: Call): Promise<readonly number[]>;
  /**
   * Moves every axis and resolves when all have arrived. An empty list of speeds means the model's own
   * speeds.
   */
  moveToPosition(
    positionsMm: readonly number[],
    speedsMmPerSec: readonly number[],
    call?: Call,
  ): Promise<void>;
  /** Finds the start of each axis; resolves to whether it succeeded. */
  home(call?: Call): Promise<boolean>;
  /** Length of each axis, in millimetres. */
  getLengths(call?: Call): Promise<readonly number[]>;
  /** The model of the axes, as SVA (JSON) or URDF. */
  getKinematics(call?: Call): Promise<Kinematics>;
}

class GantryClient extends ComponentClient<typeof GantryService> implements Gantry {
  async getPosition(call?: Call): Promise<readonly number[]> {
    return (await this.rpc.getPosition(this.request(call), call)).positionsMm;
  }

  async moveToPosition(
    positionsMm: readonly number[],
    speedsMmPerSec: readonly number[],
    call?: Call,
  ): Promise<void> {
    const request = {
      ...this.request(call),
      positionsMm: [...positionsMm],
      speedsMmPerSec: [...speedsMmPerSec],
    };
    await this.rpc.moveToPosition(request, call);
  }

  async home(call?: Call): Promise<boolean> {
    return (await this.rpc.home(this.request(call), call)).homed;
  }

  async getLengths(call?: Call): Promise<readonly number[]> {
    return (await this.rpc.getLengths(this.request(call), call)).lengthsMm;
  }

  async getKinematics(call?: Call): Promise<Kinematics> {
    return fromKinematicsMessage(await this.rpc.getKinematics(this.request(call), call));
  }

  async stop(call?: Call): Promise<void> {
    await this.rpc.stop(this.request(call), call);
  }

  async isMoving(call?: Call): Promise<boolean> {
    return (await this.rpc.isMoving({ name: this.name.far }, call)).isMoving;
  }
}

/** The API `rdk:component:gantry`. */
export const GantryApi: Api<Gantry> = {
  name: "rdk:component:gantry",
  desc: GantryService,
  namedBy: ["name"],
  monitored: ["MoveToPosition"],
  joints: (gantry, call) => gantry.getPosition(call),
  captured: {
    Position: async (gantry, _, call) => ({ reading: { positions_mm: [...await gantry.getPosition(call)] } }),
    Lengths: async (gantry, _, call) => ({ reading: { lengths_mm: [...await gantry.getLengths(call)] } }),
  },
  client: (name: ResourceName, channel: Channel) => new GantryClient(name, channel, GantryService),
  serve: (find) =>
    refusingNaN(service(GantryService, {
      ...componentHandlers(find),
      ...kinematicsHandlers(find),
      getPosition: async (request, ctx) => ({
        positionsMm: [...await find(request.name).getPosition(callOf(request, ctx))],
      }),
      moveToPosition: async (request, ctx) => {
        const { name, positionsMm, speedsMmPerSec } = request;
        await find(name).moveToPosition(positionsMm, speedsMmPerSec, callOf(request, ctx));
        return {};
      },
      home: async (request, ctx) => ({ homed: await find(request.name).home(callOf(request, ctx)) }),
      getLengths: async (request, ctx) => ({
        lengthsMm: [...await find(request.name).getLengths(callOf(request, ctx))],
      }),
      stop: async (request, ctx) => {
        await find(request.name).stop(callOf(request, ctx));
        return {};
      },
      isMoving: async (request, ctx) => ({
        isMoving: await find(request.name).isMoving({ signal: ctx.signal }),
      }),
    })),
};
