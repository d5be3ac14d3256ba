/**
 * WebRTC within one program: proves that the addon of this executable loads and connects, and carries calls.
 */

import { Health } from "../../../proto/gen/health_pb.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log/log.ts";
import { client } from "../rpc/channel.ts";
import { health } from "../grpc/health.ts";
import { memoryChannel } from "../rpc/memory.ts";
import { ServiceTable } from "../rpc/service.ts";
import { Answerer } from "./answerer.ts";
import { CallQueue } from "./call_queue.ts";
import { dialWebRtc } from "./dialer.ts";
import { signalingService } from "./service.ts";

const HOST = "self";

/** Connects to itself and makes a call; returns the addresses of the connection. Rejects on any failure. */
export async function testWebRtc(clock: Clock, logger: Logger): Promise<string> {
  const table = new ServiceTable(clock);
  const queue = new CallQueue({ clock });
  const answerer = new Answerer({ table, clock, logger });
  for (const one of [health(table), signalingService({ queue, clock, hostOf: () => HOST })]) table.add(one);
  const over = new AbortController();
  const answering = queue.take([HOST], over.signal).then((call) => answerer.answer(call), () => {});

  const signaling = memoryChannel(table);
  try {
    const channel = await dialWebRtc({ signaling, host: HOST, clock });
    const { local, remote } = channel.addresses ?? {};
    await client(Health, channel).check({});
    channel.close();
    return `a call over WebRTC was answered, from ${local} to ${remote}`;
  } finally {
    over.abort();
    await answerer.close();
    await answering;
    signaling.close();
  }
}
