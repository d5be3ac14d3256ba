/**
 * The runtime: one machine on one port, from a configuration and its changes.
 *
 * It composes the parts and owns the order of start and end. The port opens first, over a machine that is still
 * initializing; then it applies the configuration, and every later one as it comes. At the end the port closes before
 * the resources do.
 */

import type {
  LoopbackPeers,
  MachineName,
  ProcessUsage,
  WholeEnvironment,
  WorkingFolder,
} from "../base/host.ts";
import type { Clock } from "../base/clock.ts";
import { chainOf, SvcError } from "../base/error.ts";
import type { Fields, Logs } from "../base/log/log.ts";
import type { ProcessTable, SpawnHost } from "../base/process.ts";
import { AcceptedKeys } from "../base/release/accepted_keys.ts";
import { type DataManager, DataManagerApi } from "../api/services/data_manager.ts";
import type { ModelHost, Registry } from "../resource/registry.ts";
import { memoryChannel } from "../wire/rpc/memory.ts";
import type { SignalingServer } from "../wire/dial/dial.ts";
import { BroughtCalls } from "../wire/signaling/brought_calls.ts";
import type { ServiceTable } from "../wire/rpc/service.ts";
import { PortAnnouncement } from "./serve/announcement.ts";
import { Activities, shutdownReason } from "../base/log/activities.ts";
import { BUILD_LIMITS, BUILD_TIMEOUT_VARIABLES } from "./graph/pass/builder.ts";
import { type MachineConfig, type ModuleConfig, resourceAliases, resourceLogger } from "./config/config.ts";
import { uploaderOf } from "../cloud_client/data_uploader.ts";
import { uploadPath } from "../cloud_client/path_upload.ts";
import { type CloudClient, isNeighbour, signalingServerAt } from "../cloud_client/client.ts";
import { SignalingSource } from "../cloud_client/signaling_source.ts";
import { sendLogs } from "../cloud_client/log_sender.ts";
import { Diagnostics, type DiagnosticsOptions, ownerOf } from "./diagnostics/diagnostics.ts";
import { envDurationMs } from "./config/env_duration.ts";
import { Jobs } from "./serve/jobs.ts";
import { Machine } from "./graph/machine.ts";
import { dialInfoOf, MachinePort, type MachinePortParts } from "./serve/port/machine_port.ts";
import { maintenanceAllowed } from "./graph/maintenance.ts";
import { type CheckNetwork, tellNetwork } from "./diagnostics/network_check.ts";
import type { Modules } from "./modules/modules.ts";
import { Operations } from "./serve/operations.ts";
import { openOrigin, type Origin } from "./config/origin.ts";
import { KEYS_VARIABLE, MachinePackages } from "./packages/packages.ts";
import { LOOK_MS, LOOK_VARIABLES, PackageWatch } from "./packages/package_watch.ts";
import { packageOfModule, wantedPackages } from "./packages/registry_folder.ts";
import { homeFolder } from "./config/placeholder.ts";
import { uploadRulesOf } from "./config/upload_rules.ts";
import { configurationService } from "./editing/configuration_service.ts";
import { ConfigEditor } from "./editing/editor.ts";
import { ConfigReading, type UsableConfig } from "./config/reading.ts";
import { healthOf } from "./graph/health.ts";
import { Reconfiguration, type ReconfigurationSteps } from "./graph/reconfiguration.ts";
import { Remotes } from "./graph/remotes.ts";
import { reportHealth } from "../cloud_client/changes/health_reports.ts";
import { followRestartOrders } from "../cloud_client/changes/restart.ts";
import type { InternalPart, RobotServiceParts } from "./serve/service.ts";
import { Sessions } from "./serve/sessions.ts";
import {
  remaining,
  shutDown,
  SHUTDOWN_TIMEOUT_MS,
  SHUTDOWN_TIMEOUT_VARIABLES,
  type ShutdownStage,
} from "./serve/shutdown.ts";
import { stopBeforeClosing } from "./graph/stop.ts";
import { HotReload } from "./modules/hot_reload.ts";
import { Streams } from "./streams/streams.ts";
import { DashboardStore } from "./page/dashboards.ts";
import { LogFeed } from "./page/log_feed.ts";
import { pageRoutes, type PageSource } from "../wire/page/page.ts";
import { pageService } from "./page/page_service.ts";
import { SharedCheck } from "./page/shared_check.ts";
import { staticRoutes } from "../wire/port/static_files.ts";
import { Tables, type TablesParts } from "./serve/tables.ts";
import type { Route } from "../wire/port/route.ts";

export interface RuntimeOptions {
  readonly configPath: string;
  readonly debug: boolean;
  readonly noTls: boolean;
  /** Announces the machine by multicast DNS. */
  readonly mdns?: boolean;
  /** Whether clients may connect over WebRTC; true by default. */
  readonly webrtc?: boolean;
  /** Allows credentials for remotes to travel without TLS. */
  readonly allowInsecureCredentials?: boolean;
  /** Callers and configurations are untrusted: they run no programs, and modules stay off. */
  readonly untrusted?: boolean;
  /** Logs the differences between configurations. */
  readonly showConfigDiffs: boolean;
  /** The folder with static web assets. */
  readonly staticFolder?: string;
  /** A folder with the sources of local modules, which start again when a file in it changes. */
  readonly hotFolder?: string;
  /** The machine's own page, if the program has one. */
  readonly page?: PageSource;
  readonly diagnostics: DiagnosticsOptions;
  /** Checks the network once, in the background. */
  readonly network?: CheckNetwork;
  /** Asks the program to end; called by the Shutdown RPC. */
  readonly stop: (reason: string) => void;
  /** Calls off the start while it waits for the configuration file, which may be a pipe without a writer. */
  readonly stopping?: AbortSignal;
}

export interface RuntimeParts {
  readonly registry: Registry;
  readonly host:
    & ModelHost
    & MachineName
    & ProcessUsage
    & SpawnHost
    & ProcessTable
    & LoopbackPeers
    & WholeEnvironment
    & WorkingFolder;
  readonly clock: Clock;
  readonly logs: Logs;
  readonly version: string;
}

export interface Runtime {
  readonly url: string;
  readonly machine: Machine;
  /** Resolves when the configuration has been applied for the first time. */
  readonly ready: Promise<void>;
  /**
   * Ends everything in order, at the latest when `forced` aborts; logs the reason: the name of a signal, or the
   * argument of `stop`. Whether everything ended as it should.
   */
  close(forced?: AbortSignal, reason?: string): Promise<boolean>;
}

/** Time limit for calls under way when the port closes. */
const DRAIN_MS = 5_000;
const GREETING = "This is svc-server, a machine; reach it with a client library at this address.";

/** The supervisor sets these to say that it polls for restarts itself. */
const RESTARTS_HANDLED = [
  "SVC_AGENT_HANDLES_NEEDS_RESTART_CHECKING",
  "VIAM_AGENT_HANDLES_NEEDS_RESTART_CHECKING",
];

/** The supervisor sets this variable to a file path; svc-server writes its URL there. */
const SERVING_FILE = "SVC_SERVING_FILE";

/** Starts serving. Rejects, with every problem, if the configuration is unusable or the port cannot be opened. */
export async function startRuntime(options: RuntimeOptions, parts: RuntimeParts): Promise<Runtime> {
  const { configPath: path, allowInsecureCredentials = false, stopping } = options;
  const logger = parts.logs.logger("rdk.config");
  const origin = await openOrigin({ ...parts, path, allowInsecureCredentials, logger, stopping });
  const { client, traffic } = origin;
  const home = homeFolder((name) => parts.host.env(name));
  const logs = client && await sendLogs({ ...parts, client, home, traffic });
  const disconnect = async () => {
    await logs?.close();
    await origin.changes?.close();
    client?.close();
  };
  try {
    return await start(options, parts, { ...origin, disconnect });
  } catch (error) {
    await disconnect();
    throw error;
  }
}

/** With the parts that close last. */
type ConnectedOrigin = Origin & { readonly disconnect: () => Promise<void> };

/** Reads the configuration, creates the parts in the order of their dependencies, opens the port and starts. */
async function start(
  options: RuntimeOptions,
  parts: RuntimeParts,
  origin: ConnectedOrigin,
): Promise<Runtime> {
  const { host, clock, logs, version } = parts;
  const logger = logs.logger("rdk");
  const activities = new Activities(logs.logger("rdk.activity"), clock);
  const started = activities.begin("startup");

  const reading = readingOf(origin, parts);
  const first = await reading.first();
  adoptLogs(first.config, options, logs);

  const packages = createPackages(origin, parts);
  const building = { activities, buildTimeoutMs: buildTimeoutOf(parts) };
  const machine = createMachine(building, packages, origin, options, parts);
  const sessions = createSessions(machine, first.config, parts);
  const operations = new Operations(clock);
  const sources = [() => machine.modules?.figures ?? {}];
  const diagnostics = new Diagnostics(options.diagnostics, { machine, sources, ...parts });
  const { interceptors: outermost } = diagnostics;
  const streams = new Streams({ machine, clock, logger: logs.logger("rdk.streams") });
  const { own, page } = pagePartsOf(machine, diagnostics, first.config, origin, { ...options, ...parts });
  const tables = new Tables({ machine, operations, sessions, streams, host, clock, logger, outermost, own });
  const jobs = new Jobs({ machine, channel: memoryChannel(tables.resources()), clock, logs });
  const restarts = createRestarts(machine, origin, options, parts);

  const served = { machine, operations, sessions, jobs, packages, diagnostics, version, logs, clock };
  const internal: InternalPart[] = [];
  const upload = uploadTo(machine, origin, options, parts);
  const robot = { ...served, internal, upload, shutdown: options.stop };
  machine.runModules(modulesOf(() => tables.port(robot), packages, building, options, parts));
  const announcement = options.mdns ? createAnnouncement(options, parts) : undefined;
  const port = await MachinePort.open(first.config, {
    tableFor: (guard, permissions) => tables.port(robot, guard, permissions),
    http: { restartStatus: restarts.status, routes: await buildRoutes(diagnostics, options, parts) },
    noTls: options.noTls,
    webrtc: options.webrtc ?? true,
    joined: (peer, identity) => streams.joined(peer, identity),
    elsewhere: callsElsewhere(origin, parts),
    serving: serving(parts),
    reached: (place) => announcement?.tell(place),
    host,
    home: homeFolder((name) => host.env(name)),
    clock,
    logger,
  });
  const running = { machine, packages, sessions, streams, diagnostics, jobs, port, page };
  const steps = stepsOf(running, activities, options, parts);
  const reconfiguration = createReconfiguration(reading, first, steps, options, parts);
  internal.push(reconfiguration, port);
  const releases = releaseWatch(running, reconfiguration, parts);

  await diagnostics.begin(first.config);
  const ready = reconfiguration.begin().then(() => {
    logger.info("machine is running", summary(machine));
    started();
  });
  const watch = createWatches({ machine, ready, reconfiguration }, origin, options, parts);
  const ends = { announcement, reconfiguration, releases, restarts, watch, origin };
  return {
    get url() {
      return port.url;
    },
    machine,
    ready,
    close: closing(stagesOf({ ...running, ...ends }, parts), activities, parts),
  };
}

/** The service of the configuration file, for programs with a page. */
function configurationServices(
  { client }: Origin,
  { configPath: path, untrusted = false }: RuntimeOptions,
  { registry, host, clock }: RuntimeParts,
): NonNullable<TablesParts["own"]> {
  const editor = new ConfigEditor({ path, registry, host, clock });
  const shared = { editor, registry, host, untrusted, managedBy: client?.address };
  return (guarded) => [configurationService(shared, guarded)];
}

/** The pages beside the calls. */
async function buildRoutes(
  { routes }: Diagnostics,
  { staticFolder, page }: RuntimeOptions,
  { host }: RuntimeParts,
): Promise<ReadonlyMap<string, Route>> {
  return new Map([
    ...routes,
    ...page ? pageRoutes(page, { greeting: GREETING }) : [],
    ...staticFolder === undefined ? [] : await staticRoutes(staticFolder, host),
  ]);
}

/** The services that only the page calls, if there is one, and what must end before the port. */
function pagePartsOf(
  machine: Machine,
  { history }: Diagnostics,
  { cloud }: MachineConfig,
  origin: Origin,
  parts: RuntimeOptions & RuntimeParts,
): { readonly own: TablesParts["own"]; readonly page?: Closable } {
  if (!parts.page) return { own: () => [] };
  const { clock, host, logs, network } = parts;

  const feed = new LogFeed(clock);
  logs.addSink(feed.sink);
  const check = new SharedCheck(clock, network && { network, appAddress: origin.client?.address });
  const dashboardPath = `${homeFolder((name) => host.env(name))}/dashboards/${ownerOf(cloud)}.json`;
  const dashboards = new DashboardStore(dashboardPath, host, clock);
  const service = pageService({ machine, feed, dashboards, check, history, clock });
  const configuring = configurationServices(origin, parts, parts);
  const close = async () => {
    await feed.close();
    await check.close();
  };
  return { own: (guarded) => [service, ...configuring(guarded)], page: { close } };
}

/** The parts that a configuration changes. */
interface Running {
  readonly machine: Machine;
  readonly packages: MachinePackages;
  readonly sessions: Sessions;
  readonly streams: Streams;
  readonly diagnostics: Diagnostics;
  readonly jobs: Jobs;
  readonly port: MachinePort;
  readonly page: Closable | undefined;
}

/** The effect of a new configuration on each part, step by step. */
function stepsOf(
  { machine, packages, sessions, diagnostics, jobs, port }: Running,
  activities: Activities,
  options: RuntimeOptions,
  { clock, logs }: RuntimeParts,
): ReconfigurationSteps {
  const warnOfIdlePatterns = idlePatterns(logs);
  return {
    adopt: (config) => {
      adoptLogs(config, options, logs);
      port.admit(config);
    },
    move: (config) => {
      sessions.heartbeatWindowMs = config.network.heartbeatWindowMs;
      diagnostics.adopt(config);
      void port.change(config);
    },
    mayChange: (config) => maintenanceAllowed(config.maintenance, machine, clock),
    prepare: (config) => packages.fetch(wantedPackages(config)),
    apply: async (config) => {
      const applied = activities.begin("reconfigure", { revision: config.revision });
      await machine.apply(config);
      // A newer one may have overtaken it.
      const overtaken = machine.config !== config;
      applied({ overtaken });
      if (!overtaken) {
        jobs.apply(config.jobs);
        void packages.clean(wantedPackages(config));
        logs.logger("rdk").info("configuration applied", { revision: config.revision, ...summary(machine) });
      }
      warnOfIdlePatterns(config);
    },
  };
}

/** The end, in order: first the callers, then what they left moving, the changes, and the resources. */
function stagesOf(
  {
    machine,
    packages,
    sessions,
    streams,
    diagnostics,
    jobs,
    port,
    page,
    announcement,
    reconfiguration,
    releases,
    restarts,
    watch,
    origin,
  }:
    & Running
    & {
      readonly announcement: Closable | undefined;
      readonly reconfiguration: Reconfiguration;
      readonly releases: Closable;
      readonly restarts: Closable;
      readonly watch: Closable;
      readonly origin: ConnectedOrigin;
    },
  { clock, logs }: RuntimeParts,
): ShutdownStage[] {
  const logger = logs.logger("rdk");
  return [
    { name: "the announcement", close: async () => await announcement?.close() },
    { name: "the page", close: async () => await page?.close() },
    { name: "the port", close: () => port.close(DRAIN_MS) },
    { name: "what moves", close: () => stopBeforeClosing(machine.resources, clock, logger) },
    { name: "videos", close: () => streams.close() },
    { name: "the watch over packages", close: () => releases.close() },
    { name: "packages", close: () => packages.close() },
    { name: "the configuration", close: () => reconfiguration.close() },
    { name: "jobs", close: () => jobs.close() },
    { name: "sessions", close: () => sessions.close() },
    { name: "orders to restart", close: () => restarts.close() },
    { name: "resources", close: () => machine.close(), remaining: () => remaining(machine) },
    { name: "the looks at the network and at files", close: () => watch.close() },
    { name: "diagnostics", close: () => diagnostics.close() },
    { name: "the control plane", close: () => origin.disconnect() },
  ];
}

interface Closable {
  close(): Promise<void>;
}

/** Runs the stages of the end, within the time that the environment may set. */
function closing(
  stages: ShutdownStage[],
  activities: Activities,
  { host, clock, logs }: RuntimeParts,
): Runtime["close"] {
  const logger = logs.logger("rdk");
  const env = (name: string) => host.env(name);
  const timeoutMs = envDurationMs(SHUTDOWN_TIMEOUT_VARIABLES, SHUTDOWN_TIMEOUT_MS, env, logger);
  return async (forced = new AbortController().signal, reason = "shutdown_request") => {
    const ended = activities.begin("shutdown", { reason: shutdownReason(reason) });
    const clean = await shutDown(stages, { clock, logger, forced, timeoutMs });
    ended({ clean });
    return clean;
  };
}

function readingOf({ source, read }: Origin, { registry, host, logs }: RuntimeParts): ConfigReading {
  const logger = logs.logger("rdk.config");
  return new ConfigReading({ source, read, registry, env: (name) => host.env(name), logger });
}

function createReconfiguration(
  reading: ConfigReading,
  first: UsableConfig,
  steps: ReconfigurationSteps,
  { showConfigDiffs: showDiffs }: RuntimeOptions,
  { clock, logs }: RuntimeParts,
): Reconfiguration {
  return new Reconfiguration({
    reading,
    first,
    ...steps,
    showDiffs,
    clock,
    logger: logs.logger("rdk.config"),
  });
}

/** Publishes the URL: in the log and, if the supervisor asked for it, in a file. */
function serving({ host, logs }: RuntimeParts): (url: string) => void {
  const logger = logs.logger("rdk");
  const file = host.env(SERVING_FILE);
  let telling = Promise.resolve();
  return (url) => {
    logger.info("serving", { url });
    if (!file) return;
    telling = telling.then(() => host.writeFile(file, `${JSON.stringify({ url })}\n`)).catch((error) =>
      logger.warn(`cannot publish the URL: ${chainOf(error)}`)
    );
  };
}

/** Checks the network once the machine runs, if the options ask for it. */
function watchNetwork(
  { network }: RuntimeOptions,
  ready: Promise<void>,
  { client }: Origin,
  { clock, logs }: RuntimeParts,
): Closable {
  const over = new AbortController();
  const parts = { network, clock, appAddress: client?.address, signal: over.signal };
  const reported = ready.then(() => tellNetwork(parts, logs.logger("rdk.network-checks")));
  return {
    close: () => {
      over.abort(new SvcError("canceled", "the program ends"));
      return reported;
    },
  };
}

function together(...all: readonly (Closable | undefined)[]): Closable {
  return { close: async () => void await Promise.all(all.map((one) => one?.close())) };
}

function watchFolder(
  machine: Machine,
  { hotFolder: folder }: RuntimeOptions,
  { host, clock, logs }: RuntimeParts,
): HotReload | undefined {
  if (!folder) return undefined;
  const { signal } = new AbortController();
  return new HotReload({
    folder,
    files: host,
    programs: () => machine.modules?.localPrograms ?? [],
    restart: async (name) => await machine.restartModule((one) => one.name === name, signal),
    clock,
    logger: logs.logger("rdk.hot-reload"),
  });
}

/**
 * Restarts: the answer to a supervisor's question, and the control plane's orders unless the supervisor handles them.
 */
function createRestarts(
  machine: Machine,
  { client, changes, traffic: { rareMs } }: Origin,
  { stop }: RuntimeOptions,
  { host, clock, logs }: RuntimeParts,
) {
  const mayRestart = async () => {
    const { allowed } = await maintenanceAllowed(machine.config?.maintenance, machine, clock);
    return allowed && !machine.busy;
  };
  const orders = client && !RESTARTS_HANDLED.some((name) => host.env(name))
    ? followRestartOrders({ client, changes, rareMs, clock, logger: logs.logger("rdk"), mayRestart, stop })
    : undefined;
  return {
    status: async () => ({
      restart_allowed: await mayRestart(),
      // Not published: an agent replaces a runtime that works only in a window.
      maintenance_window: machine.config?.maintenance !== undefined,
      does_not_handle_needs_restart: orders === undefined,
    }),
    close: async () => await orders?.(),
  };
}

/** What goes on beside the machine while it runs. */
function createWatches(
  { machine, ready, reconfiguration }: WatchedMachine,
  origin: Origin,
  options: RuntimeOptions,
  parts: RuntimeParts,
): Closable {
  const { client, traffic: { rareMs: repeatMs } } = origin;
  const { clock, logs } = parts;
  const state = () => healthOf(machine, reconfiguration.status);
  const reports = { state, repeatMs, clock, logger: logs.logger("rdk") };
  return together(
    watchNetwork(options, ready, origin, parts),
    watchFolder(machine, options, parts),
    client && { close: reportHealth({ client, ...reports }) },
  );
}

interface WatchedMachine {
  readonly machine: Machine;
  readonly ready: Promise<void>;
  readonly reconfiguration: Reconfiguration;
}

/** Calls that arrive through the control plane, or through the signaling server that it names. */
function callsElsewhere(
  { client, traffic }: Origin,
  { clock, logs }: RuntimeParts,
): MachinePortParts["elsewhere"] {
  const logger = logs.logger("rdk.networking.signaling");
  return client && ((given, answer) => {
    const source = new SignalingSource(client, () => given().signaling);
    const names = () => given().names;
    const { heartbeatMs } = traffic;
    const calls = new BroughtCalls({ source, names, answer, heartbeatMs, clock, logger });
    return {
      renamed: () => calls.renamed(),
      close: () => calls.close().finally(() => source.close()),
    };
  });
}

function createAnnouncement(
  { webrtc = true }: RuntimeOptions,
  { clock, logs }: RuntimeParts,
): PortAnnouncement {
  const serves = ["grpc", ...webrtc ? ["webrtc"] : []];
  return new PortAnnouncement({ serves, clock, logger: logs.logger("rdk.networking.mdns") });
}

function createPackages({ client }: Origin, { host, clock, logs }: RuntimeParts): MachinePackages {
  const home = homeFolder((name) => host.env(name));
  const path = host.env(KEYS_VARIABLE);
  const historyPath = `${home}/packages/accepted.json`;
  const keys = path ? new AcceptedKeys(path, { files: host, clock, historyPath }) : undefined;
  return new MachinePackages({ home, client, keys, host, clock, logger: logs.logger("rdk.package_manager") });
}

/** Has the machine move to a version that a word or a range has come to mean. */
function releaseWatch(
  { machine, packages }: Running,
  reconfiguration: Reconfiguration,
  { host, clock, logs }: RuntimeParts,
): PackageWatch {
  const moved = () => reconfiguration.again();
  packages.follow({ moved, arrived: () => void machine.refresh({ retriesModules: true }) });
  const wanted = () => machine.config ? wantedPackages(machine.config) : [];
  const logger = logs.logger("rdk.package_manager");
  const everyMs = envDurationMs(LOOK_VARIABLES, LOOK_MS, (name) => host.env(name), logger);
  return new PackageWatch({ packages, wanted, everyMs, clock, moved });
}

function uploadTo(
  machine: Machine,
  { client }: Origin,
  { configPath }: RuntimeOptions,
  { host, logs }: RuntimeParts,
): RobotServiceParts["upload"] {
  const logger = logs.logger("rdk.data_upload");
  const home = homeFolder((name) => host.env(name));
  return client && ((path, metadata, signal) => {
    const managers = machine.resources.filter(({ name }) =>
      name.api === DataManagerApi.name
    ) as DataManager[];
    const allowed = managers.flatMap(({ uploadFolders = [] }) => uploadFolders);
    const rules = uploadRulesOf(machine.config, { home, configPath, allowed });
    return uploadPath(path, metadata, { client, host, rules, logger }, signal);
  });
}

function createSessions(
  machine: Machine,
  { network }: MachineConfig,
  { clock, logs }: RuntimeParts,
): Sessions {
  const logger = logs.logger("rdk.networking.session_manager");
  return new Sessions({ machine, clock, logger, heartbeatWindowMs: network.heartbeatWindowMs });
}

/** The context for building resources, including resources of modules. */
interface Building {
  readonly activities: Activities;
  readonly buildTimeoutMs: number;
}

function buildTimeoutOf({ host, logs }: RuntimeParts): number {
  const env = (name: string) => host.env(name);
  const logger = logs.logger("rdk.resource_manager");
  return envDurationMs(BUILD_TIMEOUT_VARIABLES, BUILD_LIMITS.buildTimeoutMs, env, logger);
}

function createMachine(
  building: Building,
  packages: MachinePackages,
  { client }: Origin,
  { allowInsecureCredentials, mdns }: RuntimeOptions,
  { registry, host, clock, logs }: RuntimeParts,
): Machine {
  const { activities, buildTimeoutMs } = building;
  const remotes = new Remotes({
    ...{ registry, clock, activities, allowInsecureCredentials },
    logger: logs.logger("rdk.networking.remotes"),
    mdns: mdns ? "system" : undefined,
    signaling: client &&
      ((name, cloud) => isNeighbour(name, cloud?.fqdn) ? signalingOf(client, cloud) : undefined),
  });
  return new Machine({
    ...{ registry, logs, clock, host, remotes, activities, packages },
    uploader: client && uploaderOf(client),
    limits: { buildTimeoutMs },
  });
}

/** Opens the modules of the machine, which may call all its services in `table`. */
function modulesOf(
  table: () => ServiceTable,
  packages: MachinePackages,
  building: Building,
  { debug, untrusted = false }: RuntimeOptions,
  { registry, host, clock, logs }: RuntimeParts,
): () => Promise<Modules> {
  return async () => {
    // A machine without modules does not load their code.
    const { openModules } = await import("./modules/modules.ts");
    const releaseOf = (config: ModuleConfig) => packages.versionOf(packageOfModule(config));
    const required = (config: ModuleConfig) => packages.requireProgram(config);
    const own = { debug, untrusted, table, releaseOf, required };
    return openModules({ registry, host, clock, logs, ...building, ...own });
  };
}

/** Who arranges connections to the other machines of the control plane. */
function signalingOf(client: CloudClient, cloud: MachineConfig["cloud"]): SignalingServer {
  const { signaling } = dialInfoOf({ cloud });
  return signaling === undefined ? client.signalingServer : signalingServerAt(signaling);
}

function adoptLogs(config: MachineConfig, { debug }: RuntimeOptions, logs: Logs): void {
  const problems = logs.configure(config.log, debug || config.debug, !config.disableLogDeduplication);
  for (const problem of problems) logs.logger("rdk").warn(problem);
}

/** Logs, once each, the log patterns that match no logger although every configured resource has been built. */
function idlePatterns(logs: Logs): (config: MachineConfig) => void {
  const reported = new Set<string>();
  return ({ logPatterns, resources }) => {
    // Resources that could not be built have no logger yet.
    for (const { name } of resources) logs.logger(resourceLogger(name), resourceAliases(name));
    for (const pattern of logs.unmatched(logPatterns)) {
      if (reported.has(pattern)) continue;
      reported.add(pattern);
      const names =
        "rdk.components.<type>.<name>, rdk.services.<type>.<name>, or the name in a line of the log";
      logs.logger("rdk").warn(
        `log pattern "${pattern}" matches no logger; wanted an expression for ${names}`,
      );
    }
  };
}

function summary(machine: Machine): Fields {
  const states = [...machine.nodes].map((node) => node.state);
  return { resources: states.length, unhealthy: states.filter((state) => state === "unhealthy").length };
}
