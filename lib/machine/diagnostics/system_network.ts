/**
 * The system's part of the network check: names, sockets, the default route, `ping`.
 */

import { lookup } from "node:dns/promises";
import type { Platform } from "../../base/host.ts";
import type { ReadFiles } from "../../base/files/files.ts";
import { type Code, messageOf, SvcError } from "../../base/error.ts";
import type { RunningProcess, SpawnHost } from "../../base/process.ts";
import { openUdp, type UdpSocket } from "../../base/udp.ts";
import { connectTcp } from "../../wire/flow/tcp.ts";
import type { CheckNetwork } from "./network_check.ts";

type NetworkHost = Platform & ReadFiles & SpawnHost;

export function systemNetwork(host: NetworkHost): CheckNetwork {
  return {
    resolve: async (name) => {
      try {
        return (await lookup(name, { all: true })).map(({ address }) => address);
      } catch (error) {
        throw failure(error);
      }
    },
    tcp,
    udp,
    gateway: () => gateway(host),
    ping: (address, count, signal) => ping(host, address, count, signal),
  };
}

function tcp(host: string, port: number, signal: AbortSignal, request?: Uint8Array): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const socket = connectTcp(host, port);
    const end = (settle: () => void) => {
      signal.removeEventListener("abort", aborted);
      socket.destroy();
      settle();
    };
    const aborted = () => end(() => reject(signal.reason));
    signal.addEventListener("abort", aborted, { once: true });
    socket.on("error", (error) => end(() => reject(failure(error))));
    socket.on("data", (bytes: Uint8Array) => end(() => resolve(bytes)));
    socket.on("close", () => end(() => reject(new SvcError("data_loss", "it connects, but hangs up"))));
    socket.on("connect", () => request ? socket.write(request) : end(() => resolve(new Uint8Array())));
  });
}

async function udp(received: (bytes: Uint8Array) => void): Promise<UdpSocket> {
  try {
    const { send, close } = await openUdp(received);
    return {
      close,
      send: (host, port, bytes) =>
        send(host, port, bytes).catch((error) => {
          throw failure(error);
        }),
    };
  } catch (error) {
    throw failure(error);
  }
}

async function gateway(host: Platform & ReadFiles): Promise<string> {
  const { os } = host.platform();
  if (os !== "linux") throw new SvcError("unavailable", `its address is not available on ${os}`);
  let routes: string;
  try {
    routes = await host.readTextFile("/proc/net/route");
  } catch (cause) {
    throw new SvcError("unavailable", "the system does not show its routes", { cause });
  }
  const found = readGateway(routes);
  if (found === undefined) throw new SvcError("unavailable", "this machine has no default route");
  return found;
}

/** The gateway of the default route in Linux's routing table: addresses are hexadecimal, last byte first. */
export function readGateway(routes: string): string | undefined {
  for (const line of routes.split("\n").slice(1)) {
    const [, destination, gateway = ""] = line.split("\t").map((word) => word.trim());
    if (destination !== "00000000" || gateway === "00000000") continue;
    const bytes = /^[0-9a-f]{8}$/i.test(gateway) ? gateway.match(/../g) : null;
    if (bytes) return bytes.reverse().map((byte) => parseInt(byte, 16)).join(".");
  }
  return undefined;
}

/** ICMP needs a privilege that the system's own program has. */
async function ping(
  host: NetworkHost,
  address: string,
  count: number,
  signal: AbortSignal,
): Promise<string> {
  const args = host.platform().os === "windows"
    ? ["-n", String(count), "-w", "1000", address]
    : ["-n", "-c", String(count), "-W", "1", address];
  const process = started(host, args);
  const kill = () => process.signal("SIGKILL");
  signal.addEventListener("abort", kill, { once: true });

  try {
    if (signal.aborted) kill();
    const all = async (lines: AsyncIterable<string>) => (await Array.fromAsync(lines)).join("\n");
    const [output, complaint, { code }] = await Promise.all([
      all(process.stdout),
      all(process.stderr),
      process.exited,
    ]);
    // It also fails when probes are lost; then it has printed how many.
    if (output.includes("%")) return output;
    signal.throwIfAborted();
    throw unable(complaint.trim() || `it ends with exit code ${code}`);
  } finally {
    signal.removeEventListener("abort", kill);
  }
}

function started(host: NetworkHost, args: readonly string[]): RunningProcess {
  try {
    return host.spawn({ command: "ping", args });
  } catch (error) {
    const missing = SvcError.from(error).code === "not_found";
    throw unable(missing ? "there is no ping program on this machine" : messageOf(error));
  }
}

function unable(why: string): SvcError {
  return new SvcError("unavailable", `it needs the system's ping: ${why}`);
}

const KNOWN: { readonly [code: string]: readonly [Code, string] } = {
  ENOTFOUND: ["not_found", "the name cannot be resolved"],
  EAI_AGAIN: ["not_found", "no DNS server answers"],
  ECONNREFUSED: ["failed_precondition", "it refuses the connection"],
  ENETUNREACH: ["failed_precondition", "there is no route to it"],
  EHOSTUNREACH: ["failed_precondition", "there is no route to it"],
  ETIMEDOUT: ["deadline_exceeded", "no answer"],
};

function failure(cause: unknown): SvcError {
  const [code, text] = KNOWN[(cause as { code?: string }).code ?? ""] ?? ["unknown", messageOf(cause)];
  return new SvcError(code, text, { cause });
}
