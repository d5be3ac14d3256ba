/**
 * The program at the other end of a TCP connection on the loopback interface, which every user of the computer reaches.
 *
 * Linux tells the user of a socket, and Windows its process, whose user is asked for. A program is trusted if it runs
 * as our own user or as the system's administrator, or, on Linux, if it is a descendant of this process: a module may
 * have changed its user. Other systems do not tell; there every program passes.
 */

import { SvcError } from "../error.ts";
import type { LoopbackEnds } from "../host.ts";
import { withDescendants } from "../process_deno.ts";
import { type ProcessOf, windowsProcesses } from "./tcp_owners.ts";

/** See `LoopbackPeers`. */
export async function checkLoopback(ends: LoopbackEnds): Promise<void> {
  if (Deno.build.os === "windows") return windowsProcesses((processes) => checkWindows(ends, processes));
  if (Deno.build.os === "linux") await checkLinux(ends, await readTables(), Deno.uid() ?? 0, isDescendants);
}

const ROOT_UID = 0;
/** `TCP_LISTEN`. */
const LISTENS = "0A";

/** A line of `/proc/net/tcp`: addresses as the system writes them, in hexadecimal digits. */
export interface SocketLine {
  readonly local: string;
  readonly remote: string;
  readonly state: string;
  readonly uid: number;
  /** 0 for a socket that no program has: not accepted yet, or closed already. */
  readonly inode: number;
}

export async function checkLinux(
  { own, other, role }: LoopbackEnds,
  lines: readonly SocketLine[],
  ownUid: number,
  isOurs: (inode: number) => Promise<boolean>,
): Promise<void> {
  const isTrusted = async ({ uid, inode }: SocketLine) =>
    inode !== 0 && (uid === ROOT_UID || uid === ownUid || await isOurs(inode));
  const [here, there] = [addressesOf(own), addressesOf(other)];
  const found = lines.find(({ local, remote, state }) =>
    state !== LISTENS && there.includes(local) && here.includes(remote)
  );
  if (found && await isTrusted(found)) return;
  // The listener has not accepted the connection yet: then all that may be one are looked at.
  const isPending = role === "client" && found?.inode === 0;
  const listeners = isPending ? lines.filter((line) => isListener(line, there)) : [];
  if (listeners.length > 0 && (await Promise.all(listeners.map(isTrusted))).every(Boolean)) return;
  const uid = [found, ...listeners].find((line) => line !== undefined && line.inode !== 0)?.uid;
  throw stranger(other, uid === undefined ? "no program of ours" : `a program of the user ${uid}`);
}

function checkWindows({ own, other }: LoopbackEnds, { processAt, isOurUsers }: ProcessOf): void {
  const pid = processAt(other, own);
  if (pid !== undefined && isOurUsers(pid)) return;
  throw stranger(other, pid === undefined ? "no process" : `process ${pid} of another user`);
}

function stranger({ address, port }: LoopbackEnds["other"], found: string): SvcError {
  const problem = `${found} is at the other end (${address}:${port}), wanted one of the machine's own user`;
  return new SvcError("permission_denied", problem);
}

/** The lines of both tables; listeners first, as the system gives them. */
async function readTables(): Promise<SocketLine[]> {
  const lines: SocketLine[] = [];
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    // A system without IPv6 has no table of it.
    lines.push(...socketLines(await Deno.readTextFile(table).catch(() => "")));
  }
  return lines;
}

/** proc_net_tcp(5): sl, local and remote address, state, queues, timers, retransmissions, uid, timeout, inode. */
export function socketLines(table: string): SocketLine[] {
  return table.split("\n").slice(1).filter((line) => line !== "").map((line) => {
    const [, local, remote, state, , , , uid, , inode] = line.trim().split(/\s+/);
    return { local, remote, state, uid: Number(uid), inode: Number(inode) };
  });
}

/** An IPv4 address and a port as the tables write it, also as an IPv6 one (`::ffff:127.0.0.1`). */
function addressesOf({ address, port }: LoopbackEnds["other"]): string[] {
  const parts = address.replace(/^::ffff:/i, "").split(".").map(Number);
  const words = parts.reverse().map((part) => part.toString(16).padStart(2, "0")).join("").toUpperCase();
  const digits = port.toString(16).padStart(4, "0").toUpperCase();
  return [`${words}:${digits}`, `${"0".repeat(16)}FFFF0000${words}:${digits}`];
}

const EVERY_ADDRESS = /^0+$/;

/** Whether a listening socket takes connections to one of the addresses. */
function isListener({ local, state }: SocketLine, addresses: readonly string[]): boolean {
  if (state !== LISTENS) return false;
  const [address, port] = local.split(":");
  if (addresses.includes(local)) return true;
  return EVERY_ADDRESS.test(address) && addresses[0].endsWith(`:${port}`);
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
