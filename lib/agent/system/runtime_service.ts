/**
 * svc-server as a service of systemd of its own, where no agent is wanted: `svc-server -aix-install`.
 *
 * There is one or the other: it is refused where the agent runs the runtime, and makes way for an agent that is
 * installed later.
 */

import { dirname } from "node:path";
import { SvcError } from "../../base/error.ts";
import { SERVICE as AGENT } from "./service_unit.ts";
import {
  commandLine,
  hasService,
  installService,
  removeService,
  type Service,
  type ServiceParts,
  type Unit,
} from "./systemd.ts";

const SERVICE = "svc-server";
/** Where the executable is then. */
export const PROGRAM = `/usr/local/bin/${SERVICE}`;

/** Above the runtime's own limit for its end. */
const STOP_S = 90;
const STOP_MORE_S = 30;

const RUNTIME: Service = { name: SERVICE, stopMs: (STOP_S + STOP_MORE_S) * 1000 };

export function runtimeUnit(configPath: string): Unit {
  const text = `[Unit]
Description=svc-server: runs the machine
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
# Named, so that there is a HOME.
User=root
ExecStart=${commandLine([PROGRAM, "-config", configPath])}
Restart=always
RestartSec=5
# It ends what it has started itself; what is left then is ended with it.
KillMode=mixed
TimeoutStopSec=${STOP_S}

[Install]
WantedBy=multi-user.target
`;
  return { name: SERVICE, text };
}

/** Puts the executable into place and makes a service of it; started with the system, not yet now. */
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
  await installService(runtimeUnit(configPath), parts);
}

/** Ends and removes it, where it is; its configuration stays. */
export async function removeRuntime(parts: ServiceParts): Promise<void> {
  if (!await hasService(SERVICE, parts)) return;
  await removeService(RUNTIME, parts);
  await parts.files.removeDurably(`${parts.root ?? ""}${PROGRAM}`);
}
