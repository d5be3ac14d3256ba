/** MachinePageService of the program, as the page calls it. */

import type { CallOptions } from "@connectrpc/connect";
import { type MessageType, Timestamp } from "@bufbuild/protobuf";
import type { RobotClient } from "@viamrobotics/sdk";
import { wireMessage, wireService } from "./wire.ts";

const LogRecordMessage = wireMessage("svc.page.v1.FollowLogsResponse.Record", {
  time: [1, Timestamp as MessageType],
  level: [2, "string"],
  logger: [3, "string"],
  message: [4, "string"],
  fields: [5, "string"],
  caller: [6, "string"],
});
const GraphNode = wireMessage("svc.page.v1.GetGraphResponse.Node", {
  id: [1, "string"],
  model: [2, "string"],
  depends_on: [3, "string", "repeated"],
});

const PageService = wireService("svc.page.v1.MachinePageService", {
  FollowLogs: [
    wireMessage("svc.page.v1.FollowLogsRequest", { backlog: [1, "uint32"] }),
    wireMessage("svc.page.v1.FollowLogsResponse", {
      records: [1, LogRecordMessage, "repeated"],
      left_out: [2, "uint64"],
    }),
    "stream",
  ],
  GetGraph: [
    wireMessage("svc.page.v1.GetGraphRequest", {}),
    wireMessage("svc.page.v1.GetGraphResponse", { nodes: [1, GraphNode, "repeated"] }),
  ],
  DescribeApi: [
    wireMessage("svc.page.v1.DescribeApiRequest", { api: [1, "string"] }),
    wireMessage("svc.page.v1.DescribeApiResponse", {
      service: [1, "string"],
      files: [2, "bytes", "repeated"],
    }),
  ],
});

export interface PageLogRecord {
  readonly time?: { readonly seconds: bigint; readonly nanos: number };
  readonly level: string;
  readonly logger: string;
  readonly message: string;
  readonly fields: string;
  readonly caller: string;
}

export interface PageGraphNode {
  readonly id: string;
  readonly model: string;
  readonly dependsOn: readonly string[];
}

export interface PageServiceClient {
  followLogs(
    request: { readonly backlog: number },
    options?: CallOptions,
  ): AsyncIterable<{ readonly records: readonly PageLogRecord[]; readonly leftOut: bigint }>;
  getGraph(request: object): Promise<{ readonly nodes: readonly PageGraphNode[] }>;
  describeApi(
    request: { readonly api: string },
  ): Promise<{ readonly service: string; readonly files: readonly Uint8Array[] }>;
}

export function pageServiceOf(client: RobotClient): PageServiceClient {
  return client.createServiceClient(PageService) as unknown as PageServiceClient;
}
