/** The control plane's calls on what parts report about themselves, which no published library has. */

import { createPromiseClient, type Transport } from "@connectrpc/connect";
import { wireMessage, wireService } from "../../machine/link/wire.ts";

export interface ShownReport {
  readonly partId: string;
  readonly machineId: string;
  /** Empty if unknown, as the other versions. */
  readonly serverVersion: string;
  readonly agentVersion: string;
  readonly platform: string;
  readonly machineTags: readonly string[];
  /** `rdk:component:motor/left: it has no board` */
  readonly unhealthy: readonly string[];
  readonly unhealthyCount: number;
  /** Whether the machine has ever reported on its resources. */
  readonly hasReported: boolean;
  readonly refused: readonly string[];
  /** These three for given machines only. */
  readonly wantedServer: string;
  readonly wantedAgent: string;
  /** `applied`, `behind`, `held back` or `unknown`. */
  readonly configState: string;
  /** `svc-server 1.2.3 for linux/arm64`, wanted without a release here; for given machines only. */
  readonly missing: readonly string[];
}

export interface ReportCalls {
  /** Without ids, those of all machines that the caller sees. */
  listPartReports(
    request: { readonly machineIds: readonly string[] },
  ): Promise<{ readonly reports: readonly ShownReport[] }>;
}

const PACKAGE = "svc.app.v1";

const Report = wireMessage(`${PACKAGE}.PartReport`, {
  part_id: [1, "string"],
  machine_id: [2, "string"],
  server_version: [3, "string"],
  agent_version: [4, "string"],
  platform: [5, "string"],
  machine_tags: [6, "string", "repeated"],
  unhealthy: [7, "string", "repeated"],
  unhealthy_count: [8, "uint32"],
  refused: [9, "string", "repeated"],
  wanted_server: [10, "string"],
  wanted_agent: [11, "string"],
  config_state: [12, "string"],
  has_reported: [13, "bool"],
  missing: [14, "string", "repeated"],
});

const PartReportService = wireService(`${PACKAGE}.PartReportService`, {
  ListPartReports: [
    wireMessage(`${PACKAGE}.ListPartReportsRequest`, { machine_ids: [1, "string", "repeated"] }),
    wireMessage(`${PACKAGE}.ListPartReportsResponse`, { reports: [1, Report, "repeated"] }),
  ],
});

export function reportCalls(transport: Transport): ReportCalls {
  return createPromiseClient(PartReportService, transport) as unknown as ReportCalls;
}
