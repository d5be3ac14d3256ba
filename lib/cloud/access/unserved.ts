/**
 * Published calls that this control plane does not serve, with the reason that their callers get.
 *
 * `docs/published_calls.md` is made from this table and the rules. A test compares both with the published
 * descriptors: each published call has a rule or an entry here, and there are no other entries.
 */

/** A reason and its calls. */
type Group = readonly [reason: string, ...names: readonly string[]];

const NO_BILLING = "this control plane has no billing";
const NO_SUPPORT = "this control plane keeps no address for support";
const NO_FAVORITES = "this control plane keeps no favourites";
const NO_LOGIN = "this control plane has no login for apps; apps sign in with an API key";
const NO_BRANDING = "this control plane serves no customized pages";
const NO_PUSH = "this control plane sends no messages to phones";
const NO_DATABASE = "this control plane gives no access to its database; use ExportTabularData";
const NO_DEPRECATION = "this control plane has no deprecation; hide the item with UpdateRegistryItem";
const NO_BUILDS = "this control plane builds no modules; upload a built module with UploadModuleFile";
const ON_DEVICE = "the device itself serves this call while it waits for setup";

const TABLE: { readonly [service: string]: readonly Group[] } = {
  "viam.app.v1.AppService": [
    [
      NO_BILLING,
      "EnableBillingService",
      "DisableBillingService",
      "UpdateBillingService",
      "GetBillingServiceConfig",
    ],
    [NO_SUPPORT, "OrganizationSetSupportEmail", "OrganizationGetSupportEmail"],
    [NO_FAVORITES, "AddFavoriteMachine", "RemoveFavoriteMachine", "ListFavoriteMachines"],
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
    ["this control plane rents out no machines", "GetRoverRentalRobots"],
    [
      "this control plane checks and saves whole configurations; use UpdateRobotPart",
      "SetConfigProperty",
    ],
    [
      "this control plane neither renames nor transfers registry items",
      "RenameRegistryItem",
      "TransferRegistryItem",
    ],
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
    ["this control plane has no terms to accept", "IsLegalAccepted", "AcceptLegal"],
    [NO_LOGIN, "RegisterAuthApplication", "UpdateAuthApplication", "GetAuthApplication"],
  ],
  "viam.app.data.v1.DataService": [
    [NO_DATABASE, "GetDatabaseConnection", "ConfigureDatabaseUser"],
    [
      "this control plane manages the indexes of captured data itself",
      "CreateIndex",
      "ListIndexes",
      "DeleteIndex",
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
