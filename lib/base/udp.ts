/**
 * Datagrams: a socket that sends to anybody and hears what comes to it.
 */

import { createSocket } from "node:dgram";

export interface UdpSocket {
  send(host: string, port: number, bytes: Uint8Array): Promise<void>;
  close(): void;
}

export interface UdpSender {
  readonly address: string;
  readonly port: number;
}

export interface UdpBind {
  readonly host: string;
  readonly port: number;
}

/**
 * Opens a socket of IPv4, on a port of the system's choice unless `bind` says otherwise; of IPv6 for an address of
 * IPv6; gives the port. Errors are those of the system.
 */
export function openUdp(
  received: (bytes: Uint8Array, sender: UdpSender) => void,
  bind: UdpBind = { host: "", port: 0 },
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
