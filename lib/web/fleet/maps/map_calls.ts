/** The calls on packages and on mapping sessions: published ones that the published browser library does not wrap. */

import { createPromiseClient, type Transport } from "@connectrpc/connect";
import type { JsonValue, MessageType } from "@bufbuild/protobuf";
import { Struct } from "@bufbuild/protobuf";
import { Timestamp, wireMessage, wireService } from "../../machine/link/wire.ts";

export interface ListedPackage {
  readonly info?: {
    readonly organizationId: string;
    readonly name: string;
    readonly version: string;
    readonly platform: string;
    readonly metadata?: { toJson(): JsonValue };
  };
  readonly url: string;
  readonly createdOn?: Timestamp;
}

export interface PackageCalls {
  listPackages(
    request: {
      readonly organizationId: string;
      readonly name?: string;
      readonly version?: string;
      /** A number of the published PackageType. */
      readonly type?: number;
      readonly includeUrl?: boolean;
    },
  ): Promise<{ readonly packages: readonly ListedPackage[] }>;
}

export interface ListedSession {
  readonly cloudRunJobId: string;
  readonly robotId: string;
  readonly mapName: string;
  readonly timeStartSubmitted?: Timestamp;
  readonly timeCloudRunJobStarted?: Timestamp;
  readonly timeEndSubmitted?: Timestamp;
  readonly timeCloudRunJobEnded?: Timestamp;
  readonly endStatus: number;
  readonly errorMsg: string;
}

/** The robot on its map, in millimetres and degrees. */
export interface MapPose {
  readonly x: number;
  readonly y: number;
  readonly oZ: number;
  readonly theta: number;
}

export interface MappingCalls {
  /** The newest 1,000. */
  listMappingSessions(
    request: { readonly organizationId: string },
  ): Promise<{ readonly session: readonly ListedSession[] }>;
  getMappingSessionMetadataByID(
    request: { readonly sessionId: string },
  ): Promise<{ readonly sessionMetadata?: ListedSession }>;
  /** Makes a session that goes on draw its map anew. */
  getMappingSessionPointCloud(
    request: { readonly sessionId: string },
  ): Promise<{ readonly mapUrl: string; readonly pose?: MapPose }>;
}

const PACKAGES = "viam.app.packages.v1";
const MAPPING = "viam.app.cloudslam.v1";
const Time = Timestamp as unknown as MessageType;

const PackageMessage = wireMessage(`${PACKAGES}.Package`, {
  info: [
    1,
    wireMessage(`${PACKAGES}.PackageInfo`, {
      organization_id: [1, "string"],
      name: [2, "string"],
      version: [3, "string"],
      type: [4, "enum"],
      metadata: [6, Struct as unknown as MessageType],
      platform: [7, "string"],
    }),
  ],
  url: [2, "string"],
  created_on: [3, Time],
});

const SessionMessage = wireMessage(`${MAPPING}.MappingMetadata`, {
  robot_id: [3, "string"],
  time_start_submitted: [4, Time],
  time_cloud_run_job_started: [5, Time],
  time_end_submitted: [6, Time],
  time_cloud_run_job_ended: [7, Time],
  end_status: [8, "enum"],
  cloud_run_job_id: [9, "string"],
  map_name: [11, "string"],
  error_msg: [14, "string"],
});

const Pose = wireMessage("viam.common.v1.Pose", {
  x: [1, "double"],
  y: [2, "double"],
  o_z: [6, "double"],
  theta: [7, "double"],
});

const PackageService = wireService(`${PACKAGES}.PackageService`, {
  ListPackages: [
    wireMessage(`${PACKAGES}.ListPackagesRequest`, {
      organization_id: [1, "string"],
      name: [2, "string"],
      version: [3, "string"],
      type: [4, "enum"],
      include_url: [5, "bool"],
    }),
    wireMessage(`${PACKAGES}.ListPackagesResponse`, { packages: [1, PackageMessage, "repeated"] }),
  ],
});

const MappingService = wireService(`${MAPPING}.CloudSLAMService`, {
  ListMappingSessions: [
    wireMessage(`${MAPPING}.ListMappingSessionsRequest`, { organization_id: [1, "string"] }),
    wireMessage(`${MAPPING}.ListMappingSessionsResponse`, { session: [1, SessionMessage, "repeated"] }),
  ],
  GetMappingSessionMetadataByID: [
    wireMessage(`${MAPPING}.GetMappingSessionMetadataByIDRequest`, { session_id: [1, "string"] }),
    wireMessage(`${MAPPING}.GetMappingSessionMetadataByIDResponse`, {
      session_metadata: [1, SessionMessage],
    }),
  ],
  GetMappingSessionPointCloud: [
    wireMessage(`${MAPPING}.GetMappingSessionPointCloudRequest`, { session_id: [1, "string"] }),
    wireMessage(`${MAPPING}.GetMappingSessionPointCloudResponse`, {
      map_url: [1, "string"],
      pose: [2, Pose],
    }),
  ],
});

export function packageCalls(transport: Transport): PackageCalls {
  return createPromiseClient(PackageService, transport) as unknown as PackageCalls;
}

export function mappingCalls(transport: Transport): MappingCalls {
  return createPromiseClient(MappingService, transport) as unknown as MappingCalls;
}
