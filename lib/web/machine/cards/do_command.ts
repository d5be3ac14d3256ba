/** DoCommand and GetStatus of any API: every published service has them, with the same messages. */

import type { CallOptions } from "@connectrpc/connect";
import { commonApi, type RobotClient } from "@viamrobotics/sdk";
import { type MessageType, type PartialMessage, Struct } from "@bufbuild/protobuf";
import { wireMessage, wireService } from "../link/wire.ts";
import { serviceName } from "./service_names.ts";

interface DoCommand {
  doCommand(
    request: PartialMessage<commonApi.DoCommandRequest>,
    options?: CallOptions,
  ): Promise<commonApi.DoCommandResponse>;
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
