/** Start, memory, calls, many resources and changes of the configuration of a server. */

import { Buffer } from "node:buffer";
import { type Channel, client } from "../../../lib/wire/rpc/channel.ts";
import { framed } from "../../../lib/wire/rpc/message.ts";
import { create, toBinary } from "../../../lib/wire/rpc/proto.ts";
import { dialWebRtc } from "../../../lib/wire/signaling/dialer.ts";
import { BoardService, GetGPIORequestSchema } from "../../../proto/gen/board_pb.ts";
import { processorMs, residentBytes } from "../../support/server.ts";
import {
  addRate,
  callsOf,
  clock,
  type Command,
  type Figures,
  hasResource,
  isBuilt,
  type OpenFigures,
  ROOT,
  type Running,
  withServer,
} from "./contestant.ts";

const REST_MS = 2000;
const MEMORY_CALLS = 33_000;
const RESOURCES = 1000;
/** Calls of a measurement, by how many are made at once. */
const COUNTS = [[1, 2000], [16, 8000], [64, 8000], [256, 8000]] as const;
const WARM_UP = 2000;

export function start(server: Command): Promise<Figures> {
  return withServer(server, demoConfig(), async (running) => {
    const { pid, listeningMs } = running;
    const processor = await processorMs(pid);
    await isBuilt(running);
    await clock.sleep(REST_MS);
    return {
      "listening, ms": listeningMs,
      "processor time until then, ms": processor,
      "idle memory, MB": await residentBytes(pid) / 1e6,
    };
  });
}

export function memory(server: Command): Promise<Figures> {
  return withServer(server, demoConfig(), async ({ pid, channel }) => {
    await callsOf(gpioOver(channel), 64, MEMORY_CALLS);
    return { [`memory after ${MEMORY_CALLS} calls, MB`]: await residentBytes(pid) / 1e6 };
  });
}

export function calls(server: Command): Promise<Figures> {
  return withServer(server, demoConfig(), (running) => rates("gRPC", running, gpioOver(running.channel)));
}

export function web(server: Command): Promise<Figures> {
  return withServer(server, demoConfig(), async (running) => {
    // One connection of HTTP/2, as browsers have it to a machine with TLS.
    using http = Deno.createHttpClient({ http1: false, http2: true });
    return await rates("gRPC-web", running, gpioOverWeb(running.port, http));
  });
}

export function webrtc(server: Command): Promise<Figures> {
  return withServer(server, demoConfig(), async (running) => {
    const peer = await dialWebRtc({ signaling: running.channel, host: `127.0.0.1:${running.port}`, clock });
    try {
      return await rates("WebRTC", running, gpioOver(peer));
    } finally {
      peer.close();
    }
  });
}

async function rates(way: string, running: Running, call: () => Promise<unknown>): Promise<Figures> {
  const figures: OpenFigures = {};
  await callsOf(call, 16, WARM_UP);
  for (const [concurrency, count] of COUNTS) {
    await addRate(figures, `${way} calls, ${concurrency} at once`, running, count, () => {
      return callsOf(call, concurrency, count);
    });
  }
  return figures;
}

export async function resources(server: Command): Promise<Figures> {
  const began = performance.now();
  return await withServer(server, { components: generics(RESOURCES) }, async (running) => {
    await hasResource(running, `g${RESOURCES - 1}`);
    const builtMs = performance.now() - began;
    const residentMb = await residentBytes(running.pid) / 1e6;
    return {
      [`start with ${RESOURCES} resources, ms`]: builtMs,
      [`memory with ${RESOURCES} resources, MB`]: residentMb,
      "one resource added among them, ms": await addedMs(running, RESOURCES),
    };
  });
}

export function configuration(server: Command): Promise<Figures> {
  return withServer(server, { components: generics(10) }, async (running) => {
    await hasResource(running, "g9");
    return { "configuration saved to applied, ms": await addedMs(running, 10) };
  });
}

/** From the saved file with one more resource until it is there. */
async function addedMs(running: Running, count: number): Promise<number> {
  const savedMs = performance.now();
  await running.configure({ components: generics(count + 1) });
  await hasResource(running, `g${count}`);
  return performance.now() - savedMs;
}

function demoConfig(): object {
  const { components, services } = JSON.parse(Deno.readTextFileSync(`${ROOT}examples/demo.json`));
  return { components, services };
}

function generics(count: number): object[] {
  return Array.from(
    { length: count },
    (_, at) => ({ name: `g${at}`, api: "rdk:component:generic", model: "fake" }),
  );
}

function gpioOver(channel: Channel): () => Promise<unknown> {
  const board = client(BoardService, channel);
  return () => board.getGPIO({ name: "board1", pin: "20" });
}

/** The same call as browsers make it. */
function gpioOverWeb(port: number, http: Deno.HttpClient): () => Promise<unknown> {
  const message = toBinary(GetGPIORequestSchema, create(GetGPIORequestSchema, { name: "board1", pin: "20" }));
  const url = `http://127.0.0.1:${port}/${BoardService.typeName}/GetGPIO`;
  const request = {
    client: http,
    method: "POST",
    headers: { "content-type": "application/grpc-web+proto", "x-grpc-web": "1" },
    body: new Uint8Array(framed(message)),
  };
  return async () => {
    const bytes = Buffer.from(await (await fetch(url, request)).arrayBuffer());
    if (!/grpc-status: ?0/i.test(bytes.toString("latin1"))) throw new Error(`${url} failed: ${bytes}`);
  };
}
