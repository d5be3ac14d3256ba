/**
 * Motor: turns by power, speed or distance. Powers are fractions from -1 to 1, speeds are in revolutions a
 * minute, positions in revolutions from the zero position; the sign is the direction.
 *
 * The room owns the components that change something: they move, switch, play sound or set pins.
 */

import { MotorService } from "../../../proto/gen/motor_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Actuator, Call } from "../../resource/resource.ts";
import { refusingNaN } from "../shared/numbers.ts";
import { callOf, ComponentClient, componentHandlers } from "../shared/resource.ts";
import { resetting } from "../shared/zero_resets.ts";

/** Turns a shaft. */
export interface Motor extends Actuator {
  /** Turns at a fraction of full power until the next command. */
  setPower(powerPct: number, call?: Call): Promise<void>;
  /** Turns `revolutions` at `rpm` and resolves when done or when another command interrupts it. */
  goFor(rpm: number, revolutions: number, call?: Call): Promise<void>;
  /** Turns to a position at `|rpm|`; resolves like `goFor`. Needs position reporting. */
  goTo(rpm: number, positionRevolutions: number, call?: Call): Promise<void>;
  /** Turns at `rpm` until the next command. */
  setRpm(rpm: number, call?: Call): Promise<void>;
  /** Makes the present position `-offset` revolutions. */
  resetZeroPosition(offset: number, call?: Call): Promise<void>;
  /** Revolutions from the zero position. */
  getPosition(call?: Call): Promise<number>;
  /** Whether it knows its position. */
  getProperties(call?: Call): Promise<MotorProperties>;
  /** Whether the motor is on, and its power; the sign is the direction. */
  isPowered(call?: Call): Promise<{ isOn: boolean; powerPct: number }>;
}

/** The abilities that not every motor has. */
export interface MotorProperties {
  /** Whether the motor knows its position, and so can turn to a given one. */
  readonly positionReporting: boolean;
}

class MotorClient extends ComponentClient<typeof MotorService> implements Motor {
  async setPower(powerPct: number, call?: Call): Promise<void> {
    await this.rpc.setPower({ ...this.request(call), powerPct }, call);
  }

  async goFor(rpm: number, revolutions: number, call?: Call): Promise<void> {
    await this.rpc.goFor({ ...this.request(call), rpm, revolutions }, call);
  }

  async goTo(rpm: number, positionRevolutions: number, call?: Call): Promise<void> {
    await this.rpc.goTo({ ...this.request(call), rpm, positionRevolutions }, call);
  }

  async setRpm(rpm: number, call?: Call): Promise<void> {
    await this.rpc.setRPM({ ...this.request(call), rpm }, call);
  }

  async resetZeroPosition(offset: number, call?: Call): Promise<void> {
    await this.rpc.resetZeroPosition({ ...this.request(call), offset }, call);
  }

  async getPosition(call?: Call): Promise<number> {
    return (await this.rpc.getPosition(this.request(call), call)).position;
  }

  async getProperties(call?: Call): Promise<MotorProperties> {
    const { positionReporting } = await this.rpc.getProperties(this.request(call), call);
    return { positionReporting };
  }

  async isPowered(call?: Call): Promise<{ isOn: boolean; powerPct: number }> {
    const { isOn, powerPct } = await this.rpc.isPowered(this.request(call), call);
    return { isOn, powerPct };
  }

  async stop(call?: Call): Promise<void> {
    await this.rpc.stop(this.request(call), call);
  }

  async isMoving(call?: Call): Promise<boolean> {
    return (await this.rpc.isMoving({ name: this.name.far }, call)).isMoving;
  }
}

/** The API `rdk:component:motor`. */
export const MotorApi: Api<Motor> = {
  name: "rdk:component:motor",
  desc: MotorService,
  namedBy: ["name"],
  monitored: ["SetPower", "GoFor", "GoTo", "SetRPM"],
  joints: "none",
  captured: {
    Position: async (motor, _, call) => ({ reading: { position: await motor.getPosition(call) } }),
    IsPowered: async (motor, _, call) => {
      const { isOn, powerPct } = await motor.isPowered(call);
      return { reading: { is_on: isOn, power_pct: powerPct } };
    },
  },
  client: (name: ResourceName, channel: Channel) => new MotorClient(name, channel, MotorService),
  serve: (find) =>
    refusingNaN(service(MotorService, {
      ...componentHandlers(find),
      setPower: async (request, ctx) => {
        await find(request.name).setPower(request.powerPct, callOf(request, ctx));
        return {};
      },
      goFor: async (request, ctx) => {
        await find(request.name).goFor(request.rpm, request.revolutions, callOf(request, ctx));
        return {};
      },
      goTo: async (request, ctx) => {
        await find(request.name).goTo(request.rpm, request.positionRevolutions, callOf(request, ctx));
        return {};
      },
      setRPM: async (request, ctx) => {
        await find(request.name).setRpm(request.rpm, callOf(request, ctx));
        return {};
      },
      resetZeroPosition: async (request, ctx) => {
        const motor = find(request.name);
        await resetting(motor, () => motor.resetZeroPosition(request.offset, callOf(request, ctx)));
        return {};
      },
      getPosition: async (request, ctx) => ({
        position: await find(request.name).getPosition(callOf(request, ctx)),
      }),
      getProperties: (request, ctx) => find(request.name).getProperties(callOf(request, ctx)),
      isPowered: (request, ctx) => find(request.name).isPowered(callOf(request, ctx)),
      stop: async (request, ctx) => {
        await find(request.name).stop(callOf(request, ctx));
        return {};
      },
      isMoving: async (request, ctx) => ({
        isMoving: await find(request.name).isMoving({ signal: ctx.signal }),
      }),
    })),
};
