/**
 * STUN and TURN: the servers that tell callers and machines their public addresses, and that relay for peers without a
 * direct path.
 *
 * The control plane answers STUN itself. A TURN server is another program, such as coturn, that shares a secret with
 * the control plane: each caller gets credentials of its own that are valid for a day (coturn's `use-auth-secret`
 * convention), so that it does not relay for strangers.
 */

import { createHmac } from "node:crypto";
import { type Endpoint, openUdp, type UdpSocket } from "../../base/udp.ts";
import type { Clock } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Secret } from "../../base/secret.ts";
import { stunAnswer } from "../../wire/webrtc/stun.ts";
import type { IceServer } from "../../wire/webrtc/ice_choice.ts";

export interface TurnOptions {
  /** `turn:host:port?transport=udp` */
  readonly urls: readonly string[];
  /** The shared secret of the TURN server. */
  readonly secret: Secret;
}

/** TURN servers check the time when a connection starts to use the credentials. */
const CREDENTIAL_SECONDS = 24 * 3600;
const TURN_URL =
  /^turns?:(?:[a-z0-9](?:[a-z0-9.-]{0,252}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?(?:\?transport=(?:udp|tcp))?$/i;

/** Throws `invalid_argument` for an address that is not a TURN server's. */
export function checkedTurnUrl(url: string): string {
  if (TURN_URL.test(url)) return url;
  throw new SvcError(
    "invalid_argument",
    `--turn: found ${JSON.stringify(url)}, wanted such as turn:turn.example.com:3478?transport=udp`,
  );
}

/** The servers of a TURN secret, with credentials for `who`. */
export function turnServers({ urls, secret }: TurnOptions, who: string, clock: Clock): IceServer {
  const username = `${Math.floor(clock.nowMs() / 1000) + CREDENTIAL_SECONDS}:${who}`;
  const credential = createHmac("sha1", secret.reveal()).update(username).digest("base64");
  return { urls, username, credential };
}

/** Answers STUN on a UDP port. Throws `unavailable` if the port does not open. */
export async function openStun(
  bind: Endpoint,
  logger: Logger,
): Promise<UdpSocket & { readonly port: number }> {
  let complained = false;
  try {
    const socket = await openUdp((bytes, { address, port }) => {
      const answer = stunAnswer(bytes, address, port);
      if (!answer) return;
      socket.send(address, port, answer).catch((error) => {
        if (!complained) logger.warn(`cannot answer STUN: ${messageOf(error)}`);
        complained = true;
      });
    }, bind);
    return socket;
  } catch (cause) {
    throw new SvcError("unavailable", `cannot answer STUN on ${bind.host}:${bind.port}`, { cause });
  }
}
