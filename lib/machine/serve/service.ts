/**
 * RobotService: the machine as its clients see it, from the names of its resources to its end.
 *
 * Handlers here only translate; the machine, its operations, sessions and frames answer. A method without a handler
 * (GetStatus and StreamStatus, which the published runtime does not have either) answers UNIMPLEMENTED.
 *
 * The room owns a machine as its clients see it: its port, sessions, operations, jobs, and its end.
 */

import type { ResourceSpans } from "../../../proto/gen/trace_pb.ts";
import type { UploadMetadata } from "../../../proto/gen/datasync_pb.ts";
import { PackageType } from "../../../proto/gen/packages_pb.ts";
import {
  GetMachineStatusResponse_State as MachineState,
  ModuleStatus_State as ModuleState,
  PackageStatus_State as PackageState,
  PeerConnectionType,
  ResourceStatus_Reachability as Reachability,
  ResourceStatus_State as ResourceState,
  RobotService,
} from "../../../proto/gen/robot_pb.ts";
import {
  fromPoseInFrameMessage,
  fromTransformMessage,
  toTransformMessage,
} from "../../api/shared/geometry.ts";
import { toDuration, toTimestamp } from "../../api/shared/time.ts";
import type { PathUpload } from "../../cloud_client/path_upload.ts";
import type { Clock } from "../../base/clock.ts";
import { joined, SvcError } from "../../base/error.ts";
import type { Logs } from "../../base/log/log.ts";
import type { JsonObject } from "../../base/schema/schema.ts";
import { WORLD } from "../../geometry/frame_system.ts";
import { readPcd, writePcd } from "../../geometry/cloud/pcd.ts";
import { transformCloud } from "../../geometry/cloud/point_cloud.ts";
import { IDENTITY_POSE } from "../../geometry/pose.ts";
import { parseApi, type ResourceName } from "../../resource/name.ts";
import type { JsonObject as Struct } from "../../wire/rpc/proto.ts";
import { type Peer, type Service, service, type ServiceImpl } from "../../wire/rpc/service.ts";
import type { MachineConfig } from "../config/config.ts";
import type { Jobs } from "./jobs.ts";
import { readLogEntry } from "./log_entry.ts";
import { LogLimit } from "./log_limit.ts";
import { bracketed } from "../../wire/port/endpoint.ts";
import type { BuildState, Machine, Node } from "../graph/machine.ts";
import type { NodeReachability, StatusNode } from "../graph/pass/node.ts";
import type { Operations } from "./operations.ts";
import type { MachinePackages, PackageProgress } from "../packages/packages.ts";
import type { RemoteStatus } from "../graph/remotes.ts";
import { ASKING_MACHINE } from "../graph/relays.ts";
import type { ModuleStatus } from "../modules/module.ts";
import type { ProvidedModel } from "../modules/modules.ts";
import type { Sessions } from "./sessions.ts";
import { stopActuators } from "../graph/stop.ts";
import { tunnel } from "./tunnel.ts";
import { counted } from "../../base/log/counted.ts";

export interface RobotServiceParts {
  readonly machine: Machine;
  readonly operations: Operations;
  readonly sessions: Sessions;
  readonly jobs: Pick<Jobs, "statuses">;
  /** Absent if there are none. */
  readonly packages?: Pick<MachinePackages, "statuses">;
  readonly logs: Logs;
  readonly clock: Clock;
  /** `0.1.0` */
  readonly version: string;
  /** The program's own parts, shown beside the resources while they have something to report. */
  readonly internal?: readonly InternalPart[];
  /** Uploads files of this computer to the control plane; absent without one. */
  readonly upload?: (
    path: string,
    metadata: UploadMetadata | undefined,
    signal: AbortSignal,
  ) => Promise<PathUpload>;
  /** Takes the spans that a module sends. */
  readonly diagnostics?: { receiveSpans(request: readonly ResourceSpans[], peer: Peer): void };
  /** Asks the program to end, with the reason. */
  readonly shutdown: (reason: string) => void;
}

/**
 * The head start of Shutdown's answer: the published Python library drops the answers that it gets together with the
 * announcement that the connection will end.
 */
export const SHUTDOWN_ANSWER_MS = 100;

/** A part of the program with a state to show. */
export interface InternalPart {
  readonly status: StatusNode | undefined;
}

type Methods = ServiceImpl<typeof RobotService>;

/** The platform name by which clients recognize the kind of machine. */
const PLATFORM = "rdk";
/** The level of the published API that proto/ declares: that of the published Python library 0.85.1. */
const API_VERSION = "v0.1.601";

export function robotService(parts: RobotServiceParts): Service {
  return service(RobotService, {
    ...resourceMethods(parts),
    ...operationMethods(parts),
    ...sessionMethods(parts),
    ...frameMethods(parts),
    ...programMethods(parts),
    ...moduleMethods(parts),
  });
}

function resourceMethods({ machine, jobs, packages, internal = [] }: RobotServiceParts): Methods {
  return {
    resourceNames: (_, { requestHeader, responseHeader }) => {
      const asking = requestHeader.get(ASKING_MACHINE);
      return asking === undefined
        ? { resources: shuffled(machine.names.map(nameMessage)) }
        : { resources: machine.namesFor(asking, responseHeader).map(nameMessage) };
    },
    resourceRPCSubtypes: () => {
      const names = new Set(machine.names.map(({ api }) => api));
      const used = machine.apis.filter((api) => names.has(api.name));
      return {
        resourceRpcSubtypes: used.map(({ name, desc }) => ({
          subtype: apiMessage(name),
          protoService: desc.typeName,
        })),
      };
    },
    getMachineStatus: () => {
      const cloud = cloudMessage(machine.config);
      return {
        resources: [
          ...[...machine.nodes].map((node) => ({
            ...statusMessage(node),
            ...reachabilityMessage(node, machine),
          })),
          ...internal.flatMap(({ status }) => status ? statusMessage(status) : []),
          ...machine.remotes.map(remoteMessage),
        ].map((status) => ({ reachability: Reachability.REACHABLE, ...status, cloudMetadata: cloud })),
        config: {
          revision: machine.config?.revision ?? "",
          lastUpdated: toTimestamp(machine.appliedMs),
        },
        state: machine.config ? MachineState.RUNNING : MachineState.INITIALIZING,
        jobStatuses: jobs.statuses().map(({ name, succeededMs, failedMs }) => ({
          jobName: name,
          recentSuccessfulRuns: succeededMs.map(toTimestamp),
          recentFailedRuns: failedMs.map(toTimestamp),
        })),
        modules: (machine.modules?.statuses ?? []).map(moduleMessage),
        packages: (packages?.statuses() ?? []).map(packageMessage),
      };
    },
  };
}

function operationMethods({ machine, operations, clock }: RobotServiceParts): Methods {
  return {
    getOperations: (_request, ctx) => ({
      operations: operations.list(ctx).map(({ id, method, arguments: args, startedMs, sessionId }) => ({
        id,
        method,
        arguments: args as Struct,
        started: toTimestamp(startedMs),
        sessionId,
      })),
    }),
    cancelOperation: ({ id }) => {
      operations.cancel(id);
      return {};
    },
    blockForOperation: async ({ id }, ctx) => {
      await operations.ended(id, ctx);
      return {};
    },
    stopAll: async ({ extra }, ctx) => {
      operations.cancelOthers(ctx, "by StopAll");
      for (const resource of machine.resources) resource.stoppedAll?.();
      const extras = new Map(extra.map(({ name, params }) => {
        return [
          `${name?.namespace}:${name?.type}:${name?.subtype}/${name?.name}`,
          params as JsonObject | undefined,
        ];
      }));
      // Without the caller's signal: a stop goes on, whether or not somebody waits for it.
      // Clients know a remote's resource without the remote; a local one hides it.
      const failures = await stopActuators(machine.resources, clock, ({ name }) => {
        const known = `${name.api}/${name.simple}`;
        const isHidden = machine.resources.some((other) => other.name.full === known);
        return extras.get(name.full) ?? (isHidden ? undefined : extras.get(known));
      });
      const failure = joined("StopAll", failures);
      if (failure) throw failure;
      return {};
    },
  };
}

function sessionMethods({ sessions }: RobotServiceParts): Methods {
  return {
    startSession: ({ resume }, ctx) => ({
      id: sessions.start(ctx, resume),
      heartbeatWindow: toDuration(sessions.heartbeatWindowMs),
    }),
    sendSessionHeartbeat: ({ id }, ctx) => {
      sessions.heartbeat(ctx, id);
      return {};
    },
    getSessions: () => ({
      sessions: sessions.list().map(({ id, peer }) => ({ id, peerConnectionInfo: peerMessage(peer) })),
    }),
  };
}

function frameMethods({ machine: { frames } }: RobotServiceParts): Methods {
  return {
    frameSystemConfig: async ({ supplementalTransforms }, { signal }) => {
      const parts = await frames.parts(supplementalTransforms.map(fromTransformMessage), { signal });
      return {
        frameSystemConfigs: parts.map((part) => ({
          frame: toTransformMessage(part),
          kinematics: part.kinematics?.config as Struct | undefined,
        })),
      };
    },
    transformPose: async ({ source, destination, supplementalTransforms }, { signal }) => {
      const pose = fromPoseInFrameMessage(source);
      const supplemental = supplementalTransforms.map(fromTransformMessage);
      return { pose: await frames.transformPose(pose, destination, supplemental, { signal }) };
    },
    transformPCD: async ({ pointCloudPcd, source, destination }, { signal }) => {
      if (source === "") {
        const wanted = "must provide name of point cloud origin";
        throw new SvcError("invalid_argument", `source cannot be empty, ${wanted}`);
      }
      const cloud = readPcd(pointCloudPcd);
      const between = await frames.transformBetween(source, destination || WORLD, { signal });
      return { pointCloudPcd: writePcd(transformCloud(cloud, between)) };
    },
    getPose: async ({ componentName, destinationFrame, supplementalTransforms, extra }, { signal }) => {
      if (componentName === "") throw new SvcError("invalid_argument", "must provide component name");
      const pose = { referenceFrame: componentName, pose: IDENTITY_POSE };
      const supplemental = supplementalTransforms.map(fromTransformMessage);
      const call = { extra: extra as JsonObject | undefined, signal };
      return { pose: await frames.transformPose(pose, destinationFrame || WORLD, supplemental, call) };
    },
  };
}

function programMethods(
  { machine, logs, clock, version, upload, diagnostics, shutdown }: RobotServiceParts,
): Methods {
  const logLimit = new LogLimit(clock);
  return {
    getVersion: () => ({
      platform: PLATFORM,
      version: version.startsWith("v") ? version : `v${version}`,
      apiVersion: API_VERSION,
    }),
    getCloudMetadata: () => {
      const cloud = cloudMessage(configOf(machine));
      if (!cloud) throw new SvcError("unknown", "cloud metadata not available");
      return cloud;
    },
    log: ({ logs: entries }, { peer }) => {
      const [entry, ...more] = entries;
      if (!entry || more.length > 0) {
        const found = `LogRequest received with ${entry ? "multiple" : "no"} logs`;
        throw new SvcError("invalid_argument", `${found}, wanted exactly one`);
      }
      const { level, logger, message, fields, caller } = readLogEntry(entry, clock.nowMs());
      const { admitted, leftOut } = logLimit.enter(peer);
      if (leftOut > 0) logs.write("warn", logger, `${counted(leftOut, "line")} left out within a second`, {});
      if (!admitted) return {};
      // Its sender has filtered it; levels of this program do not apply.
      logs.write(level, logger, message, fields, caller);
      return {};
    },
    sendTraces: ({ resourceSpans }, { peer }) => {
      diagnostics?.receiveSpans(resourceSpans, peer);
      return {};
    },
    shutdown: () => {
      clock.after(SHUTDOWN_ANSWER_MS, () => shutdown("shutdown_request"));
      return {};
    },
    tunnel: (requests, { signal }) => {
      const { trafficTunnelEndpoints: ends } = configOf(machine).network;
      return tunnel(requests, ends, clock, signal);
    },
    uploadDataFromPath: async ({ path, uploadMetadata }, { signal }) => {
      if (!upload) {
        const wanted = "wanted a cloud section in the machine's configuration";
        throw new SvcError("failed_precondition", `there is no control plane to upload to, ${wanted}`);
      }
      configOf(machine);
      const { ids, ...counts } = await upload(path, uploadMetadata, signal);
      const { filesUploaded, filesFailed, bytesUploaded, bytesTotal } = counts;
      return {
        filesUploaded: BigInt(filesUploaded),
        filesFailed: BigInt(filesFailed),
        bytesUploaded: BigInt(bytesUploaded),
        bytesTotal: BigInt(bytesTotal),
        ids: [...ids],
      };
    },
    listTunnels: () => ({
      tunnels: (machine.config?.network.trafficTunnelEndpoints ?? []).map(({ port, connectionTimeout }) => ({
        port,
        connectionTimeout: toDuration(connectionTimeout),
      })),
    }),
  };
}

function moduleMethods({ machine }: RobotServiceParts): Methods {
  return {
    getModelsFromModules: () => ({ models: (machine.modules?.models ?? []).map(modelMessage) }),
    restartModule: async ({ idOrName }, { signal }) => {
      const id = idOrName.case === "moduleId" ? idOrName.value : "";
      const name = idOrName.case === "moduleName" ? idOrName.value : "";
      const restarted = machine.restartModule((one) => id ? one.id === id : one.name === name, signal);
      if (restarted) return await restarted.then(() => ({}));
      configOf(machine);
      const found = `module not found with id=${id}, name=${name}`;
      throw new SvcError("not_found", `${found}. make sure it is configured and running on your machine`);
    },
  };
}

/**
 * The configuration in force, for calls that it permits or refuses: a machine that still starts knows no answer yet.
 *
 * Errors: `unavailable` before the first configuration is applied.
 */
function configOf({ config }: Machine): MachineConfig {
  if (config) return config;
  const wanted = "wanted the first configuration to be applied: try again in a moment";
  throw new SvcError("unavailable", `the machine is still starting, ${wanted}`);
}

const STATES: { readonly [S in BuildState]: ResourceState } = {
  unconfigured: ResourceState.UNCONFIGURED,
  configuring: ResourceState.CONFIGURING,
  ready: ResourceState.READY,
  unhealthy: ResourceState.UNHEALTHY,
  removing: ResourceState.REMOVING,
};

const REACHABILITIES: { readonly [R in NodeReachability]: Reachability } = {
  reachable: Reachability.REACHABLE,
  disconnected: Reachability.REMOTE_DISCONNECTED,
  shadowed: Reachability.SHADOWED_BY_LOCAL,
  ambiguous: Reachability.AMBIGUOUS_REMOTE,
};

function statusMessage({ name, state, updatedMs, revision, error = "" }: StatusNode) {
  return {
    name: nameMessage(name),
    state: STATES[state],
    lastUpdated: toTimestamp(updatedMs),
    revision,
    error,
  };
}

/** A node's machine, and whether clients reach it by its name; a remote's resource has its client name. */
function reachabilityMessage({ name }: Node, machine: Machine) {
  const reachability = REACHABILITIES[machine.reachability(name)];
  if (!name.isRemote) return { reachability };
  return {
    name: { ...apiMessage(name.api), name: name.simple },
    remote: name.short.split(":")[0],
    reachability,
  };
}

/** A remote itself, under the published type name of remotes. */
function remoteMessage({ name, state, updatedMs, error = "" }: RemoteStatus) {
  return {
    name: { namespace: "rdk", type: "remote", subtype: "", name },
    state: STATES[state],
    lastUpdated: toTimestamp(updatedMs),
    error,
  };
}

function nameMessage({ api, short }: ResourceName) {
  return { ...apiMessage(api), name: short };
}

/**
 * In random order, as the published runtime's list is. The published Python library depends on it: after a reconnect
 * it keeps its components on the lost connection if the list is the same as before.
 */
function shuffled<T>(list: readonly T[]): T[] {
  const rest = [...list];
  return list.flatMap(() => rest.splice(Math.floor(Math.random() * rest.length), 1));
}

/** An API in the published message: a name without the resource's own. */
function apiMessage(api: string) {
  const { namespace, kind, type } = parseApi(api);
  return { namespace, type: kind, subtype: type };
}

function cloudMessage(config: MachineConfig | undefined) {
  if (!config?.cloud) return undefined;
  const { id, primaryOrgId = "", locationId = "", machineId = "" } = config.cloud;
  // The part's id appears twice; older clients read the first.
  return { robotPartId: id, machinePartId: id, primaryOrgId, locationId, machineId };
}

const PACKAGE_STATES: { readonly [K in PackageProgress["state"]]: PackageState } = {
  downloading: PackageState.DOWNLOADING,
  loading: PackageState.LOADING,
  ready: PackageState.READY,
  failed: PackageState.FAILED,
};

function packageMessage({ config, state, error, updatedMs, bytesDownloaded, bytesTotal }: PackageProgress) {
  const { name, version, type } = config;
  return {
    name,
    version,
    type: PackageType[type.toUpperCase() as keyof typeof PackageType],
    state: PACKAGE_STATES[state],
    error: error ?? "",
    lastUpdated: toTimestamp(updatedMs),
    bytesDownloaded: BigInt(bytesDownloaded),
    totalBytes: BigInt(bytesTotal),
  };
}

const MODULE_STATES: { readonly [K in ModuleStatus["state"]]: ModuleState } = {
  pending: ModuleState.PENDING,
  starting: ModuleState.STARTING,
  ready: ModuleState.READY,
  unhealthy: ModuleState.UNHEALTHY,
  closing: ModuleState.CLOSING,
};

function moduleMessage({ name, state, error = "", updatedMs, consecutiveFailures }: ModuleStatus) {
  const lastUpdated = toTimestamp(updatedMs);
  return { moduleName: name, state: MODULE_STATES[state], lastUpdated, error, consecutiveFailures };
}

function modelMessage({ module, model, api, isLocal }: ProvidedModel) {
  return { moduleName: module, model, api, fromLocalModule: isLocal };
}

/** The published runtime gives the port of a gRPC client, but not of a WebRTC peer. */
function peerMessage({ kind, remoteAddress: host, remotePort, localAddress }: Peer) {
  const types = {
    grpc: PeerConnectionType.GRPC,
    webrtc: PeerConnectionType.WEBRTC,
    memory: PeerConnectionType.UNSPECIFIED,
  };
  const remoteAddress = host !== undefined && remotePort !== undefined
    ? `${bracketed(host)}:${remotePort}`
    : host;
  return { type: types[kind], remoteAddress, localAddress };
}
