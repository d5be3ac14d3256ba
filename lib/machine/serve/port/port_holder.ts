/** Finds the program that has a port, for people who cannot open it. */

import type { LinkFiles, ReadFiles } from "../../../base/files/files.ts";

const LISTENING = "0A";
const PROCESSES_MAX = 5_000;

/** The program that listens on a TCP port, as `/proc` shows it to this user: `svc-server (pid 123)`. */
export async function findHolder(port: number, host: ReadFiles & LinkFiles): Promise<string | undefined> {
  const inodes = new Set<string>();
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    const lines = (await host.readTextFile(table).catch(() => "")).split("\n").slice(1);
    for (const line of lines) {
      const [, local = "", , state, , , , , , inode] = line.trim().split(/\s+/);
      if (state === LISTENING && parseInt(local.split(":").at(-1)!, 16) === port) {
        inodes.add(`socket:[${inode}]`);
      }
    }
  }

  if (inodes.size === 0) return undefined;
  const pids = (await host.readFolder("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name));
  for (const pid of pids.slice(0, PROCESSES_MAX)) {
    for (const file of await host.readFolder(`/proc/${pid}/fd`).catch(() => [])) {
      const target = await host.readLink(`/proc/${pid}/fd/${file}`).catch(() => undefined);
      if (target === undefined || !inodes.has(target)) continue;
      const name = (await host.readTextFile(`/proc/${pid}/comm`).catch(() => "")).trim();
      return `${name || "a program"} (pid ${pid})`;
    }
  }

  return "a program of another user";
}
