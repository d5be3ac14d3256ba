/**
 * The program at the other end of a TCP connection on the loopback interface, which every user of the computer reaches.
 *
 * Linux tells the user of a socket, and Windows its process, whose user is asked for. A program is trusted if it runs
 * as our own user or as the system's administrator, or, on Linux, if it is a descendant of this process: a module may
 * have changed its user. Other systems do not tell; there every program passes.
 */

import type { LoopbackEnds } from "../host.ts";
import { withDescendants } from "../process_deno.ts";
import { checkLinux, readTables, stranger } from "./socket_table.ts";
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

async function isDescendants(inode: number): Promise<boolean> {
  const socket = `socket:[${inode}]`;
  for (const pid of withDescendants(Deno.pid)) {
    try {
      for await (const { name } of Deno.readDir(`/proc/${pid}/fd`)) {
        if (await Deno.readLink(`/proc/${pid}/fd/${name}`).catch(() => "") === socket) return true;
      }
    } catch {
      // The process has ended, or it is another user's and we are not root.
    }
  }
  return false;
}
