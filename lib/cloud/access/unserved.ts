/**
 * Published calls that this control plane does not serve, with the reason that their callers get.
 *
 * `docs/published_calls.md` is made from this table and the rules. A test compares both with the published
 * descriptors: each published call has a rule or an entry here, and there are no other entries.
 */

/** A reason and its calls. */
type Group = readonly [reason: string, ...names: readonly string[]];

const NO_BILLING = "this control plane has no billing";
const NO_PEOPLE = "this control plane knows API keys, not people: make a key with CreateKey";
const NO_LOGIN = "this control plane has no login for apps; apps sign in with an API key";
const NO_BRANDING = "this control plane serves no pages of an organization's own";
const NO_PUSH = "this control plane sends no messages to phones";
const NO_QUERIES =
  "this control plane runs no queries in SQL or MQL; read with TabularDataByFilter or ExportTabularData";
const NO_DATABASE = "this control plane opens its database to nobody; read with ExportTabularData";
const NO_PARQUET =
  "this control plane writes no Parquet files; read with GetSequenceBinaryData and ExportTabularData";
const NO_DEPRECATION = "this control plane marks nothing as deprecated; hide it with UpdateRegistryItem";
const NO_PIPELINES = "this control plane has no data pipelines; read with ExportTabularData";
const NO_BUILDS = "this control plane builds no modules; upload them built with UploadModuleFile";
const ON_DEVICE = "a device is provisioned at the device itself, not at its control plane";

const TABLE: { readonly [service: string]: readonly Group[] } = {
  "viam.app.v1.AppService": [
    [
      NO_BILLING,
      "EnableBillingService",
      "DisableBillingService",
      "UpdateBillingService",
      "GetBillingServiceConfig",
    ],
    [
      NO_PEOPLE,
      "GetUserIDByEmail",
      "ListOrganizationsByUser",
      "ListOrganizationMembers",
      "CreateOrganizationInvite",
      "UpdateOrganizationInviteAuthorizations",
      "DeleteOrganizationMember",
      "DeleteOrganizationInvite",
      "ResendOrganizationInvite",
      "OrganizationSetSupportEmail",
      "OrganizationGetSupportEmail",
      "AddFavoriteMachine",
      "RemoveFavoriteMachine",
      "ListFavoriteMachines",
    ],
    [
      NO_LOGIN,
      "EnableAuthService",
      "DisableAuthService",
      "CreateOAuthApp",
      "ReadOAuthApp",
      "UpdateOAuthApp",
      "DeleteOAuthApp",
      "ListOAuthApps",
      "CreateOAuthAppUser",
    ],
    [NO_BRANDING, "OrganizationSetLogo", "OrganizationGetLogo", "GetAppContent", "GetAppBranding"],
    [
      NO_PUSH,
      "UploadDevicePushToken",
      "DeleteDevicePushToken",
      "GetDevicePushTokens",
      "SetFirebaseConfig",
      "GetFirebaseConfig",
      "DeleteFirebaseConfig",
    ],
    [
      NO_DEPRECATION,
      "DeprecateRegistryItem",
      "UndeprecateRegistryItem",
      "DeprecateRegistryItemVersion",
      "UndeprecateRegistryItemVersion",
    ],
    ["nobody rents machines from this control plane", "GetRoverRentalRobots"],
    [
      "a configuration is saved whole here, so that all of it is checked: with UpdateRobotPart",
      "SetConfigProperty",
    ],
    ["what is published keeps its name and owner here", "RenameRegistryItem", "TransferRegistryItem"],
  ],
  "viam.app.v1.BillingService": [
    [
      NO_BILLING,
      "GetCurrentMonthUsage",
      "GetOrgBillingInformation",
      "GetInvoicesSummary",
      "GetInvoicePdf",
      "SendPaymentRequiredEmail",
      "GetAvailableBillingTiers",
      "UpdateOrganizationBillingTier",
      "GetLocationBillingOrganization",
      "UpdateLocationBillingOrganization",
      "ChargeOrganization",
      "CreateInvoiceAndChargeImmediately",
    ],
  ],
  "viam.app.v1.EndUserService": [
    ["there are no terms to agree to on this control plane", "IsLegalAccepted", "AcceptLegal"],
    [NO_LOGIN, "RegisterAuthApplication", "UpdateAuthApplication", "GetAuthApplication"],
  ],
  "viam.app.data.v1.DataService": [
    [
      NO_QUERIES,
      "TabularDataBySQL",
      "TabularDataByMQL",
      "CreateSavedQuery",
      "UpdateSavedQuery",
      "GetSavedQuery",
      "DeleteSavedQuery",
      "ListSavedQueries",
    ],
    [NO_DATABASE, "GetDatabaseConnection", "ConfigureDatabaseUser"],
    [
      "the indexes of captured data are this control plane's own",
      "CreateIndex",
      "ListIndexes",
      "DeleteIndex",
    ],
  ],
  "viam.app.dataset.v1.DatasetService": [
    [NO_PARQUET, "StartSequenceDatasetExport", "GetSequenceDatasetExport"],
  ],
  "viam.app.datapipelines.v1.DataPipelinesService": [
    [
      NO_PIPELINES,
      "GetDataPipeline",
      "ListDataPipelines",
      "CreateDataPipeline",
      "RenameDataPipeline",
      "DeleteDataPipeline",
      "EnableDataPipeline",
      "DisableDataPipeline",
      "ListDataPipelineRuns",
    ],
  ],
  "viam.app.build.v1.BuildService": [
    [
      NO_BUILDS,
      "StartBuild",
      "GetLogs",
      "ListJobs",
      "LinkRepo",
      "UnlinkRepo",
      "ListRepoLinks",
      "ListAppLinks",
      "RemoveAppLink",
      "LinkOrg",
      "UnlinkOrg",
      "StartReloadBuild",
      "StartPackageBuild",
    ],
  ],
  "viam.provisioning.v1.ProvisioningService": [
    [
      ON_DEVICE,
      "GetSmartMachineStatus",
      "SetNetworkCredentials",
      "SetSmartMachineCredentials",
      "GetNetworkList",
      "ExitProvisioning",
    ],
  ],
};

/** The reason by the path of the call: `/viam.app.v1.BillingService/GetInvoicePdf`. */
export const UNSERVED: ReadonlyMap<string, string> = new Map(
  Object.entries(TABLE).flatMap(([service, groups]) =>
    groups.flatMap(([reason, ...names]) => names.map((name) => [`/${service}/${name}`, reason] as const))
  ),
);
