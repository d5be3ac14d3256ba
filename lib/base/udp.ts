/**
 * Datagrams: a socket that sends to anybody and hears what is answered.
 */

import { createSocket } from "node:dgram";

export interface UdpSocket {
  send(host: string, port: number, bytes: Uint8Array): Promise<void>;
  close(): void;
}

/** Opens a socket of IPv4 on a port of the system's choice. Errors are those of the system. */
export function openUdp(received: (bytes: Uint8Array) => void): Promise<UdpSocket> {
  return new Promise((resolve, reject) => {
    const socket = createSocket("udp4");
    socket.on("error", reject);
    socket.on("message", received);
    const send = (host: string, port: number, bytes: Uint8Array) =>
      new Promise<void>((sent, failed) => {
        socket.send(bytes, port, host, (error) => error ? failed(error) : sent());
      });
    socket.bind(0, () => resolve({ send, close: () => void socket.close() }));
  });
}
