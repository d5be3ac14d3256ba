/**
 * Messages of the machine that the published browser library does not know yet, and how to declare more.
 *
 * A message is declared by its fields and read as a plain object; enumerations are read as their numbers.
 */

import { Duration, MethodKind, proto3, Timestamp } from "@bufbuild/protobuf";
import type { MessageType, ServiceType } from "@bufbuild/protobuf";

/** Scalar types by their names in contracts. */
const SCALARS = {
  double: 1,
  float: 2,
  int64: 3,
  uint64: 4,
  int32: 5,
  bool: 8,
  string: 9,
  bytes: 12,
  uint32: 13,
  /** The number of an enumeration. */
  enum: 5,
} as const;

type Scalar = keyof typeof SCALARS;
type FieldType = Scalar | MessageType;

/** A field: its number and its type; `repeated` for a list of them. */
export type WireField = readonly [no: number, type: FieldType, repeated?: "repeated"];

/** Declares a message; the names of its fields are those of the contract, `last_updated`. */
export function wireMessage(typeName: string, fields: Readonly<Record<string, WireField>>): MessageType {
  const infos = () =>
    Object.entries(fields).map(([name, [no, type, repeated]]) => {
      const common = { no, name, ...repeated ? { repeated: true as const } : {} };
      return typeof type === "string"
        ? { ...common, kind: "scalar" as const, T: SCALARS[type] }
        : { ...common, kind: "message" as const, T: type };
    });
  return proto3.makeMessageType(
    typeName,
    infos as Parameters<typeof proto3.makeMessageType>[1],
  ) as MessageType;
}

/** A method: its request, its answer, and whether it answers with a stream. */
export type WireMethod = readonly [request: MessageType, answer: MessageType, streams?: "stream"];

/** Declares a service; the keys of the methods are their names in the contract, `FollowLogs`. */
export function wireService(typeName: string, methods: Readonly<Record<string, WireMethod>>): ServiceType {
  const entries = Object.entries(methods).map(([name, [I, O, streams]]) => {
    const local = name.charAt(0).toLowerCase() + name.slice(1);
    return [local, { name, I, O, kind: streams ? MethodKind.ServerStreaming : MethodKind.Unary }];
  });
  return { typeName, methods: Object.fromEntries(entries) } as ServiceType;
}

export { Duration, Timestamp };

/** The time in a field for date and time, in the zone of the browser; `undefined` while it has none. */
export function enteredTime(text: string): Timestamp | undefined {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? undefined : Timestamp.fromDate(date);
}

/** Milliseconds since 1970; 0 for none. */
export function millisOf(time: { readonly seconds: bigint; readonly nanos: number } | undefined): number {
  return time ? Number(time.seconds) * 1000 + time.nanos / 1e6 : 0;
}

const Empty = wireMessage("viam.robot.v1.GetMachineStatusRequest", {});
const Name = wireMessage("viam.common.v1.ResourceName", {
  namespace: [1, "string"],
  type: [2, "string"],
  subtype: [3, "string"],
  name: [4, "string"],
});
const Resource = wireMessage("viam.robot.v1.ResourceStatus", {
  name: [1, Name],
  state: [2, "enum"],
  last_updated: [3, Timestamp as MessageType],
  revision: [4, "string"],
  error: [5, "string"],
  reachability: [7, "enum"],
  remote: [8, "string"],
});
const Config = wireMessage("viam.robot.v1.ConfigStatus", {
  revision: [1, "string"],
  last_updated: [2, Timestamp as MessageType],
});
const Module = wireMessage("viam.robot.v1.ModuleStatus", {
  module_name: [1, "string"],
  state: [2, "enum"],
  last_updated: [3, Timestamp as MessageType],
  error: [4, "string"],
  consecutive_failures: [5, "uint32"],
});
const Job = wireMessage("viam.robot.v1.JobStatus", {
  job_name: [1, "string"],
  recent_successful_runs: [2, Timestamp as MessageType, "repeated"],
  recent_failed_runs: [3, Timestamp as MessageType, "repeated"],
});
const Package = wireMessage("viam.robot.v1.PackageStatus", {
  name: [1, "string"],
  state: [3, "enum"],
  error: [4, "string"],
  last_updated: [5, Timestamp as MessageType],
  version: [6, "string"],
  bytes_downloaded: [7, "uint64"],
  total_bytes: [8, "uint64"],
});
const Status = wireMessage("viam.robot.v1.GetMachineStatusResponse", {
  resources: [1, Resource, "repeated"],
  config: [2, Config],
  state: [3, "enum"],
  job_statuses: [4, Job, "repeated"],
  modules: [5, Module, "repeated"],
  packages: [6, Package, "repeated"],
});

/** GetMachineStatus with modules, packages and remotes, which the published library leaves out. */
export const StatusService = wireService("viam.robot.v1.RobotService", { GetMachineStatus: [Empty, Status] });

type Time = { readonly seconds: bigint; readonly nanos: number };

export interface StatusMessage {
  readonly resources: readonly {
    readonly name?: {
      readonly namespace: string;
      readonly type: string;
      readonly subtype: string;
      readonly name: string;
    };
    readonly state: number;
    readonly lastUpdated?: Time;
    readonly revision: string;
    readonly error: string;
    readonly reachability: number;
    readonly remote: string;
  }[];
  readonly config?: { readonly revision: string; readonly lastUpdated?: Time };
  readonly state: number;
  readonly jobStatuses: readonly {
    readonly jobName: string;
    readonly recentSuccessfulRuns: readonly Time[];
    readonly recentFailedRuns: readonly Time[];
  }[];
  readonly modules: readonly {
    readonly moduleName: string;
    readonly state: number;
    readonly lastUpdated?: Time;
    readonly error: string;
    readonly consecutiveFailures: number;
  }[];
  readonly packages: readonly {
    readonly name: string;
    readonly state: number;
    readonly error: string;
    readonly lastUpdated?: Time;
    readonly version: string;
    readonly bytesDownloaded: bigint;
    readonly totalBytes: bigint;
  }[];
}
