/** The calls that the page makes: the published ones, and the control plane's own. */

import type { CallOptions } from "@connectrpc/connect";
import type { PlainMessage } from "@bufbuild/protobuf";
import type { appApi, DataClient, mlTrainingApi } from "@viamrobotics/sdk";
import type { InferenceCalls } from "../data/inference_calls.ts";
import type { MappingCalls, PackageCalls } from "../maps/map_calls.ts";
import type { ReportCalls } from "../machines/report_calls.ts";
import type { AlertCalls } from "../alerts/alert_calls.ts";
import type { RecordCalls } from "../records/record_calls.ts";
import type { RolloutCalls } from "../rollouts/rollout_calls.ts";
import type { BackupCalls } from "../backups/backup_calls.ts";
import type { ReleaseCalls } from "../releases/release_calls.ts";
import type { ConfigurationCalls } from "../configurations/configuration_calls.ts";
import type { UsageCalls } from "../usage/usage_calls.ts";

export interface FleetCalls extends PublishedCalls {
  readonly rollouts: RolloutCalls;
  readonly reports: ReportCalls;
  readonly records: RecordCalls;
  readonly alerts: AlertCalls;
  readonly usage: UsageCalls;
  readonly configurations: ConfigurationCalls;
  readonly releases: ReleaseCalls;
  readonly backups: BackupCalls;
  readonly data: DataClient;
  readonly training: TrainingCalls;
  readonly inference: InferenceCalls;
  readonly packages: PackageCalls;
  readonly mapping: MappingCalls;
}

/** Those of MLTrainingService. */
export interface TrainingCalls {
  submitTrainingJob(
    request: {
      readonly organizationId: string;
      readonly datasetId: string;
      readonly modelName: string;
      readonly modelVersion: string;
      readonly modelType: mlTrainingApi.ModelType;
      readonly tags: readonly string[];
    },
  ): Promise<{ readonly id: string }>;
  listTrainingJobs(
    request: { readonly organizationId: string; readonly status: mlTrainingApi.TrainingStatus },
  ): Promise<mlTrainingApi.ListTrainingJobsResponse>;
  getTrainingJob(request: { readonly id: string }): Promise<mlTrainingApi.GetTrainingJobResponse>;
  getTrainingJobLogs(
    request: { readonly id: string; readonly pageToken?: string },
  ): Promise<mlTrainingApi.GetTrainingJobLogsResponse>;
  cancelTrainingJob(request: { readonly id: string }): Promise<object>;
  deleteCompletedTrainingJob(request: { readonly id: string }): Promise<object>;
}

export interface PublishedCalls {
  listMachineSummaries(
    request: { readonly organizationId?: string; readonly limit?: number },
  ): Promise<appApi.ListMachineSummariesResponse>;
  newRobot(request: { readonly name: string; readonly location: string }): Promise<{ readonly id: string }>;
  updateRobot(
    request: { readonly id: string; readonly name: string; readonly location: string },
  ): Promise<object>;
  deleteRobot(request: { readonly id: string }): Promise<object>;
  createLocation(
    request: { readonly organizationId: string; readonly name: string; readonly parentLocationId?: string },
  ): Promise<appApi.CreateLocationResponse>;
  /** An empty name changes nothing, and an empty parent means the organization itself. */
  updateLocation(
    request: { readonly locationId: string; readonly name: string; readonly parentLocationId?: string },
  ): Promise<object>;
  deleteLocation(request: { readonly locationId: string }): Promise<object>;
  getRobot(request: { readonly id: string }): Promise<appApi.GetRobotResponse>;
  getLocation(request: { readonly locationId: string }): Promise<appApi.GetLocationResponse>;
  getRobotParts(request: { readonly robotId: string }): Promise<appApi.GetRobotPartsResponse>;
  getRobotPart(request: { readonly id: string }): Promise<appApi.GetRobotPartResponse>;
  updateRobotPart(
    request: {
      readonly id: string;
      readonly name: string;
      readonly robotConfig: unknown;
      readonly lastKnownUpdate?: unknown;
    },
  ): Promise<appApi.UpdateRobotPartResponse>;
  getRobotPartHistory(request: { readonly id: string }): Promise<appApi.GetRobotPartHistoryResponse>;
  getRobotPartLogs(
    request: { readonly id: string; readonly limit?: bigint },
    options?: CallOptions,
  ): Promise<appApi.GetRobotPartLogsResponse>;
  tailRobotPartLogs(
    request: { readonly id: string },
    options?: CallOptions,
  ): AsyncIterable<appApi.TailRobotPartLogsResponse>;
  markPartForRestart(request: { readonly partId: string }): Promise<object>;
  createKey(
    request: {
      readonly name: string;
      readonly authorizations: readonly PlainMessage<appApi.Authorization>[];
    },
  ): Promise<appApi.CreateKeyResponse>;
  updateOrganization(request: { readonly organizationId: string; readonly name: string }): Promise<object>;
  listOrganizations(request: object): Promise<appApi.ListOrganizationsResponse>;
  listLocations(request: { readonly organizationId: string }): Promise<appApi.ListLocationsResponse>;
  listRegistryItems(
    request: {
      /** Without one, the items that the caller sees of all. */
      readonly organizationId?: string;
      readonly types: readonly number[];
      readonly visibilities?: readonly number[];
      readonly searchTerm?: string;
      /** The id of the last item of the page before. */
      readonly pageToken?: string;
    },
  ): Promise<appApi.ListRegistryItemsResponse>;
  getRegistryItem(request: { readonly itemId: string }): Promise<appApi.GetRegistryItemResponse>;
  listFragments(
    request: { readonly organizationId: string; readonly showPublic: boolean },
  ): Promise<appApi.ListFragmentsResponse>;
  getFragment(
    request: { readonly id: string; readonly version?: string },
  ): Promise<appApi.GetFragmentResponse>;
  createFragment(
    request: {
      readonly name: string;
      readonly organizationId: string;
      readonly config: unknown;
      readonly visibility: number;
    },
  ): Promise<appApi.CreateFragmentResponse>;
  updateFragment(
    request: {
      readonly id: string;
      readonly name: string;
      readonly config: unknown;
      readonly visibility: number;
      readonly lastKnownUpdate?: unknown;
    },
  ): Promise<appApi.UpdateFragmentResponse>;
  deleteFragment(request: { readonly id: string }): Promise<object>;
  getFragmentHistory(
    request: { readonly id: string; readonly pageToken?: string; readonly pageLimit?: bigint },
  ): Promise<appApi.GetFragmentHistoryResponse>;
  setFragmentTag(
    request: { readonly fragmentId: string; readonly tag: string; readonly revision: string },
  ): Promise<object>;
  deleteFragmentTag(request: { readonly fragmentId: string; readonly tag: string }): Promise<object>;
  listAuthorizations(
    request: { readonly organizationId: string; readonly resourceIds: readonly string[] },
  ): Promise<appApi.ListAuthorizationsResponse>;
  listOrganizationMembers(
    request: { readonly organizationId: string },
  ): Promise<appApi.ListOrganizationMembersResponse>;
  createOrganizationInvite(
    request: {
      readonly organizationId: string;
      readonly email: string;
      readonly authorizations: readonly PlainMessage<appApi.Authorization>[];
    },
  ): Promise<appApi.CreateOrganizationInviteResponse>;
  deleteOrganizationInvite(
    request: { readonly organizationId: string; readonly email: string },
  ): Promise<object>;
  deleteOrganizationMember(
    request: { readonly organizationId: string; readonly userId: string },
  ): Promise<object>;
  checkPermissions(
    request: {
      readonly permissions: readonly {
        readonly resourceType: string;
        readonly resourceId: string;
        readonly permissions: readonly string[];
      }[];
    },
  ): Promise<appApi.CheckPermissionsResponse>;
}

/** What a caller would need to change things; an operator has less. */
const CHANGING = "configure";

/** Whether this caller may change a machine, a location or an organization. */
export async function mayChange(
  calls: FleetCalls,
  resourceType: "robot" | "location" | "organization",
  resourceId: string,
): Promise<boolean> {
  const asked = { resourceType, resourceId, permissions: [CHANGING] };
  const { authorizedPermissions } = await calls.checkPermissions({ permissions: [asked] });
  return authorizedPermissions.some(({ permissions }) => permissions.includes(CHANGING));
}
