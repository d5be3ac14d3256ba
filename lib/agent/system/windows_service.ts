/**
 * The agent as a service of Windows: how it is installed and removed, by the commands of the system.
 *
 * What is started is a copy of the agent that no update replaces (`windows_host.ts` is what it does). Promises that
 * installing again leaves one service, with the settings of now.
 */

import { type Clock, deadline } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { type Commands, failureOf } from "./commands.ts";
import { SERVICE, type UnitOptions } from "./service_unit.ts";

/** The copy's name in `bin`. */
export const SERVICE_PROGRAM = "svc-agent-service.exe";

const DESCRIPTION = "Installs, runs, watches and updates svc-server";
/** Restarted after 5 s, however often it fails; the count starts anew after a day without a failure. */
const FAILURES = ["reset=", "86400", "actions=", "restart/5000/restart/5000/restart/5000"];
const REGISTRY = `HKLM\\SYSTEM\\CurrentControlSet\\Services\\${SERVICE}`;
/** Exit codes of sc.exe (Win32 errors). */
const NO_SUCH_SERVICE = 1060;
const NOT_STARTED = 1062;
/** Above the limit for the end of the runtime. */
const STOP_MS = 180_000;
const LOOK_MS = 500;

export interface WindowsParts {
  readonly commands: Commands;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Where the service's program is. */
export function servicePath(base: string): string {
  return `${base}\\bin\\${SERVICE_PROGRAM}`;
}

/** Makes or changes the service; it is not started. `place` puts its program into place, while it is stopped. */
export async function installWindowsService(
  options: UnitOptions,
  place: () => Promise<void>,
  parts: WindowsParts,
): Promise<void> {
  const { commands, logger } = parts;
  const { base } = options;
  const isThere = await stopService(parts);
  await place();
  const settings = ["binPath=", commandLine(options), "start=", "auto"];
  const what = isThere ? "config" : "create";
  await commands.run("sc.exe", [what, SERVICE, ...settings, "DisplayName=", SERVICE]);
  await commands.run("sc.exe", ["description", SERVICE, DESCRIPTION]);
  await commands.run("sc.exe", ["failure", SERVICE, ...FAILURES]);
  // Also when it ends by itself with an error, and not only when it crashes.
  await commands.run("sc.exe", ["failureflag", SERVICE, "1"]);
  // What the service starts is known by the service's name, so that the firewall's rule holds for every version.
  await commands.run("sc.exe", ["sidtype", SERVICE, "unrestricted"]);
  const variables = ["/v", "Environment", "/t", "REG_MULTI_SZ", "/d", `SVC_HOME=${base}`, "/f"];
  await commands.run("reg.exe", ["add", REGISTRY, ...variables]);
  await removeRule(commands);
  const rule = [`name=${SERVICE}`, "dir=in", "action=allow", `service=${SERVICE}`, "enable=yes"];
  await commands.run("netsh.exe", ["advfirewall", "firewall", "add", "rule", ...rule]);
  logger.info(isThere ? "the service is changed" : "the service is installed", {
    program: servicePath(base),
  });
}

/** Stops the service and removes it with its rule; does nothing where there is none. */
export async function removeWindowsService(parts: WindowsParts): Promise<void> {
  const { commands, logger } = parts;
  if (await stopService(parts)) await commands.run("sc.exe", ["delete", SERVICE]);
  else logger.info("there is no service to remove");
  await removeRule(commands);
}

/** Resolves when it does not run, with whether there is one. */
async function stopService({ commands, clock }: WindowsParts): Promise<boolean> {
  const stopped = await commands.try("sc.exe", ["stop", SERVICE]);
  if (stopped.code === NO_SUCH_SERVICE) return false;
  if (stopped.code === NOT_STARTED) return true;
  if (stopped.code !== 0) throw new SvcError("unknown", failureOf("sc.exe", ["stop", SERVICE], stopped));
  const tooLate = `the service ${SERVICE} did not stop within ${STOP_MS / 1000} s`;
  const late = deadline(clock, STOP_MS, () => new SvcError("deadline_exceeded", tooLate));
  try {
    // The state's number; its name is translated in some versions of Windows.
    while (!/: 1 /.test(await commands.run("sc.exe", ["query", SERVICE]))) {
      await clock.sleep(LOOK_MS, late.signal);
    }
    return true;
  } finally {
    late.done();
  }
}

async function removeRule(commands: Commands): Promise<void> {
  await commands.try("netsh.exe", ["advfirewall", "firewall", "delete", "rule", `name=${SERVICE}`]);
}

/** The service's command line, as Windows splits it into words. */
function commandLine({ base, configPath, defaultsPath }: UnitOptions): string {
  const words = ["service", "--dir", base, "--config", configPath, "--defaults", defaultsPath];
  return [servicePath(base), ...words].map(quoted).join(" ");
}

function quoted(word: string): string {
  if (!/[\s"]/.test(word)) return word;
  return `"${word.replaceAll(/(\\*)"/g, '$1$1\\"').replace(/(\\+)$/, "$1$1")}"`;
}
