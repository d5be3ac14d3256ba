/**
 * `svc-server -aix-install`: svc-server as a systemd service of its own, without an agent.
 *
 * A device has this service or the agent. Installation is refused if the agent runs the runtime; an agent that is
 * installed later removes this service.
 */

import { dirname } from "node:path";
import { SvcError } from "../../base/error.ts";
import { writeIfOther } from "./drop_in.ts";
import { exceptFromNeedrestart, NEEDRESTART_FILE } from "./needrestart.ts";
import { AGENT_SERVICE as AGENT } from "./service_unit.ts";
import {
  commandLine,
  hasService,
  installService,
  labelFiles,
  removeService,
  type ServiceParts,
  type SystemService,
  type Unit,
} from "./systemd.ts";

const SERVICE = "svc-server";
/** Path of the installed executable. */
export const PROGRAM = `/usr/local/bin/${SERVICE}`;

/** Time limit of systemd for a stop, above the runtime's own. */
const STOP_S = 90;
const STOP_MORE_S = 30;

const RUNTIME: SystemService = { name: SERVICE, stopMs: (STOP_S + STOP_MORE_S) * 1000 };

/** The unit that runs the executable `program` with a configuration file. */
export function runtimeUnit(configPath: string, program = PROGRAM): Unit {
  const text = `[Unit]
Description=svc-server: runs the machine
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
# Named, so that there is a HOME.
User=root
ExecStart=${commandLine([program, "-config", configPath])}
Restart=always
RestartSec=5
# It ends what it has started itself; what is left then is ended with it.
KillMode=mixed
# svc-server itself turns the watchdog on, because an older one that somebody puts in its place gives no signs of life.
NotifyAccess=main
# A module that is ended for its memory must not end the whole machine.
OOMPolicy=continue
TimeoutStopSec=${STOP_S}

[Install]
WantedBy=multi-user.target
`;
  return { name: SERVICE, text };
}

/** Installs the executable and its service, which starts with the system; the caller starts it now. */
export async function installRuntime(
  executable: string,
  configPath: string,
  parts: ServiceParts,
): Promise<void> {
  const { files, root = "" } = parts;
  if (await hasService(AGENT, parts)) {
    const hint =
      "it runs svc-server; the version it takes is in the configuration, under agent.version_control";
    throw new SvcError("failed_precondition", `svc-agent is installed here, and ${hint}`);
  }
  await files.makeFolder(dirname(`${root}${PROGRAM}`));
  if (executable !== PROGRAM) await files.copyFile(executable, `${root}${PROGRAM}`, { mode: 0o755 });
  await labelFiles([`${root}${PROGRAM}`], parts.commands);
  await exceptFromNeedrestart(parts);
  await installService(runtimeUnit(configPath), parts);
}

/** Stops and removes the service if there is one; its configuration stays. */
export async function removeRuntime(parts: ServiceParts): Promise<void> {
  if (!await hasService(SERVICE, parts)) return;
  await removeService(RUNTIME, parts);
  await parts.files.removeDurably(`${parts.root ?? ""}${PROGRAM}`);
  // The agent writes it again.
  await writeIfOther(parts.files, `${parts.root ?? ""}${NEEDRESTART_FILE}`, undefined);
}
