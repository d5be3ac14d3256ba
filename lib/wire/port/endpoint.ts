/**
 * The two ends of a port's socket: who the client is, and the last answer to one that cannot be served.
 */

import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Peer } from "../rpc/service.ts";

/** The first byte of a client's TLS. */
export const TLS_HANDSHAKE = 0x16;

/** Input that a client may still send after its last answer; any TLS hello is shorter. */
const UNHEARD_BYTES = 64 * 1024;

/**
 * Sends a last answer. Input that comes after it is read and dropped, because a socket that closes with unread input
 * resets the connection, and the client loses the answer. The limit of silent connections still applies.
 */
export function answerAndEnd(socket: Socket, answer: string): void {
  let left = UNHEARD_BYTES;
  socket.on("data", (bytes: Uint8Array) => {
    left -= bytes.length;
    if (left < 0) socket.destroy();
  });
  socket.resume().end(answer);
}

export function peerOf(socket: Socket): Peer {
  const { remoteAddress, remotePort, localAddress, localPort } = socket;
  return {
    kind: "grpc",
    remoteAddress,
    remotePort,
    localPort,
    localAddress,
    certificateNames: certificateNames(socket),
  };
}

/** Fulfilled when the connection has ended. */
export function whenClosed(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once("close", () => resolve()));
}

/** The DNS names in the client's verified certificate. */
function certificateNames(socket: Socket): readonly string[] | undefined {
  const { authorized, getPeerCertificate } = socket as Partial<TLSSocket>;
  if (authorized !== true || !getPeerCertificate) return undefined;
  const names = getPeerCertificate.call(socket as TLSSocket).subjectaltname ?? "";
  return names.split(", ").flatMap((name) => name.startsWith("DNS:") ? [name.slice("DNS:".length)] : []);
}

/** The identity of a client; sockets of the file system have only a number. */
export function endpoint(socket: Socket, number?: number): string {
  const { remoteAddress, remotePort } = socket;
  return remoteAddress === undefined ? `local client ${number}` : `${bracketed(remoteAddress)}:${remotePort}`;
}

/** A host as it stands before a port: an IPv6 address in brackets. */
export function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
