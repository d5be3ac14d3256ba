/**
 * Discovery: lists devices that could become resources, each as the configuration entry that would make it
 * one.
 */

import type {
  ComponentConfig as ComponentConfigMessage,
  ComponentConfigSchema,
} from "../../../proto/gen/robot_config_pb.ts";
import { DiscoveryService } from "../../../proto/gen/discovery_pb.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import type { MessageInitShape } from "../../wire/rpc/proto.ts";
import { service } from "../../wire/rpc/service.ts";
import { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Resource } from "../../resource/resource.ts";
import { callOf, ResourceClient, resourceHandlers } from "../shared/resource.ts";

/** Finds resources that could be configured. */
export interface Discovery extends Resource {
  /** The configurations of what is there now. */
  discoverResources(call?: Call): Promise<readonly Discovered[]>;
}

/** An entry of `components` or `services`. */
export interface Discovered {
  /** A proposal; the user may choose another one. */
  readonly name: string;
  /** `rdk:component:camera` */
  readonly api: string;
  /** `rdk:builtin:webcam` */
  readonly model: string;
  /** The attributes that configure the resource. */
  readonly attributes: JsonObject;
  /** Other parts of the entry that a module may give. */
  readonly more?: DiscoveredParts;
}

/** The parts of an entry that a machine passes on as they are. */
export interface DiscoveredParts {
  /** In the form of the published message `viam.app.v1.Frame`. */
  readonly frame?: unknown;
  /** Names of resources that the machine builds first. */
  readonly dependsOn?: readonly string[];
  /** Attributes for services, each with the name of the service's API. */
  readonly serviceConfigs?: readonly { readonly type: string; readonly attributes?: JsonObject }[];
  /** The least level of the lines that the resource logs. */
  readonly logConfiguration?: { readonly level: string };
}

class DiscoveryClient extends ResourceClient<typeof DiscoveryService> implements Discovery {
  async discoverResources(call?: Call): Promise<readonly Discovered[]> {
    return (await this.rpc.discoverResources(this.request(call), call)).discoveries.map(fromMessage);
  }
}

/** The API `rdk:service:discovery`. */
export const DiscoveryApi: Api<Discovery> = {
  name: "rdk:service:discovery",
  desc: DiscoveryService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) => new DiscoveryClient(name, channel, DiscoveryService),
  serve: (find) =>
    service(DiscoveryService, {
      ...resourceHandlers(find),
      discoverResources: async (request, ctx) => {
        const found = await find(request.name).discoverResources(callOf(request, ctx));
        return { discoveries: found.map(toMessage) };
      },
    }),
};

/** The old fields for namespace and type, which some clients read, repeat the parts of the API's name. */
function toMessage(
  { name, api, model, attributes, more }: Discovered,
): MessageInitShape<typeof ComponentConfigSchema> {
  const [namespace, , type] = api.split(":");
  const { frame, dependsOn, serviceConfigs, logConfiguration } = more ?? {};
  return {
    frame: frame as MessageInitShape<typeof ComponentConfigSchema>["frame"],
    dependsOn: [...dependsOn ?? []],
    serviceConfigs: [...serviceConfigs ?? []],
    logConfiguration,
    name,
    api,
    model,
    namespace,
    type,
    attributes,
  };
}

function fromMessage(message: ComponentConfigMessage): Discovered {
  const { name, model, namespace, type, attributes } = message;
  const { frame, dependsOn, serviceConfigs, logConfiguration } = message;
  return {
    name,
    api: message.api || `${namespace || "rdk"}:component:${type}`,
    model,
    attributes: (attributes ?? {}) as JsonObject,
    more: { frame, dependsOn, serviceConfigs, logConfiguration },
  };
}
