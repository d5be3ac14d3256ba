/**
 * Generic service: a service that only answers its model's own commands.
 *
 * The room owns the services: resources that work with components, with data or with the computer.
 */

import { GenericService } from "../../../proto/gen/generic_service_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Resource } from "../../resource/resource.ts";
import { ResourceClient, resourceHandlers } from "../shared/resource.ts";

class GenericServiceClient extends ResourceClient<typeof GenericService> {}

/** The API `rdk:service:generic`: commands of its own only. */
export const GenericServiceApi: Api<Resource> = {
  name: "rdk:service:generic",
  desc: GenericService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) => new GenericServiceClient(name, channel, GenericService),
  serve: (find) => service(GenericService, resourceHandlers(find)),
};
