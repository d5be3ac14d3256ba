/** The control plane's calls on triggers, which no published library has. */

import { createPromiseClient, type Transport } from "@connectrpc/connect";
import type { MessageType } from "@bufbuild/protobuf";
import { Timestamp, wireMessage, wireService } from "../../machine/link/wire.ts";
import type { CallTime } from "../account/call_time.ts";

export interface ShownDelivery {
  readonly id: string;
  readonly partId: string;
  /** Empty for a part that is gone, as the other names. */
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
  readonly trigger: string;
  readonly receiver: string;
  /** `pending`, `delivered` or `dead`. */
  readonly state: string;
  readonly attempts: number;
  readonly error: string;
  readonly created?: CallTime;
  readonly next?: CallTime;
}

export interface ShownTrigger {
  readonly partId: string;
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
  readonly name: string;
  readonly event: string;
  readonly notes: string;
  readonly receivers: readonly string[];
  /** The newest notification that is kept. */
  readonly last?: ShownDelivery;
}

export interface AlertCalls {
  listTriggers(
    request: { readonly organizationId: string; readonly pageToken: string },
  ): Promise<{ readonly triggers: readonly ShownTrigger[]; readonly nextPageToken: string }>;
  listDeliveries(
    request: {
      readonly organizationId: string;
      readonly state: string;
      readonly limit: number;
      readonly pageToken: string;
    },
  ): Promise<{ readonly deliveries: readonly ShownDelivery[]; readonly nextPageToken: string }>;
  testTrigger(request: { readonly partId: string; readonly trigger: string }): Promise<object>;
  retryDeliveries(
    request: { readonly organizationId: string; readonly id: string },
  ): Promise<{ readonly again: number }>;
}

const PACKAGE = "svc.app.v1";
const Time = Timestamp as MessageType;

const Sent = wireMessage(`${PACKAGE}.TriggerDelivery`, {
  id: [1, "string"],
  part_id: [2, "string"],
  part_name: [3, "string"],
  machine_id: [4, "string"],
  machine_name: [5, "string"],
  trigger: [6, "string"],
  receiver: [7, "string"],
  state: [8, "string"],
  attempts: [9, "uint32"],
  error: [10, "string"],
  created: [11, Time],
  next: [12, Time],
  ended: [13, Time],
});
const Trigger = wireMessage(`${PACKAGE}.PartTrigger`, {
  part_id: [1, "string"],
  part_name: [2, "string"],
  machine_id: [3, "string"],
  machine_name: [4, "string"],
  name: [5, "string"],
  event: [6, "string"],
  notes: [7, "string"],
  receivers: [8, "string", "repeated"],
  last: [9, Sent],
});

const TriggerService = wireService(`${PACKAGE}.TriggerService`, {
  ListTriggers: [
    wireMessage(`${PACKAGE}.ListTriggersRequest`, {
      organization_id: [1, "string"],
      page_token: [2, "string"],
    }),
    wireMessage(`${PACKAGE}.ListTriggersResponse`, {
      triggers: [1, Trigger, "repeated"],
      next_page_token: [2, "string"],
    }),
  ],
  ListDeliveries: [
    wireMessage(`${PACKAGE}.ListDeliveriesRequest`, {
      organization_id: [1, "string"],
      state: [2, "string"],
      limit: [3, "uint32"],
      page_token: [4, "string"],
    }),
    wireMessage(`${PACKAGE}.ListDeliveriesResponse`, {
      deliveries: [1, Sent, "repeated"],
      next_page_token: [2, "string"],
    }),
  ],
  TestTrigger: [
    wireMessage(`${PACKAGE}.TestTriggerRequest`, { part_id: [1, "string"], trigger: [2, "string"] }),
    wireMessage(`${PACKAGE}.TestTriggerResponse`, {}),
  ],
  RetryDeliveries: [
    wireMessage(`${PACKAGE}.RetryDeliveriesRequest`, { organization_id: [1, "string"], id: [2, "string"] }),
    wireMessage(`${PACKAGE}.RetryDeliveriesResponse`, { again: [1, "uint32"] }),
  ],
});

export function alertCalls(transport: Transport): AlertCalls {
  return createPromiseClient(TriggerService, transport) as unknown as AlertCalls;
}
