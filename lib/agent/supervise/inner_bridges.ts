/**
 * Networks that exist only within this device: bridges of Linux to which no hardware belongs, such as `docker0` for
 * containers and `virbr0` for virtual machines. Who answers there says nothing about the network outside.
 */

import type { ReadFiles } from "../../base/files/files.ts";

const DEVICES = "/sys/class/net";
/** A bridge over a bond over a card. */
const DEPTH_MAX = 4;

/** Which of these network devices are such bridges. */
export async function innerBridges(
  devices: Iterable<string>,
  host: Pick<ReadFiles, "readFolder">,
): Promise<ReadonlySet<string>> {
  const read = (path: string): Promise<readonly string[]> => host.readFolder(path).catch(() => []);
  const hasHardware = async (device: string, depth = 0): Promise<boolean> => {
    const entries = await read(`${DEVICES}/${device}`);
    if (entries.includes("device")) return true;
    if (depth === DEPTH_MAX) return false;
    for (const entry of entries) {
      if (entry.startsWith("lower_") && await hasHardware(entry.slice("lower_".length), depth + 1)) {
        return true;
      }
    }
    return false;
  };
  const found = new Set<string>();
  for (const device of new Set(devices)) {
    const isBridge = (await read(`${DEVICES}/${device}`)).includes("bridge");
    if (isBridge && !await hasHardware(device)) found.add(device);
  }
  return found;
}
