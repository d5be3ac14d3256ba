/**
 * The runtime as a service of its own: installs this very executable, and starts it.
 */

import { resolve } from "node:path";
import { SystemCommands } from "../../lib/agent/system/commands.ts";
import { installRuntime, PROGRAM } from "../../lib/agent/system/runtime_service.ts";
import type { Host } from "../../lib/base/host.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { requireExecutable, requireRoot } from "../install.ts";
import { openLogs } from "../logs.ts";
import { VERSION } from "../version.ts";

/** The file with a machine's credentials, or its configuration. */
const CONFIG = "/etc/svc.json";

/** `config`: its configuration file; by default the machine's. */
export async function installServer(config: string, host: Host): Promise<number> {
  const { os } = host.platform();
  if (os !== "linux") {
    const hint = "svc-agent --install makes one of svc-agent, which runs svc-server";
    throw new SvcError("failed_precondition", `on ${os} svc-server cannot be a service of its own; ${hint}`);
  }
  requireRoot("install the service", host);
  requireExecutable();
  const configPath = resolve(host.cwd(), config || CONFIG);
  const clock = new SystemClock();
  using open = openLogs("svc-server", "", host, clock);
  const commands = new SystemCommands(host, clock);
  const logger = open.logs.logger("svc-server");
  await installRuntime(Deno.execPath(), configPath, { files: host, commands, logger });
  const start = "systemctl restart svc-server";
  if (await host.fileSize(configPath) === undefined) {
    host.write(
      `svc-server ${VERSION} is installed: ${PROGRAM}; put its configuration into ${configPath}, then\n`,
    );
    host.write(`start it with: ${start}\n`);
    return 0;
  }
  await commands.run("systemctl", ["restart", "svc-server"]);
  host.write(`svc-server ${VERSION} is installed and runs: ${PROGRAM} -config ${configPath}\n`);
  host.write("see: systemctl status svc-server, journalctl -u svc-server -f\n");
  return 0;
}
