/** Switch: a control with a few positions, numbered from 0, with optional labels. */

import { SwitchService } from "../../../proto/gen/switch_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Component } from "../../resource/resource.ts";
import { callOf, ComponentClient, resourceHandlers } from "../shared/resource.ts";

/** Has a number of positions. */
export interface Switch extends Component {
  /** @throws invalid_argument when there is no such position */
  /** Positions count from 0. Throws `invalid_argument` for one that it does not have. */
  setPosition(position: number, call?: Call): Promise<void>;
  /** The position, from 0. */
  getPosition(call?: Call): Promise<number>;
  /** `labels` has one label for each position, or is empty. */
  getNumberOfPositions(call?: Call): Promise<{ count: number; labels: readonly string[] }>;
}

class SwitchClient extends ComponentClient<typeof SwitchService> implements Switch {
  async setPosition(position: number, call?: Call): Promise<void> {
    await this.rpc.setPosition({ ...this.request(call), position }, call);
  }

  async getPosition(call?: Call): Promise<number> {
    return (await this.rpc.getPosition(this.request(call), call)).position;
  }

  async getNumberOfPositions(call?: Call): Promise<{ count: number; labels: readonly string[] }> {
    const { numberOfPositions, labels } = await this.rpc.getNumberOfPositions(this.request(call), call);
    return { count: numberOfPositions, labels };
  }
}

/** The API `rdk:component:switch`. */
export const SwitchApi: Api<Switch> = {
  name: "rdk:component:switch",
  desc: SwitchService,
  namedBy: ["name"],
  monitored: ["SetPosition"],
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) => new SwitchClient(name, channel, SwitchService),
  serve: (find) =>
    service(SwitchService, {
      ...resourceHandlers(find),
      setPosition: async (request, ctx) => {
        await find(request.name).setPosition(request.position, callOf(request, ctx));
        return {};
      },
      getPosition: async (request, ctx) => ({
        position: await find(request.name).getPosition(callOf(request, ctx)),
      }),
      getNumberOfPositions: async (request, ctx) => {
        const { count, labels } = await find(request.name).getNumberOfPositions(callOf(request, ctx));
        return { numberOfPositions: count, labels: [...labels] };
      },
    }),
};
