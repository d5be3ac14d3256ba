/**
 * The runtime: one machine on one port, from a configuration file.
 *
 * It puts the parts together and owns the order of start and end. The port opens first, over a machine that is
 * still initializing; then the configuration is applied. At the end the port closes before the resources do.
 */

import type { Clock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import type { Host } from "../base/host.ts";
import type { Fields, Logger, Logs } from "../base/log.ts";
import type { Problem } from "../base/schema.ts";
import type { Registry } from "../resource/registry.ts";
import { auth } from "../wire/auth.ts";
import { health } from "../wire/health.ts";
import { memoryChannel } from "../wire/memory.ts";
import { openPort, type Port } from "../wire/port.ts";
import { reflection } from "../wire/reflection.ts";
import { type Interceptor, ServiceTable } from "../wire/service.ts";
import { decodeConfig, formatProblems, type MachineConfig } from "./config.ts";
import { readConfig } from "./config_file.ts";
import { Frames } from "./frames.ts";
import { Jobs } from "./jobs.ts";
import { requestLimit } from "./limits.ts";
import { Machine } from "./machine.ts";
import { Operations } from "./operations.ts";
import { robotService } from "./service.ts";
import { Sessions } from "./sessions.ts";

export interface RuntimeOptions {
  readonly configPath: string;
  readonly debug: boolean;
  readonly noTls: boolean;
  /** Asks the program to end; called by the Shutdown RPC. */
  readonly stop: (reason: string) => void;
}

export interface RuntimeParts {
  readonly registry: Registry;
  readonly host: Host;
  readonly clock: Clock;
  readonly logs: Logs;
  readonly version: string;
}

export interface Runtime {
  readonly url: string;
  readonly machine: Machine;
  /** Resolves when the configuration has been applied for the first time. */
  readonly ready: Promise<void>;
  close(): Promise<void>;
}

/** How long calls under way may take when the port closes. */
const DRAIN_MS = 5_000;

const DEFAULT_BIND = { host: "localhost", port: 8080 };

/** Starts serving. Rejects, with every problem, where the configuration cannot be used or the port not opened. */
export async function startRuntime(options: RuntimeOptions, parts: RuntimeParts): Promise<Runtime> {
  const { registry, host, clock, logs, version } = parts;
  const logger = logs.logger("rdk");
  const config = await usableConfig(options.configPath, parts, logs.logger("rdk.config"));
  for (const problem of logs.configure(config.log, options.debug || config.debug)) logger.warn(problem);

  const machine = new Machine({ registry, logs, clock, host });
  const operations = new Operations(clock);
  const sessions = new Sessions({
    machine,
    clock,
    logger: logs.logger("rdk.networking.session_manager"),
    heartbeatWindowMs: config.network.heartbeatWindowMs,
  });
  const guard = await authOf(config, clock);
  const interceptors: Interceptor[] = [
    ...(guard ? [guard.interceptor] : []),
    requestLimit({ host }),
    operations.interceptor,
    sessions.interceptor,
  ];
  const table = new ServiceTable(clock, interceptors);
  for (const api of registry.apis) table.add(api.serve((name) => machine.find(api.name, name)));
  const frames = new Frames({ machine, logger: logs.logger("rdk.framesystem") });
  const jobs = new Jobs({ machine, channel: memoryChannel(table), clock, logs });
  const { stop: shutdown } = options;
  table.add(robotService({ machine, operations, sessions, frames, jobs, version, logs, clock, shutdown }));
  table.add(health(table));
  for (const service of reflection(table)) table.add(service);
  if (guard) table.add(guard.service);

  const port = await openMachinePort(config, options, { table, machine, parts, logger });
  const url = urlOf(port, config);
  logger.info("serving", { url });
  const ready = machine.apply(config).then(() => {
    logger.info("machine is running", summary(machine));
    jobs.apply(config.jobs);
  });
  return {
    url,
    machine,
    ready,
    close: async () => {
      await jobs.close();
      await port.close(DRAIN_MS);
      await sessions.close();
      await machine.close();
    },
  };
}

async function usableConfig(
  path: string,
  { host, registry }: RuntimeParts,
  logger: Logger,
): Promise<MachineConfig> {
  const problems: Problem[] = [];
  const json = await readConfig(host, path, problems);
  const env = (name: string) => host.env(name);
  const { config, problems: found, fatal } = decodeConfig(json, registry, { env });
  problems.push(...found);
  if (fatal) {
    const text = formatProblems(problems, path).replaceAll("\n", "\n  ");
    throw new SvcError("invalid_argument", `the configuration cannot be used:\n  ${text}`);
  }
  for (const problem of problems) logger.warn(formatProblems([problem], path));
  const unused = (["cloud", "modules", "remotes", "packages", "maintenance"] as const).filter(
    (key) => {
      const section = config[key];
      return Array.isArray(section) ? section.length > 0 : section !== undefined;
    },
  );
  for (const key of unused) {
    logger.warn(`${path}: ${key}: this version reads and checks it, but does not act on it`);
  }
  return config;
}

async function openMachinePort(
  { network }: MachineConfig,
  options: RuntimeOptions,
  { table, machine, parts, logger }: {
    table: ServiceTable;
    machine: Machine;
    parts: RuntimeParts;
    logger: Logger;
  },
): Promise<Port> {
  const { host, clock } = parts;
  const { tlsCertFile, tlsKeyFile, noTls } = network;
  const encrypted = tlsCertFile !== undefined && tlsKeyFile !== undefined && !noTls && !options.noTls;
  const tls = encrypted
    ? {
      certPem: await host.readTextFile(tlsCertFile),
      keyPem: await host.readTextFile(tlsKeyFile),
      certName: tlsCertFile,
      keyName: tlsKeyFile,
    }
    : undefined;
  const restartStatus = () => ({ restart_allowed: !machine.busy, does_not_handle_needs_restart: true });
  return await openPort({
    table,
    bind: network.bindAddress ?? DEFAULT_BIND,
    tls,
    http: { restartStatus },
    clock,
    logger,
  });
}

/** Where to reach the machine from this computer: published clients dial a bare address only by the name localhost. */
function urlOf({ url, port }: Port, { network }: MachineConfig): string {
  const host = network.bindAddress?.host ?? DEFAULT_BIND.host;
  const named = /[a-z]/i.test(host) && !host.includes(":") ? host : undefined;
  const everywhere = ["", "0.0.0.0", "::"].includes(host);
  const shown = named ?? (everywhere ? "localhost" : undefined);
  return shown === undefined ? url : `${url.split("://")[0]}://${shown}:${port}`;
}

async function authOf({ auth: { apiKeys }, network }: MachineConfig, clock: Clock) {
  if (!apiKeys) return undefined;
  const keys = Object.fromEntries(Object.entries(apiKeys).map(([id, key]) => [id, key.reveal()]));
  return await auth({ handlers: { apiKeys: keys }, audience: [network.fqdn ?? "localhost"], clock });
}

function summary(machine: Machine): Fields {
  const states = [...machine.nodes].map((node) => node.state);
  return { resources: states.length, unhealthy: states.filter((state) => state === "unhealthy").length };
}
