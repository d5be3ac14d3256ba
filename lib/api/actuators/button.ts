/** Button: can be pushed. */

import { ButtonService } from "../../../proto/gen/button_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Component } from "../../resource/resource.ts";
import { callOf, ComponentClient, resourceHandlers } from "../shared/resource.ts";

/** A button that programs push. */
export interface Button extends Component {
  /** Resolves when it has been pushed. */
  push(call?: Call): Promise<void>;
}

class ButtonClient extends ComponentClient<typeof ButtonService> implements Button {
  async push(call?: Call): Promise<void> {
    await this.rpc.push(this.request(call), call);
  }
}

/** The API `rdk:component:button`. */
export const ButtonApi: Api<Button> = {
  name: "rdk:component:button",
  desc: ButtonService,
  namedBy: ["name"],
  monitored: ["Push"],
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) => new ButtonClient(name, channel, ButtonService),
  serve: (find) =>
    service(ButtonService, {
      ...resourceHandlers(find),
      push: async (request, ctx) => {
        await find(request.name).push(callOf(request, ctx));
        return {};
      },
    }),
};
