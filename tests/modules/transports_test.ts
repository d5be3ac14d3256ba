/**
 * Resources of a module behind each way in: an API that only the module knows in all four kinds of calls, and its
 * camera as a video.
 */

import { assertEquals } from "@std/assert";
import { StreamService } from "../../proto/gen/stream_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { describeService } from "../../lib/wire/grpc/reflection_client.ts";
import { create, type DescMethod, fromBinary, toBinary } from "../../lib/wire/rpc/proto.ts";
import { dialWebRtc } from "../../lib/wire/signaling/dialer.ts";
import { fromSource, type ModuleMachine, withModules } from "./sdk_bench.ts";

const COUNTER = "example.counter.v1.CounterService";
const COMPONENTS = [
  { name: "counter", api: "example:component:counter", model: "example:greenhouse:counter" },
  { name: "sky", api: "rdk:component:camera", model: "example:greenhouse:sky" },
];

interface Count {
  readonly name: string;
  readonly count: number;
}

Deno.test("a module's own API and its camera are reached over gRPC, gRPC-web and WebRTC", async (t) => {
  const modules = { greenhouse: fromSource("examples/modules/typescript/main.ts") };
  await withModules(modules, { components: COMPONENTS }, async (machine) => {
    await machine.ready();
    const { channel, server } = machine;
    const { host } = new URL(server.url);
    const peer = await dialWebRtc({ signaling: channel, host, clock: new SystemClock() });
    try {
      await t.step("all four kinds of calls work over gRPC", () => countOver(channel, 0));
      await t.step("all four kinds of calls work over WebRTC", () => countOver(peer, 8));
      await t.step("unary and server-streaming calls work over gRPC-web", () => countOverWeb(machine));
      await t.step("the module's camera is a video stream that a peer adds and removes", async () => {
        const streams = client(StreamService, peer);
        assertEquals((await streams.listStreams({})).names, ["sky"]);
        // Answered when its first picture is encoded and the peer has taken the video.
        await streams.addStream({ name: "sky" });
        await streams.removeStream({ name: "sky" });
      });
    } finally {
      peer.close();
    }
  });
});

const countsOf = async (answers: AsyncIterable<Count>) =>
  (await Array.fromAsync(answers)).map(({ count }) => count);

async function countOver(channel: Channel, before: number): Promise<void> {
  const { add, watch, addAll, echo } = client(await describeService(channel, COUNTER, {}), channel) as {
    readonly [method: string]: (
      request: Count | AsyncIterable<Count>,
    ) => Promise<Count> & AsyncIterable<Count>;
  };
  const counts = async function* (...counts: number[]) {
    for (const count of counts) yield await Promise.resolve({ name: "counter", count });
  };
  const name = "counter";
  assertEquals((await add({ name, count: 5 })).count, before + 5);
  assertEquals(await countsOf(watch({ name, count: 2 })), [before + 5, before + 6]);
  assertEquals((await addAll(counts(1, 2))).count, before + 8);
  assertEquals(await countsOf(echo(counts(7, 8))), [7, 8]);
}

async function countOverWeb({ channel, server }: ModuleMachine): Promise<void> {
  const { method } = await describeService(channel, COUNTER, {});
  const ask = async (one: DescMethod, count: number): Promise<number[]> => {
    const bytes = toBinary(one.input, create(one.input, { name: "counter", count }));
    const body = new Uint8Array(5 + bytes.length);
    new DataView(body.buffer).setUint32(1, bytes.length);
    body.set(bytes, 5);
    const headers = { "content-type": "application/grpc-web+proto" };
    const answer = await fetch(`${server.url}/${COUNTER}/${one.name}`, { method: "POST", headers, body });
    const all = new Uint8Array(await answer.arrayBuffer());
    const found: number[] = [];
    for (let at = 0; at < all.length && all[at] === 0;) {
      const end = at + 5 + new DataView(all.buffer).getUint32(at + 1);
      const message = fromBinary(one.output, all.subarray(at + 5, end));
      found.push((message as unknown as Count).count);
      at = end;
    }
    return found;
  };
  assertEquals(await ask(method.add, 1), [17]);
  assertEquals(await ask(method.watch, 2), [17, 18]);
}
