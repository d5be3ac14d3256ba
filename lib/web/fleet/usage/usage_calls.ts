/** The control plane's calls on what an organization has stored and how long, which no published library has. */

import { createPromiseClient, type Transport } from "@connectrpc/connect";
import { wireMessage, wireService } from "../../machine/link/wire.ts";

export interface ShownLimit {
  /** As in the file of limits, `data_bytes_per_organization`. */
  readonly name: string;
  readonly used: bigint;
  readonly allowed: bigint;
}

/** 0 means no limit. */
export interface ShownRetention {
  readonly days: number;
  readonly binaryBytes: bigint;
  readonly tabularBytes: bigint;
}

export interface ShownCollector {
  readonly partId: string;
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
  readonly componentName: string;
  readonly methodName: string;
  readonly retention?: ShownRetention;
}

export interface ShownUsage {
  readonly limits: readonly ShownLimit[];
  readonly retention?: ShownRetention;
  readonly collectors: readonly ShownCollector[];
  readonly moreCollectors: boolean;
  /** The operator's. */
  readonly bound?: ShownRetention;
  /** Chosen by the owners. */
  readonly own?: ShownRetention;
  readonly records?: {
    readonly logDays: number;
    readonly logDaysMax: number;
    /** 0 means the operator's. */
    readonly ownLogDays: number;
    readonly auditDays: number;
  };
}

export interface RetentionRequest {
  readonly organizationId: string;
  readonly own: ShownRetention;
  readonly ownLogDays: number;
}

export interface UsageCalls {
  getUsage(request: { readonly organizationId: string }): Promise<ShownUsage>;
  setRetention(request: RetentionRequest): Promise<unknown>;
}

const PACKAGE = "svc.app.v1";

const Limit = wireMessage(`${PACKAGE}.UsedLimit`, {
  name: [1, "string"],
  used: [2, "uint64"],
  allowed: [3, "uint64"],
});
const Kept = wireMessage(`${PACKAGE}.KeptData`, {
  days: [1, "uint32"],
  binary_bytes: [2, "uint64"],
  tabular_bytes: [3, "uint64"],
});
const Records = wireMessage(`${PACKAGE}.KeptRecords`, {
  log_days: [1, "uint32"],
  log_days_max: [2, "uint32"],
  own_log_days: [3, "uint32"],
  audit_days: [4, "uint32"],
});
const Collector = wireMessage(`${PACKAGE}.CollectorRetention`, {
  part_id: [1, "string"],
  part_name: [2, "string"],
  machine_id: [3, "string"],
  machine_name: [4, "string"],
  component_name: [5, "string"],
  method_name: [6, "string"],
  retention: [7, Kept],
});

const UsageService = wireService(`${PACKAGE}.UsageService`, {
  GetUsage: [
    wireMessage(`${PACKAGE}.GetUsageRequest`, { organization_id: [1, "string"] }),
    wireMessage(`${PACKAGE}.GetUsageResponse`, {
      limits: [1, Limit, "repeated"],
      retention: [2, Kept],
      collectors: [3, Collector, "repeated"],
      more_collectors: [4, "bool"],
      bound: [5, Kept],
      own: [6, Kept],
      records: [7, Records],
    }),
  ],
  SetRetention: [
    wireMessage(`${PACKAGE}.SetRetentionRequest`, {
      organization_id: [1, "string"],
      own: [2, Kept],
      own_log_days: [3, "uint32"],
    }),
    wireMessage(`${PACKAGE}.SetRetentionResponse`, {}),
  ],
});

export function usageCalls(transport: Transport): UsageCalls {
  return createPromiseClient(UsageService, transport) as unknown as UsageCalls;
}
