/**
 * The agent as a service: installs this very executable, and removes it.
 */

import { dirname, join, resolve } from "node:path";
import { SystemCommands } from "../../lib/agent/system/commands.ts";
import { askStop, socketOf } from "../../lib/agent/control/control.ts";
import { readCredentials } from "../../lib/agent/settings/credentials.ts";
import { NAMES_FILE } from "../../lib/agent/network/hotspot.ts";
import { POWER_SAVE_FILE } from "../../lib/agent/network/configured_networks.ts";
import { JOURNALD_FILE } from "../../lib/agent/system/journald.ts";
import { NEEDRESTART_FILE } from "../../lib/agent/system/needrestart.ts";
import { installLoader } from "../../lib/agent/update/loader.ts";
import { removeRuntime } from "../../lib/agent/system/runtime_service.ts";
import {
  AGENT,
  AGENT_SERVICE,
  agentUnit,
  ENVIRONMENT_FILE,
  LOADER,
} from "../../lib/agent/system/service_unit.ts";
import {
  commandLine,
  installService,
  labelFiles,
  removeService,
  type ServiceParts,
  unitCommand,
} from "../../lib/agent/system/systemd.ts";
import { type AgentHostParts, hostAgent } from "../../lib/agent/supervise/windows_host.ts";
import {
  installWindowsService,
  removeWindowsService,
  servicePath,
} from "../../lib/agent/system/windows/service.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import type { ReadFiles } from "../../lib/base/files/files.ts";
import { chainOf, SvcError } from "../../lib/base/error.ts";
import { authoritiesBeside } from "../../lib/base/way_out.ts";
import type { DenoHost } from "../../lib/base/host_deno.ts";
import { WindowsServiceControl } from "./scm.ts";
import { WindowsServices } from "./services.ts";
import { stepAside } from "./aside.ts";
import { copyToCache, updaterOf } from "./updater.ts";
import { requireExecutable, requireRoot } from "../install.ts";
import { openLogs } from "../logs.ts";
import { VERSION } from "../version.ts";
import type { AgentFlags } from "./agent_flags.ts";

/** The log in the agent's folder: a Windows service has no console. */
const SERVICE_LOG = ["logs", "svc-agent-service.log"] as const;

/** The folder in the command line of a unit; each word may be quoted. */
const UNIT_FOLDER = /^(?:"(?:[^"\\]|\\.)*"|\S+) --dir ("(?:[^"\\]|\\.)*"|\S+) /;

/** The agent's files outside its folder. Its replacements of other programs' settings stay. */
const DROP_INS = [JOURNALD_FILE, NAMES_FILE, POWER_SAVE_FILE, NEEDRESTART_FILE];

export async function install(options: AgentFlags, host: DenoHost): Promise<number> {
  requireRoot("install the service", host);
  const { os } = host.platform();
  requireExecutable();
  const clock = new SystemClock();
  using open = openLogs("svc-agent", "", host, clock);
  const logger = open.logs.logger("svc-agent");
  const files = host;
  const { dir: base, config: configPath, defaults: defaultsPath } = options;
  const updater = updaterOf({
    ...{ base, files, host, clock, name: "svc-agent", manages: true },
    logs: open.logs,
  });
  await updater.open();
  const file = await copyToCache(files, updater, base, Deno.execPath(), VERSION);
  await updater.install(file, VERSION);
  const commands = new SystemCommands(host, clock);
  const unit = { base, configPath, defaultsPath };
  let runs = false;
  if (os === "windows") {
    const place = () => files.copyFile(Deno.execPath(), servicePath(base), { mode: 0o755 });
    const parts = { services: new WindowsServices(), commands, clock, logger };
    runs = await installWindowsService(unit, place, parts);
  } else {
    await installLoader(files, base);
    await labelFiles([base], commands);
    const parts: ServiceParts = { files, commands, logger };
    await installService(agentUnit(unit), parts);
    await removeRuntime(parts);
  }
  await readCredentials(host, configPath).catch((error) => logger.warn(chainOf(error)));
  const start = os === "windows" ? "sc.exe start svc-agent" : "systemctl restart svc-agent";
  const next = runs ? "it runs" : `start it with: ${start}`;
  host.write(`svc-agent ${VERSION} is installed in ${base}; ${next}\n`);
  return 0;
}

export async function uninstall(options: AgentFlags, host: DenoHost): Promise<number> {
  requireRoot("uninstall the service", host);
  const { dir, config, yes } = options;
  await requireOwnFolder(host, dir);
  const { os } = host.platform();
  if (os !== "windows") await requireOwnService(host, dir);
  const all = uninstalledPaths(options, os);
  const found = await Promise.all(all.map((path) => host.stat(path, { links: true })));
  const paths = all.filter((_, at) => found[at] !== undefined);
  if (!yes && !Deno.stdin.isTerminal()) {
    host.writeError("svc-agent: nothing was removed: there is no terminal to ask at, use --yes\n");
    return 1;
  }
  const shown = paths.join(", ") || "no files, because none are there";
  if (!yes && !confirm(`Stop svc-agent and svc-server, and remove ${shown}?`)) {
    host.writeError("svc-agent: nothing was removed\n");
    return 1;
  }
  const clock = new SystemClock();
  using open = openLogs("svc-agent", "", host, clock);
  const commands = new SystemCommands(host, clock);
  const logger = open.logs.logger("svc-agent");
  if (os === "windows") {
    await removeWindowsService({ services: new WindowsServices(), commands, clock, logger });
    await stepAside(host, dir);
  } else await removeService(AGENT, { files: host, commands, logger });
  for (const path of paths) {
    await host.removeTree(path).catch((cause) => {
      const hint = os === "windows" ? "; a program that runs cannot be removed there" : "";
      throw new SvcError("unknown", `the service is gone, but ${path} cannot be removed${hint}`, { cause });
    });
  }
  // Removes the parent folder, which is only ours there, unless it has other files.
  const parent = dirname(config);
  const isEmpty = async () => (await host.readFolder(parent).catch(() => undefined))?.length === 0;
  if (os === "windows" && await isEmpty()) await host.removeTree(parent);
  host.write(paths.length === 0 ? "there were no files to remove\n" : `removed: ${shown}\n`);
  return 0;
}

/**
 * The agent's own files. With `purge` also the device's: the credentials, and what else a device that changes hands must
 * not keep, such as passwords of proxies and trust in an authority.
 */
export function uninstalledPaths(
  { dir, config, defaults, purge }: Pick<AgentFlags, "dir" | "config" | "defaults" | "purge">,
  os: string,
): string[] {
  const [dropIns, proxies] = os === "windows" ? [[], []] : [DROP_INS, [ENVIRONMENT_FILE]];
  // Not a file that SVC_CA_FILE names: it belongs to somebody else.
  const authorities = authoritiesBeside(dirname(config), { env: () => undefined });
  return [dir, ...dropIns, ...purge ? [config, defaults, authorities, ...proxies] : []];
}

/**
 * Throws `failed_precondition` if a folder has files, and none of an agent: the uninstallation removes it with
 * everything in it, and a typing error in `--dir` must not be the end of a system.
 */
export async function requireOwnFolder(files: ReadFiles, dir: string): Promise<void> {
  const found = await files.readFolder(dir).catch(() => []);
  const marks = [join(dir, "bin", LOADER), servicePath(dir), join(dir, "state", "settings.json")];
  const isOwn = (await Promise.all(marks.map((mark) => files.stat(mark)))).some((mark) => mark !== undefined);
  if (isOwn || found.length === 0) return;
  throw new SvcError(
    "failed_precondition",
    `nothing was removed: ${dir} is no folder of svc-agent, wanted one with bin/${LOADER} in it; see --dir`,
  );
}

/**
 * Throws `failed_precondition` if the service of this name is an agent's in another folder: a typing error in `--dir`
 * must not stop a device's agent, whose files would all stay.
 */
export async function requireOwnService(files: ReadFiles, dir: string): Promise<void> {
  const command = await unitCommand(AGENT_SERVICE, { files });
  const [, quoted] = UNIT_FOLDER.exec(command ?? "") ?? [];
  if (quoted === undefined || quoted === commandLine([dir])) return;
  const bare = quoted.replaceAll(/^"|"$/g, "").replaceAll(/\\(.)/g, "$1");
  const there = bare.replaceAll("%%", "%").replaceAll("$$", "$");
  const real = async (path: string) => resolve("/", await files.realPath(path).catch(() => path));
  if (await real(there) === await real(dir)) return;
  throw new SvcError(
    "failed_precondition",
    `nothing was removed: the service ${AGENT_SERVICE} works in ${there}, found --dir ${dir}`,
  );
}

/** The program of the Windows service: keeps the agent running until the service stops. */
export async function runService(options: AgentFlags, host: DenoHost): Promise<number> {
  const { os } = host.platform();
  if (os !== "windows") {
    throw new SvcError("failed_precondition", "there are services like this on Windows only; see --install");
  }
  const { dir: base, config, defaults } = options;
  const clock = new SystemClock();
  const log = join(base, ...SERVICE_LOG);
  await host.makeFolder(dirname(log));
  using open = openLogs("svc-agent", log, host, clock);
  const { logs } = open;
  const files = host;
  // The counts in this folder last until the system's end.
  const run = join(base, "run");
  await files.makeFolder(run);
  for (const left of await files.readFolder(run).catch(() => [])) await files.remove(join(run, left));
  const written = logs.logger("svc-agent.output");
  const parts: AgentHostParts = {
    ...{ processes: host, clock, logger: logs.logger("svc-agent.service") },
    boots: updaterOf({ base, files, host, clock, logs, name: "svc-agent", manages: true }),
    output: (line) => written.info(line),
    args: ["--dir", base, "--config", config, "--defaults", defaults],
    ask: () => askStop(host, socketOf(base, os), clock),
  };
  const work = (signal: AbortSignal) => hostAgent(parts, signal).then(() => 0);
  return await new WindowsServiceControl().run(AGENT_SERVICE, work);
}
