/**
 * `serve --install`: this executable as a systemd service of its own user, started with the system.
 *
 * The service has another folder, another user and fewer rights than the shell in which somebody tried the flags, so
 * the paths among the flags become absolute, files that the service could not read are refused, and the command ends
 * well only when the service serves.
 */

import { isAbsolute, resolve } from "node:path";
import { type Commands, SystemCommands } from "../../../lib/agent/system/commands.ts";
import {
  commandLine,
  installService,
  type ServiceParts,
  type Unit,
} from "../../../lib/agent/system/systemd.ts";
import { type Clock, SystemClock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { getPage } from "../../../lib/wire/port/http_get.ts";
import type { Flag } from "../../flags.ts";
import { requireExecutable, requireRoot } from "../../install.ts";
import { openLogs } from "../../logs.ts";
import { VERSION } from "../../version.ts";
import { SERVE_FLAGS } from "./flags.ts";
import { CLOUD_FLAGS } from "../cloud_flags.ts";

const NAME = "svc-cloud";
const PROGRAM = `/usr/local/bin/${NAME}`;
/** The service's own folder, which systemd makes for its user. */
const DATA = `/var/lib/${NAME}`;
/** Above the time for calls under way, and for the database to close. */
const STOP_S = 60;

/** Ports below this one are for root and for those with the capability. */
const LOW_PORTS = 1024;
/** Folders that the unit hides from the service. */
const HIDDEN = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];
/** Files that the service only reads; it makes the others itself. */
const READ = [
  "limits",
  "smtp-password-file",
  "oidc-secret-file",
  "tls-cert",
  "tls-key",
  "turn-secret-file",
  "kubeconfig",
];
const START_MS = 60_000;
const LOOK_MS = 500;
const ANSWER_MS = 5_000;
/** Limit of a stop in systemctl, above the unit's own. */
const STOP_MS = (STOP_S + 30) * 1000;

/** Flags that name a file or a folder. */
const FLAGS: readonly Flag[] = [...CLOUD_FLAGS, ...SERVE_FLAGS];
const PATHS: readonly string[] = FLAGS
  .filter(({ name, value }) => value === "FILE" || value === "FOLDER" || name.startsWith("files"))
  .map(({ name }) => name);

/** A flag with a path on a command line. */
interface PathFlag {
  readonly name: string;
  readonly path: string;
}

/**
 * The command line with absolute paths, in place of those that count from `cwd`, and the paths. An address such as
 * `s3://…` stays.
 */
export function withAbsolutePaths(
  args: readonly string[],
  cwd: string,
): { readonly words: readonly string[]; readonly paths: readonly PathFlag[] } {
  const paths: PathFlag[] = [];
  const located = (name: string, value: string) => {
    if (value === "" || /^\w+:\/\//.test(value)) return value;
    const path = isAbsolute(value) ? value : resolve(cwd, value);
    paths.push({ name, path });
    return path;
  };
  const words = args.map((word, at) => {
    const [, before] = /^--([\w-]+)$/.exec(args[at - 1] ?? "") ?? [];
    if (before !== undefined && PATHS.includes(before)) return located(before, word);
    const [, name = "", value = ""] = /^--([\w-]+)=(.*)$/s.exec(word) ?? [];
    return PATHS.includes(name) ? `--${name}=${located(name, value)}` : word;
  });
  return { words, paths };
}

/** `args`: the words of the command line after the program's name, `serve` among them. */
export function cloudUnit(
  args: readonly string[],
  program = PROGRAM,
  ports: readonly number[] = [],
): Unit {
  const words = args.filter((word) => !/^--?install(?:=true)?$/.test(word));
  const isLow = ports.some((port) => port > 0 && port < LOW_PORTS);
  const low = isLow ? "AmbientCapabilities=CAP_NET_BIND_SERVICE\n" : "";
  const text = `[Unit]
Description=svc-cloud: a control plane for machines
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
User=${NAME}
Group=${NAME}
StateDirectory=${NAME}
StateDirectoryMode=0700
CacheDirectory=${NAME}
CacheDirectoryMode=0700
WorkingDirectory=${DATA}
Environment=SVC_CLOUD_DATA=${DATA}
# Passwords and other variables, such as SVC_CLOUD_DATABASE.
EnvironmentFile=-/etc/default/${NAME}
ExecStart=${commandLine([program, ...words])}
Restart=always
RestartSec=5
KillMode=mixed
# A training script, or a process for contents, that is ended for its memory must not end the control plane.
OOMPolicy=continue
# For its signs of life; it turns the watchdog on by itself.
NotifyAccess=main
TimeoutStopSec=${STOP_S}
LimitNOFILE=65536
UMask=0077
${low}NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
`;
  return { name: NAME, text };
}

/** What a service listens on. */
export interface Listens {
  /** `http` or `https`. */
  readonly scheme: string;
  readonly host: string;
  readonly port: number;
  /** All ports, those of other protocols too. */
  readonly ports: readonly number[];
}

/** Makes the user, copies the executable, installs the service, and starts it. Throws if it does not serve. */
export async function installCloud(args: readonly string[], host: Host, listens: Listens): Promise<void> {
  const { os } = host.platform();
  if (os !== "linux") {
    throw new SvcError(
      "failed_precondition",
      `on ${os} svc-cloud cannot make itself a service, wanted Linux with systemd`,
    );
  }
  requireRoot("install the service", host);
  requireExecutable();
  const clock = new SystemClock();
  using open = openLogs(NAME, "", host, clock);
  const commands = new SystemCommands(host, clock);
  const parts = { files: host, commands, logger: open.logs.logger(NAME) };
  const { words, paths } = withAbsolutePaths(args, host.cwd());
  await installCloudService({ words, paths, ports: listens.ports }, Deno.execPath(), parts);
  const isOpen = (url: string) => getPage(url, clock, ANSWER_MS).then(() => true, () => false);
  await startCloudService(listens, { commands, clock, isOpen });
  host.write(`svc-cloud ${VERSION} is installed and runs: ${PROGRAM}, with its data in ${DATA}\n`);
  host.write(`see: systemctl status ${NAME}, journalctl -u ${NAME} -f\n`);
  host.write(`commands run as its user: sudo -u ${NAME} SVC_CLOUD_DATA=${DATA} ${NAME} fleet\n`);
}

export interface CloudService {
  readonly words: readonly string[];
  readonly paths: readonly PathFlag[];
  readonly ports: readonly number[];
}

export async function installCloudService(
  { words, paths, ports }: CloudService,
  executable: string,
  parts: ServiceParts,
): Promise<void> {
  const { files, commands, root = "" } = parts;
  for (const { name, path } of paths) {
    const hidden = HIDDEN.find((folder) => path === folder || path.startsWith(`${folder}/`));
    if (hidden === undefined) continue;
    const wanted = `wanted another place, such as /etc/${NAME} or ${DATA}`;
    throw new SvcError("invalid_argument", `--${name} ${path}: a service does not see ${hidden}, ${wanted}`);
  }
  const isUser = await commands.run("id", ["-u", NAME]).then(() => true, () => false);
  if (!isUser) {
    const shell = ["--home-dir", DATA, "--shell", "/usr/sbin/nologin"];
    await commands.run("useradd", ["--system", "--user-group", ...shell, NAME]);
  }
  for (const { name, path } of paths) {
    if (READ.includes(name)) await requireReadable(`--${name}`, path, commands);
  }
  if (executable !== PROGRAM) await files.copyFile(executable, `${root}${PROGRAM}`, { mode: 0o755 });
  await installService(cloudUnit(words, PROGRAM, ports), parts);
}

async function requireReadable(flag: string, path: string, commands: Commands): Promise<void> {
  const { code } = await commands.try("runuser", ["-u", NAME, "--", "test", "-r", path]);
  if (code === 0) return;
  const remedy = `chgrp ${NAME} ${path} && chmod 640 ${path}, and let the group enter its folders`;
  throw new SvcError("permission_denied", `${flag} ${path}: the user ${NAME} cannot read it: ${remedy}`);
}

interface StartParts {
  readonly commands: Commands;
  readonly clock: Clock;
  /** Whether a program answers at a URL. */
  readonly isOpen: (url: string) => Promise<boolean>;
}

/** Starts the service anew, and waits until it serves. Throws, with its last words, if it ends instead. */
export async function startCloudService(
  { scheme, host, port }: Pick<Listens, "scheme" | "host" | "port">,
  { commands, clock, isOpen }: StartParts,
): Promise<void> {
  await commands.run("systemctl", ["stop", NAME], { timeoutMs: STOP_MS });
  await commands.try("systemctl", ["reset-failed", NAME]);
  const any: { readonly [host: string]: string } = { "": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1" };
  const named = any[host] ?? host;
  const url = `${scheme}://${named.includes(":") ? `[${named}]` : named}:${port}/healthz`;
  if (port !== 0 && await isOpen(url)) {
    throw new SvcError(
      "failed_precondition",
      `another program answers at ${named}:${port}: stop it, or give another --listen`,
    );
  }
  await commands.run("systemctl", ["start", NAME]);
  const untilMs = clock.monotonicMs() + START_MS;
  while (clock.monotonicMs() < untilMs) {
    const state = await commands.run("systemctl", ["show", "--property=ActiveState,NRestarts", NAME]);
    if (!/^ActiveState=active$/m.test(state) || /^NRestarts=[1-9]/m.test(state)) break;
    if (port === 0 || await isOpen(url)) return;
    await clock.sleep(LOOK_MS);
  }
  const { output } = await commands.try("journalctl", ["-u", NAME, "-n", "5", "-o", "cat", "--no-pager"]);
  throw new SvcError("failed_precondition", `the service does not serve; it says: ${output.trim()}`);
}
