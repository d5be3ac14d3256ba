/**
 * Linux's tables of sockets, by which a program on one end of a loopback connection learns whose the other end is.
 *
 * It runs in Deno and Node, because modules have it, too.
 */

import process from "node:process";
import { SvcError } from "../error.ts";
import type { LoopbackEnds } from "../host.ts";
import { nodeFs } from "./environment.ts";

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

/** Throws `permission_denied` unless the other end is a program of one of these users, or `isOurs`. */
export async function checkLinux(
  { own, other, role }: LoopbackEnds,
  lines: readonly SocketLine[],
  users: readonly number[],
  isOurs: (inode: number) => Promise<boolean>,
): Promise<void> {
  const isTrusted = async ({ uid, inode }: SocketLine) =>
    inode !== 0 && (uid === ROOT_UID || users.includes(uid) || await isOurs(inode));
  const there = addressesOf(other);
  const found = connectionAt({ own, other }, lines);
  if (found && await isTrusted(found)) return;

  // The listener has not accepted the connection yet: then all that may be one are looked at.
  const isPending = role === "client" && found?.inode === 0;
  const listeners = isPending ? lines.filter((line) => isListener(line, there)) : [];
  if (listeners.length > 0 && (await Promise.all(listeners.map(isTrusted))).every(Boolean)) return;

  const uid = [found, ...listeners].find((line) => line !== undefined && line.inode !== 0)?.uid;
  throw stranger(other, uid === undefined ? "no program of ours" : `a program of the user ${uid}`);
}

/** The line of the other end of a connection. */
export function connectionAt(
  { own, other }: Omit<LoopbackEnds, "role">,
  lines: readonly SocketLine[],
): SocketLine | undefined {
  const [here, there] = [addressesOf(own), addressesOf(other)];
  return lines.find(({ local, remote, state }) =>
    state !== LISTENS && there.includes(local) && here.includes(remote)
  );
}

/**
 * Admits the callers of a program that others have started: on Linux, programs of its own user, of the administrator, and
 * of the users whose programs have started it. Where that cannot be read, every program passes, as do
 * other computers, to which the port was opened on purpose.
 */
export async function checkStarter(ends: LoopbackEnds): Promise<void> {
  const isElsewhere = !/^(?:::ffff:)?127\.|^::1$/i.test(ends.other.address);
  if (process.platform !== "linux" || isElsewhere) return;
  const lines = await readTables();
  if (lines.length === 0) return;
  const users = await startersUsers();
  await checkLinux(ends, lines, users, () => Promise.resolve(false));
}

/** The lines of both tables; listeners first, as the system gives them. */
export async function readTables(): Promise<SocketLine[]> {
  const lines: SocketLine[] = [];
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    // A system without IPv6 has no table of it.
    lines.push(...socketLines(await nodeFs().promises.readFile(table, "utf8").catch(() => "")));
  }
  return lines;
}

/** The users of this process and of those that started it, up to the system's first one. */
async function startersUsers(): Promise<number[]> {
  const users = [process.getuid!()];
  for (let pid = process.ppid; pid > 1;) {
    const status = await nodeFs().promises.readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
    const [, parent, user] = /^PPid:\s*(\d+)$[^]*^Uid:\s*(\d+)/m.exec(status) ?? [];
    if (user === undefined) break;
    users.push(Number(user));
    pid = Number(parent);
  }
  return users;
}

/** proc_net_tcp(5): sl, local and remote address, state, queues, timers, retransmissions, uid, timeout, inode. */
export function socketLines(table: string): SocketLine[] {
  return table.split("\n").slice(1).filter((line) => line !== "").map((line) => {
    const [, local = "", remote = "", state = "", , , , uid, , inode] = line.trim().split(/\s+/);
    return { local, remote, state, uid: Number(uid), inode: Number(inode) };
  });
}

/** A loopback address and a port as the tables write it, an IPv4 one also as IPv6 (`::ffff:127.0.0.1`). */
function addressesOf({ address, port }: LoopbackEnds["other"]): string[] {
  const digits = port.toString(16).padStart(4, "0").toUpperCase();
  if (address === "::1") return [`${"0".repeat(24)}01000000:${digits}`];
  const parts = address.replace(/^::ffff:/i, "").split(".").map(Number);
  const words = parts.reverse().map((part) => part.toString(16).padStart(2, "0")).join("").toUpperCase();
  return [`${words}:${digits}`, `${"0".repeat(16)}FFFF0000${words}:${digits}`];
}

const EVERY_ADDRESS = /^0+$/;

/** Whether a listening socket takes connections to one of the addresses. */
function isListener({ local, state }: SocketLine, addresses: readonly string[]): boolean {
  if (state !== LISTENS) return false;
  const [address = "", port] = local.split(":");
  if (addresses.includes(local)) return true;
  return EVERY_ADDRESS.test(address) && addresses.some((one) => one.endsWith(`:${port}`));
}

export function stranger({ address, port }: LoopbackEnds["other"], found: string): SvcError {
  const problem = `${found} is at the other end (${address}:${port}), wanted one of the machine's own user`;
  return new SvcError("permission_denied", problem);
}
