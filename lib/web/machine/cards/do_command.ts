/** DoCommand and GetStatus of any API: every published service has them, with the same messages. */

import type { CallOptions } from "@connectrpc/connect";
import { commonApi, type RobotClient } from "@viamrobotics/sdk";
import { type MessageType, type PartialMessage, Struct } from "@bufbuild/protobuf";
import { wireMessage, wireService } from "../link/wire.ts";

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

const StatusRequest = wireMessage("viam.common.v1.GetStatusRequest", { name: [1, "string"] });
const StatusAnswer = wireMessage("viam.common.v1.GetStatusResponse", {
  result: [1, Struct as unknown as MessageType],
});

interface GetStatus {
  getStatus(request: { readonly name: string }): Promise<{ readonly result?: Struct }>;
}

/** What a resource tells of itself. */
export function statusService(client: RobotClient, api: string): GetStatus {
  const service = wireService(serviceName(api), { GetStatus: [StatusRequest, StatusAnswer] });
  return client.createServiceClient(service) as unknown as GetStatus;
}
