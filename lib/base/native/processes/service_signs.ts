/**
 * Tells systemd that this program works: datagrams to the socket in `NOTIFY_SOCKET`, as sd_notify(3) sends them.
 *
 * Another program for each datagram could not be started when memory or processes run out, and a service that works
 * would be ended by its watchdog just then.
 */

import type { Clock } from "../../clock.ts";
import type { Environment } from "../../host.ts";
import { C_LIBRARY } from "../reader_worker.ts";

const FUNCTIONS = {
  // In another thread, because Deno would load a compiler of 1.5 MB to call them in this one.
  socket: { parameters: ["i32", "i32", "i32"], result: "i32", nonblocking: true },
  sendto: {
    parameters: ["i32", "buffer", "usize", "i32", "buffer", "u32"],
    result: "isize",
    nonblocking: true,
  },
  close: { parameters: ["i32"], result: "i32", nonblocking: true },
} as const satisfies Deno.ForeignLibraryInterface;

/** Numbers of Linux. */
const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
/** sockaddr_un: the family, then the path. */
const PATH_AT = 2;
const PATH_BYTES_MAX = 108;

/** The sign of life. */
export const ALIVE = "WATCHDOG=1";
/** The time without a sign of life after which systemd restarts a program that hangs. */
const HANGING_US = 180_000_000;
const SIGN_MS = 30_000;
/** A program has this many turns for a sign of life. */
const SIGNS = 3;
/** The process that starts services. */
const INIT = 1;

/** Sends states to the service manager. */
interface Notifier extends Disposable {
  /** Never waits for the receiver. False if it takes nothing. */
  send(state: string): Promise<boolean>;
}

/**
 * Opens the way to a socket: a path, or an abstract name after `@`. `undefined` if that is not possible here. Later
 * states are sent even if the process has given up native code meanwhile.
 */
function openNotifier(socket: string): Notifier | undefined {
  const address = addressOf(socket);
  if (!address || Deno.build.os !== "linux") return undefined;
  let library: Deno.DynamicLibrary<typeof FUNCTIONS>;
  try {
    library = Deno.dlopen(C_LIBRARY, FUNCTIONS);
  } catch {
    return undefined;
  }
  return {
    async send(state) {
      const { socket: open, sendto, close } = library.symbols;
      const file = await open(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      if (file < 0) return false;
      const bytes = new TextEncoder().encode(state);
      const flags = MSG_DONTWAIT | MSG_NOSIGNAL;
      const sent = await sendto(file, bytes, BigInt(bytes.length), flags, address, address.length);
      await close(file);
      return Number(sent) === bytes.length;
    },
    [Symbol.dispose]: () => library.close(),
  };
}

/** Sends a state such as `WATCHDOG=1`. False if that is not possible here, or the receiver takes nothing. */
export async function sendState(socket: string, state: string): Promise<boolean> {
  using notifier = openNotifier(socket);
  return await notifier?.send(state) ?? false;
}

/** The address as the system takes it; nothing for a socket that is no local one. */
function addressOf(socket: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[/@]./.test(socket)) return undefined;
  const isAbstract = socket.startsWith("@");
  const path = new TextEncoder().encode(isAbstract ? `\0${socket.slice(1)}` : `${socket}\0`);
  if (path.length > PATH_BYTES_MAX) return undefined;
  const address = new Uint8Array(PATH_AT + path.length);
  new DataView(address.buffer).setUint16(0, AF_UNIX, true);
  address.set(path, PATH_AT);
  return address;
}

/** This process, its parent, and the variables that systemd sets. */
export interface ServiceFacts {
  readonly pid: number;
  readonly parent: number;
  readonly host: Environment;
}

/**
 * The signs of life that systemd expects of this process: those of its unit's `WatchdogSec`, else those that this
 * program asks it to expect. Nothing unless systemd itself has started the process: what svc-agent starts inherits the
 * socket, and its signs would hide an agent that hangs.
 */
export function expectedSigns(
  { pid, parent, host }: ServiceFacts,
): { readonly socket: string; readonly first: string; readonly everyMs: number } | undefined {
  const socket = host.env("NOTIFY_SOCKET") ?? "";
  if (socket === "") return undefined;
  const limitUs = Number(host.env("WATCHDOG_USEC") ?? "");
  if (limitUs > 0) {
    const owner = host.env("WATCHDOG_PID") ?? String(pid);
    if (owner !== String(pid)) return undefined;
    return { socket, first: ALIVE, everyMs: Math.min(SIGN_MS, limitUs / 1000 / SIGNS) };
  }
  if (parent !== INIT) return undefined;
  return { socket, first: `WATCHDOG_USEC=${HANGING_US}\n${ALIVE}`, everyMs: SIGN_MS };
}

/** Gives signs of life to systemd until disposed, as long as this program's code gets its turns. */
export function giveSigns(facts: ServiceFacts, clock: Clock): AsyncDisposable {
  const over = new AbortController();
  const giving = give(facts, clock, over.signal);
  return {
    async [Symbol.asyncDispose]() {
      over.abort();
      await giving;
    },
  };
}

async function give(facts: ServiceFacts, clock: Clock, over: AbortSignal): Promise<void> {
  const expected = expectedSigns(facts);
  if (!expected) return;
  const { socket, first, everyMs } = expected;
  using notifier = openNotifier(socket);
  for (let state = first; notifier && !over.aborted;) {
    // Until systemd has taken the first one, it is sent again.
    if (await notifier.send(state)) state = ALIVE;
    await clock.sleep(everyMs, over).catch(() => {});
  }
}
