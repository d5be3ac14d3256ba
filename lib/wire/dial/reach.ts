/**
 * Whether something answers at an address: a host that accepts a TCP connection, or refuses it, is there.
 *
 * Only the first packet matters: no TLS, no request, no credentials.
 */

import type { Clock } from "../../base/clock.ts";
import { connectTcp } from "../flow/tcp.ts";

/** Errors that prove an answer of the other host. */
const ANSWERS = ["ECONNREFUSED", "ECONNRESET"];

export interface ReachTarget {
  /** A name or an address, without brackets. */
  readonly host: string;
  readonly port: number;
}

/** Whether the host answers in time. Never throws; false if the signal aborts. */
export async function answersTcp(
  { host, port }: ReachTarget,
  clock: Clock,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connectTcp(host, port);
  const cancel = clock.after(timeoutMs, () => resolve(false));
  const stop = () => resolve(false);
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();

  socket.on("connect", () => resolve(true));
  socket.on("error", (error: Error & { code?: string }) => resolve(ANSWERS.includes(error.code ?? "")));

  try {
    return await promise;
  } finally {
    cancel();
    signal.removeEventListener("abort", stop);
    socket.destroy();
  }
}
