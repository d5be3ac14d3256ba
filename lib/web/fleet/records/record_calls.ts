/** The control plane's calls on the records of an organization, which no published library has. */

import { type CallOptions, createPromiseClient, type Transport } from "@connectrpc/connect";
import { type MessageType, Struct } from "@bufbuild/protobuf";
import { Timestamp, wireMessage, wireService } from "../../machine/link/wire.ts";
import type { ShownLogEntry } from "./log_entry.ts";
import type { CallTime } from "../account/call_time.ts";

/** Which entries; of each list, none for all. */
export interface LogQuestion {
  readonly organizationId: string;
  readonly locationIds: readonly string[];
  readonly machineIds: readonly string[];
  readonly tags: readonly string[];
  readonly levels: readonly string[];
  readonly filter: string;
  readonly start?: Timestamp;
  readonly end?: Timestamp;
}

export interface ShownPartLog {
  readonly partName: string;
  readonly machineName: string;
  readonly entry?: ShownLogEntry;
}

export interface ListedLogs {
  readonly logs: readonly ShownPartLog[];
  readonly nextPageToken: string;
  readonly parts: number;
  readonly partsLeftOut: number;
}

export interface ShownAuditEntry {
  readonly at?: CallTime;
  /** Empty for somebody of another organization, and for the operator. */
  readonly who: string;
  readonly whoName: string;
  /** `key`, `person`, `operator` or `other`. */
  readonly whoKind: string;
  readonly action: string;
  readonly resource: string;
  readonly resourceName: string;
  readonly outcome: string;
}

export interface RecordCalls {
  listAuditEntries(
    request: {
      readonly organizationId: string;
      readonly who: string;
      readonly action: string;
      readonly start?: Timestamp;
      readonly end?: Timestamp;
      readonly limit: number;
      readonly pageToken: string;
    },
  ): Promise<{ readonly entries: readonly ShownAuditEntry[]; readonly nextPageToken: string }>;
  listLogs(
    request: { readonly selection: LogQuestion; readonly limit: number; readonly pageToken?: string },
    options?: CallOptions,
  ): Promise<ListedLogs>;
  followLogs(
    request: { readonly selection: LogQuestion; readonly limit: number },
    options?: CallOptions,
  ): AsyncIterable<ListedLogs>;
}

const PACKAGE = "svc.app.v1";
const Time = Timestamp as MessageType;

const Entry = wireMessage("viam.common.v1.LogEntry", {
  level: [2, "string"],
  time: [3, Time],
  logger_name: [4, "string"],
  message: [5, "string"],
  stack: [7, "string"],
  fields: [8, Struct as MessageType, "repeated"],
});
const Log = wireMessage(`${PACKAGE}.PartLog`, {
  part_id: [1, "string"],
  part_name: [2, "string"],
  machine_id: [3, "string"],
  machine_name: [4, "string"],
  entry: [5, Entry],
});
const Selection = wireMessage(`${PACKAGE}.LogSelection`, {
  organization_id: [1, "string"],
  location_ids: [2, "string", "repeated"],
  machine_ids: [3, "string", "repeated"],
  tags: [4, "string", "repeated"],
  levels: [5, "string", "repeated"],
  filter: [6, "string"],
  start: [7, Time],
  end: [8, Time],
});
const LogList = wireMessage(`${PACKAGE}.ListLogsResponse`, {
  logs: [1, Log, "repeated"],
  next_page_token: [2, "string"],
  parts: [3, "uint32"],
  parts_left_out: [4, "uint32"],
});

const Audit = wireMessage(`${PACKAGE}.AuditEntry`, {
  at: [1, Time],
  who: [2, "string"],
  who_name: [3, "string"],
  who_kind: [4, "string"],
  action: [5, "string"],
  resource: [6, "string"],
  resource_name: [7, "string"],
  outcome: [8, "string"],
});

const RecordService = wireService(`${PACKAGE}.RecordService`, {
  ListLogs: [
    wireMessage(`${PACKAGE}.ListLogsRequest`, {
      selection: [1, Selection],
      limit: [2, "uint32"],
      page_token: [3, "string"],
    }),
    LogList,
  ],
  FollowLogs: [
    wireMessage(`${PACKAGE}.FollowLogsRequest`, { selection: [1, Selection], limit: [2, "uint32"] }),
    LogList,
    "stream",
  ],
  ListAuditEntries: [
    wireMessage(`${PACKAGE}.ListAuditEntriesRequest`, {
      organization_id: [1, "string"],
      who: [2, "string"],
      action: [3, "string"],
      start: [4, Time],
      end: [5, Time],
      limit: [6, "uint32"],
      page_token: [7, "string"],
    }),
    wireMessage(`${PACKAGE}.ListAuditEntriesResponse`, {
      entries: [1, Audit, "repeated"],
      next_page_token: [2, "string"],
    }),
  ],
});

export function recordCalls(transport: Transport): RecordCalls {
  return createPromiseClient(RecordService, transport) as unknown as RecordCalls;
}
