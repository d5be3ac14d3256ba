/**
 * Data of a hostile peer over WebRTC: frames that are damaged, cut, oversize, out of order, repeated, of other streams;
 * invalid descriptions and candidates. After each case nothing is left, and the server answers the next call.
 *
 * An input is the choices of a conversation, one after another.
 */

import { EchoRequestSchema, EchoResponseSchema } from "../../../proto/gen/echo_pb.ts";
import { ResponseSchema } from "../../../proto/gen/webrtc_grpc_pb.ts";
import { settle, SystemClock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { randomFrom } from "../../../lib/geometry/random.ts";
import { Metadata } from "../../../lib/wire/rpc/metadata.ts";
import { PortAllowance } from "../../../lib/wire/flow/byte_budget.ts";
import { create, fromBinary, toBinary } from "../../../lib/wire/rpc/proto.ts";
import type { Peer } from "../../../lib/wire/rpc/service.ts";
import type { DataChannel } from "../../../lib/wire/webrtc/addon.ts";
import { FrameClient } from "../../../lib/wire/webrtc/client.ts";
import {
  decodeDescription,
  encodeDescription,
  isUsable,
  onLoopback,
} from "../../../lib/wire/webrtc/description.ts";
import {
  requestEnd,
  requestHeaders,
  requestPacket,
  reset,
  responseHeaders,
  responsePacket,
  responseTrailers,
} from "../../../lib/wire/webrtc/frame.ts";
import { FRAME_BYTES_MAX } from "../../../lib/wire/webrtc/limits.ts";
import { FrameServer } from "../../../lib/wire/webrtc/server.ts";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { client } from "../../../lib/wire/rpc/channel.ts";
import { echoTable } from "../../support/echo.ts";
import { damaged } from "../damage.ts";
import type { Target } from "../target.ts";

const ECHO = "/proto.rpc.examples.echo.v1.EchoService";
const PATHS = [`${ECHO}/Echo`, `${ECHO}/EchoMultiple`, `${ECHO}/EchoBiDi`, `${ECHO}/Nothing`, "", "/", "\0"];
const WORDS = ["hi", "", "hang", "broken", "fail:data_loss:x", "big:100000", "endless"];
const PEER: Peer = { kind: "webrtc", entity: "fuzz" };
const CALLS_MAX = 16;

type Below = (limit: number) => number;

/** Takes a server's data, and never fills up. */
class Sink implements DataChannel {
  bufferedBytes = 0;
  messageBytesMax = 65_536;
  readonly sent: Uint8Array[] = [];
  /** From here on it does not read. */
  fullAfter = 400;

  send(message: Uint8Array): void {
    this.sent.push(message);
    if (this.sent.length >= this.fullAfter) this.bufferedBytes = 2 ** 30;
  }
}

/** Chances that the bytes decide, two for each; after the last one everything is 0. */
function chancesIn(bytes: Uint8Array): () => number {
  let at = 0;
  return () => ((bytes[at++] ?? 0) << 8 | (bytes[at++] ?? 0)) / 2 ** 16;
}

function converse(bytes: Uint8Array): Promise<void> | void {
  const random = chancesIn(bytes.subarray(1));
  const below = (limit: number) => Math.floor(limit * random());
  if (bytes[0] % 8 === 0) return attemptTexts(random, below);
  return bytes[0] % 4 === 1 ? attemptClient(random, below) : attemptServer(random, below);
}

async function attemptServer(random: () => number, below: Below): Promise<void> {
  const { table } = echoTable();
  const budgets = new PortAllowance();
  const allowance = budgets.connection();
  const channel = new Sink();
  let left = false;
  const leave = () => void (left = true);
  const server = new FrameServer({ table, channel, peer: PEER, allowance, callsMax: CALLS_MAX, leave });
  for (const frame of requests(random, below)) {
    server.frame(frame);
    if (below(8) === 0) await settle();
  }
  await settle();
  checkAnswers(channel.sent);
  channel.bufferedBytes = 0;
  channel.fullAfter = Infinity;
  // Calls that hang are the client's to give up.
  for (let id = 0n; id < 6n; id++) server.frame(reset(id));
  await settle();
  if (!left) await checkAlive(server, channel);
  server.gone(new SvcError("unavailable", "over"));
  allowance.end();
  await settle();
  const { received, unread } = budgets.usedBytes;
  if (server.running !== 0 || received !== 0 || unread !== 0) {
    throw new Error(`${server.running} calls, ${received} bytes received and ${unread} unread are left`);
  }
}

/** A dozen frames of a few calls, in any order. */
function* requests(random: () => number, below: Below): Generator<Uint8Array> {
  for (let count = 1 + below(16); count > 0; count--) {
    const frame = request(below);
    const kind = below(12);
    if (kind === 0) yield damaged(frame, { random });
    else if (kind === 1) yield frame.slice(0, below(frame.length));
    else if (kind === 2) yield new Uint8Array(FRAME_BYTES_MAX + 1 + below(10));
    else if (kind === 3) yield Uint8Array.from({ length: below(64) }, () => below(256));
    else yield frame;
    if (kind === 4) yield frame;
  }
}

function request(below: Below): Uint8Array {
  const id = BigInt([0, 0, 1, 1, 2, 3, 4, 5][below(8)]);
  switch (below(6)) {
    case 0:
    case 1: {
      const metadata = Metadata.from([["x-a", "b"], ["__proto__", "c"], ["x-long", "d".repeat(below(2000))]]);
      const timeoutMs = [undefined, 0, -5, 1, 1e15, 20_000][below(6)];
      return requestHeaders(id, PATHS[below(PATHS.length)], metadata, timeoutMs);
    }
    case 2:
    case 3: {
      const message = WORDS[below(WORDS.length)];
      const bytes = toBinary(EchoRequestSchema, create(EchoRequestSchema, { message }));
      const part = below(3) === 0 ? bytes.subarray(0, below(bytes.length + 1)) : bytes;
      return requestPacket(id, part, below(4) !== 0);
    }
    case 4:
      return requestEnd(id);
    default:
      return reset(id);
  }
}

/** A call has headers, then messages, then trailers, and nothing after them; the next one may have the same stream. */
function checkAnswers(sent: readonly Uint8Array[]): void {
  const states = new Map<bigint, "open" | "over">();
  for (const bytes of sent) {
    const { stream, type } = fromBinary(ResponseSchema, bytes);
    const id = stream!.id;
    const state = states.get(id);
    if (type.case === "headers") states.set(id, "open");
    else if (state !== "open") throw new Error(`${type.case} of stream ${id} came before its headers`);
    else if (type.case === "trailers") states.set(id, "over");
  }
}

async function checkAlive(server: FrameServer, channel: Sink): Promise<void> {
  const id = 1000n;
  const before = channel.sent.length;
  const bytes = toBinary(EchoRequestSchema, create(EchoRequestSchema, { message: "alive" }));
  server.drained();
  server.frame(requestHeaders(id, PATHS[0], new Metadata()));
  server.frame(requestPacket(id, bytes, true));
  await settle();
  const answers = channel.sent.slice(before).map((frame) => fromBinary(ResponseSchema, frame)).filter((
    { stream },
  ) => stream?.id === id);
  const ended = answers.at(-1)?.type;
  if (ended?.case !== "trailers" || ended.value.status?.code !== 0) {
    throw new Error(`the next call got ${JSON.stringify(answers.map(({ type }) => type.case))}`);
  }
}

async function attemptClient(random: () => number, below: Below): Promise<void> {
  const channel = new Sink();
  let reason: SvcError | undefined;
  const closed = Promise.withResolvers<void>();
  const peer = {
    data: channel,
    close: (error: SvcError) => {
      reason ??= error;
      frames.gone(error);
      closed.resolve();
    },
  };
  const frames = new FrameClient({ peer, clock: new SystemClock() });
  const echo = client(EchoService, frames);
  const calls = [0, 1, 2].map(async (number) => {
    if (number === 0) return void await echo.echo({ message: "a" });
    for await (const _ of echo.echoMultiple({ message: "b" }));
  });
  const ended = Promise.allSettled(calls);
  await settle();
  for (let count = 1 + below(12); count > 0; count--) {
    const frame = response(below);
    frames.frame(below(5) === 0 ? damaged(frame, { random }) : frame);
    if (below(6) === 0) await settle();
  }
  peer.close(new SvcError("unavailable", "over"));
  for (const { reason } of (await ended).filter((one) => one.status === "rejected")) {
    if (!(reason instanceof SvcError)) throw reason;
  }
}

function response(below: Below): Uint8Array {
  const id = BigInt(below(4));
  const bytes = toBinary(EchoResponseSchema, create(EchoResponseSchema, { message: "c".repeat(below(100)) }));
  switch (below(4)) {
    case 0:
      return responseHeaders(id, Metadata.from([["x-a", "b"]]));
    case 1:
      return responseTrailers(id, { code: below(20), message: "over\0" }, new Metadata(), below(2) === 0);
    default:
      return responsePacket(id, bytes.subarray(0, below(bytes.length + 1)), below(3) !== 0);
  }
}

/** Texts of signaling: taken or refused with an error for the caller. */
function attemptTexts(random: () => number, below: Below): void {
  const good = encodeDescription({ type: "offer", sdp: "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\n" });
  const bytes = damaged(new TextEncoder().encode(good), { random });
  const text = new TextDecoder("latin1").decode(bytes);
  try {
    decodeDescription(text, below(2) === 0 ? "offer" : "answer");
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "invalid_argument") throw error;
  }
  const line = "candidate:1 1 UDP 2114977791 192.0.2.2 60269 typ host";
  const candidate = new TextDecoder("latin1").decode(
    damaged(new TextEncoder().encode(line), { random }),
  );
  isUsable({ candidate });
  onLoopback(candidate);
}

export const WEBRTC_PEER: Target = {
  name: "wire/webrtc-peer",
  covers: ["wire/webrtc/"],
  samples: () =>
    Array.from({ length: 24 }, (_, kind) => {
      const random = randomFrom(kind + 1);
      return Uint8Array.from({ length: 300 }, (_, at) => at === 0 ? kind : 256 * random());
    }),
  read: converse,
  // What is thrown here is what the checks of this file found.
  refusals: [],
};
