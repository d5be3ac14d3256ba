/**
 * The agent as a service of Windows: installing, stopping and removing it.
 *
 * The service runs a copy of the agent that no update replaces (`supervise/windows_host.ts`). A repeated installation leaves one
 * service, with the new settings. A service counts as stopped only when its process has ended, so that its program can
 * be replaced. Removing it leaves no trace in Windows.
 *
 * The room owns the agent as a service of Windows: installing it, and its state as Windows sees it.
 */

import { type Clock, deadline } from "../../../base/clock.ts";
import { chainOf, SvcError } from "../../../base/error.ts";
import type { Logger } from "../../../base/log/log.ts";
import type { Commands } from "../commands.ts";
import { AGENT_SERVICE, type UnitOptions } from "../service_unit.ts";
import { SERVICE_STATES } from "./status.ts";

/** The copy's name in `bin`. */
const SERVICE_PROGRAM = "svc-agent-service.exe";

const DESCRIPTION = "Installs, runs, watches and updates svc-server";
const REGISTRY = `HKLM\\SYSTEM\\CurrentControlSet\\Services\\${AGENT_SERVICE}`;
/** Above the time limit for the runtime's end. */
const STOP_MS = 180_000;
const LOOK_MS = 500;
/** SYSTEM and the administrators, by SIDs, which are the same in every language. */
const ADMINISTRATORS = "*S-1-5-32-544";
const OWNERS = ["*S-1-5-18:(OI)(CI)F", `${ADMINISTRATORS}:(OI)(CI)F`];

/** The settings of a service in Windows. */
export interface ServiceSettings {
  readonly name: string;
  readonly description: string;
  /** Its program and arguments, quoted as Windows parses them. */
  readonly commandLine: string;
  /** The pause before each restart after a failure. */
  readonly restartMs: number;
  /** Time without a failure after which Windows resets its count. */
  readonly forgetMs: number;
}

/** The state of a service. */
export interface ServiceState {
  /** One of `SERVICE_STATES`. */
  readonly state: number;
  /** Its process; 0 if there is none. */
  readonly pid: number;
}

/** The services of Windows. Every call throws `permission_denied` if Windows refuses it. */
export interface ServicePort {
  /** `undefined` if there is no service of the name. */
  stateOf(name: string): ServiceState | undefined;
  /**
   * Creates an automatic service, or changes the existing one. Returns the settings that this Windows does not support.
   */
  put(settings: ServiceSettings): string[];
  start(name: string): void;
  /** Asks it to stop; does nothing while it is starting or stopping. */
  askStop(name: string): void;
  /** Removes a stopped service. */
  remove(name: string): void;
  /** Resolves with true when the process has ended, with false after the time limit. */
  ended(pid: number, withinMs: number): Promise<boolean>;
}

export interface WindowsParts {
  readonly services: ServicePort;
  readonly commands: Commands;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Path of the service's program. */
export function servicePath(base: string): string {
  return `${base}\\bin\\${SERVICE_PROGRAM}`;
}

/**
 * Creates or changes the service, and restarts one that ran. `place` installs its program while it is stopped. Resolves
 * with whether it runs.
 */
export async function installWindowsService(
  options: UnitOptions,
  place: () => Promise<void>,
  parts: WindowsParts,
): Promise<boolean> {
  const { services, commands, logger } = parts;
  const { base } = options;
  const before = await stopService(parts);
  await place();
  // By default other users can create files in new folders of ProgramData, and folders of this name, but files in this
  // one decide what the system runs. A user who made the folder would own it, and rights given to others would stay.
  await commands.run("icacls.exe", [base, "/setowner", ADMINISTRATORS]);
  await commands.run("icacls.exe", [base, "/reset"]);
  await commands.run("icacls.exe", [base, "/inheritance:r", "/grant:r", ...OWNERS]);
  const unknown = services.put({
    name: AGENT_SERVICE,
    description: DESCRIPTION,
    commandLine: commandLine(options),
    restartMs: 5_000,
    forgetMs: 86_400_000,
  });
  if (unknown.length > 0) logger.warn(`this Windows takes no ${unknown.join(" and no ")} of a service`);
  const variables = ["/v", "Environment", "/t", "REG_MULTI_SZ", "/d", `SVC_HOME=${base}`, "/f"];
  await commands.run("reg.exe", ["add", REGISTRY, ...variables]);
  await removeRule(parts);
  // The firewall rule names the service and not its program, so that it holds for every version.
  const rule = [`name=${AGENT_SERVICE}`, "dir=in", "action=allow", `service=${AGENT_SERVICE}`, "enable=yes"];
  await commands.run("netsh.exe", ["advfirewall", "firewall", "add", "rule", ...rule]);
  logger.info(before ? "the service is changed" : "the service is installed", {
    program: servicePath(base),
  });
  const ran = before !== undefined && before.state !== SERVICE_STATES.stopped;
  if (ran) services.start(AGENT_SERVICE);
  return ran;
}

/** Stops the service and removes it with its rule; does nothing if there is none. */
export async function removeWindowsService(parts: WindowsParts): Promise<void> {
  const { services, logger } = parts;
  if (await stopService(parts)) services.remove(AGENT_SERVICE);
  else logger.info("there is no service to remove");
  await removeRule(parts);
}

/**
 * Stops the service and waits for the end of its process. Resolves with its earlier state, `undefined` if there is
 * none.
 */
async function stopService({ services, clock }: WindowsParts): Promise<ServiceState | undefined> {
  const before = services.stateOf(AGENT_SERVICE);
  if (!before) return undefined;
  const tooLate = `the service ${AGENT_SERVICE} did not stop within ${STOP_MS / 1000} s`;
  const late = deadline(clock, STOP_MS, () => new SvcError("deadline_exceeded", tooLate));
  try {
    for (let now: ServiceState | undefined = before; now && now.state !== SERVICE_STATES.stopped;) {
      if (now.state !== SERVICE_STATES.stopPending) services.askStop(AGENT_SERVICE);
      await clock.sleep(LOOK_MS, late.signal);
      now = services.stateOf(AGENT_SERVICE);
    }
  } finally {
    late.done();
  }
  if (before.pid === 0 || await services.ended(before.pid, STOP_MS)) return before;
  throw new SvcError(
    "deadline_exceeded",
    `the process ${before.pid} of the service ${AGENT_SERVICE} did not end`,
  );
}

async function removeRule({ commands, logger }: WindowsParts): Promise<void> {
  await commands.try("netsh.exe", ["advfirewall", "firewall", "delete", "rule", `name=${AGENT_SERVICE}`])
    .catch((error) => logger.warn(chainOf(error)));
}

/** The service's command line, quoted as Windows parses it. */
function commandLine({ base, configPath, defaultsPath }: UnitOptions): string {
  const words = ["service", "--dir", base, "--config", configPath, "--defaults", defaultsPath];
  return [servicePath(base), ...words].map(quoted).join(" ");
}

function quoted(word: string): string {
  if (!/[\s"]/.test(word)) return word;
  return `"${word.replaceAll(/(\\*)"/g, '$1$1\\"').replace(/(\\+)$/, "$1$1")}"`;
}
