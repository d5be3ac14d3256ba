/** DoCommand of any API: every published service has the method, with the same messages. */

import type { CallOptions } from "@connectrpc/connect";
import { commonApi, type RobotClient } from "@viamrobotics/sdk";
import type { MessageType, PartialMessage } from "@bufbuild/protobuf";
import { wireService } from "../link/wire.ts";

interface DoCommand {
  doCommand(
    request: PartialMessage<commonApi.DoCommandRequest>,
    options?: CallOptions,
  ): Promise<commonApi.DoCommandResponse>;
}

/** Names of services that do not follow from the name of the API. */
const SERVICES: { readonly [api: string]: string } = {
  "rdk:service:mlmodel": "viam.service.mlmodel.v1.MLModelService",
  "rdk:service:slam": "viam.service.slam.v1.SLAMService",
  "rdk:service:data_manager": "viam.service.datamanager.v1.DataManagerService",
};

/** The service of a published API. */
export function serviceName(api: string): string {
  const [, kind, type] = api.split(":");
  const words = type.split("_");
  const pascal = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
  return SERVICES[api] ?? `viam.${kind}.${words.join("")}.v1.${pascal}Service`;
}

export function commandService(client: RobotClient, api: string): DoCommand {
  const request = commonApi.DoCommandRequest as unknown as MessageType;
  const answer = commonApi.DoCommandResponse as unknown as MessageType;
  const service = wireService(serviceName(api), { DoCommand: [request, answer] });
  return client.createServiceClient(service) as unknown as DoCommand;
}
