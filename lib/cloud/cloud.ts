/**
 * The control plane: its services over one database, ready for a port.
 *
 * Owns the work between calls. Any number of control planes may share one PostgreSQL database; a token of one is valid
 * at the others, and after a restart.
 *
 * The room owns the control plane as a whole: its composition, its addresses, its metrics, and the example.
 */

import { createPrivateKey, type KeyObject } from "node:crypto";
import { AgentDeviceService } from "../../proto/gen/agent_pb.ts";
import { AppService } from "../../proto/gen/app_pb.ts";
import { ChangeService } from "../../proto/gen/changes_pb.ts";
import { ConfigurationService } from "../../proto/gen/configurations_pb.ts";
import { CommandService } from "../../proto/gen/commands_pb.ts";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { ExternalAuthService } from "../../proto/gen/auth_pb.ts";
import { DataService } from "../../proto/gen/data_pb.ts";
import { DatasetService } from "../../proto/gen/dataset_pb.ts";
import { DataPipelinesService } from "../../proto/gen/data_pipelines_pb.ts";
import { DataSyncService } from "../../proto/gen/datasync_pb.ts";
import { MLInferenceService } from "../../proto/gen/ml_inference_pb.ts";
import { MLTrainingService } from "../../proto/gen/ml_training_pb.ts";
import { CloudSLAMService } from "../../proto/gen/cloud_slam_pb.ts";
import { PackageService } from "../../proto/gen/packages_pb.ts";
import { PartReportService } from "../../proto/gen/part_reports_pb.ts";
import { RecordService } from "../../proto/gen/records_pb.ts";
import { BackupService } from "../../proto/gen/backups_pb.ts";
import { ReleaseService } from "../../proto/gen/releases_pb.ts";
import { RolloutService } from "../../proto/gen/rollouts_pb.ts";
import { TrainingService } from "../../proto/gen/training_pb.ts";
import { TriggerService } from "../../proto/gen/triggers_pb.ts";
import { UsageService } from "../../proto/gen/usage_pb.ts";
import type { Clock } from "../base/clock.ts";
import { chainOf, SvcError } from "../base/error.ts";
import { escapedLine } from "../base/escape.ts";
import { fingerprintOf, isHashOf } from "../base/key_hash.ts";
import type { Logger } from "../base/log/log.ts";
import { addressOf, type Attempt, KeyRateLimiter, type StoredKeys } from "../wire/auth/rate_limit.ts";
import { type Auth, auth, type KeySource } from "../wire/auth/auth.ts";
import { fieldValue } from "../wire/port/exchange.ts";
import { pageRoutes, type PageSource } from "../wire/page/page.ts";
import { health } from "../wire/grpc/health.ts";
import { reflection } from "../wire/grpc/reflection.ts";
import {
  type CallContext,
  type Interceptor,
  type Service,
  service,
  ServiceTable,
} from "../wire/rpc/service.ts";
import { API_KEY, ROBOT_SECRET } from "../wire/auth/tokens.ts";
import { Access } from "./access/access.ts";
import { accountPages } from "./services/people/account_pages.ts";
import { Invitations } from "./accounts/invitations.ts";
import type { IdentityProvider } from "./accounts/provider.ts";
import { PasskeyChallenges } from "./accounts/passkeys/challenges.ts";
import { ProviderVisits } from "./accounts/provider_visits.ts";
import { memberHandlers } from "./services/people/member_service.ts";
import { PersonSessions } from "./accounts/sessions.ts";
import { Addresses } from "./addresses/addresses.ts";
import { dataHandlers } from "./services/data/data_service.ts";
import { ReadingQueries } from "./data/queries/queries.ts";
import { queryHandlers } from "./services/data/query_service.ts";
import { pipelineHandlers } from "./services/data/pipeline_service.ts";
import { sequenceExportHandlers } from "./services/data/sequence_export_service.ts";
import { SequenceExportRunner, SequenceExports } from "./exports/sequence_exports.ts";
import { ReadingMover } from "./readings/mover.ts";
import { ReadingPacker } from "./readings/packer.ts";
import { ClockCheck } from "./store/clock_check.ts";
import { RetentionRunner } from "./retention/runner.ts";
import { partReportHandlers } from "./services/fleet/part_report_service.ts";
import { RolloutRunner } from "./rollouts/runner.ts";
import { rolloutHandlers } from "./services/fleet/rollout_service.ts";
import { PipelineRunner } from "./data/queries/pipeline_runner.ts";
import { savedQueryHandlers } from "./services/data/saved_query_service.ts";
import { dataSyncHandlers } from "./services/data/data_sync_service.ts";
import { datasetHandlers } from "./services/data/dataset_service.ts";
import { fleetHandlers } from "./services/fleet/fleet_service.ts";
import { keyHandlers } from "./services/people/key_service.ts";
import { logHandlers } from "./services/operations/log_service.ts";
import { releaseHandlers } from "./services/registry/release_service.ts";
import { CallTurns } from "./call_turns.ts";
import { Rechecks } from "./rechecks.ts";
import { backupHandlers } from "./services/operations/backup_service.ts";
import { usageHandlers } from "./services/data/usage_service.ts";
import { triggerHandlers } from "./services/data/trigger_service.ts";
import { recordHandlers } from "./services/operations/record_service.ts";
import { schemaPages } from "./config/schema_page.ts";
import { configurationHandlers } from "./services/fleet/configuration_service.ts";
import { fragmentHandlers } from "./services/fleet/fragment_service.ts";
import { locationHandlers } from "./services/fleet/location_service.ts";
import { metadataHandlers } from "./services/fleet/metadata_service.ts";
import { partHandlers } from "./services/fleet/part_service.ts";
import { Audit } from "./access/audit.ts";
import { Authority } from "./store/secrets/authority.ts";
import { agentHandlers } from "./services/fleet/agent_service.ts";
import { registryHandlers } from "./services/registry/registry_service.ts";
import { commandHandlers, type CommandHost } from "./services/operations/command_service.ts";
import { ConfigMessages } from "./config/config_messages.ts";
import { ConfigThreads, type CreateConfigThread } from "./config/config_threads.ts";
import { actorOf, type OrganizationMakers } from "./access/context.ts";
import type { ServiceContext } from "./services/context.ts";
import { Downloads, type Identify } from "./packages/downloads.ts";
import { DataLinks } from "./data/links.ts";
import { releaseOrphans } from "./store/file_refs.ts";
import type { FileStore } from "./store/files.ts";
import { installPages } from "./packages/install_pages.ts";
import { Keys, KeyUses } from "./access/keys.ts";
import { defaultLimits, type Limits } from "./access/limits.ts";
import { externalAuthHandlers } from "./services/people/external_auth_service.ts";
import { MachineTokens } from "./access/machine_tokens.ts";
import type { LoopDelay } from "./loop_delay.ts";
import { healthPages } from "./health_pages.ts";
import { Metrics, type MetricsOptions } from "./metrics.ts";
import { packageHandlers } from "./services/registry/package_service.ts";
import { Presence } from "./tenants/presence.ts";
import { LogStore } from "./logs/logs.ts";
import { tellOperator } from "./operator.ts";
import { changeHandlers } from "./services/fleet/change_service.ts";
import { PartChanges } from "./fleet/part_changes.ts";
import { SharedCredentials } from "./fleet/shared_credentials.ts";
import { robotHandlers } from "./services/fleet/robot_service.ts";
import { RULES } from "./access/rules.ts";
import { idIn, SharedSecrets } from "./access/shared_secrets.ts";
import type { Secrets } from "./store/secrets/secrets.ts";
import type { Store } from "./store/store.ts";
import { forgetTagLists } from "./store/tag_lists.ts";
import { inferenceHandlers, type InferenceOptions } from "./services/data/inference_service.ts";
import { trainingHandlers } from "./services/registry/training_service.ts";
import { type TrainingOptions, TrainingRunner } from "./training/runner.ts";
import { mappingHandlers } from "./services/registry/mapping_service.ts";
import { type MappingOptions, MappingRunner } from "./mapping/runner.ts";
import { MappingSessions } from "./mapping/sessions.ts";
import { cloudSignaling, type SignalingOptions } from "./signaling/signaling.ts";
import { signalingGuard } from "./signaling/signaling_gate.ts";
import { TriggerRunner } from "./notifications/runner.ts";
import type { SenderOptions } from "./notifications/sender.ts";
import { UNSERVED } from "./access/unserved.ts";
import { Usage } from "./access/usage.ts";
import type { Route } from "../wire/port/route.ts";

/** The audience of tokens. */
const AUDIENCE = ["svc-cloud"];
/** Length limit of an id in a request. */
const KEY_ID_CHARS_MAX = 64;
/**
 * How long, and for how many keys, the control plane remembers that a key was valid, so that its caller is known at
 * once.
 */
const SEEN_KEY_MS = 30_000;
const SEEN_KEYS_MAX = 20_000;
const SWEEP_MS = 3600 * 1000;
/** Interval of the search for unreferenced contents, and their minimum age. */
const ORPHANS_MS = 24 * SWEEP_MS;

export interface CloudOptions {
  readonly secrets: Secrets;
  /** Scripts that install agents, by their path. */
  readonly installers?: ReadonlyMap<string, string>;
  /**
   * Whether the control plane's own authority has issued the certificate of the port, so that installers pin that
   * authority.
   */
  readonly pinsAuthority?: boolean;
  /** The page for people; without one, the address answers with a line of text. */
  readonly page?: PageSource;
  readonly store: Store;
  readonly files: FileStore;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Makes a thread that checks and resolves configurations. */
  readonly createConfigThread: CreateConfigThread;
  /** Who may create organizations by a call; `operator`, the default, allows nobody. */
  readonly organizations?: OrganizationMakers;
  /** Its public addresses; by default those of this computer. */
  readonly addresses?: Addresses;
  /** Where people sign in elsewhere. */
  readonly provider?: IdentityProvider;
  /** The domain of the machines' names, if it is not the default one. */
  readonly machineDomain?: string;
  /** Limits for callers; by default the usual ones. */
  readonly limits?: Limits;
  /** Measures this process; absent where several control planes share one. */
  readonly loopDelay?: LoopDelay;
  /** The memory of this process; absent where several control planes share one. */
  readonly memory?: MetricsOptions["memory"];
  /** The key for the metrics; without one nobody sees them. */
  readonly metricsKey?: string;
  /** Makes certificates of machines valid for localhost, too. */
  readonly localhostCertificates?: boolean;
  /** Runs models; absent if another process does. */
  readonly inference?: InferenceOptions;
  /** STUN and TURN servers; by default callers and machines use those that they know. */
  readonly signaling?: SignalingOptions;
  /** Absent if another process trains. */
  readonly training?: TrainingOptions;
  /** Absent if another process makes maps. */
  readonly mapping?: MappingOptions;
  /** Absent if another process handles triggers. */
  readonly triggers?: SenderOptions;
  /** Runs commands for administrators; absent if they run on the host only. */
  readonly commands?: CommandHost;
}

export interface Cloud {
  /** Every service, with authentication and authorization applied. */
  readonly table: ServiceTable;
  /** HTTP pages: downloads and metrics. */
  readonly routes: ReadonlyMap<string, Route>;
  readonly authority: Authority;
  /** Stores everything that is only in memory. The store stays open. */
  close(): Promise<void>;
}

type Refused = (ctx: CallContext, refs: Parameters<Audit["refused"]>[1]) => Promise<void>;

export function openCloud(options: CloudOptions): Cloud {
  const { store, clock, logger, secrets } = options;
  const limits = options.limits ?? defaultLimits();
  const uses = new KeyUses(store, clock, logger);
  const access = new Access(store, RULES, uses);
  const audit = new Audit(store, clock);
  const presence = new Presence(store, clock, logger);
  const configs = new ConfigThreads(options.createConfigThread, limits, clock);
  const context: ServiceContext = {
    ...options,
    access,
    addresses: options.addresses ?? new Addresses(),
    ...{ audit, configs, presence, limits, packer: packerOf(options), clockCheck: new ClockCheck(options) },
    usage: new Usage({ sql: store, limits, clock, logger }),
  };
  const shown = keySource(new Keys(store), context);
  const signingKeys = signingKeysOf(secrets);
  const handlers = { apiKeys: shown, ...robotsAndPeople(context) };
  const guard = auth({ handlers, audience: AUDIENCE, signingKeys, clock });
  const machineTokens = new MachineTokens(secrets, clock);
  const refused: Refused = (ctx, refs) => audit.refused(actorOf(ctx), refs);
  const { metrics, interceptors } = measuredTurns(access, clock);
  const rechecks = new Rechecks({ clock, notices: store.notices, audit });
  const table = new ServiceTable(clock, [
    tellOperator(logger, clock),
    ...interceptors,
    access.gate(signalingGuard({ guard, tokens: machineTokens, keys: shown }), refused, rechecks.watch),
  ]);
  table.decline(UNSERVED);
  table.add(guard.service);
  const logs = new LogStore(store, clock, limits, context);
  const authority = new Authority(secrets, store, clock);
  const identify = identifier(shown, guard);
  const downloads = new Downloads(context, identify);
  const links = linksOf(context);
  const queries = options.inference && new ReadingQueries(store, options.files, options.inference.content);
  const { trainings, mappings, ...others } = runnersOf(context, logs, queries, options);
  const messages = new ConfigMessages(context, machineTokens);
  const changes = new PartChanges(context, messages);
  const served = { authority, machineTokens, messages, changes, logs, links, downloads };
  for (const one of servicesOf(context, { ...served, ...options, trainings, mappings, queries })) {
    table.add(one);
  }
  const signaling = cloudSignaling(context, options.signaling);
  for (const one of [signaling.service, health(table), ...reflection(table)]) table.add(one);
  const runners = [trainings, mappings, ...Object.values(others)];
  const sweep = createSweep(context, logs, runners);
  return {
    table,
    routes: new Map(
      [
        ...peoplePages(options, configs),
        ...accountPages(context, guard, identify),
        ...links.routes,
        ...downloads.routes,
        ...operatorPages(context, metrics, options),
        ...installPages(context, identify, { ...options, authority }),
      ].map(([path, route]) => [path, forItsAddress(store, route)]),
    ),
    authority,
    close: async () => {
      for (const one of [signaling, changes, rechecks, ...runners, queries]) await one?.close();
      await sweep.close();
      configs.close();
      await presence.close();
      await uses.close();
    },
  };
}

/** What runs around each call before its caller is checked. */
function measuredTurns(access: Access, clock: Clock): { metrics: Metrics; interceptors: Interceptor[] } {
  const turns = new CallTurns(clock, (ctx) => access.groupOf(ctx));
  const metrics = new Metrics(clock, () => ({ calls: turns.waiting }));
  return { metrics, interceptors: [metrics.interceptor, turns.interceptor] };
}

/** Pages for the supervisor of the program. */
function operatorPages(
  context: ServiceContext,
  metrics: Metrics,
  options: CloudOptions,
): ReadonlyMap<string, Route> {
  return new Map([...healthPages(context), ["/metrics", metrics.route(context, options)]]);
}

function packerOf({ clock, inference }: CloudOptions): ReadingPacker {
  return new ReadingPacker(clock, inference?.content);
}

interface Handled {
  readonly authority: Authority;
  readonly machineTokens: MachineTokens;
  readonly messages: ConfigMessages;
  readonly changes: PartChanges;
  readonly logs: LogStore;
  readonly links: DataLinks;
  readonly downloads: Downloads;
  readonly trainings?: TrainingRunner;
  readonly mappings?: MappingRunner;
  readonly inference?: InferenceOptions;
  readonly queries?: ReadingQueries;
  readonly triggers?: SenderOptions;
  readonly commands?: CommandHost;
}

/** Links to captured data, to pictures of maps, and to exports. */
function linksOf(context: ServiceContext): DataLinks {
  const { store } = context;
  return new DataLinks(context, async (id) => {
    return await new MappingSessions(store).findPicture(id) ??
      await new SequenceExports(store).findArchive(id);
  });
}

/** The background work of this process. */
function runnersOf(
  context: ServiceContext,
  logs: LogStore,
  queries: ReadingQueries | undefined,
  options: CloudOptions,
) {
  const { training, mapping, triggers } = options;
  const { usage } = context;
  return {
    trainings: training && new TrainingRunner({ ...options, ...training, usage }),
    mappings: mapping && new MappingRunner({ ...options, ...mapping, usage }),
    triggers: triggers && new TriggerRunner({ ...context, logs }, triggers),
    exports: new SequenceExportRunner(context),
    retention: new RetentionRunner(context),
    readings: new ReadingMover(context),
    rollouts: new RolloutRunner({ ...context, logs }),
    pipelines: queries && new PipelineRunner({ ...context, queries }),
  };
}

/** The handler of each service. */
function servicesOf(context: ServiceContext, parts: Handled): Service[] {
  const { authority, machineTokens, messages, changes, logs, links, downloads } = parts;
  const { trainings, mappings, inference, queries, triggers: mail } = parts;
  const invitationMail = mail?.mail;
  const app = {
    ...fleetHandlers(context),
    ...locationHandlers(context),
    ...metadataHandlers(context),
    ...partHandlers(context),
    ...fragmentHandlers(context),
    ...keyHandlers(context),
    ...memberHandlers(context, invitationMail),
    ...registryHandlers(context),
    ...logHandlers(logs, context),
  };
  const training = trainingHandlers(context, trainings);
  const devices = new SharedCredentials({ logs, clock: context.clock, logger: context.logger });
  return [
    service(AppService, app),
    service(ExternalAuthService, externalAuthHandlers(context, machineTokens)),
    service(RobotService, robotHandlers(context, authority, logs, messages, devices)),
    service(ChangeService, changeHandlers(context, changes, devices)),
    service(PartReportService, partReportHandlers(context)),
    service(RolloutService, rolloutHandlers(context)),
    service(RecordService, recordHandlers(logs, context)),
    service(TriggerService, triggerHandlers(context)),
    service(UsageService, usageHandlers(context)),
    service(ConfigurationService, configurationHandlers(context)),
    service(CommandService, commandHandlers(context, parts.commands)),
    service(AgentDeviceService, agentHandlers(context, downloads, logs, messages, devices)),
    service(DataService, {
      ...dataHandlers(context, links),
      ...queryHandlers(context, queries),
      ...savedQueryHandlers(context, queries),
    }),
    service(DataPipelinesService, pipelineHandlers(context, queries)),
    service(DataSyncService, dataSyncHandlers(context)),
    service(DatasetService, { ...datasetHandlers(context), ...sequenceExportHandlers(context, links) }),
    service(ReleaseService, releaseHandlers(context)),
    service(BackupService, backupHandlers(context)),
    service(PackageService, packageHandlers(context, downloads)),
    service(MLTrainingService, training),
    service(TrainingService, { submitTrainingJob: training.submitTrainingJob }),
    service(MLInferenceService, inferenceHandlers(context, inference)),
    service(CloudSLAMService, mappingHandlers(context, links, mappings)),
  ];
}

/** The signing keys of tokens; each is read once. */
function signingKeysOf(secrets: Secrets): () => KeyObject[] {
  const known = new Map<string, KeyObject>();
  return () =>
    secrets.good("token").map((pem) => known.getOrInsertComputed(pem, () => createPrivateKey(pem)));
}

/** Callers of a page get a share of the database by their address, because their identity is known only later. */
function forItsAddress(store: Store, route: Route): Route {
  return (request) => {
    const group = `address ${request.peer.remoteAddress}`;
    return store.forCaller({ group, signal: request.signal }, () => route(request));
  };
}

const GREETING =
  "This is svc-cloud, a control plane; reach it with a client library, svc-ml or a machine at this address.";

/** The pages that a browser shows at the address. */
function peoplePages(
  { page }: Pick<CloudOptions, "page">,
  configs: ConfigThreads,
): ReadonlyMap<string, Route> {
  const pages = page
    ? pageRoutes(page, { greeting: GREETING, documents: ["machine"] })
    : new Map([["/", greeting]]);
  return new Map([...pages, ...schemaPages(configs)]);
}

/** For people who open the address in a browser, where there is no page. */
const greeting: Route = ({ method }) => {
  const contentType = "text/plain; charset=utf-8";
  if (method !== "GET" && method !== "HEAD") {
    return { status: 405, contentType, body: `/ answers GET, not ${method}\n` };
  }
  return { status: 200, contentType, body: `${GREETING}\n` };
};

/** Checks API keys, with a limit on wrong ones. */
function keySource(keys: Keys, context: ServiceContext): KeySource {
  // No database holds a zero byte.
  const attempts = attemptsAt(
    context,
    ({ id }) => id.includes("\0") ? Promise.resolve(undefined) : keys.kept(id),
  );
  return {
    check: (id, key, { remoteAddress }) =>
      attempts.check({ type: API_KEY, id, key, address: addressOf(remoteAddress) }),
    ...remembering(async (id, generation) => await keys.generation(id) === generation, context.clock),
  };
}

/** Sessions of people, by their accounts. */
function personSessions(
  { store, clock }: ServiceContext,
): Required<Pick<KeySource, "isCurrent" | "wasCurrent">> {
  const sessions = new PersonSessions(store);
  const isCurrent = (accountId: string, generation: string) =>
    sessions.isCurrent(accountId, generation, clock.nowMs());
  return remembering(isCurrent, clock);
}

/** Remembers for a short time which generations were valid. */
function remembering(
  isCurrent: KeySource["isCurrent"],
  clock: Clock,
): Required<Pick<KeySource, "isCurrent" | "wasCurrent">> {
  const seen = new Map<string, number>();
  return {
    isCurrent: async (id, generation) => {
      const key = `${id} ${generation}`;
      const isNow = await isCurrent(id, generation);
      seen.delete(key);
      if (isNow) seen.set(key, clock.monotonicMs());
      if (seen.size > SEEN_KEYS_MAX) seen.delete(seen.keys().next().value!);
      return isNow;
    },
    wasCurrent: (id, generation) => {
      const atMs = seen.get(`${id} ${generation}`);
      return atMs !== undefined && clock.monotonicMs() - atMs < SEEN_KEY_MS;
    },
  };
}

function robotsAndPeople(context: ServiceContext) {
  return { robotSecrets: robotSecrets(context), sessions: personSessions(context) };
}

/** Checks secrets of parts, with the same limit for each part. */
function robotSecrets(context: ServiceContext): KeySource {
  const secrets = new SharedSecrets(context.store);
  const attempts = attemptsAt(context, ({ id }) => {
    const space = id.lastIndexOf(" ");
    const known = !id.includes("\0") && secrets.kept(id.slice(0, space), id.slice(space + 1));
    return known || Promise.resolve(undefined);
  });
  return {
    check: (partId, key, { remoteAddress }) => {
      const id = `${partId} ${idIn(key)}`;
      return attempts.check({ type: ROBOT_SECRET, id, key, address: addressOf(remoteAddress) });
    },
    ...remembering((partId, generation) => secrets.isCurrent(partId, generation), context.clock),
  };
}

function attemptsAt(
  { audit, clock, limits, logger }: ServiceContext,
  kept: StoredKeys["find"],
): KeyRateLimiter {
  const generation: StoredKeys["generation"] = async (hash, { key }) =>
    await isHashOf(hash, key) ? fingerprintOf(hash!) : undefined;
  const limitExceeded = async ({ address, id }: Attempt) => {
    const key = escapedLine(id.slice(0, KEY_ID_CHARS_MAX));
    logger.warn("too many wrong API keys; the caller is slowed down", { address, key });
    await audit.refused({ who: `address ${address}`, action: "Authenticate" }, [{ kind: "key", id: key }]);
  };
  return new KeyRateLimiter({
    stored: { find: kept, generation },
    limits: () => limits,
    clock,
    limitExceeded,
  });
}

/** Authenticates by a token, or by the headers `key_id` and `key` as published downloaders do. */
function identifier(keys: KeySource, guard: Pick<Auth, "entityOf">): Identify {
  return async (fields, peer) => {
    const [, token] = /^Bearer (.+)$/i.exec(fieldValue(fields, "authorization") ?? "") ?? [];
    if (token !== undefined) return await guard.entityOf(token);
    const [id, key] = [fieldValue(fields, "key_id"), fieldValue(fields, "key")];
    if (id !== undefined && key !== undefined && await keys.check(id, key, peer) !== undefined) return id;
    throw new SvcError(
      "unauthenticated",
      "wanted a header `authorization: Bearer <token>`, or `key_id` and `key` of an API key",
    );
  };
}

function createSweep(
  context: ServiceContext,
  logs: LogStore,
  others: readonly ({ forgetOld?(): Promise<void>; close(): Promise<void> } | undefined)[],
): Sweep {
  const { store, files, clock, clockCheck, secrets, audit, limits } = context;
  let orphansMs = 0;
  return new Sweep(context, [
    () => logs.forgetOld(),
    () => audit.forgetOld(limits.auditDays),
    () => forgetSessionsAndLinks(store, clock.nowMs()),
    async () => {
      const nowMs = await clockCheck.rightMs();
      if (nowMs !== undefined) await secrets.removeExpired(nowMs);
    },
    ...others.map((one) => async () => await one?.forgetOld?.()),
    () => forgetTagLists(store),
    (signal) => store.shrink(signal),
    async (signal) => {
      const nowMs = clock.nowMs();
      // A later time is of a clock that was ahead.
      if (Math.abs(nowMs - orphansMs) < ORPHANS_MS) return;
      orphansMs = nowMs;
      await releaseOrphans(store, files, nowMs - ORPHANS_MS, signal);
    },
  ]);
}

async function forgetSessionsAndLinks(store: Store, nowMs: number): Promise<void> {
  await store.transaction(async (sql) => {
    await new PersonSessions(sql).forgetOld(nowMs);
    await new Invitations(sql).forgetOld(nowMs);
    await new ProviderVisits(sql).forgetOld(nowMs);
    await new PasskeyChallenges(sql).forgetOld(nowMs);
  });
}

type SweepStep = (signal: AbortSignal) => Promise<void>;

/** Periodically removes data that is kept for a limited time. A step that fails does not stop the others. */
class Sweep {
  readonly #closing = new AbortController();
  readonly #sweeping: Promise<void>;

  constructor(
    private readonly cloud: ServiceContext,
    private readonly steps: readonly SweepStep[],
  ) {
    this.#sweeping = this.#sweep();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#sweeping;
  }

  async #sweep(): Promise<void> {
    const { signal } = this.#closing;
    const { clock, logger } = this.cloud;
    while (!signal.aborted) {
      for (const step of this.steps) {
        if (signal.aborted) return;
        await this.#run(step, signal).catch((error) =>
          logger.warn(`cannot remove old entries: ${chainOf(error)}`)
        );
      }
      await clock.sleep(SWEEP_MS, signal).catch(() => {});
    }
  }

  async #run(step: SweepStep, signal: AbortSignal): Promise<void> {
    if (await this.cloud.clockCheck.rightMs() !== undefined) await step(signal);
  }
}
