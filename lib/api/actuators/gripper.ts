/** Gripper: opens, grabs and holds. Its inputs are the positions of its joints, in degrees or millimetres. */

import { GripperService } from "../../../proto/gen/gripper_pb.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Actuator, Call } from "../../resource/resource.ts";
import { refusingNaN } from "../shared/numbers.ts";
import { callOf, ComponentClient, componentHandlers } from "../shared/resource.ts";
import { fromKinematicsMessage, type Kinematics, kinematicsHandlers } from "../shared/kinematics.ts";

/** Grabs and releases. */
export interface Gripper extends Actuator {
  /** Resolves when it is open. */
  open(call?: Call): Promise<void>;
  /** Closes the gripper; resolves to whether it caught something. */
  grab(call?: Call): Promise<boolean>;
  /** Whether something is held, as far as the gripper knows. */
  isHoldingSomething(call?: Call): Promise<HoldingStatus>;
  /** Positions of its joints: degrees or mm. */
  getCurrentInputs(call?: Call): Promise<readonly number[]>;
  /** Moves its joints: degrees or mm. */
  goToInputs(values: readonly number[], call?: Call): Promise<void>;
  /** The model of its joints, as SVA (JSON) or URDF. */
  getKinematics(call?: Call): Promise<Kinematics>;
}

/** Whether a gripper holds an object. */
export interface HoldingStatus {
  /** Whether the jaws hold an object now. */
  readonly isHoldingSomething: boolean;
  /** Further facts from the model: pressure, confidence, … */
  readonly meta?: JsonObject;
}

class GripperClient extends ComponentClient<typeof GripperService> implements Gripper {
  async open(call?: Call): Promise<void> {
    await this.rpc.open(this.request(call), call);
  }

  async grab(call?: Call): Promise<boolean> {
    return (await this.rpc.grab(this.request(call), call)).success;
  }

  async isHoldingSomething(call?: Call): Promise<HoldingStatus> {
    const { isHoldingSomething, meta } = await this.rpc.isHoldingSomething(this.request(call), call);
    return meta ? { isHoldingSomething, meta: meta as JsonObject } : { isHoldingSomething };
  }

  async getCurrentInputs(call?: Call): Promise<readonly number[]> {
    return (await this.rpc.getCurrentInputs(this.request(call), call)).values;
  }

  async goToInputs(values: readonly number[], call?: Call): Promise<void> {
    await this.rpc.goToInputs({ ...this.request(call), values: [...values] }, call);
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

/** The API `rdk:component:gripper`. */
export const GripperApi: Api<Gripper> = {
  name: "rdk:component:gripper",
  desc: GripperService,
  namedBy: ["name"],
  monitored: ["Open", "Grab", "GoToInputs"],
  joints: (gripper, call) => gripper.getCurrentInputs(call),
  isRigidWithoutKinematics: true,
  captured: "none",
  client: (name: ResourceName, channel: Channel) => new GripperClient(name, channel, GripperService),
  serve: (find) =>
    refusingNaN(service(GripperService, {
      ...componentHandlers(find),
      ...kinematicsHandlers(find),
      open: async (request, ctx) => {
        await find(request.name).open(callOf(request, ctx));
        return {};
      },
      grab: async (request, ctx) => ({ success: await find(request.name).grab(callOf(request, ctx)) }),
      isHoldingSomething: (request, ctx) => find(request.name).isHoldingSomething(callOf(request, ctx)),
      getCurrentInputs: async (request, ctx) => ({
        values: [...await find(request.name).getCurrentInputs(callOf(request, ctx))],
      }),
      goToInputs: async (request, ctx) => {
        await find(request.name).goToInputs(request.values, callOf(request, ctx));
        return {};
      },
      stop: async (request, ctx) => {
        await find(request.name).stop(callOf(request, ctx));
        return {};
      },
      isMoving: async (request, ctx) => ({
        isMoving: await find(request.name).isMoving({ signal: ctx.signal }),
      }),
    })),
};
