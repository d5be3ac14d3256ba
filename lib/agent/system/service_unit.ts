/**
 * The agent as a systemd service.
 *
 * systemd starts the loader, so that no update of the agent can leave the device without one. An agent that crashes or
 * is replaced leaves the runtime running, and the next agent takes it over.
 */

import { commandLine, type SystemService, type Unit } from "./systemd.ts";

export const AGENT_SERVICE = "svc-agent";
/** The name of the loader's script in `bin`. */
export const LOADER = "svc-agent-loader";

/** Time limit of systemd for a stop, above the agent's own, which is above the runtime's. */
const STOP_S = 240;
/** Above the time that a runtime may take to end: the agent waits for it before it is replaced. */
export const WATCHDOG_S = 180;
/** Time that the system itself needs to stop the service. */
const STOP_MORE_S = 30;

/** The device's own variables for the service, such as proxies; it may be missing. */
export const ENVIRONMENT_FILE = "/etc/default/svc-agent";

export const AGENT: SystemService = { name: AGENT_SERVICE, stopMs: (STOP_S + STOP_MORE_S) * 1000 };

export interface UnitOptions {
  readonly base: string;
  readonly configPath: string;
  readonly defaultsPath: string;
}

export function agentUnit({ base, configPath, defaultsPath }: UnitOptions): Unit {
  const command = [
    `${base}/bin/${LOADER}`,
    "--dir",
    base,
    "--config",
    configPath,
    "--defaults",
    defaultsPath,
  ];
  const text = `[Unit]
Description=svc-agent: installs, runs, watches and updates svc-server
# Not after network-online.target: without a network that comes only after a minute, and somebody waits for the hotspot.
After=NetworkManager.service bluetooth.service
StartLimitIntervalSec=0

[Service]
Type=exec
# Named, so that there is a HOME.
User=root
# Proxies, and other variables of the agent and of svc-server.
EnvironmentFile=-${ENVIRONMENT_FILE}
ExecStart=${commandLine(command)}
Restart=always
RestartSec=5
# svc-server outlives an agent that crashes or is replaced; one that is told to stop ends it itself.
KillMode=process
TimeoutStopSec=${STOP_S}
WatchdogSec=${WATCHDOG_S}
NotifyAccess=all
RuntimeDirectory=${AGENT_SERVICE}
RuntimeDirectoryPreserve=yes
OOMScoreAdjust=-900
# A module that is ended for its memory must not end the whole machine.
OOMPolicy=continue
ProtectClock=no
RestrictSUIDSGID=no
LockPersonality=yes
RestrictRealtime=no
KeyringMode=private

[Install]
WantedBy=multi-user.target
`;
  return { name: AGENT_SERVICE, text };
}
