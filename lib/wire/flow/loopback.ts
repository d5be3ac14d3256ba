/** The two ends of a connection on the loopback interface, from which its peer can be identified. */

import type { Socket } from "node:net";
import type { LoopbackEnds } from "../../base/host.ts";

/** An address of a closed socket is empty, and belongs to nobody. */
export function loopbackEnds(
  socket: Partial<Pick<Socket, "localAddress" | "localPort" | "remoteAddress" | "remotePort">>,
  role: LoopbackEnds["role"],
): LoopbackEnds {
  const { localAddress = "", localPort = 0, remoteAddress = "", remotePort = 0 } = socket;
  return {
    own: { address: localAddress, port: localPort },
    other: { address: remoteAddress, port: remotePort },
    role,
  };
}
