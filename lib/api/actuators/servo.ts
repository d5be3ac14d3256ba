/** Servo: turns to an angle in whole degrees. */

import { ServoService } from "../../../proto/gen/servo_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Actuator, Call } from "../../resource/resource.ts";
import { callOf, ComponentClient, componentHandlers } from "../shared/resource.ts";

/** Turns to an angle and holds it. */
export interface Servo extends Actuator {
  /** Turns to an angle: a whole number from 0. */
  move(angleDeg: number, call?: Call): Promise<void>;
  /** Degrees. */
  getPosition(call?: Call): Promise<number>;
}

class ServoClient extends ComponentClient<typeof ServoService> implements Servo {
  async move(angleDeg: number, call?: Call): Promise<void> {
    await this.rpc.move({ ...this.request(call), angleDeg }, call);
  }

  async getPosition(call?: Call): Promise<number> {
    return (await this.rpc.getPosition(this.request(call), call)).positionDeg;
  }

  async stop(call?: Call): Promise<void> {
    await this.rpc.stop(this.request(call), call);
  }

  async isMoving(call?: Call): Promise<boolean> {
    return (await this.rpc.isMoving({ name: this.name.far }, call)).isMoving;
  }
}

/** The API `rdk:component:servo`. */
export const ServoApi: Api<Servo> = {
  name: "rdk:component:servo",
  desc: ServoService,
  namedBy: ["name"],
  monitored: ["Move"],
  joints: "none",
  captured: {
    Position: async (servo, _, call) => ({ reading: { position_deg: await servo.getPosition(call) } }),
  },
  client: (name: ResourceName, channel: Channel) => new ServoClient(name, channel, ServoService),
  serve: (find) =>
    service(ServoService, {
      ...componentHandlers(find),
      move: async (request, ctx) => {
        await find(request.name).move(request.angleDeg, callOf(request, ctx));
        return {};
      },
      getPosition: async (request, ctx) => ({
        positionDeg: await find(request.name).getPosition(callOf(request, ctx)),
      }),
      stop: async (request, ctx) => {
        await find(request.name).stop(callOf(request, ctx));
        return {};
      },
      isMoving: async (request, ctx) => ({
        isMoving: await find(request.name).isMoving({ signal: ctx.signal }),
      }),
    }),
};
