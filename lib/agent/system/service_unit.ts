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
/** Time for the end of a svc-server that the agent has not ended, above the runtime's own. */
const LEFT_S = 130;
/** Time that the system itself needs to stop the service. */
const STOP_MORE_S = 30;

/** The device's own variables for the service, such as proxies; it may be missing. */
export const ENVIRONMENT_FILE = "/etc/default/svc-agent";

export const AGENT: SystemService = { name: AGENT_SERVICE, stopMs: (STOP_S + LEFT_S + STOP_MORE_S) * 1000 };

/** The variable that marks our svc-server among other processes, for the next agent too; its value is the folder. */
export const RUNTIME_MARK = "SVC_AGENT_RUNTIME";

/** A loader that is whole has its last line. */
const WAIT_FOR_LOADER = '[ -x "$0" ] && tail -n 1 "$0" | grep -q "^exec " || sleep 5';

/**
 * What systemd runs whenever the agent has ended. An agent that is told to stop stops svc-server first. If the signal
 * came before the agent listened to it, or systemd had to kill an agent that hung, this stops svc-server instead. After
 * a crash, and before the next version of the agent, svc-server goes on.
 */
const END_LEFT = [
  'case "$EXIT_CODE:$EXIT_STATUS:$SERVICE_RESULT" in killed:TERM:* | *:timeout) ;; *) exit 0 ;; esac',
  `left() { grep -lszxF "${RUNTIME_MARK}=$0" /proc/[0-9]*/environ | cut -d / -f 3; }`,
  "for one in $(left); do kill -TERM $one; done",
  `n=0; while [ $n -lt ${LEFT_S} ] && [ -n "$(left)" ]; do sleep 1; n=$((n + 1)); done`,
  "for one in $(left); do kill -KILL -$one; done",
].join("; ");

export interface UnitOptions {
  readonly base: string;
  readonly configPath: string;
  readonly defaultsPath: string;
}

export function agentUnit({ base, configPath, defaultsPath }: UnitOptions): Unit {
  const loader = `${base}/bin/${LOADER}`;
  const command = [
    loader,
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
# Without a whole loader, systemd would try again without end at once.
ExecStartPre=-${commandLine(["/bin/sh", "-c", WAIT_FOR_LOADER, loader])}
ExecStart=${commandLine(command)}
ExecStopPost=-${commandLine(["/bin/sh", "-c", END_LEFT, base])}
Restart=always
# Who stops the service while systemd waits for a restart reaches neither agent nor svc-server: the loader waits.
RestartSec=0
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
