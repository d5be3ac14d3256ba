/** Outgoing TCP connections, also to addresses that are good on one network only. */

import { connect, type Socket } from "node:net";
import { zoneOf } from "../../base/address/link_local.ts";
import { DROPS_INTERFACES, ZonedSocket } from "../../base/native/sockets/zoned_socket.ts";

/** What callers use of a connection; both kinds emit `connect`, `error` and `close`. */
export type TcpSocket = Socket | ZonedSocket;

/** Begins a connection to a name or an address without brackets. */
export function connectTcp(host: string, port: number): TcpSocket {
  const zoned = zoneOf(host);
  return zoned && DROPS_INTERFACES
    ? new ZonedSocket(`${zoned.address}%${zoned.zone}`, port)
    : connect({ host, port });
}
