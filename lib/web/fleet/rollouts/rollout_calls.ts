/** The control plane's calls on rollouts, which no published library has. */

import { createPromiseClient, type Transport } from "@connectrpc/connect";
import type { MessageType } from "@bufbuild/protobuf";
import { Timestamp, wireMessage, wireService } from "../../machine/link/wire.ts";
import type { CallTime } from "../account/call_time.ts";

export interface ShownChange {
  /** `fragment`, `module`, `svc-server` or `svc-agent`. */
  readonly kind: string;
  readonly id: string;
  readonly version: string;
}

export interface ShownReading {
  readonly component: string;
  readonly operator: string;
  /** JSON, `{"cpu": 50}`. */
  readonly value: string;
}

export interface ShownPlan {
  readonly steps: readonly string[];
  readonly soakSeconds: number;
  readonly takeSeconds: number;
  readonly lateSeconds: number;
  readonly atOnce: number;
  readonly unhealthyMax: number;
  readonly errorsMax: number;
  readonly windows: readonly string[];
  readonly readings: readonly ShownReading[];
}

export interface ShownStep {
  readonly name: string;
  readonly machines: number;
  readonly waiting: number;
  readonly changing: number;
  readonly healthy: number;
  readonly unhealthy: number;
  readonly skipped: number;
}

export interface ShownRollout {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly change?: ShownChange;
  readonly plan?: ShownPlan;
  /** `running`, `paused`, `halted`, `aborted` or `completed`. */
  readonly state: string;
  readonly step: number;
  readonly reason: string;
  readonly who: string;
  readonly created?: CallTime;
  readonly ended?: CallTime;
  readonly steps: readonly ShownStep[];
}

export interface ShownRolloutPart {
  readonly partId: string;
  readonly partName: string;
  readonly machineId: string;
  readonly machineName: string;
  readonly step: number;
  readonly state: string;
  readonly unhealthy: boolean;
  readonly reason: string;
}

export interface NewRolloutOrder {
  readonly organizationId: string;
  readonly name: string;
  readonly change: ShownChange;
  readonly plan: ShownPlan;
  readonly locationIds: readonly string[];
  readonly tags: readonly string[];
  /** A new revision of a fragment, as JSON, or empty. */
  readonly fragmentConfig: string;
}

export interface RolloutCalls {
  startRollout(order: NewRolloutOrder): Promise<{ readonly rollout?: ShownRollout }>;
  getRollout(request: { readonly id: string }): Promise<{ readonly rollout?: ShownRollout }>;
  listRollouts(
    request: { readonly organizationId: string },
  ): Promise<{ readonly rollouts: readonly ShownRollout[] }>;
  listRolloutParts(
    request: { readonly id: string; readonly unhealthy?: boolean; readonly pageToken?: string },
  ): Promise<{ readonly parts: readonly ShownRolloutPart[]; readonly nextPageToken: string }>;
  pauseRollout(request: { readonly id: string }): Promise<object>;
  resumeRollout(request: { readonly id: string }): Promise<object>;
  abortRollout(request: { readonly id: string; readonly revert: boolean }): Promise<object>;
}

const PACKAGE = "svc.app.v1";
const Time = Timestamp as MessageType;

const Change = wireMessage(`${PACKAGE}.RolloutChange`, {
  kind: [1, "string"],
  id: [2, "string"],
  version: [3, "string"],
});
const Reading = wireMessage(`${PACKAGE}.RolloutReading`, {
  component: [1, "string"],
  operator: [2, "string"],
  value: [3, "string"],
});
const Plan = wireMessage(`${PACKAGE}.RolloutPlan`, {
  steps: [1, "string", "repeated"],
  soak_seconds: [2, "uint32"],
  take_seconds: [3, "uint32"],
  late_seconds: [4, "uint32"],
  at_once: [5, "uint32"],
  unhealthy_max: [6, "uint32"],
  errors_max: [7, "uint32"],
  windows: [8, "string", "repeated"],
  readings: [9, Reading, "repeated"],
});
const Step = wireMessage(`${PACKAGE}.RolloutStep`, {
  name: [1, "string"],
  machines: [2, "uint32"],
  waiting: [3, "uint32"],
  changing: [4, "uint32"],
  healthy: [5, "uint32"],
  unhealthy: [6, "uint32"],
  skipped: [7, "uint32"],
});
const Part = wireMessage(`${PACKAGE}.RolloutPart`, {
  part_id: [1, "string"],
  part_name: [2, "string"],
  machine_id: [3, "string"],
  machine_name: [4, "string"],
  step: [5, "uint32"],
  state: [6, "string"],
  unhealthy: [7, "bool"],
  reason: [8, "string"],
  applied: [9, Time],
});
const Whole = wireMessage(`${PACKAGE}.Rollout`, {
  id: [1, "string"],
  organization_id: [2, "string"],
  name: [3, "string"],
  change: [4, Change],
  plan: [5, Plan],
  state: [6, "string"],
  step: [7, "uint32"],
  reason: [8, "string"],
  who: [9, "string"],
  created: [10, Time],
  ended: [11, Time],
  steps: [12, Step, "repeated"],
});
const Order = wireMessage(`${PACKAGE}.StartRolloutRequest`, {
  organization_id: [1, "string"],
  name: [2, "string"],
  change: [3, Change],
  plan: [4, Plan],
  location_ids: [5, "string", "repeated"],
  tags: [6, "string", "repeated"],
  part_ids: [7, "string", "repeated"],
  fragment_config: [8, "string"],
});
const Id = wireMessage(`${PACKAGE}.GetRolloutRequest`, { id: [1, "string"] });
const One = wireMessage(`${PACKAGE}.GetRolloutResponse`, { rollout: [1, Whole] });
const Nothing = wireMessage(`${PACKAGE}.PauseRolloutResponse`, {});

const RolloutService = wireService(`${PACKAGE}.RolloutService`, {
  StartRollout: [Order, One],
  GetRollout: [Id, One],
  ListRollouts: [
    wireMessage(`${PACKAGE}.ListRolloutsRequest`, { organization_id: [1, "string"] }),
    wireMessage(`${PACKAGE}.ListRolloutsResponse`, { rollouts: [1, Whole, "repeated"] }),
  ],
  ListRolloutParts: [
    wireMessage(`${PACKAGE}.ListRolloutPartsRequest`, {
      id: [1, "string"],
      unhealthy: [2, "bool"],
      page_token: [3, "string"],
    }),
    wireMessage(`${PACKAGE}.ListRolloutPartsResponse`, {
      parts: [1, Part, "repeated"],
      next_page_token: [2, "string"],
    }),
  ],
  PauseRollout: [Id, Nothing],
  ResumeRollout: [Id, Nothing],
  AbortRollout: [
    wireMessage(`${PACKAGE}.AbortRolloutRequest`, { id: [1, "string"], revert: [2, "bool"] }),
    Nothing,
  ],
});

export function rolloutCalls(transport: Transport): RolloutCalls {
  return createPromiseClient(RolloutService, transport) as unknown as RolloutCalls;
}
