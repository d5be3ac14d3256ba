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

const MetricSampleMessage = wireMessage("svc.page.v1.GetMetricsResponse.Sample", {
  time_ms: [1, "double"],
  values: [2, "double", "repeated"],
});
const MethodMessage = wireMessage("svc.page.v1.GetMetricsResponse.Method", {
  name: [1, "string"],
  ended_total: [2, "double"],
  failed_total: [3, "double"],
  time_total_us: [4, "double"],
});
const FindingMessage = wireMessage("svc.page.v1.CheckNetworkResponse.Finding", {
  group: [1, "string"],
  subject: [2, "string"],
  outcome: [3, "string"],
  detail: [4, "string"],
});
const DashboardCardMessage = wireMessage("svc.page.v1.DashboardCard", {
  id: [1, "string"],
  is_wide: [2, "bool"],
});
const DashboardMessage = wireMessage("svc.page.v1.Dashboard", {
  name: [1, "string"],
  cards: [2, DashboardCardMessage, "repeated"],
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
  GetMetrics: [
    wireMessage("svc.page.v1.GetMetricsRequest", { after_ms: [1, "double"] }),
    wireMessage("svc.page.v1.GetMetricsResponse", {
      names: [1, "string", "repeated"],
      samples: [2, MetricSampleMessage, "repeated"],
      methods: [3, MethodMessage, "repeated"],
      off_reason: [4, "string"],
      now_ms: [5, "double"],
    }),
  ],
  CheckNetwork: [
    wireMessage("svc.page.v1.CheckNetworkRequest", {}),
    wireMessage("svc.page.v1.CheckNetworkResponse", {
      findings: [1, FindingMessage, "repeated"],
      conclusions: [2, "string", "repeated"],
      checked_ms: [3, "double"],
    }),
  ],
  GetDashboards: [
    wireMessage("svc.page.v1.GetDashboardsRequest", {}),
    wireMessage("svc.page.v1.GetDashboardsResponse", {
      dashboards: [1, DashboardMessage, "repeated"],
    }),
  ],
  SetDashboard: [
    wireMessage("svc.page.v1.SetDashboardRequest", {
      dashboard: [1, DashboardMessage],
      former_name: [2, "string"],
    }),
    wireMessage("svc.page.v1.SetDashboardResponse", {}),
  ],
  DeleteDashboard: [
    wireMessage("svc.page.v1.DeleteDashboardRequest", { name: [1, "string"] }),
    wireMessage("svc.page.v1.DeleteDashboardResponse", {}),
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

/** The calls of one method since the program began. */
export interface MethodTotals {
  readonly name: string;
  readonly endedTotal: number;
  readonly failedTotal: number;
  readonly timeTotalUs: number;
}

export interface PageMetrics {
  readonly names: readonly string[];
  /** Values in the order of the names; NaN for none. */
  readonly samples: readonly { readonly timeMs: number; readonly values: readonly number[] }[];
  readonly methods: readonly MethodTotals[];
  /** Why there are no samples; empty if there are. */
  readonly offReason: string;
  readonly nowMs: number;
}

export interface NetworkFindings {
  readonly findings: readonly {
    readonly group: string;
    readonly subject: string;
    readonly outcome: string;
    readonly detail: string;
  }[];
  readonly conclusions: readonly string[];
  readonly checkedMs: number;
}

/** A named arrangement of cards, kept on the machine. */
export interface PageDashboard {
  readonly name: string;
  readonly cards: readonly { readonly id: string; readonly isWide: boolean }[];
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
  getMetrics(request: { readonly afterMs: number }): Promise<PageMetrics>;
  checkNetwork(request: object, options?: CallOptions): Promise<NetworkFindings>;
  getDashboards(request: object): Promise<{ readonly dashboards: readonly PageDashboard[] }>;
  setDashboard(
    request: { readonly dashboard: PageDashboard; readonly formerName: string },
  ): Promise<object>;
  deleteDashboard(request: { readonly name: string }): Promise<object>;
}

export function pageServiceOf(client: RobotClient): PageServiceClient {
  return client.createServiceClient(PageService) as unknown as PageServiceClient;
}
