/**
 * The end of a client that calls the machine directly: its calls under way fail, and it makes no others.
 *
 * The published library leaves them as they are. A call that waits for a silent network would then reach the machine
 * when the person has long given it up, and heartbeats of a session that nobody uses any more would keep alive what
 * was moved in it.
 */

import type { Transport } from "@connectrpc/connect";
import { ConnectionClosedError, type RobotClient } from "@viamrobotics/sdk";

const ENDED = "the connection ended before the machine answered";

/** For a connected client; its calls end with its disconnection. */
export function endWithConnection(client: RobotClient): void {
  const parts = client as unknown as { transport: Transport };
  const { transport } = parts;
  const end = new AbortController();
  client.on("disconnected", () => end.abort());

  /** The signal of a call that ends with the client, too, and how to forget the call. */
  const begin = (signal: AbortSignal | undefined): [AbortSignal, () => void] => {
    if (end.signal.aborted) throw new ConnectionClosedError(ENDED);
    const call = new AbortController();
    const abort = () => call.abort(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort);
    end.signal.addEventListener("abort", abort);
    return [call.signal, () => {
      signal?.removeEventListener("abort", abort);
      end.signal.removeEventListener("abort", abort);
    }];
  };
  const problemOf = (error: unknown) => end.signal.aborted ? new ConnectionClosedError(ENDED) : error;

  parts.transport = {
    async unary(service, method, signal, ...rest) {
      const [both, forget] = begin(signal);
      try {
        return await transport.unary(service, method, both, ...rest);
      } catch (error) {
        throw problemOf(error);
      } finally {
        forget();
      }
    },
    async stream(service, method, signal, ...rest) {
      const [both, forget] = begin(signal);
      try {
        const answer = await transport.stream(service, method, both, ...rest);
        return { ...answer, message: whole(answer.message, forget, problemOf) };
      } catch (error) {
        forget();
        throw problemOf(error);
      }
    },
  };
}

async function* whole<T>(
  messages: AsyncIterable<T>,
  ended: () => void,
  problemOf: (error: unknown) => unknown,
): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (error) {
    throw problemOf(error);
  } finally {
    ended();
  }
}
