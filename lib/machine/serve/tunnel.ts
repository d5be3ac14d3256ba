/**
 * Tunnels: connects a client's stream with a TCP port of this computer.
 *
 * Only ports that the configuration allows are reachable. Each side may close its direction and still receive; the
 * call ends with the port's last byte.
 */

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type Clock, deadline } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";

export interface TunnelEnd {
  readonly port: number;
  /** In milliseconds. */
  readonly connectionTimeout: number;
}

interface TunnelRequest {
  /** In the first message; later ones need none. */
  readonly destinationPort: number;
  readonly data: Uint8Array;
}

/**
 * Errors: `invalid_argument` without a first message, `permission_denied` for a port that is not allowed,
 * `unavailable` if nobody listens or the connection breaks.
 */
export async function* tunnel(
  requests: AsyncIterable<TunnelRequest>,
  ends: readonly TunnelEnd[],
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<{ data: Uint8Array }> {
  const messages = requests[Symbol.asyncIterator]();
  const first = await messages.next();
  if (first.done) {
    throw new SvcError("invalid_argument", "found no message, wanted one with a destination port");
  }

  const { destinationPort: port } = first.value;
  const end = ends.find((one) => one.port === port);
  if (!end) {
    const wanted = "wanted one of network.traffic_tunnel_endpoints";
    throw new SvcError("permission_denied", `tunnel not available at port ${port}, ${wanted}`);
  }

  const socket = await dial(end, clock, signal);
  const over = new AbortController();
  let broken: unknown;
  const send = async () => {
    for (let next: IteratorResult<TunnelRequest> = first; !next.done; next = await messages.next()) {
      if (next.value.data.length > 0 && !socket.write(next.value.data)) {
        await once(socket, "drain", { signal: over.signal });
      }
    }
    socket.end();
  };
  const stop = () => socket.destroy();
  signal.addEventListener("abort", stop, { once: true });

  if (signal.aborted) stop();
  send().catch((error) => {
    broken = error;
    stop();
  });

  try {
    for await (const data of socket) yield { data };
    signal.throwIfAborted();
    if (broken !== undefined) throw broken;
  } catch (cause) {
    signal.throwIfAborted();
    throw new SvcError("unavailable", `the connection to port ${port} broke: ${messageOf(cause)}`, { cause });
  } finally {
    signal.removeEventListener("abort", stop);
    over.abort();
    stop();
  }
}

async function dial(
  { port, connectionTimeout }: TunnelEnd,
  clock: Clock,
  signal: AbortSignal,
): Promise<Socket> {
  const late = () => new SvcError("deadline_exceeded", `nobody answers within ${connectionTimeout / 1000} s`);
  const limit = deadline(clock, connectionTimeout, late, signal);
  // The client may close its direction first.
  const socket = connect({ host: "localhost", port, allowHalfOpen: true });
  try {
    await once(socket, "connect", { signal: limit.signal });
    return socket;
  } catch (error) {
    socket.destroy();
    const cause = limit.signal.aborted ? limit.signal.reason : error;
    throw new SvcError("unavailable", `cannot connect to port ${port}: ${messageOf(cause)}`, { cause });
  } finally {
    limit.done();
  }
}
