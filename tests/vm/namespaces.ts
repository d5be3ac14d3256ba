/**
 * A whole Debian system without emulation: its own disk and systemd as its first process, in namespaces of this
 * computer's kernel. Starts in seconds where an emulated machine takes minutes.
 *
 * It has its own files, processes and control groups, and shares this computer's network and clock. A power cut kills
 * every process and goes on with the disk as it was at that moment: what the system had not written to it is lost, as
 * with real power. Needs root and loop devices.
 */

import type { Image } from "./image.ts";
import { putText, repeat, type TestPlace } from "./place.ts";

const COMMAND_MS = 60_000;
const BOOT_MS = 120_000;
const LOOK_MS = 200;
/** Of processes that ignore everything but a kill. */
const KILL_S = 2;
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Becomes systemd in the namespaces: `$1` is the mounted disk. Networks stay as they are. */
const INIT = `set -e
root=$1
mount -t proc proc "$root/proc"
mount --bind /proc/sys "$root/proc/sys" && mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys" 2>/dev/null || mount --rbind /sys "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/dev"
mkdir -p "$root/dev/pts" "$root/dev/shm" "$root/run/systemd"
mount -t devpts devpts "$root/dev/pts"
for name in null zero full random urandom tty; do
  touch "$root/dev/$name"
  mount --bind "/dev/$name" "$root/dev/$name"
done
ln -s /proc/self/fd "$root/dev/fd"
echo svc-test > "$root/run/systemd/container"
exec chroot "$root" /usr/bin/env -i container=svc-test /lib/systemd/systemd`;

export class Namespaces implements TestPlace {
  readonly host = "127.0.0.1";
  #process: Deno.ChildProcess | undefined;
  /** Of systemd, as this computer numbers it. */
  #pid = 0;
  #disk: string;

  private constructor(private readonly folder: string) {
    this.#disk = `${folder}/disk.img`;
  }

  /** A system, switched off, with a copy of the image's disk in its own folder. */
  static async make(image: Image, folder: string): Promise<Namespaces> {
    await Deno.mkdir(`${folder}/root`, { recursive: true });
    const made = new Namespaces(folder);
    await done("cp", "--sparse=always", image.disk, made.#disk);
    await made.#mount();
    const units = `${folder}/root/etc/systemd/system`;
    // They would take this computer's network, and lines that are not there.
    for (
      const name of [
        "systemd-networkd.service",
        "systemd-networkd.socket",
        "test-shell.service",
        "test-pulse.service",
      ]
    ) {
      await Deno.remove(`${units}/${name}`).catch(() => {});
      await Deno.symlink("/dev/null", `${units}/${name}`);
    }
    await Deno.copyFile("/etc/resolv.conf", `${folder}/root/etc/resolv.conf`).catch(() => {});
    await made.#unmount();
    return made;
  }

  async on({ clock }: { clock?: string } = {}): Promise<void> {
    if (clock !== undefined) throw new Error("namespaces have this computer's clock");
    await this.#mount();
    const apart = [
      "--mount",
      "--pid",
      "--uts",
      "--ipc",
      "--cgroup",
      "--fork",
      "--kill-child",
      "--propagation",
      "slave",
    ];
    this.#process = new Deno.Command("unshare", {
      args: [...apart, "sh", "-c", INIT, "sh", `${this.folder}/root`],
      stdin: "null",
      stdout: "null",
      stderr: "inherit",
    }).spawn();
    const untilMs = performance.now() + BOOT_MS;
    for (let found = "nothing";;) {
      const children = await Deno.readTextFile(
        `/proc/${this.#process.pid}/task/${this.#process.pid}/children`,
      )
        .catch(() => "");
      this.#pid = Number(children.trim().split(" ")[0]);
      if (this.#pid > 0) {
        const { code, output } = await this.try("systemctl is-system-running", COMMAND_MS);
        if (code === 0 || output === "degraded") return;
        found = output;
      }
      if (performance.now() > untilMs) {
        throw new Error(`systemd did not start within ${BOOT_MS / 1000} s: it said ${found}`);
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  async run(command: string, timeoutMs = COMMAND_MS): Promise<string> {
    const { code, output } = await this.try(command, timeoutMs);
    if (code === 0) return output;
    throw new Error(`in the system: ${command}\nended with ${code}:\n${output}`);
  }

  async try(command: string, timeoutMs = COMMAND_MS): Promise<{ code: number; output: string }> {
    const inside = ["nsenter", "-t", String(this.#pid), "-m", "-p", "-u", "-i", "-C"];
    const shell = [
      "chroot",
      `${this.folder}/root`,
      "/usr/bin/env",
      "-i",
      `PATH=${PATH}`,
      "HOME=/root",
      "sh",
      "-c",
    ];
    const limit = ["-k", String(KILL_S), String(Math.ceil(timeoutMs / 1000))];
    const { code, stdout } = await new Deno.Command("timeout", {
      args: [...limit, ...inside, ...shell, `cd /root; (${command}\n) 2>&1 </dev/null`],
      stdin: "null",
      stderr: "null",
    }).output();
    const output = new TextDecoder().decode(stdout).trim();
    if (code !== 124 && code !== 137) return { code, output };
    throw new Error(
      `in the system: ${command}\ndid not end within ${timeoutMs / 1000} s; it wrote ${output}`,
    );
  }

  eventually(command: string, timeoutMs: number): Promise<string> {
    return repeat(this, command, timeoutMs);
  }

  put(path: string, text: string): Promise<void> {
    return putText(this, path, text);
  }

  /** Copies a file of this computer into the system. It survives a power cut: an empty program would succeed. */
  async copyIn(from: string, path: string): Promise<void> {
    await done("cp", from, `${this.folder}/root${path}`);
    await done("sync", `${this.folder}/root${path}`);
  }

  async cut(): Promise<void> {
    if (!this.#process) return;
    await this.#kill();
    // The copy has what the system had written to its disk; the unmount writes the rest to the disk that is left behind.
    const next = `${this.folder}/disk-${crypto.randomUUID().slice(0, 8)}.img`;
    await done("cp", "--sparse=always", this.#disk, next);
    await this.#unmount();
    await Deno.remove(this.#disk);
    this.#disk = next;
  }

  async off(): Promise<void> {
    if (!this.#process) return;
    await this.try("systemctl poweroff --force", COMMAND_MS).catch(() => {});
    await this.#kill();
    await this.#unmount();
  }

  /** Ends systemd, and the kernel everything in its namespace. */
  async #kill(): Promise<void> {
    this.#process?.kill("SIGKILL");
    await this.#process?.status;
    this.#process = undefined;
    for (;;) {
      const isThere = await Deno.stat(`/proc/${this.#pid}`).then(() => true, () => false);
      if (!isThere) return;
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  #mount(): Promise<void> {
    return done("mount", "-o", "loop", this.#disk, `${this.folder}/root`);
  }

  #unmount(): Promise<void> {
    return done("umount", "--recursive", `${this.folder}/root`);
  }
}

async function done(command: string, ...args: string[]): Promise<void> {
  const { code, stderr } = await new Deno.Command(command, { args, stdin: "null" }).output();
  if (code !== 0) throw new Error(`${command} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}
