/**
 * The program at the other end of a TCP connection on the loopback interface, which every user of the computer reaches.
 *
 * Linux tells the user of a socket, and Windows its process, whose user is asked for. A program is trusted if it runs
 * as our own user or as the system's administrator, or, on Linux, if it is a descendant of this process: a module may
 * have changed its user. Other systems do not tell; there every program passes.
 */

import type { LoopbackEnds } from "../host.ts";
import { withDescendants } from "../process_deno.ts";
import { checkLinux, connectionAt, readTables, stranger } from "./socket_table.ts";
import { type ProcessOf, windowsProcesses } from "./tcp_owners.ts";

/** See `LoopbackPeers`. */
export async function checkLoopback(ends: LoopbackEnds): Promise<void> {
  if (Deno.build.os === "windows") return windowsProcesses((processes) => checkWindows(ends, processes));
  if (Deno.build.os === "linux") await checkLinux(ends, await readTables(), [Deno.uid() ?? 0], isDescendants);
}

function checkWindows({ own, other }: LoopbackEnds, { processAt, isOurUsers }: ProcessOf): void {
  const pid = processAt(other, own);
  if (pid !== undefined && isOurUsers(pid)) return;
  throw stranger(other, pid === undefined ? "no process" : `process ${pid} of another user`);
}

/** Programs that hand on what others ask for, by the names that `/proc` has for them. */
const PROXIES =
  /^(?:nginx|caddy|haproxy|traefik|envoy|apache2|httpd|lighttpd|h2o|hitch|nghttpx|varnishd|cloudflared|squid|pound|sozu)$/;
/** Users of daemons, as Linux systems number them; 65534 is nobody. */
const isDaemons = (uid: number) => (uid > 0 && uid < 1_000) || uid === 65_534;
const PROCESSES_MAX = 5_000;

/**
 * Whether the other end of a loopback connection is probably a reverse proxy: a known one, or another user's daemon.
 * False where the system does not tell.
 */
export async function isLoopbackProxy({ own, other }: Omit<LoopbackEnds, "role">): Promise<boolean> {
  if (Deno.build.os !== "linux") return false;
  const found = connectionAt({ own, other }, await readTables());
  if (!found || found.inode === 0) return false;
  if (found.uid !== (Deno.uid() ?? 0) && isDaemons(found.uid)) return true;

  const pids: number[] = [];
  try {
    for await (const { name } of Deno.readDir("/proc")) if (/^\d+$/.test(name)) pids.push(Number(name));
  } catch {
    return false;
  }

  for (const pid of pids.slice(0, PROCESSES_MAX)) {
    const name = await Deno.readTextFile(`/proc/${pid}/comm`).catch(() => "");
    if (PROXIES.test(name.trim()) && await hasSocket(pid, found.inode)) return true;
  }

  return false;
}

async function isDescendants(inode: number): Promise<boolean> {
  for (const pid of withDescendants(Deno.pid)) {
    if (await hasSocket(pid, inode)) return true;
  }
  return false;
}

async function hasSocket(pid: number, inode: number): Promise<boolean> {
  const socket = `socket:[${inode}]`;
  try {
    for await (const { name } of Deno.readDir(`/proc/${pid}/fd`)) {
      if (await Deno.readLink(`/proc/${pid}/fd/${name}`).catch(() => "") === socket) return true;
    }
  } catch {
    // The process has ended, or it is another user's and we are not root.
  }
  return false;
}
