/** The control plane's call on what an organization has stored, which no published library has. */

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

export interface UsageCalls {
  getUsage(request: { readonly organizationId: string }): Promise<{
    readonly limits: readonly ShownLimit[];
    readonly retention?: ShownRetention;
    readonly collectors: readonly ShownCollector[];
    readonly moreCollectors: boolean;
  }>;
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
    }),
  ],
});

export function usageCalls(transport: Transport): UsageCalls {
  return createPromiseClient(UsageService, transport) as unknown as UsageCalls;
}
