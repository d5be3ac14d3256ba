/** Base remote control: drives a base by an input controller. It has no calls but those of every resource. */

import { BaseRemoteControlService } from "../../../proto/gen/base_remote_control_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Resource } from "../../resource/resource.ts";
import { ResourceClient, resourceHandlers } from "../shared/resource.ts";

class BaseRemoteControlClient extends ResourceClient<typeof BaseRemoteControlService> {}

export const BaseRemoteControlApi: Api<Resource> = {
  name: "rdk:service:base_remote_control",
  desc: BaseRemoteControlService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) =>
    new BaseRemoteControlClient(name, channel, BaseRemoteControlService),
  serve: (find) => service(BaseRemoteControlService, resourceHandlers(find)),
};
