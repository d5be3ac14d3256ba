/**
 * The facts of the device that the cloud gets: its platform, its distribution and the model of its computer.
 *
 * The room owns the side of the operating system: services, the journal, upgrades and the facts of the device, on Linux
 * and on Windows.
 */

import type { Platform } from "../../base/host.ts";
import type { ReadFiles } from "../../base/files/files.ts";
import { fileSystemOf } from "../../base/mounts.ts";
import { osReleaseValue } from "./upgrades/upgrader.ts";

export interface DeviceFacts {
  /** `linux/amd64`; the published names. */
  readonly platform: string;
  /** `debian:12`; empty if the system does not say. */
  readonly distro: string;
  /** `rpi`, `rpi4`, … */
  readonly tags: readonly string[];
  /** What makes the device unfit for its work, in words. */
  readonly problems: readonly string[];
}

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/** File systems in memory, and the kernel's parameters that lay one over the disk (raspi-config, overlayroot). */
const IN_MEMORY = ["tmpfs", "ramfs"];
const OVERLAID = /(^|\s)(boot=overlay|overlayroot=(?!disabled)\S)/;

/** `base` is the agent's folder. */
export async function describeDevice(host: Platform & ReadFiles, base: string): Promise<DeviceFacts> {
  const { os, arch } = host.platform();
  const read = (path: string) => host.readTextFile(path).catch(() => "");
  const release = await read("/etc/os-release");
  const [id, version] = ["ID", "VERSION_ID"].map((name) => osReleaseValue(release, name));
  return {
    platform: `${os}/${ARCHITECTURES[arch] ?? arch}`,
    distro: [id, version].filter((word) => word !== "").join(":"),
    tags: tagsOf(await read("/proc/device-tree/model")),
    problems: forgets(base, await read("/proc/mounts"), await read("/proc/cmdline"))
      ? [
        `${base} is in memory, so the device forgets versions, settings and logs at each restart and fetches them ` +
        "again: turn the overlay file system off (raspi-config, overlayroot), or mount a disk there",
      ]
      : [],
  };
}

/** Whether a folder is as before after each start of the device, by proc(5) `mounts` and `cmdline`. */
export function forgets(folder: string, mounts: string, kernelParameters: string): boolean {
  const type = fileSystemOf(folder, mounts);
  return IN_MEMORY.includes(type) || (type === "overlay" && OVERLAID.test(kernelParameters));
}

/** `Raspberry Pi 4 Model B Rev 1.5` is an `rpi` and an `rpi4`. */
function tagsOf(model: string): string[] {
  const [, number] = /Raspberry Pi(?: (\d+))?/.exec(model) ?? [];
  if (!model.includes("Raspberry Pi")) return [];
  return number === undefined ? ["rpi"] : ["rpi", `rpi${number}`];
}
