/**
 * The table of rules: for each served call, the role that it needs and the resource on which it needs it.
 */

import { AgentDeviceService } from "../../../proto/gen/agent_pb.ts";
import { AppService } from "../../../proto/gen/app_pb.ts";
import { ChangeService } from "../../../proto/gen/changes_pb.ts";
import { CommandService } from "../../../proto/gen/commands_pb.ts";
import { ConfigurationService } from "../../../proto/gen/configurations_pb.ts";
import { RobotService } from "../../../proto/gen/robot_config_pb.ts";
import { CloudSLAMService } from "../../../proto/gen/cloud_slam_pb.ts";
import { AuthService, ExternalAuthService } from "../../../proto/gen/auth_pb.ts";
import { Health } from "../../../proto/gen/health_pb.ts";
import { MLInferenceService } from "../../../proto/gen/ml_inference_pb.ts";
import { MLTrainingService } from "../../../proto/gen/ml_training_pb.ts";
import { PackageService } from "../../../proto/gen/packages_pb.ts";
import { ServerReflection } from "../../../proto/gen/reflection_pb.ts";
import { ServerReflection as ServerReflectionAlpha } from "../../../proto/gen/reflection_v1alpha_pb.ts";
import { PartReportService } from "../../../proto/gen/part_reports_pb.ts";
import { RecordService } from "../../../proto/gen/records_pb.ts";
import { BackupService } from "../../../proto/gen/backups_pb.ts";
import { ReleaseService } from "../../../proto/gen/releases_pb.ts";
import { RolloutService } from "../../../proto/gen/rollouts_pb.ts";
import { SignalingService } from "../../../proto/gen/signaling_pb.ts";
import { TrainingService } from "../../../proto/gen/training_pb.ts";
import { TriggerService } from "../../../proto/gen/triggers_pb.ts";
import { UsageService } from "../../../proto/gen/usage_pb.ts";
import { type Rule, rule } from "./access.ts";
import { DATA_RULES } from "./data_rules.ts";

const app = AppService.method;
const signaling = SignalingService.method;
const robot = RobotService.method;
const packages = PackageService.method;
const training = MLTrainingService.method;
const mapping = CloudSLAMService.method;
const reports = PartReportService.method;
const rollouts = RolloutService.method;
const records = RecordService.method;
const releases = ReleaseService.method;
const triggers = TriggerService.method;
const usage = UsageService.method;
const configurations = ConfigurationService.method;

export const RULES: readonly Rule[] = [
  rule(AuthService.method.authenticate, "unauthenticated"),
  // The handler finds the machine by its name.
  rule(ExternalAuthService.method.authenticateTo, "authenticated"),
  rule(signaling.optionalWebRTCConfig, "authenticated"),
  rule(signaling.call, "authenticated"),
  rule(signaling.callUpdate, "authenticated"),
  rule(signaling.answer, "authenticated"),
  rule(signaling.reportConnectionMetadata, "authenticated"),
  rule(Health.method.check, "unauthenticated"),
  rule(Health.method.watch, "unauthenticated"),
  rule(Health.method.list, "unauthenticated"),
  rule(ServerReflection.method.serverReflectionInfo, "authenticated"),
  rule(ServerReflectionAlpha.method.serverReflectionInfo, "authenticated"),

  rule(CommandService.method.run, "administrator"),

  // Training scripts look up the id of their organization here.
  { ...rule(app.listOrganizations, "authenticated"), forJobs: true },
  rule(app.createOrganization, "authenticated"),
  rule(app.checkPermissions, "authenticated"),
  rule(app.getOrganization, "viewer", ["organization", "organizationId"]),
  rule(app.updateOrganization, "owner", ["organization", "organizationId"]),

  rule(app.getOrganizationNamespaceAvailability, "authenticated"),
  rule(app.updateOrganizationNamespace, "owner", ["organization", "organizationId"]),
  rule(app.searchOrganizations, "authenticated"),
  rule(app.deleteOrganization, "owner", ["organization", "organizationId"]),

  // They reveal only accounts in the caller's own organizations.
  rule(app.getUserIDByEmail, "authenticated"),
  rule(app.listOrganizationsByUser, "authenticated"),
  rule(app.listOrganizationMembers, "viewer", ["organization", "organizationId"]),
  rule(app.deleteOrganizationMember, "owner", ["organization", "organizationId"]),
  rule(app.createOrganizationInvite, "owner", ["organization", "organizationId"]),
  rule(app.updateOrganizationInviteAuthorizations, "owner", ["organization", "organizationId"]),
  rule(app.deleteOrganizationInvite, "owner", ["organization", "organizationId"]),
  rule(app.resendOrganizationInvite, "owner", ["organization", "organizationId"]),

  rule(app.getOrganizationMetadata, "viewer", ["organization", "organizationId"]),
  rule(app.updateOrganizationMetadata, "owner", ["organization", "organizationId"]),
  rule(app.getLocationMetadata, "viewer", ["location", "locationId"]),
  rule(app.updateLocationMetadata, "owner", ["location", "locationId"]),
  rule(app.getRobotMetadata, "viewer", ["machine", "id"]),
  rule(app.updateRobotMetadata, "owner", ["machine", "id"]),
  rule(app.getRobotPartMetadata, "viewer", ["part", "id"]),
  rule(app.updateRobotPartMetadata, "owner", ["part", "id"]),

  { ...rule(app.listLocations, "viewer", ["organization", "organizationId"]), partly: "viewer" },
  rule(app.getLocation, "viewer", ["location", "locationId"]),
  rule(app.createLocation, "owner", ["organization", "organizationId"], ["location", "parentLocationId"]),
  rule(app.updateLocation, "owner", ["location", "locationId"], ["location", "parentLocationId"]),
  rule(app.deleteLocation, "owner", ["location", "locationId"]),
  // Needs the consent of both: the machines there learn the guest's keys, and its people see the location.
  rule(app.shareLocation, "owner", ["location", "locationId"], ["organization", "organizationId"]),
  rule(app.unshareLocation, "owner", ["location", "locationId"]),
  rule(app.locationAuth, "owner", ["location", "locationId"]),
  rule(app.createLocationSecret, "owner", ["location", "locationId"]),
  rule(app.deleteLocationSecret, "owner", ["location", "locationId"]),
  rule(app.getOrganizationsWithAccessToLocation, "viewer", ["location", "locationId"]),

  rule(app.listRobots, "viewer", ["location", "locationId"]),
  rule(app.listRobotsForLocations, "viewer", ["location", "locationIds"]),
  { ...rule(app.listRobotsForOrg, "viewer", ["organization", "orgId"]), partly: "viewer" },
  rule(app.getRobot, "viewer", ["machine", "id"]),
  rule(app.newRobot, "owner", ["location", "location"]),
  rule(app.updateRobot, "owner", ["machine", "id"], ["location", "location"]),
  rule(app.deleteRobot, "owner", ["machine", "id"]),
  // Without an organization, it lists those of all organizations of the caller.
  {
    ...rule(app.listMachineSummaries, "viewer", ["organization", "organizationId"]),
    open: true,
    partly: "viewer",
  },

  // Without ids, it lists those of all machines of the caller.
  { ...rule(reports.listPartReports, "viewer", ["machine", "machineIds"]), open: true },

  rule(app.getRobotParts, "viewer", ["machine", "robotId"]),
  rule(app.getRobotPart, "viewer", ["part", "id"]),
  rule(app.getRobotPartByNameAndLocation, "viewer", ["location", "locationId"]),
  rule(app.newRobotPart, "owner", ["machine", "robotId"]),
  rule(app.deleteRobotPart, "owner", ["part", "partId"]),
  rule(app.markPartAsMain, "owner", ["part", "partId"]),
  rule(app.createRobotPartSecret, "owner", ["part", "partId"]),
  rule(app.deleteRobotPartSecret, "owner", ["part", "partId"]),
  rule(app.markPartForRestart, "operator", ["part", "partId"]),

  rule(app.updateRobotPart, "owner", ["part", "id"]),
  // Another text than a saved one only by its owner, which the handler finds out.
  rule(configurations.resolveConfiguration, "viewer", ["part", "partId"]),
  rule(configurations.listFragmentUses, "viewer", ["fragment", "fragmentId"]),
  // The handler checks whether the caller may see the item.
  rule(configurations.listPackageUses, "viewer", ["organization", "organizationId"]),
  rule(app.getRobotPartHistory, "viewer", ["part", "id"]),
  rule(app.getRobotPartLogs, "viewer", ["part", "id"]),
  rule(app.tailRobotPartLogs, "viewer", ["part", "id"]),

  // Without an organization, those of all machines of the caller.
  {
    ...rule(records.listLogs, "viewer", ["organization", "selection.organizationId"]),
    open: true,
    partly: "viewer",
  },
  {
    ...rule(records.followLogs, "viewer", ["organization", "selection.organizationId"]),
    open: true,
    partly: "viewer",
  },
  rule(triggers.listTriggers, "viewer", ["organization", "organizationId"]),
  rule(triggers.listDeliveries, "viewer", ["organization", "organizationId"]),
  rule(triggers.testTrigger, "owner", ["part", "partId"]),
  rule(triggers.retryDeliveries, "owner", ["organization", "organizationId"]),
  rule(usage.getUsage, "viewer", ["organization", "organizationId"]),
  rule(usage.setRetention, "owner", ["organization", "organizationId"]),
  rule(records.listAuditEntries, "owner", ["organization", "organizationId"]),

  rule(app.listFragments, "viewer", ["organization", "organizationId"]),
  // The fragment's visibility decides.
  rule(app.getFragment, "authenticated"),
  rule(app.createFragment, "owner", ["organization", "organizationId"]),
  rule(app.updateFragment, "owner", ["fragment", "id"]),
  rule(app.deleteFragment, "owner", ["fragment", "id"]),
  rule(app.getFragmentHistory, "viewer", ["fragment", "id"]),
  rule(app.getFragmentUsage, "viewer", ["fragment", "fragmentId"]),
  rule(app.setFragmentTag, "owner", ["fragment", "fragmentId"]),
  rule(app.deleteFragmentTag, "owner", ["fragment", "fragmentId"]),
  {
    ...rule(app.listNestedFragments, "viewer", ["fragment", "fragmentId"], [
      "fragment",
      "additionalFragments.fragmentId",
    ]),
    instead: [{ kind: "fragment", field: "additionalFragments.fragmentId" }],
  },
  rule(app.listMachineFragments, "viewer", ["machine", "machineId"]),

  rule(app.createKey, "owner", ["authorized", "authorizations"]),
  rule(app.addRole, "owner", ["authorized", "authorization"]),
  rule(app.removeRole, "owner", ["authorized", "authorization"]),
  rule(app.changeRole, "owner", ["authorized", "oldAuthorization"], ["authorized", "newAuthorization"]),
  rule(app.listAuthorizations, "owner", ["organization", "organizationId"]),
  rule(app.listKeys, "owner", ["organization", "orgId"]),
  rule(app.getRobotAPIKeys, "owner", ["machine", "robotId"]),
  rule(app.renameKey, "owner", ["key", "id"]),
  rule(app.rotateKey, "owner", ["key", "id"]),
  rule(app.deleteKey, "owner", ["key", "id"]),
  rule(app.createKeyFromExistingKeyAuthorizations, "owner", ["key", "id"]),

  // A rollout writes configurations of the whole organization.
  rule(rollouts.startRollout, "owner", ["organization", "organizationId"]),
  rule(rollouts.listRollouts, "viewer", ["organization", "organizationId"]),
  rule(rollouts.getRollout, "viewer", ["rollout", "id"]),
  rule(rollouts.listRolloutParts, "viewer", ["rollout", "id"]),
  rule(rollouts.pauseRollout, "owner", ["rollout", "id"]),
  rule(rollouts.resumeRollout, "owner", ["rollout", "id"]),
  rule(rollouts.abortRollout, "owner", ["rollout", "id"]),

  // A session reads the machine's captured data, and creates a package of its organization.
  rule(mapping.startMappingSession, "owner", ["organization", "organizationId"], ["machine", "robotId"], [
    "location",
    "locationId",
  ]),
  rule(mapping.getActiveMappingSessionsForRobot, "viewer", ["machine", "robotId"]),
  rule(mapping.getMappingSessionPointCloud, "viewer", ["mapping_session", "sessionId"]),
  rule(mapping.listMappingSessions, "viewer", ["organization", "organizationId"]),
  rule(mapping.stopMappingSession, "owner", ["mapping_session", "sessionId"]),
  rule(mapping.getMappingSessionMetadataByID, "viewer", ["mapping_session", "sessionId"]),

  // The whole training client needs an owner of the organization (published).
  rule(training.submitTrainingJob, "owner", ["organization", "organizationId"]),
  rule(TrainingService.method.submitTrainingJob, "owner", ["organization", "organizationId"]),
  rule(training.submitCustomTrainingJob, "owner", ["organization", "organizationId"]),
  rule(training.getTrainingJob, "owner", ["training_job", "id"]),
  rule(training.listTrainingJobs, "owner", ["organization", "organizationId"]),
  rule(training.cancelTrainingJob, "owner", ["training_job", "id"]),
  rule(training.deleteCompletedTrainingJob, "owner", ["training_job", "id"]),
  rule(training.getTrainingJobLogs, "owner", ["training_job", "id"]),
  rule(training.listSupportedContainers, "authenticated"),
  rule(training.listContainers, "owner", ["organization", "organizationId"]),
  // Containers that come with the control plane belong to everybody.
  rule(training.getContainer, "authenticated"),
  rule(training.registerCustomTrainingContainer, "owner", ["organization", "organizationId"]),
  rule(training.deleteCustomTrainingContainer, "owner", ["container", "id"]),
  rule(MLInferenceService.method.getInference, "operator", ["organization", "organizationId"]),

  // Releases are of the control plane as a whole, and everybody may download them.
  rule(releases.listReleases, "authenticated"),
  // Only administrators learn where the backup is, which the handler finds out.
  rule(BackupService.method.getLastBackup, "authenticated"),

  // Each item's visibility decides who finds it in the registry.
  rule(packages.createPackage, "owner", ["organization", "info.organizationId"]),
  rule(packages.deletePackage, "owner", ["package", "id"]),
  rule(packages.getPackage, "authenticated"),
  rule(packages.listPackages, "viewer", ["organization", "organizationId"]),
  rule(app.getRegistryItem, "authenticated"),
  rule(app.listRegistryItems, "authenticated"),
  rule(app.createRegistryItem, "owner", ["organization", "organizationId"]),
  rule(app.updateRegistryItem, "owner", ["package", "itemId"]),
  rule(app.deleteRegistryItem, "owner", ["package", "itemId"]),
  rule(app.getModule, "authenticated"),
  rule(app.listModules, "authenticated"),
  rule(app.createModule, "owner", ["organization", "organizationId"]),
  rule(app.updateModule, "owner", ["package", "moduleId"]),
  rule(app.uploadModuleFile, "owner", ["package", "moduleFileInfo.moduleId"]),

  // Calls of a machine, whose key may be a mere operator's. Nobody else gets its private key, takes its restart orders
  // or writes its log. Its configuration may hold secrets; an owner may fetch it, too, but does not count as the
  // machine.
  rule(robot.config, "machine_or_owner", ["part", "id"]),
  rule(robot.certificate, "machine", ["part", "id"]),
  rule(robot.needsRestart, "machine", ["part", "id"]),
  rule(ChangeService.method.follow, "machine", ["part", "id"]),
  rule(ChangeService.method.report, "machine", ["part", "id"]),
  rule(robot.log, "machine", ["part", "id"]),
  rule(AgentDeviceService.method.deviceAgentConfig, "machine_or_owner", ["part", "id"]),

  ...DATA_RULES,
];
