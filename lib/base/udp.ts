/**
 * Datagrams: a socket that sends to and receives from any address, and a socket of a multicast group.
 */

import { createSocket } from "node:dgram";
import { messageOf, SvcError } from "./error.ts";

export interface UdpSocket {
  send(host: string, port: number, bytes: Uint8Array): Promise<void>;
  close(): void;
}

export interface UdpSender {
  readonly address: string;
  readonly port: number;
}

export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/**
 * Opens a socket of the address family of `bind` (IPv4 without it), on a port of the system's choice unless `bind`
 * names one; returns the port. Errors are those of the system.
 */
export function openUdp(
  received: (bytes: Uint8Array, sender: UdpSender) => void,
  bind: Endpoint = { host: "", port: 0 },
): Promise<UdpSocket & { readonly port: number }> {
  return new Promise((resolve, reject) => {
    const socket = createSocket(bind.host.includes(":") ? "udp6" : "udp4");
    socket.on("error", reject);
    socket.on("message", received);
    const send = (host: string, port: number, bytes: Uint8Array) =>
      new Promise<void>((sent, failed) => {
        socket.send(bytes, port, host, (error) => error ? failed(error) : sent());
      });
    const close = () => void socket.close();
    socket.bind(
      bind.port,
      bind.host || undefined,
      () => resolve({ port: socket.address().port, send, close }),
    );
  });
}

export interface GroupOptions {
  /** Address and port of the group. */
  readonly group: Endpoint;
  /** The address of the interface, of the group's family; for IPv6 with its name: `fe80::1%eth0`. */
  readonly at: string;
  readonly received: (bytes: Uint8Array, from: Endpoint) => void;
  /** Receives errors after opening: the socket stays open and may recover. */
  readonly failed: (error: SvcError) => void;
}

export interface GroupSocket {
  /** Sends to the group, or to one sender. Errors go to `failed`. */
  send(bytes: Uint8Array, to?: Endpoint): void;
  /** Resolves when everything has been sent. Idempotent. */
  close(): Promise<void>;
}

/** The hop limit of a datagram that must not leave the network: receivers may check it. */
const GROUP_TTL = 255;
/** Limit of messages that wait for the system; more are dropped, as a network would. */
const WAITING_MAX = 256;

/**
 * Joins a group on one interface, beside other programs in it. On some systems the socket also receives the group's
 * datagrams from other interfaces. Rejects with `unavailable` if the system does not allow it.
 */
export function openGroup({ group, at, received, failed }: GroupOptions): Promise<GroupSocket> {
  const isV6 = group.host.includes(":");
  const socket = createSocket({ type: isV6 ? "udp6" : "udp4", reuseAddr: true, ipv6Only: isV6 });
  const problem = (cause: unknown) =>
    new SvcError("unavailable", `multicast at ${at}: ${messageOf(cause)}`, { cause });
  let closed: Promise<void> | undefined;
  let sending = Promise.resolve();
  const close = () =>
    closed ??= sending.then(() => new Promise<void>((resolve) => void socket.close(() => resolve())));
  const sent = (bytes: Uint8Array, { host, port }: Endpoint) =>
    new Promise<void>((resolve) => {
      socket.send(bytes, port, host, (error) => {
        if (error) failed(problem(error));
        resolve();
      });
    });

  let waiting = 0;
  const send = (bytes: Uint8Array, to = group) => {
    if (closed || waiting >= WAITING_MAX) return;
    waiting++;
    sending = sending.then(() => sent(bytes, to)).catch((error) => failed(problem(error))).finally(() =>
      waiting--
    );
  };
  return new Promise((resolve, reject) => {
    const refuse = (error: unknown) => {
      reject(problem(error));
      void close().catch(() => {});
    };
    socket.on("message", (bytes, { address, port }) => received(bytes, { host: address, port }));
    socket.on("error", (error) => (refuse(error), failed(problem(error))));
    socket.bind(group.port, isV6 ? "::" : "0.0.0.0", () => {
      try {
        socket.addMembership(group.host, at);
        socket.setMulticastInterface(at);
        socket.setMulticastLoopback(true);
        socket.setMulticastTTL(GROUP_TTL);
        resolve({ send, close });
      } catch (error) {
        refuse(error);
      }
    });
  });
}
