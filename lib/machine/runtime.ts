/**
 * The runtime: one machine on one port, from a configuration and its changes.
 *
 * It puts the parts together and owns the order of start and end. The port opens first, over a machine that is
 * still initializing; then the configuration is applied, and every later one as it comes. At the end the port closes
 * before the resources do.
 */

import type { MachineName, ProcessUsage } from "../base/host.ts";
import type { Clock } from "../base/clock.ts";
import { chainOf, SvcError } from "../base/error.ts";
import type { Fields, Logger, Logs } from "../base/log/log.ts";
import type { AnyApi, ModelHost, Registry } from "../resource/registry.ts";
import type { Uplink } from "../resource/uplink.ts";
import type { Auth } from "../wire/auth.ts";
import { health } from "../wire/grpc/health.ts";
import { memoryChannel } from "../wire/memory.ts";
import { reflection } from "../wire/grpc/reflection.ts";
import { type Interceptor, type Service, ServiceTable } from "../wire/service.ts";
import { Activities, shutdownReason } from "./graph/activities.ts";
import { BUILD_LIMITS, BUILD_TIMEOUT_VARIABLES } from "./graph/builder.ts";
import { type MachineConfig, resourceAliases, resourceLogger } from "./config/config.ts";
import { uplinkOf } from "../cloud_client/data_uplink.ts";
import { uploadPath } from "../cloud_client/path_upload.ts";
import { sendLogs } from "../cloud_client/log_sender.ts";
import { Diagnostics, type DiagnosticsOptions } from "./diagnostics/diagnostics.ts";
import { envDurationMs } from "./config/env_duration.ts";
import { Jobs } from "./serve/jobs.ts";
import { requestLimit } from "./serve/limits.ts";
import { Machine } from "./graph/machine.ts";
import { MachinePort, type MachinePortParts } from "./serve/machine_port.ts";
import { maintenanceAllowed } from "./graph/maintenance.ts";
import { type Network, tellNetwork } from "./diagnostics/network_check.ts";
import { Operations } from "./serve/operations.ts";
import { type Origin, originOf } from "./config/origin.ts";
import { MachinePackages } from "./packages/packages.ts";
import { homeFolder } from "./config/placeholder.ts";
import { Reconfiguration, type ReconfigurationParts } from "./graph/reconfiguration.ts";
import { Remotes } from "./graph/remotes.ts";
import { followRestartOrders } from "../cloud_client/restart.ts";
import { robotService, type RobotServiceParts, type StatusNode } from "./serve/service.ts";
import { Sessions } from "./serve/sessions.ts";
import { shutDown, SHUTDOWN_TIMEOUT_MS, SHUTDOWN_TIMEOUT_VARIABLES, type Stage } from "./serve/shutdown.ts";

export interface RuntimeOptions {
  readonly configPath: string;
  readonly debug: boolean;
  readonly noTls: boolean;
  /** Credentials for remotes may travel without TLS. */
  readonly allowInsecureCredentials?: boolean;
  /** Log what changes between configurations. */
  readonly showConfigDiffs: boolean;
  readonly diagnostics: DiagnosticsOptions;
  /** With it the network is checked once, in the background. */
  readonly network?: Network;
  /** Asks the program to end; called by the Shutdown RPC. */
  readonly stop: (reason: string) => void;
}

export interface RuntimeParts {
  readonly registry: Registry;
  readonly host: ModelHost & MachineName & ProcessUsage;
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
   * Ends everything in order, at the latest when `forced` aborts; the log tells the reason: the name of a signal, or
   * what `stop` was called with. Whether it all ended as it should.
   */
  close(forced?: AbortSignal, reason?: string): Promise<boolean>;
}

/** How long calls under way may take when the port closes. */
const DRAIN_MS = 5_000;

/** Whoever supervises the program says by these that it asks itself whether to restart it. */
const RESTARTS_HANDLED = [
  "SVC_AGENT_HANDLES_NEEDS_RESTART_CHECKING",
  "VIAM_AGENT_HANDLES_NEEDS_RESTART_CHECKING",
];

/** Whoever supervises the program names a file here, to find out where it serves. */
const SERVING_FILE = "SVC_SERVING_FILE";

/** Starts serving. Rejects, with every problem, where the configuration cannot be used or the port not opened. */
export async function startRuntime(options: RuntimeOptions, parts: RuntimeParts): Promise<Runtime> {
  const { configPath: path, allowInsecureCredentials = false } = options;
  const logger = parts.logs.logger("rdk.config");
  const origin = await originOf({ ...parts, path, allowInsecureCredentials, logger });
  const { client } = origin;
  const home = homeFolder((name) => parts.host.env(name));
  const logs = client && await sendLogs({ ...parts, client, home });
  const disconnect = async () => {
    await logs?.close();
    client?.close();
  };
  try {
    return await start(options, parts, { ...origin, disconnect });
  } catch (error) {
    await disconnect();
    throw error;
  }
}

/** Tells where the program serves: in the log and, where somebody asked for it, in a file. */
function serving({ host, logs }: RuntimeParts): (url: string) => void {
  const logger = logs.logger("rdk");
  const file = host.env(SERVING_FILE);
  let telling = Promise.resolve();
  return (url) => {
    logger.info("serving", { url });
    if (!file) return;
    telling = telling.then(() => host.writeFile(file, `${JSON.stringify({ url })}\n`)).catch((error) =>
      logger.warn(`cannot tell where it serves: ${chainOf(error)}`)
    );
  };
}

/** With what is last to be closed. */
type ConnectedOrigin = Origin & { readonly disconnect: () => Promise<void> };

async function start(
  options: RuntimeOptions,
  parts: RuntimeParts,
  origin: ConnectedOrigin,
): Promise<Runtime> {
  const { clock, logs } = parts;
  const logger = logs.logger("rdk");
  const activities = new Activities(logs.logger("rdk.activity"), clock);
  const started = activities.begin("startup");
  const machine = machineOf(options, { ...parts, activities }, origin.client && uplinkOf(origin.client));
  const packages = packagesOf(origin, parts);
  const warnOfIdlePatterns = idlePatterns(logs);
  const reconfiguration = reconfigurationOf(
    {
      machine,
      packages,
      source: origin.source,
      adopt: (config) => {
        adoptLogs(config, options, logs);
        port.admit(config);
      },
      move: (config) => move(config, { sessions, diagnostics, port }),
      apply: async (config) => {
        await apply(config, { machine, jobs, packages, activities }, logger);
        warnOfIdlePatterns(config);
      },
    },
    options,
    parts,
  );
  const first = await reconfiguration.first();
  adoptLogs(first.config, options, logs);
  warnOfUnused(first.config, logger);

  const sessions = sessionsOf(machine, first.config, parts);
  const diagnostics = new Diagnostics(options.diagnostics, { machine, ...parts });
  const tableFor = tables(
    {
      machine,
      sessions,
      jobs: { statuses: () => jobs.statuses() },
      packages,
      internal: () => [reconfiguration.status, port.status].filter((status) => status !== undefined),
      upload: uploadTo(origin, parts),
      stop: options.stop,
    },
    diagnostics.interceptors,
    parts,
  );
  const jobs = new Jobs({ machine, channel: memoryChannel(tableFor()), clock, logs });
  const restarts = restartsOf(machine, origin, options, parts);
  const port = await portOf(first.config, { tableFor, restarts, diagnostics }, options, parts);
  await diagnostics.begin(first.config);
  const ready = reconfiguration.begin(first).then(() => {
    logger.info("machine is running", summary(machine));
    started();
  });
  const watch = watchNetwork(options, ready, origin, parts);
  const running = { watch, packages, port, reconfiguration, jobs, sessions, restarts };
  return {
    get url() {
      return port.url;
    },
    machine,
    ready,
    close: closing(stagesOf({ ...running, machine, diagnostics, origin }), activities, parts),
  };
}

/** What runs takes over from a configuration beside its resources. */
function move(
  config: MachineConfig,
  { sessions, diagnostics, port }: Pick<Closed, "sessions" | "diagnostics" | "port">,
): void {
  sessions.heartbeatWindowMs = config.network.heartbeatWindowMs;
  diagnostics.adopt(config);
  void port.change(config);
}

async function apply(
  config: MachineConfig,
  { machine, jobs, packages, activities }:
    & Pick<Closed, "machine" | "jobs" | "packages">
    & { readonly activities: Activities },
  logger: Logger,
): Promise<void> {
  const applied = activities.begin("reconfigure", { revision: config.revision });
  await machine.apply(config);
  // A newer one may have overtaken it.
  applied({ overtaken: machine.config !== config });
  if (machine.config !== config) return;
  jobs.apply(config.jobs);
  void packages.clean(config.packages);
  logger.info("configuration applied", { revision: config.revision, ...summary(machine) });
}

function reconfigurationOf(
  { machine, packages, source, adopt, move, apply }:
    & Pick<Closed, "machine" | "packages">
    & Pick<ReconfigurationParts, "source" | "adopt" | "move" | "apply">,
  { showConfigDiffs: showDiffs }: RuntimeOptions,
  { registry, host, clock, logs }: RuntimeParts,
): Reconfiguration {
  return new Reconfiguration({
    source,
    registry,
    env: (name) => host.env(name),
    clock,
    logger: logs.logger("rdk.config"),
    adopt,
    move,
    mayChange: (config) => maintenanceAllowed(config.maintenance, machine, clock),
    prepare: (config) => packages.fetch(config.packages),
    apply,
    showDiffs,
  });
}

function portOf(
  config: MachineConfig,
  { tableFor, restarts, diagnostics }:
    & Pick<MachinePortParts, "tableFor">
    & { readonly restarts: ReturnType<typeof restartsOf>; readonly diagnostics: Diagnostics },
  { noTls }: RuntimeOptions,
  parts: RuntimeParts,
): Promise<MachinePort> {
  const { host, clock, logs } = parts;
  const http = { restartStatus: restarts.status, routes: diagnostics.routes };
  const logger = logs.logger("rdk");
  return MachinePort.open(config, { tableFor, http, noTls, serving: serving(parts), host, clock, logger });
}

/** Goes through the stages of the end, within the time that the environment may say. */
function closing(
  stages: Stage[],
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

/** Checks the network once the machine runs, where the options say how. */
function watchNetwork(
  { network }: RuntimeOptions,
  ready: Promise<void>,
  { client }: Origin,
  { clock, logs }: RuntimeParts,
): { close(): Promise<void> } {
  const over = new AbortController();
  const parts = { network, clock, appAddress: client?.address, signal: over.signal };
  const told = ready.then(() => tellNetwork(parts, logs.logger("rdk.network-checks")));
  return {
    close: () => {
      over.abort(new SvcError("canceled", "the program ends"));
      return told;
    },
  };
}

interface Closed {
  readonly watch: { close(): Promise<void> };
  readonly packages: MachinePackages;
  readonly port: MachinePort;
  readonly reconfiguration: Reconfiguration;
  readonly jobs: Jobs;
  readonly sessions: Sessions;
  readonly restarts: { close(): Promise<void> };
  readonly machine: Machine;
  readonly diagnostics: Diagnostics;
  readonly origin: ConnectedOrigin;
}

/** The end, in its order: nobody calls any more, nothing changes any more, then what was called and changed. */
function stagesOf(closed: Closed): Stage[] {
  const { watch, packages, port, reconfiguration, jobs, sessions, restarts, machine } = closed;
  const { diagnostics, origin } = closed;
  return [
    { name: "the port", close: () => port.close(DRAIN_MS) },
    { name: "packages", close: () => packages.close() },
    { name: "the configuration", close: () => reconfiguration.close() },
    { name: "jobs", close: () => jobs.close() },
    { name: "sessions", close: () => sessions.close() },
    { name: "orders to restart", close: () => restarts.close() },
    { name: "resources", close: () => machine.close(), remaining: () => instances(machine) },
    { name: "the check of the network", close: () => watch.close() },
    { name: "diagnostics", close: () => diagnostics.close() },
    { name: "the control plane", close: () => origin.disconnect() },
  ];
}

/** Restarting: what a supervisor asks before it does, and orders of the control plane unless the supervisor takes them. */
function restartsOf(
  machine: Machine,
  { client }: Origin,
  { stop }: RuntimeOptions,
  { host, clock, logs }: RuntimeParts,
) {
  const mayRestart = async () => {
    const { allowed } = await maintenanceAllowed(machine.config?.maintenance, machine, clock);
    return allowed && !machine.busy;
  };
  const orders = client && !RESTARTS_HANDLED.some((name) => host.env(name))
    ? followRestartOrders({ client, clock, logger: logs.logger("rdk"), mayRestart, stop })
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

function packagesOf({ client }: Origin, { host, clock, logs }: RuntimeParts): MachinePackages {
  const home = homeFolder((name) => host.env(name));
  return new MachinePackages({ home, client, host, clock, logger: logs.logger("rdk.package_manager") });
}

function uploadTo({ client }: Origin, { host, logs }: RuntimeParts): RobotServiceParts["upload"] {
  const logger = logs.logger("rdk.data_upload");
  return client && ((path, metadata, signal) => uploadPath(path, metadata, { client, host, logger }, signal));
}

function sessionsOf(machine: Machine, { network }: MachineConfig, { clock, logs }: RuntimeParts): Sessions {
  const logger = logs.logger("rdk.networking.session_manager");
  return new Sessions({ machine, clock, logger, heartbeatWindowMs: network.heartbeatWindowMs });
}

function machineOf(
  { allowInsecureCredentials }: RuntimeOptions,
  parts: RuntimeParts & { readonly activities: Activities },
  uplink: Uplink | undefined,
): Machine {
  const { registry, host, clock, logs, activities } = parts;
  const logger = logs.logger("rdk.networking.remotes");
  const remotes = new Remotes({ registry, clock, logger, activities, allowInsecureCredentials });
  const buildTimeoutMs = envDurationMs(
    BUILD_TIMEOUT_VARIABLES,
    BUILD_LIMITS.buildTimeoutMs,
    (name) => host.env(name),
    logs.logger("rdk.resource_manager"),
  );
  return new Machine({
    registry,
    logs,
    clock,
    host,
    remotes,
    uplink,
    activities,
    limits: { buildTimeoutMs },
  });
}

interface Served {
  readonly machine: Machine;
  readonly sessions: Sessions;
  readonly jobs: Pick<Jobs, "statuses">;
  readonly packages: MachinePackages;
  readonly internal: () => readonly StatusNode[];
  readonly upload: RobotServiceParts["upload"];
  readonly stop: (reason: string) => void;
}

/** Makes tables of all services over one machine: one for each port that is opened, with its guard. */
function tables(
  { stop, ...served }: Served,
  outermost: readonly Interceptor[],
  { registry, host, clock, logs, version }: RuntimeParts,
): (guard?: Auth) => ServiceTable {
  const { machine, sessions } = served;
  const operations = new Operations(clock);
  const around = [requestLimit({ host, registry }), operations.interceptor, sessions.interceptor];
  const robot = { ...served, operations, version, logs, clock, shutdown: stop };
  const serve = (api: AnyApi) => api.serve((name) => machine.find(api.name, name));
  const foreign = new WeakMap<AnyApi, Service>();
  const visiting = () => machine.foreignApis.map((api) => foreign.getOrInsertComputed(api, serve));
  return (guard) => {
    const interceptors = [...outermost, ...(guard ? [guard.gate] : []), ...around];
    const table = new ServiceTable(clock, interceptors, visiting);
    for (const api of registry.apis) table.add(serve(api));
    for (const service of [robotService(robot), health(table), ...reflection(table)]) table.add(service);
    if (guard) table.add(guard.service);
    return table;
  };
}

function adoptLogs(config: MachineConfig, { debug }: RuntimeOptions, logs: Logs): void {
  const problems = logs.configure(config.log, debug || config.debug, !config.disableLogDeduplication);
  for (const problem of problems) logs.logger("rdk").warn(problem);
}

/** Tells, once for each, which log patterns match no logger although everything that is configured has been built. */
function idlePatterns(logs: Logs): (config: MachineConfig) => void {
  const told = new Set<string>();
  return ({ logPatterns, resources }) => {
    // What could not be built has no logger yet.
    for (const { name } of resources) logs.logger(resourceLogger(name), resourceAliases(name));
    for (const pattern of logs.unmatched(logPatterns)) {
      if (told.has(pattern)) continue;
      told.add(pattern);
      const names =
        "rdk.components.<type>.<name>, rdk.services.<type>.<name>, or the name in a line of the log";
      logs.logger("rdk").warn(
        `log pattern "${pattern}" matches no logger; wanted an expression for ${names}`,
      );
    }
  };
}

function warnOfUnused(config: MachineConfig, logger: Logger): void {
  if (config.modules.length > 0) {
    logger.warn("modules: this version reads and checks it, but does not act on it");
  }
}

function summary(machine: Machine): Fields {
  const states = [...machine.nodes].map((node) => node.state);
  return { resources: states.length, unhealthy: states.filter((state) => state === "unhealthy").length };
}

/** The resources that are not closed yet. */
function instances({ nodes }: Machine): string[] {
  return [...nodes].filter(({ instance, state }) => instance || state === "removing").map(({ name }) =>
    name.full
  );
}
