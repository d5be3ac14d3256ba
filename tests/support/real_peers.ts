/**
 * WebRTC over real channels within one program: the echo service behind an answerer, and callers that dial it through
 * a port on the loopback address. Only a file that may load the addon uses this (see `lib/wire/webrtc/addon.ts`).
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { Logs } from "../../lib/base/log/log.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { openPort } from "../../lib/wire/port/port.ts";
import type { Channel } from "../../lib/wire/rpc/channel.ts";
import { Answerer } from "../../lib/wire/signaling/answerer.ts";
import { CallQueue } from "../../lib/wire/signaling/call_queue.ts";
import { type DialedChannel, dialWebRtc, type HostDialOptions } from "../../lib/wire/signaling/dialer.ts";
import { signalingService } from "../../lib/wire/signaling/service.ts";
import {
  type NativePeer,
  nativeRtc,
  type PeerListener,
  type PeerOptions,
  type Rtc,
} from "../../lib/wire/webrtc/addon.ts";
import { echoTable, type Seen } from "./echo.ts";

const clock = new SystemClock();
export const HOST = "echo";

export interface RealPeers {
  readonly signaling: Channel;
  readonly answerer: Answerer;
  readonly queue: CallQueue;
  readonly seen: Seen;
  dial(options?: Partial<HostDialOptions>): Promise<DialedChannel>;
}

/** Runs `test` with an answerer, which gives up a connection after `connectMs`; afterwards nothing of it is left. */
export async function withRealPeers(
  test: (peers: RealPeers) => Promise<void>,
  { connectMs = 10_000 } = {},
): Promise<void> {
  const { table, seen } = echoTable();
  const queue = new CallQueue({ clock, limits: { connectMs } });
  const answerer = new Answerer({
    table,
    clock,
    logger: new Logs(clock, []).logger("test"),
  });
  table.add(signalingService({ queue, clock, hostOf: (name) => name }));

  const over = new AbortController();
  const answering = (async () => {
    for (;;) void answerer.answer(await queue.take([HOST], over.signal));
  })().catch(() => {});
  const port = await openPort({ table, clock, bind: { host: "127.0.0.1", port: 0 } });
  const signaling = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  const dial = (options = {}) => dialWebRtc({ signaling, host: HOST, clock, ...options });
  try {
    await test({ signaling, answerer, queue, seen, dial });
  } finally {
    over.abort();
    await answering;
    await answerer.close();
    signaling.close();
    await port.close(0);
  }
}

/** Real peers with other options, events or behaviour. */
export function changedRtc(change: {
  readonly options?: Partial<PeerOptions>;
  readonly listener?: (listener: PeerListener) => Partial<PeerListener>;
  readonly peer?: (peer: NativePeer) => void;
}): Rtc {
  return {
    makePeer: async (options, listener) => {
      const changed = { ...listener, ...change.listener?.(listener) };
      const peer = await nativeRtc.makePeer({ ...options, ...change.options }, changed);
      change.peer?.(peer);
      return peer;
    },
  };
}

/**
 * Real peers that connect through a TURN server first, as browsers can be set to. The other side's addresses get a port
 * at which nobody listens: the TURN server, which looks at addresses alone, lets their packets through, and the direct
 * ways lead nowhere. The addon may find one later, from packets that came through the server: it has no way to prevent
 * that.
 */
export const relayedRtc: Rtc = changedRtc({
  listener: (listener) => ({
    candidate: (candidate, mid) => {
      if (candidate.includes(" typ relay ")) listener.candidate(candidate, mid);
    },
  }),
  peer: (peer) => {
    const add = peer.addCandidate.bind(peer);
    peer.addCandidate = (candidate, mid) => add(candidate.replace(/^((?:\S+ ){5})\d+/, `$1${DISCARD}`), mid);
  },
});
/** The port of a service that is nowhere any more (RFC 863). */
const DISCARD = 9;
