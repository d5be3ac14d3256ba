/** Generic component: a part of the machine that only answers its model's own commands. */

import { GenericService } from "../../../proto/gen/generic_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Component } from "../../resource/resource.ts";
import { ComponentClient, componentHandlers } from "../shared/resource.ts";

class GenericClient extends ComponentClient<typeof GenericService> {}

/** The API `rdk:component:generic`: commands of its own only. */
export const GenericApi: Api<Component> = {
  name: "rdk:component:generic",
  desc: GenericService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) => new GenericClient(name, channel, GenericService),
  serve: (find) => service(GenericService, componentHandlers(find)),
};
