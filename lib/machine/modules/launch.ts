/**
 * The start of a module: its arguments and environment, and the names of its sockets.
 *
 * The names are the published ones, so that modules written with the published libraries work; every published variable
 * has a neutral one beside it.
 */

import { allProxyOf } from "../../base/native/environment.ts";
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { WholeEnvironment } from "../../base/host.ts";
import { SvcError } from "../../base/error.ts";
import type { Level } from "../../base/log/log.ts";
import type { ProcessCommand } from "../../base/process.ts";
import type { ModuleConfig } from "../config/config.ts";
import { moduleDataFolder } from "../config/upload_rules.ts";
import type { ModuleProgram } from "./program.ts";

/** The longest path of a Unix socket that every system supports. */
const SOCKET_PATH_MAX = 103;

/**
 * Modules do not inherit the variables by which the supervisor marks svc-server's own process, the device's own key,
 * and the sockets and credentials that systemd gives to svc-server alone.
 */
const NOT_FOR_MODULES =
  /^(SVC_(AGENT_RUNTIME|SERVING_FILE|API_KEY)|NOTIFY_SOCKET$|WATCHDOG_(PID|USEC)$|LISTEN_(PID|FDS|FDNAMES)$|CREDENTIALS_DIRECTORY$)/;

/** The machine's identity at its control plane. */
export interface MachineIdentity {
  readonly partId: string;
  readonly machineId: string | undefined;
  readonly locationId: string | undefined;
  readonly organizationId: string | undefined;
  readonly fqdn: string | undefined;
  /** The address of the control plane. */
  readonly appAddress: string | undefined;
}

/** The facts that a module gets at its start. */
export interface LaunchFacts {
  readonly config: ModuleConfig;
  readonly program: ModuleProgram;
  /** The module's own folder for data. */
  readonly data: string;
  /** The address at which the module serves: the path of a socket, or `127.0.0.1:port`. */
  readonly address: string;
  readonly logLevel: Level | undefined;
  readonly home: string;
  /** `undefined` without a control plane. */
  readonly machine: MachineIdentity | undefined;
  /** The module makes spans and sends them to the machine. */
  readonly tracing: boolean;
  /** A key for the module's own calls to the machine or its control plane. */
  readonly key: { readonly id: string; readonly key: string } | undefined;
}

/** The folder of a module's data. */
export function dataFolder(home: string, machine: MachineIdentity | undefined, name: string): string {
  return join(moduleDataFolder(home, machine?.partId), name);
}

/** The module's command line and environment. */
export function commandOf(facts: LaunchFacts, { environment }: WholeEnvironment): ProcessCommand {
  const { config, program, address, logLevel } = facts;
  const args = [address];
  if (logLevel !== undefined) args.push(`--log-level=${logLevel}`);
  if (config.tcpMode) args.push("--tcp-mode");
  const all = environment();
  const own = Object.entries(all).filter(([name, value]) => {
    return !NOT_FOR_MODULES.test(name) && !(name === "ALL_PROXY" && value === allProxyOf((one) => all[one]));
  });
  return {
    command: program.path,
    args,
    cwd: config.env.VIAM_MODULE_ROOT ?? program.root,
    env: { ...Object.fromEntries(own), ...variables(facts), ...config.env },
    bare: true,
    leash: true,
  };
}

function variables(facts: LaunchFacts): Record<string, string> {
  const { config, address, program, data, home, machine, tracing, key } = facts;
  const pairs: [name: string, value: string | undefined][] = [
    ["HOME", home],
    ["MODULE_NAME", config.name],
    ["MODULE_ADDRESS", address],
    ["MODULE_DATA", data],
    ["MODULE_ROOT", program.root],
    ["MODULE_ID", config.type === "registry" ? config.moduleId : undefined],
    ["PRIMARY_ORG_ID", machine?.organizationId],
    ["LOCATION_ID", machine?.locationId],
    ["MACHINE_FQDN", machine?.fqdn],
    ["MACHINE_ID", machine?.machineId],
    ["MACHINE_PART_ID", machine?.partId],
    ["APP_ADDRESS", machine?.appAddress],
    ["API_KEY_ID", key?.id],
    ["API_KEY", key?.key],
    ["MODULE_TRACING", tracing ? "1" : undefined],
  ];
  const known = pairs.flatMap(([name, value]) =>
    value ? [[`VIAM_${name}`, value], [`SVC_${name}`, value]] : []
  );
  return Object.fromEntries(known);
}

/** The path of a module's socket. A long path is cut, and part of a hash of the name keeps it unique. */
export function socketPath(folder: string, name: string): string {
  const path = join(folder, `${name}-${letters(5)}.sock`);
  if (path.length <= SOCKET_PATH_MAX) return path;
  const hash = base32(createHash("sha256").update(name).digest()).slice(0, 5);
  const room = SOCKET_PATH_MAX - join(folder, `-${hash}.sock`).length;
  if (room < 1) {
    const problem = `the path of a socket in ${folder} is longer than ${SOCKET_PATH_MAX} characters`;
    throw new SvcError("failed_precondition", `${problem}; set TMPDIR to a folder with a shorter path`);
  }
  return join(folder, `${name.slice(0, room)}-${hash}.sock`);
}

function letters(count: number): string {
  const bytes = crypto.getRandomValues(new Uint8Array(count));
  return [...bytes].map((byte) => String.fromCharCode(97 + byte % 26)).join("");
}

function base32(bytes: Uint8Array): string {
  let text = "", bits = 0, held = 0;
  for (const byte of bytes) {
    held = held << 8 | byte;
    for (bits += 8; bits >= 5; bits -= 5) text += "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[held >> bits - 5 & 31];
    held &= (1 << bits) - 1;
  }
  return text;
}
