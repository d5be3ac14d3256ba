/**
 * WebRTC beside gRPC and gRPC-web: calls, large answers, time to connect, and memory per peer.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { create, fromBinary, toBinary } from "../../lib/wire/rpc/proto.ts";
import { dialWebRtc } from "../../lib/wire/signaling/dialer.ts";
import { encodeDescription } from "../../lib/wire/webrtc/description.ts";
import { RtcPeer, type SignalListener } from "../../lib/wire/webrtc/peer.ts";
import { EchoRequestSchema, EchoResponseSchema, EchoService } from "../../proto/gen/echo_pb.ts";
import { until } from "../support/until.ts";
import { heading, rate, row } from "./figures.ts";
import type { ServerState } from "./webrtc_server.ts";

const clock = new SystemClock();
const SERVER = new URL("./webrtc_server.ts", import.meta.url).pathname;
const PATH = "/proto.rpc.examples.echo.v1.EchoService/Echo";
const CALLS = 2_000;
const AT_ONCE = 32;
const LARGE_BYTES = 8_000_000;
const LARGE_CALLS = 10;
const DIALS = 20;
/** The addon repeats after a second what the other side was not ready for. */
const REPEATED_MS = 900;
const PEERS = [1, 100, 500];
/** Dialed at once: fewer than a server takes. */
const DIALED_AT_ONCE = 16;

type Echo = (message: string) => Promise<string>;

/** Everything, over one server. */
export async function webrtc(): Promise<void> {
  const server = await start();
  const grpc = connectGrpc(`127.0.0.1:${server.port}`, { clock });
  const peer = await dialWebRtc({ signaling: grpc, host: "", clock });
  try {
    const all = { gRPC: echoOver(grpc), "gRPC-web": overWeb(server.port), WebRTC: echoOver(peer) };
    await calls(all);
    await large(all);
    peer.close();
    await connecting(grpc);
    await askingFirst();
    await memory(grpc, server);
  } finally {
    peer.close();
    grpc.close();
    await server.stop();
  }
}

async function calls(all: Record<string, Echo>): Promise<void> {
  heading(`${CALLS} small calls (p50 and p99 one after another, rate ${AT_ONCE} at once)`);
  for (const [name, echo] of Object.entries(all)) {
    for (let warm = 0; warm < 200; warm++) await echo("warm");
    const times: number[] = [];
    for (let call = 0; call < CALLS; call++) {
      const begun = performance.now();
      await echo("hello");
      times.push(performance.now() - begun);
    }
    const begun = performance.now();
    const callers = Array.from({ length: AT_ONCE }, async () => {
      for (let call = 0; call < CALLS / AT_ONCE; call++) await echo("hello");
    });
    await Promise.all(callers);
    const perSecond = CALLS / ((performance.now() - begun) / 1000);
    row(name, `p50 ${ms(times, 0.5)}`, `p99 ${ms(times, 0.99)}`, rate(perSecond));
  }
}

async function large(all: Record<string, Echo>): Promise<void> {
  heading(`answers of ${LARGE_BYTES / 1e6} MB, one after another`);
  for (const [name, echo] of Object.entries(all)) {
    await echo(`big:${LARGE_BYTES}`);
    const begun = performance.now();
    for (let call = 0; call < LARGE_CALLS; call++) await echo(`big:${LARGE_BYTES}`);
    const seconds = (performance.now() - begun) / 1000;
    row(name, `${(LARGE_CALLS * LARGE_BYTES / 1e6 / seconds).toFixed(0)} MB/s`);
  }
}

async function connecting(signaling: Channel): Promise<void> {
  heading("from nothing to the first answer");
  const times: number[] = [];
  for (let dial = 0; dial < DIALS; dial++) {
    const begun = performance.now();
    const channel = await dialWebRtc({ signaling, host: "", clock });
    await client(EchoService, channel).echo({ message: "hello" });
    times.push(performance.now() - begun);
    channel.close();
  }
  row("WebRTC", `p50 ${ms(times, 0.5)}`, `p99 ${ms(times, 0.99)}`);
}

/**
 * Peers of the addon alone. The answering side begins to encrypt as soon as its own request to the other side is
 * answered. If its request comes first, the other side may leave this beginning unread until it is repeated.
 */
async function askingFirst(): Promise<void> {
  heading(`${DIALS} connections of the addon: how many wait a second, by who asks first`);
  for (const first of ["the caller", "the other side"]) {
    let late = 0;
    for (let dial = 0; dial < DIALS; dial++) {
      if (await connectAsking(first === "the caller") > REPEATED_MS) late++;
    }
    row(first, `${late} of ${DIALS}`);
  }
}

async function connectAsking(callerFirst: boolean): Promise<number> {
  const sides: RtcPeer[] = [];
  const signals = (self: number, answer: "offer" | "answer"): SignalListener => ({
    described: (description) => {
      sides[1 - self].accept(encodeDescription(description), answer);
      if (answer === "offer") sides[1].describe("answer");
    },
    candidate: (candidate) => {
      // The side that gets its information later asks later.
      const first = callerFirst === (self === 1);
      void clock.sleep(first ? 20 : 60).then(() => sides[1 - self].addCandidate(candidate));
    },
    gathered: () => {},
  });
  const common = { iceServers: [], candidatesMax: 64 };
  sides.push(await RtcPeer.make({ ...common, signals: signals(0, "offer") }));
  sides.push(await RtcPeer.make({ ...common, signals: signals(1, "answer") }));
  const begun = performance.now();
  sides[0].describe("offer");
  await Promise.all(sides.map(({ connected }) => connected));
  const tookMs = performance.now() - begun;
  for (const side of sides) side.close(new SvcError("canceled", "enough"));
  return tookMs;
}

async function memory(signaling: Channel, server: Server): Promise<void> {
  heading("memory of the server, without and with peers, each of which has made a call");
  await until(async () => (await server.state()).peers === 0);
  const before = await server.state();
  row("without peers", megabytes(before.residentBytes));
  for (const counts of [PEERS, PEERS.slice(-1)]) {
    await peers(counts, before, signaling, server);
  }
}

/** So many peers, then none. */
async function peers(
  counts: readonly number[],
  before: ServerState,
  signaling: Channel,
  server: Server,
): Promise<void> {
  const channels: Channel[] = [];
  for (const count of counts) {
    while (channels.length < count) {
      const more = Array.from({ length: Math.min(DIALED_AT_ONCE, count - channels.length) }, async () => {
        const channel = await dialWebRtc({ signaling, host: "", clock });
        await client(EchoService, channel).echo({ message: "hello" });
        return channel;
      });
      channels.push(...await Promise.all(more));
    }
    const { peers, residentBytes } = await server.state();
    const each = (residentBytes - before.residentBytes) / count / 1000;
    row(`${peers} peers`, megabytes(residentBytes), `${each.toFixed(0)} kB each`);
  }
  for (const channel of channels) channel.close();
  await until(async () => (await server.state()).peers === 0);
  const after = await server.state();
  const heap = ((after.heapBytes - before.heapBytes) / 1e6).toFixed(1);
  row("when all have gone", megabytes(after.residentBytes), `heap ${heap} MB more`, `${after.peers} peers`);
}

interface Server {
  readonly port: number;
  state(): Promise<ServerState>;
  stop(): Promise<void>;
}

async function start(): Promise<Server> {
  const args = ["run", "-A", "--v8-flags=--expose-gc", SERVER];
  const child = new Deno.Command(Deno.execPath(), { args, stdin: "piped", stdout: "piped" }).spawn();
  const output = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const input = child.stdin.getWriter();
  let text = "";
  const line = async () => {
    for (let part; !text.includes("\n") && !(part = await output.read()).done;) text += part.value;
    const [first, ...rest] = text.split("\n");
    text = rest.join("\n");
    return first;
  };
  return {
    port: Number(await line()),
    state: async () => {
      await input.write(new TextEncoder().encode("\n"));
      return JSON.parse(await line());
    },
    stop: async () => {
      await input.close();
      await output.cancel();
      await child.status;
    },
  };
}

function echoOver(channel: Channel): Echo {
  const echo = client(EchoService, channel);
  return async (message) => (await echo.echo({ message })).message;
}

function overWeb(port: number): Echo {
  const headers = { "content-type": "application/grpc-web+proto" };
  return async (message) => {
    const bytes = toBinary(EchoRequestSchema, create(EchoRequestSchema, { message }));
    const body = new Uint8Array(5 + bytes.length);
    new DataView(body.buffer).setUint32(1, bytes.length);
    body.set(bytes, 5);
    const answer = await fetch(`http://127.0.0.1:${port}${PATH}`, { method: "POST", headers, body });
    const all = new Uint8Array(await answer.arrayBuffer());
    const length = new DataView(all.buffer).getUint32(1);
    return fromBinary(EchoResponseSchema, all.subarray(5, 5 + length)).message;
  };
}

function ms(times: number[], share: number): string {
  const sorted = times.toSorted((a, b) => a - b);
  return `${sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))].toFixed(2)} ms`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}
