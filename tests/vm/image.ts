/**
 * A disk with a Debian system on it, for a virtual machine: made from Debian's packages, systemd as its first process.
 *
 * Needs root and the packages debootstrap, e2fsprogs and qemu-system-x86. An image is made once and kept in
 * dist/vm/<name>. Machines use copies of it.
 */

import { exists, ROOT } from "../../cli/build/compiler.ts";
import { PULSE_UNIT } from "./pulse.ts";

const SUITE = "bookworm";
const PACKAGES = ["systemd", "systemd-sysv", "dbus", "iproute2", "procps", "libstdc++6"];
const DISK_BYTES = 3 * 1024 ** 3;

/** A system that tests start. */
export interface System {
  readonly name: string;
  /** Packages in addition to those of every system, the kernel among them. */
  readonly packages: readonly string[];
  /** A shell script that runs in the system after the installation of its packages. */
  readonly prepare?: string;
}

/** A device in a network, with a small kernel. */
export const NETWORK_DEVICE: System = {
  name: "network",
  packages: ["isc-dhcp-client", "ca-certificates", "curl", "linux-image-cloud-amd64"],
};

/** A root shell on the second serial line, for the tests. It prints nothing but the output of commands. */
const SHELL_UNIT = `[Unit]
Description=Shell for tests
After=multi-user.target

[Service]
ExecStart=/bin/sh -c 'stty raw -echo; exec /bin/sh'
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root PS1= PS2=
TimeoutStopSec=1
StandardInput=tty-force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS1
Restart=always
RestartSec=0

[Install]
WantedBy=multi-user.target
`;

const NETWORK = `[Match]
Name=en*

[Network]
DHCP=yes
`;

/** The files in the image's folder. */
export interface Image {
  readonly kernel: string;
  readonly initrd: string;
  readonly disk: string;
}

/** The image of a system; making it takes two minutes or more. */
export async function image({ name, packages, prepare }: System): Promise<Image> {
  const folder = `${ROOT}dist/vm/${name}`;
  const found: Image = {
    kernel: `${folder}/vmlinuz`,
    initrd: `${folder}/initrd`,
    disk: `${folder}/disk.img`,
  };
  if (await exists(found.disk)) return found;
  await Deno.mkdir(folder, { recursive: true });
  const root = `${folder}/root`;
  await Deno.remove(root, { recursive: true }).catch(() => {});
  console.log(`making a Debian system (${SUITE}) in dist/vm/${name}`);
  const included = [...PACKAGES, ...packages].join(",");
  await run("debootstrap", "--variant=minbase", `--include=${included}`, SUITE, root);
  await Deno.writeTextFile(`${root}/etc/systemd/system/test-shell.service`, SHELL_UNIT);
  await Deno.writeTextFile(`${root}/etc/systemd/system/test-pulse.service`, PULSE_UNIT);
  await Deno.mkdir(`${root}/etc/systemd/network`, { recursive: true });
  await Deno.writeTextFile(`${root}/etc/systemd/network/all.network`, NETWORK);
  await Deno.writeTextFile(`${root}/etc/hostname`, "device\n");
  await Deno.writeTextFile(`${root}/etc/hosts`, "127.0.0.1 localhost device\n");
  await Deno.writeTextFile(`${root}/etc/fstab`, "/dev/vda / ext4 rw,errors=remount-ro 0 1\n");
  await Deno.mkdir(`${root}/var/log/journal`, { recursive: true });
  await run("chroot", root, "systemctl", "enable", "test-shell", "test-pulse", "systemd-networkd");
  if (prepare) await run("chroot", root, "sh", "-euc", prepare);
  for await (const { name } of Deno.readDir(`${root}/boot`)) {
    if (name.startsWith("vmlinuz")) await Deno.copyFile(`${root}/boot/${name}`, found.kernel);
    if (name.startsWith("initrd")) await Deno.copyFile(`${root}/boot/${name}`, found.initrd);
  }
  const unfinished = `${found.disk}.new`;
  await run("mke2fs", "-q", "-F", "-t", "ext4", "-d", root, unfinished, String(DISK_BYTES / 1024) + "k");
  await Deno.rename(unfinished, found.disk);
  await Deno.remove(root, { recursive: true });
  return found;
}

async function run(command: string, ...args: string[]): Promise<void> {
  const { code, stdout, stderr } = await new Deno.Command(command, { args, stdin: "null" }).output();
  if (code === 0) return;
  const output = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("").trim().slice(
    -2000,
  );
  throw new Error(`${command} ${args.join(" ")} ended with ${code}:\n${output}`);
}
