/**
 * Composes the agent and runs it: its folder, its files, its cloud connection, its programs.
 */

import { dirname, join } from "node:path";
import { Agent, type AgentEnd, type AgentParts } from "../../lib/agent/agent.ts";
import { type Commands, SystemCommands } from "../../lib/agent/system/commands.ts";
import { openWhenAlone } from "../../lib/agent/control/alone.ts";
import { type Control, type Controlled, openControl, socketOf } from "../../lib/agent/control/control.ts";
import {
  isSame,
  type MachineCredentials,
  readCredentials,
  writeCredentials,
} from "../../lib/agent/settings/credentials.ts";
import { describeDevice } from "../../lib/agent/system/device.ts";
import { repairModes } from "../../lib/agent/system/modes.ts";
import { tellLastEnd } from "../../lib/agent/supervise/last_end.ts";
import { AGENT_SERVICE, RUNTIME_MARK } from "../../lib/agent/system/service_unit.ts";
import { Journald } from "../../lib/agent/system/journald.ts";
import { Needrestart } from "../../lib/agent/system/needrestart.ts";
import { storedCount } from "../../lib/agent/system/stored_count.ts";
import { LogForwarding } from "../../lib/agent/supervise/log_forwarding.ts";
import { OsUpgrades } from "../../lib/agent/system/upgrades/upgrades.ts";
import { endLeftRuntime } from "../../lib/agent/supervise/left_runtime.ts";
import { OfflineReboots, rebootOf } from "../../lib/agent/supervise/offline.ts";
import type { BinaryName } from "../../lib/agent/update/release.ts";
import { RuntimeProbe } from "../../lib/agent/supervise/probe.ts";
import { RuntimeProcess, servingFile } from "../../lib/agent/supervise/runtime.ts";
import type { Subsystem } from "../../lib/agent/settings/subsystem.ts";
import { ownFile } from "../../lib/agent/update/updater.ts";
import type { Files, ReadFolders } from "../../lib/base/files/files.ts";
import { type Clock, SystemClock } from "../../lib/base/clock.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import type { DenoHost } from "../../lib/base/host_deno.ts";
import type { Logger, Logs } from "../../lib/base/log/log.ts";
import type { LogQueue } from "../../lib/base/log/queue.ts";
import { logOwnFaults } from "../../lib/base/log/own_faults.ts";
import { giveBackFreed } from "../../lib/base/native/freed_memory.ts";
import { OrphanReaper } from "../../lib/base/native/processes/orphans.ts";
import { ALIVE, sendState } from "../../lib/base/native/processes/service_signs.ts";
import { answersTcp } from "../../lib/wire/dial/reach.ts";
import { firstHopOf } from "../../lib/wire/grpc/proxy.ts";
import { NetworkEvidence } from "../../lib/agent/supervise/network_evidence.ts";
import { CloudClient, parseCloudAddress } from "../../lib/cloud_client/client.ts";
import { ChangeFeed } from "../../lib/cloud_client/changes/change_feed.ts";
import { createDeviceMark } from "../../lib/cloud_client/changes/device_mark.ts";
import { trafficOf } from "../../lib/cloud_client/changes/traffic.ts";
import { sendLogs } from "../../lib/cloud_client/log_sender.ts";
import { BusNetworks, type Networks } from "./networks.ts";
import { runFolder, updaterOf } from "./updater.ts";
import { authoritiesBeside, openWayOut } from "../../lib/base/way_out.ts";
import { openLogs } from "../logs.ts";
import { VERSION } from "../version.ts";
import type { AgentFlags } from "./agent_flags.ts";

/** Interval of the checks for the machine's credentials. */
const CREDENTIALS_MS = 5_000;
/** Interval of the signs of life for the service's watchdog, below the watchdog's limit. */
const ALIVE_MS = 30_000;

/** The parts that every work of the agent shares. */
interface DaemonContext {
  readonly options: AgentFlags;
  readonly host: DenoHost;
  readonly clock: Clock;
  /** The clock of the agent's pauses, limits and probations. */
  readonly pace: Clock;
  readonly logs: Logs;
  readonly logger: Logger;
  readonly files: Files;
  readonly commands: Commands;
  readonly inquiries: Inquiries;
  /** If the agent manages them. */
  readonly networks?: Networks;
}

/** Answers people at the device, before and while the agent works. */
class Inquiries implements Controlled {
  /** Why the agent does not work yet. */
  waiting = "it starts";
  agent: Agent | undefined;

  constructor(private readonly end: (reason: string) => void) {}

  get status() {
    return this.#working().status;
  }

  async rollback(name: BinaryName): Promise<void> {
    await this.#working().rollback(name);
  }

  stop(): void {
    this.end("a user of its socket");
  }

  #working(): Agent {
    if (this.agent) return this.agent;
    throw new SvcError("failed_precondition", `this svc-agent does not work yet: ${this.waiting}`);
  }
}

export interface AgentPace {
  /** Another clock for pauses, limits and probations, for tests. */
  readonly paceOf?: (clock: Clock) => Clock;
}

export async function runAgent(
  options: AgentFlags,
  host: DenoHost,
  { paceOf = (clock) => clock }: AgentPace = {},
): Promise<number> {
  requireRights(options, host);
  const clock = new SystemClock();
  using open = openLogs("svc-agent", "", host, clock);
  await using _giving = giveBackFreed(clock);
  using _reaper = new OrphanReaper(clock);
  const { logs } = open;
  logs.configure([], options.debug);
  const logger = logs.logger("svc-agent");
  using _faults = logOwnFaults("svc-agent", logger);
  const stop = new AbortController();
  const end = (reason: string) => {
    logger.info(`stopping: ${reason}`);
    stop.abort(new SvcError("canceled", `the agent was told to stop by ${reason}`));
  };
  const ignore = host.onTermination(end);
  const files = host;
  logger.info("svc-agent", { version: VERSION, dir: options.dir });
  const inquiries = new Inquiries(end);
  let control: { close(): Promise<void> } | undefined;
  let networks: Networks | undefined;
  let unfollow = () => Promise.resolve();
  try {
    // First: a second agent must not touch what belongs to the one that works.
    const commands = new SystemCommands(host, clock);
    const open = () => openInquiries(inquiries, options, host, clock, logger);
    const isService = host.env("NOTIFY_SOCKET") !== undefined;
    control = isService
      ? await openWhenAlone({ open, alive: watchdog(host, commands, clock), clock, logger }, stop.signal)
      : await open();
    if (!control) return 0;
    if (!options.devMode) await repairModes(host, options.dir, [options.config], logger, Deno.uid() === 0);
    const authorities = authoritiesBeside(dirname(options.config), host);
    const bundle = join(options.dir, "state", "authorities.pem");
    const wayOut = await openWayOut(host, { authorities, bundle });
    for (const problem of wayOut.problems) logger.warn(problem);
    unfollow = wayOut.follow(host, clock, logger);
    // The agent changes the system only as a service, on Linux.
    const managesNetworks = !options.devMode && host.platform().os === "linux";
    networks = managesNetworks
      ? new BusNetworks({ ...options, host, clock, logger: logs.logger("svc-agent.networks") })
      : undefined;
    const context: DaemonContext = {
      ...{ options, host, clock, logs, logger, files, networks, inquiries },
      pace: paceOf(clock),
      commands,
    };
    for (let end: AgentEnd | undefined = "renewed"; end === "renewed";) {
      const credentials = await waitForCredentials(context, stop.signal);
      end = credentials && await work(context, credentials, stop.signal);
      if (!credentials) await endLeftRuntime({ processes: host, base: options.dir, clock, logger });
      if (end !== undefined) logger.info(ENDS[end]);
    }
    return 0;
  } finally {
    await networks?.close();
    await unfollow();
    await control?.close();
    ignore();
  }
}

/** Throws `permission_denied` for a user who may not change the system. */
function requireRights({ devMode }: AgentFlags, host: DenoHost): void {
  if (devMode || isPrivileged(host)) return;
  const user = "found another user than root";
  throw new SvcError(
    "permission_denied",
    `${user}; run it as a service (--install), or with --dev-mode as any user`,
  );
}

/**
 * Opens the agent's socket. Throws `already_exists` if another agent works in this folder; an agent that can have no
 * socket, for instance on a full disk, works without one.
 */
async function openInquiries(
  inquiries: Inquiries,
  { dir }: AgentFlags,
  host: DenoHost,
  clock: Clock,
  logger: Logger,
): Promise<Control> {
  const control = await openControl(host, socketOf(dir, host.platform().os), inquiries, clock);
  if (control.problem) {
    const lost = "svc-agent status and svc-agent rollback do not work before the next start";
    logger.warn(`${lost}: ${chainOf(control.problem)}`);
  }
  return control;
}

const ENDS: { readonly [E in AgentEnd]: string } = {
  stopped: "stopped",
  replaced: "ending for the next version of the agent",
  renewed: "beginning anew with the present credentials",
};

function isPrivileged(host: DenoHost): boolean {
  return host.platform().os === "windows" || Deno.uid() === 0;
}

/** Waits for the machine's credentials; `undefined` if the agent has to stop before. */
async function waitForCredentials(
  { options, host, clock, logger, commands, networks, inquiries }: DaemonContext,
  signal: AbortSignal,
): Promise<MachineCredentials | undefined> {
  const alive = watchdog(host, commands, clock);
  for (let reported = ""; !signal.aborted;) {
    try {
      const credentials = await readCredentials(host, options.config);
      if (networks) networks.known.configured = true;
      return credentials;
    } catch (error) {
      const problem = chainOf(error);
      if (problem !== reported) logger.error(`this machine cannot work yet: ${problem}`);
      reported = problem;
      inquiries.waiting = problem;
    }
    alive();
    await clock.sleep(CREDENTIALS_MS, signal).catch(() => {});
  }
  return undefined;
}

async function work(
  context: DaemonContext,
  credentials: MachineCredentials,
  signal: AbortSignal,
): Promise<AgentEnd> {
  const { options: { dir }, host, clock, logs, inquiries } = context;
  const { appAddress: address, id: partId, login, metered } = credentials;
  const { plain } = parseCloudAddress(address);
  const cloud = new CloudClient({
    ...{ address, partId, clock, credentials: login },
    // A file that only its owner can write may choose an address without TLS.
    allowInsecureCredentials: plain,
    agent: undefined,
    mark: createDeviceMark("svc-agent", host.hostname()),
  });
  const traffic = trafficOf(metered);
  const queue = await sendLogs({ client: cloud, home: join(dir, "state"), host, clock, logs, traffic });
  const logger = logs.logger("svc-agent.changes");
  const changes = new ChangeFeed({ client: cloud, clock, logger, random: Math.random });
  // Beside the start, because a large journal answers after seconds.
  const telling = host.env("NOTIFY_SOCKET")
    ? tellLastEnd(AGENT_SERVICE, { ...context, files: host, base: dir })
    : Promise.resolve();
  try {
    const args = ["-config", await runtimeConfig(context, credentials)];
    if (plain) args.push("-allow-insecure-creds");
    const parts = await createAgentParts(context, credentials, cloud, queue, args);
    const agent = new Agent({ ...parts, changes, rareMs: traffic.rareMs });
    if (context.networks) context.networks.known.online = () => agent.status.online;
    inquiries.agent = agent;
    return await agent.run(signal);
  } finally {
    await telling;
    await queue.close();
    await changes.close();
    cloud.close();
  }
}

/** The runtime's file with credentials: the agent's own file, or one made from its environment. */
async function runtimeConfig(
  { options, host }: DaemonContext,
  credentials: MachineCredentials,
): Promise<string> {
  if (await host.fileSize(options.config) !== undefined) return options.config;
  const { appAddress: app_address, id, login } = credentials;
  const cloud = { app_address, id, api_key: { id: login.entity, key: login.payload.reveal() } };
  const path = join(options.dir, "state", "credentials.json");
  await host.makeFolder(dirname(path));
  await writeCredentials(host, path, JSON.stringify({ cloud }));
  return path;
}

async function createAgentParts(
  context: DaemonContext,
  credentials: MachineCredentials,
  cloud: CloudClient,
  queue: LogQueue,
  args: readonly string[],
): Promise<Omit<AgentParts, "changes" | "rareMs">> {
  const { options, host, clock, pace, logs, logger, files, commands } = context;
  const { dir: base, defaults, debug, wait, fastStart } = options;
  const own = ownFile(await real(host, join(base, "cache")), await real(host, Deno.execPath()));
  const run = runFolder(host, base);
  const listens = (port: number) => host.listensMarked(RUNTIME_MARK, base, port);
  const probe = new RuntimeProbe(host, clock, servingFile(run), listens);
  const update = { base, files, host, clock, pace, logs };
  const updaters = {
    agent: updaterOf({ ...update, name: "svc-agent", manages: own !== undefined }),
    server: updaterOf({ ...update, name: "svc-server", manages: true }),
  };
  const reboot = rebootOf({ os: host.platform().os, devMode: options.devMode }, commands, logger);
  const network = new NetworkEvidence({
    ...{ host, commands, clock, answers: answersTcp, os: host.platform().os },
    cloud: firstHopOf(credentials.appAddress, (name) => host.env(name)),
  });
  return {
    options: {
      ...{ base, debug, version: VERSION, defaultsPath: defaults, ownFile: own },
      // Only Linux tells which process belongs to which agent.
      leavesRuntime: host.platform().os === "linux",
      waitForUpdate: fastStart ? false : wait || undefined,
    },
    device: await describeDevice(host, options.dir),
    ...{ cloud, updaters, probe, host, clock: pace, logger },
    // Unusable ones are no others: those in use may be good again.
    hasOthers: () =>
      readCredentials(host, options.config).then((now) => !isSame(now, credentials), () => false),
    runtime: (settings, boots, changed) =>
      new RuntimeProcess({
        ...{ base, run, args, boots, probe, host, clock: pace, logger, changed },
        processes: host,
        errors: logs.logger("svc-server.StdErr"),
      }, settings),
    subsystems: subsystemsOf(context, queue, reboot),
    offline: new OfflineReboots({
      ...{ reboot, logger, clock: pace },
      isConnected: context.networks?.isConnected,
      evidence: (signal) => network.find(signal),
      reboots: storedCount(files, join(base, "state", "offline_reboots")),
    }),
    alive: watchdog(host, commands, clock),
    configureLogs: (debugging, deduplicate) => void logs.configure([], debugging, deduplicate),
  };
}

/** The subsystems of the system: only for a service, on Linux. */
function subsystemsOf(
  { options, host, clock, logger, files, commands, networks, inquiries }: DaemonContext,
  queue: LogQueue,
  reboot: ReturnType<typeof rebootOf>,
): Subsystem[] {
  if (!reboot || host.platform().os !== "linux") return [];
  const parts = { files, commands, logger };
  const mayInterrupt = async () => await inquiries.agent?.mayInterrupt() ?? false;
  const own = ["svc-agent", "svc-agent-loader"];
  return [
    ...networks ? [networks.subsystem] : [],
    new Journald(parts),
    new Needrestart(parts),
    new OsUpgrades({
      ...{ ...parts, clock, mayInterrupt, reboot },
      reboots: storedCount(files, join(options.dir, "state", "upgrade_reboots")),
    }),
    new LogForwarding({ ...parts, processes: host, clock, send: queue.sink, base: options.dir, own }),
  ];
}

/** Resolves links; a path without a file stays unchanged. */
function real(files: ReadFolders, path: string): Promise<string> {
  return files.realPath(path).catch(() => path);
}

/** The sign of life for systemd, if its watchdog is on. */
function watchdog(host: DenoHost, commands: Commands, clock: Clock): () => void {
  const socket = host.env("NOTIFY_SOCKET");
  if (!socket) return () => {};
  let nextMs = 0;
  return () => {
    if (clock.monotonicMs() < nextMs) return;
    nextMs = clock.monotonicMs() + ALIVE_MS;
    void sendState(socket, ALIVE).then(async (isSent) => {
      if (!isSent) await commands.try("systemd-notify", [ALIVE]);
    }).catch(() => {});
  };
}
