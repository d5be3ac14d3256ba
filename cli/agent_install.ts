/**
 * The agent as a service: installed from this very executable, and removed.
 */

import { join } from "node:path";
import { SystemCommands } from "../lib/agent/commands.ts";
import { readCredentials } from "../lib/agent/credentials.ts";
import { installLoader } from "../lib/agent/loader.ts";
import { installService, removeService } from "../lib/agent/service_unit.ts";
import { systemDisk } from "../lib/agent/update_files.ts";
import { SystemClock } from "../lib/base/clock.ts";
import { chainOf, SvcError } from "../lib/base/error.ts";
import type { DenoHost } from "../lib/base/host_deno.ts";
import { copyIn, updaterOf } from "./agent_updater.ts";
import { openLogs } from "./logs.ts";
import type { AgentFlags } from "./svc_agent.ts";
import { VERSION } from "./version.ts";

/** What the agent has written outside its folder; what it has put into place of other programs' settings stays. */
const DROP_INS = ["/etc/systemd/journald.conf.d/90-svc.conf"];

export async function install(options: AgentFlags, host: DenoHost): Promise<number> {
  requireRoot("install the service", host);
  if (!Deno.build.standalone) {
    const wanted = "wanted the executable: it is what becomes the service (deno task compile makes it)";
    throw new SvcError("failed_precondition", `cannot install from source, ${wanted}`);
  }
  const clock = new SystemClock();
  using open = openLogs("svc-agent", "", host, clock);
  const logger = open.logs.logger("svc-agent");
  const disk = systemDisk(host.platform().os);
  const { dir: base, config: configPath, defaults: defaultsPath } = options;
  const updater = updaterOf({
    ...{ base, disk, host, clock, name: "svc-agent", manages: true },
    logs: open.logs,
  });
  await updater.open();
  const file = await copyIn(disk, updater, base, Deno.execPath(), VERSION);
  await updater.install(file, VERSION);
  await installLoader(disk, base);
  const commands = new SystemCommands(host, clock);
  await installService({ base, configPath, defaultsPath }, { disk, commands, logger });
  await readCredentials(host, configPath).catch((error) => logger.warn(chainOf(error)));
  host.write(`svc-agent ${VERSION} is installed in ${base}; start it with: systemctl restart svc-agent\n`);
  return 0;
}

export async function uninstall(options: AgentFlags, host: DenoHost): Promise<number> {
  requireRoot("uninstall the service", host);
  const { dir, config, defaults, yes, purge } = options;
  const paths = [dir, ...DROP_INS, ...(purge ? [config, defaults] : [])];
  if (!yes && !confirm(`Stop svc-agent and svc-server, and remove ${paths.join(", ")}?`)) {
    host.writeError("svc-agent: nothing was removed\n");
    return 1;
  }
  const clock = new SystemClock();
  using open = openLogs("svc-agent", "", host, clock);
  const disk = systemDisk(host.platform().os);
  const commands = new SystemCommands(host, clock);
  await removeService({ disk, commands, logger: open.logs.logger("svc-agent") });
  for (const path of paths) {
    await Deno.remove(path, { recursive: true }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  }
  host.write(`removed: ${paths.map((path) => join(path)).join(", ")}\n`);
  return 0;
}

function requireRoot(what: string, host: DenoHost): void {
  if (host.platform().os === "windows") {
    throw new SvcError("failed_precondition", `to ${what} on Windows use install.ps1 and uninstall.ps1`);
  }
  if (Deno.uid() !== 0) throw new SvcError("permission_denied", `only root can ${what}: run it with sudo`);
}
