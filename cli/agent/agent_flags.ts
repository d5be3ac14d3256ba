/** The flags that all commands of svc-agent share. */

import type { Flag, Values } from "../flags.ts";

/** The default places. */
export const DEFAULT_PATHS = { dir: "/opt/svc", config: "/etc/svc.json", defaults: "/etc/svc-defaults.json" };

export const FLAGS = [
  {
    name: "config",
    short: "c",
    type: "string",
    default: DEFAULT_PATHS.config,
    value: "FILE",
    help: "Machine credentials.",
  },
  {
    name: "defaults",
    type: "string",
    default: DEFAULT_PATHS.defaults,
    value: "FILE",
    help: "Manufacturer defaults.",
  },
  {
    name: "debug",
    short: "d",
    type: "bool",
    default: false,
    env: "SVC_AGENT_DEBUG",
    unusableEnv: "warn",
    help: "Debug logs of the agent itself, not of svc-server.",
  },
  {
    name: "wait",
    short: "w",
    type: "bool",
    default: false,
    env: "SVC_AGENT_WAIT_FOR_UPDATE",
    unusableEnv: "warn",
    help: "Update versions before starting.",
  },
  {
    name: "fast-start",
    type: "bool",
    default: false,
    env: "SVC_AGENT_FAST_START",
    unusableEnv: "warn",
    help: "Start without waiting for network or updates, overriding all other settings.",
  },
  { name: "install", type: "bool", default: false, help: "Install the system service." },
  {
    name: "dev-mode",
    type: "bool",
    default: false,
    env: "SVC_AGENT_DEVMODE",
    unusableEnv: "warn",
    help: "Allow running as another user than root and not as a service.",
  },
  {
    name: "dir",
    type: "string",
    default: "",
    value: "FOLDER",
    env: "SVC_AGENT_DIR",
    unusableEnv: "warn",
    help: "The agent's folder: /opt/svc, or svc-agent in the working folder in dev mode.",
  },
  { name: "json", type: "bool", default: false, help: "Print the result of status or rollback as JSON." },
  { name: "yes", short: "y", type: "bool", default: false, help: "Uninstall without asking." },
  {
    name: "purge",
    type: "bool",
    default: false,
    help: "Uninstall credentials, defaults, proxies and authorities, too.",
  },
] as const satisfies readonly Flag[];

export type AgentFlags = Values<typeof FLAGS>;
