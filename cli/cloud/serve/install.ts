/**
 * `serve --install`: this executable as a systemd service of its own user, started with the system.
 */

import { SystemCommands } from "../../../lib/agent/system/commands.ts";
import {
  commandLine,
  installService,
  type ServiceParts,
  type Unit,
} from "../../../lib/agent/system/systemd.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import type { Host } from "../../../lib/base/host.ts";
import { requireExecutable, requireRoot } from "../../install.ts";
import { openLogs } from "../../logs.ts";
import { VERSION } from "../../version.ts";

const NAME = "svc-cloud";
const PROGRAM = `/usr/local/bin/${NAME}`;
/** The service's own folder, which systemd makes for its user. */
const DATA = `/var/lib/${NAME}`;
/** Above the time for calls under way, and for the database to close. */
const STOP_S = 60;

/** `args`: the words of the command line after the program's name, `serve` among them. */
export function cloudUnit(args: readonly string[], program = PROGRAM): Unit {
  const words = args.filter((word) => !/^--?install(?:=true)?$/.test(word));
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
WorkingDirectory=${DATA}
Environment=SVC_CLOUD_DATA=${DATA}
# Passwords and other variables, such as SVC_CLOUD_DATABASE.
EnvironmentFile=-/etc/default/${NAME}
ExecStart=${commandLine([program, ...words])}
Restart=always
RestartSec=5
KillMode=mixed
TimeoutStopSec=${STOP_S}
LimitNOFILE=65536
UMask=0077
NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
`;
  return { name: NAME, text };
}

/** Makes the user, copies the executable, and installs the service; starts it. */
export async function installCloud(args: readonly string[], host: Host): Promise<void> {
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
  await installCloudService(args, Deno.execPath(), { files: host, commands, logger: open.logs.logger(NAME) });
  await commands.run("systemctl", ["restart", NAME]);
  host.write(`svc-cloud ${VERSION} is installed and runs: ${PROGRAM}, with its data in ${DATA}\n`);
  host.write(`see: systemctl status ${NAME}, journalctl -u ${NAME} -f\n`);
  host.write(`commands run as its user: sudo -u ${NAME} SVC_CLOUD_DATA=${DATA} ${NAME} fleet\n`);
}

export async function installCloudService(
  args: readonly string[],
  executable: string,
  parts: ServiceParts,
): Promise<void> {
  const { files, commands, root = "" } = parts;
  const isUser = await commands.run("id", ["-u", NAME]).then(() => true, () => false);
  if (!isUser) {
    const shell = ["--home-dir", DATA, "--shell", "/usr/sbin/nologin"];
    await commands.run("useradd", ["--system", "--user-group", ...shell, NAME]);
  }
  if (executable !== PROGRAM) await files.copyFile(executable, `${root}${PROGRAM}`, { mode: 0o755 });
  await installService(cloudUnit(args), parts);
}
