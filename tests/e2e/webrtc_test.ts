/**
 * WebRTC with the addon, against a machine in a process of its own. No other test file loads the addon in its own
 * process: it belongs to the first isolate that loads it.
 */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Logs } from "../../lib/base/log/log.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import type { DialedChannel } from "../../lib/wire/signaling/dialer.ts";
import { dialWebRtc } from "../../lib/wire/signaling/dialer.ts";
import { testWebRtc } from "../../lib/wire/signaling/self_check.ts";
import type { DataChannel } from "../../lib/wire/webrtc/addon.ts";
import { encodeDescription } from "../../lib/wire/webrtc/description.ts";
import { readResponse, requestEnd, requestHeaders, requestPacket } from "../../lib/wire/webrtc/frame.ts";
import { FRAME_BYTES_MAX, WEBRTC_LIMITS } from "../../lib/wire/webrtc/limits.ts";
import { RtcPeer } from "../../lib/wire/webrtc/peer.ts";
import { CameraService } from "../../proto/gen/camera_pb.ts";
import { EchoRequestSchema, EchoService } from "../../proto/gen/echo_pb.ts";
import { Health } from "../../proto/gen/health_pb.ts";
import { create, toBinary } from "../../lib/wire/rpc/proto.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { SignalingService } from "../../proto/gen/signaling_pb.ts";
import { type ServerProcess, withDemo } from "../support/server.ts";
import { all, each } from "../support/echo.ts";
import { needingTest } from "../support/needing.ts";
import { programHere } from "../support/programs_here.ts";
import { changedRtc, HOST, relayedRtc, withRealPeers } from "../support/real_peers.ts";
import { withTurnServer } from "../support/turn_server.ts";
import { until, within } from "../support/until.ts";

const clock = new SystemClock();

Deno.test("testWebRtc connects a program to itself and makes a call", async () => {
  const logged = await testWebRtc(clock, new Logs(clock, []).logger("test"));
  assertStringIncludes(logged, "a call over WebRTC was answered");
});

/** A peer of the machine; `lost` hears of its end. */
async function dialed(
  server: ServerProcess,
  test: (channel: DialedChannel, lost: Promise<SvcError>) => Promise<void>,
): Promise<void> {
  const { host } = new URL(server.url);
  const signaling = connectGrpc(host, { clock });
  const lost = Promise.withResolvers<SvcError>();
  const channel = await dialWebRtc({ signaling, host, clock, lost: lost.resolve });
  try {
    await test(channel, lost.promise);
  } finally {
    channel.close();
    signaling.close();
  }
}

/** Whether a process has loaded the addon. */
async function hasAddon({ pid }: ServerProcess): Promise<boolean> {
  return (await Deno.readTextFile(`/proc/${pid}/maps`)).includes("node_datachannel");
}

Deno.test({
  name: "a machine loads the WebRTC addon with its first peer and not earlier",
  ignore: Deno.build.os !== "linux",
  fn: () =>
    withDemo(async (server) => {
      assertEquals(await hasAddon(server), false);
      await dialed(server, async () => assertEquals(await hasAddon(server), true));
    }),
});

Deno.test("a machine gives the same answers over WebRTC as over gRPC, large answers included", () =>
  withDemo((server) =>
    dialed(server, async (channel) => {
      const direct = connectGrpc(new URL(server.url).host, { clock });
      const names = async (over: typeof direct) =>
        (await client(RobotService, over).resourceNames({})).resources.map(({ name }) => name).sort();
      assertEquals(await names(channel), await names(direct));
      const cloud = await client(CameraService, channel).getPointCloud({ name: "camera1" });
      assertEquals(cloud.pointCloud.length > 1_000_000, true);
      direct.close();
    })
  ));

Deno.test("a machine with peers shuts down cleanly, and the peers learn of it", () =>
  withDemo((server) =>
    dialed(server, async (channel, lost) => {
      await client(Health, channel).check({});
      assertEquals(await within("the end of the machine", server.stop()), 0);
      await within("the end of the peer", lost);
      const error = await assertRejects(() => client(Health, channel).check({}), SvcError);
      assertEquals(error.code, "unavailable");
    })
  ));

Deno.test("a replayed WebRTC offer opens no connection and disturbs no peer", () =>
  withDemo((server) =>
    dialed(server, async (channel) => {
      const { host } = new URL(server.url);
      const header = Metadata.from([["rpc-host", host]]);
      const grpc = connectGrpc(host, { clock });
      let offer = "";
      const overhearing = {
        close: () => {},
        call: (...[method, requests, options]: Parameters<typeof grpc.call>) => {
          const heard = async function* () {
            for await (const bytes of requests) {
              if (method.name === "Call") offer = new TextDecoder().decode(bytes);
              yield bytes;
            }
          };
          return grpc.call(method, heard(), options);
        },
      };
      const first = await dialWebRtc({ signaling: overhearing, host, clock });
      // It gets an answer, but without the offer's own key nobody can connect.
      const sdp = /[A-Za-z0-9+/]{100,}={0,2}/.exec(offer)![0];
      const stages = client(SignalingService, grpc).call({ sdp }, { header })[Symbol.asyncIterator]();
      assertEquals((await stages.next()).value?.stage.case, "init");
      for (const peer of [first, channel]) await client(Health, peer).check({});
      await stages.return!();
      first.close();
      grpc.close();
    })
  ));

const LARGE = "x".repeat(1_000_000);

/** The line by which a peer announces the largest message that it takes; without it, that is 64 KB (RFC 8841). */
const ANNOUNCED = ["65536", "4096", "300", "262144", "0", undefined];

for (const bytes of ANNOUNCED) {
  Deno.test(`a megabyte passes both ways to a peer that announces messages of ${bytes ?? "no"} bytes`, () =>
    withRealPeers(async ({ dial }) => {
      const rtc = changedRtc({
        options: { messageBytesMax: Math.max(FRAME_BYTES_MAX, Number(bytes ?? 0)) },
        listener: (listener) => ({
          described: ({ type, sdp }) => {
            const line = bytes === undefined ? "" : `a=max-message-size:${bytes}\r\n`;
            listener.described({ type, sdp: sdp.replace(/^a=max-message-size:.*\r\n/m, line) });
          },
        }),
      });
      const channel = await dial({ rtc });
      const echo = client(EchoService, channel);
      assertEquals((await echo.echo({ message: LARGE })).message, LARGE);
      const answers = await all(
        echo.echoBiDi(each({ message: LARGE }, { message: "small" }, { message: LARGE })),
      );
      assertEquals(answers.map(({ message }) => message.length), [LARGE.length, 5, LARGE.length]);
      channel.close();
    }));
}

Deno.test("a peer that takes less than a call's metadata loses the connection with the reason", () =>
  withRealPeers(async ({ dial, answerer }) => {
    const rtc = changedRtc({
      listener: (listener) => ({
        described: ({ type, sdp }) =>
          listener.described({ type, sdp: sdp.replace(/^(a=max-message-size:).*$/m, "$1300") }),
      }),
    });
    const channel = await dial({ rtc });
    const header = Metadata.from([["x-long", "x".repeat(1_000)]]);
    const error = await assertRejects(() => client(EchoService, channel).echo({}, { header }), SvcError);
    assertEquals(error.code, "unavailable");
    await until(() => answerer.peers === 0);
    channel.close();
  }));

Deno.test("a message in frames of the full size, as published clients send it, is one message", () =>
  withRealPeers(async ({ dial }) => {
    let data: DataChannel | undefined;
    let text = "";
    const ended = Promise.withResolvers<void>();
    const id = 77n;
    const rtc = changedRtc({
      peer: (peer) => {
        const open = peer.open.bind(peer);
        peer.open = (label, number, listener, resumeBytes) => {
          const message = (bytes: Uint8Array | string) => {
            const { stream, type } = readResponse(bytes as Uint8Array);
            if (stream?.id !== id) return;
            if (type.case === "message") text += new TextDecoder().decode(type.value.packetMessage?.data);
            if (type.case === "trailers") ended.resolve();
          };
          const channel = open(
            label,
            number,
            label === "data" ? { ...listener, message } : listener,
            resumeBytes,
          );
          if (label === "data") data = channel;
          return channel;
        };
      },
    });
    const channel = await dial({ rtc });
    const request = toBinary(
      EchoRequestSchema,
      create(EchoRequestSchema, { message: LARGE.slice(0, 300_000) }),
    );
    const overhead = requestPacket(id, new Uint8Array(FRAME_BYTES_MAX - 100), true).length -
      (FRAME_BYTES_MAX - 100);
    const step = FRAME_BYTES_MAX - overhead;

    data!.send(requestHeaders(id, "/proto.rpc.examples.echo.v1.EchoService/Echo", new Metadata()));
    for (let at = 0; at < request.length; at += step) {
      const frame = requestPacket(id, request.subarray(at, at + step), at + step >= request.length);
      assert(frame.length <= FRAME_BYTES_MAX);
      data!.send(frame);
    }
    data!.send(requestEnd(id));
    await within("the answer", ended.promise);
    assert(text.endsWith(LARGE.slice(0, 300_000)));
    channel.close();
  }));

Deno.test("binary metadata passes both ways with padding and without", () =>
  withRealPeers(async ({ dial }) => {
    const channel = await dial();
    const header = Metadata.from(["AQI", "AQI=", "AQID", "/+8", ""].map((value) => ["x-bytes-bin", value]));
    let [inHeader, inTrailer] = [new Metadata(), new Metadata()];
    await client(EchoService, channel).echo({}, {
      header,
      onHeader: (metadata) => inHeader = metadata,
      onTrailer: (metadata) => inTrailer = metadata,
    });
    assertEquals(inHeader.all("x-bytes-bin"), header.all("x-bytes-bin"));
    assertEquals(inTrailer.all("t-x-bytes-bin"), header.all("x-bytes-bin"));
    channel.close();
  }));

needingTest(
  "a caller that gives only its address at a TURN server is reached there",
  programHere("turnserver"),
  (program) =>
    withTurnServer(program, (turn, output) =>
      withRealPeers(async ({ dial }) => {
        const channel = await dial({ iceServers: [turn], rtc: relayedRtc });
        assertEquals((await client(EchoService, channel).echo({ message: LARGE })).message, LARGE);
        await until(() => output().includes("CREATE_PERMISSION processed, success"));
        channel.close();

        // No other way leads to such a caller.
        const wrong = { ...turn, credential: "wrong" };
        const error = await assertRejects(
          () => dial({ iceServers: [wrong], rtc: relayedRtc, timeoutMs: 2_000 }),
          SvcError,
        );
        assertEquals(error.code, "deadline_exceeded");
      })),
);

Deno.test("a caller that offers and stays silent costs a machine nothing after the time to connect", () =>
  withRealPeers(async ({ signaling, answerer, queue, dial }) => {
    const header = Metadata.from([["rpc-host", HOST]]);
    const silent = async (stay: boolean) => {
      const offered = Promise.withResolvers<string>();
      const peer = await RtcPeer.make({
        iceServers: [],
        candidatesMax: WEBRTC_LIMITS.candidates,
        signals: {
          described: (description) => offered.resolve(encodeDescription(description)),
          candidate: () => {},
          gathered: () => {},
        },
      });
      peer.describe("offer");
      const stages = client(SignalingService, signaling).call({ sdp: await offered.promise }, { header });
      const reader = stages[Symbol.asyncIterator]();
      assertEquals((await reader.next()).value?.stage.case, "init");
      // One hangs up at once, the other one reads on, and never gives its side's candidates.
      if (!stay) await reader.return!();
      else await assertRejects(() => all({ [Symbol.asyncIterator]: () => reader }), SvcError);
      peer.close(new SvcError("canceled", "over"));
    };
    const [first, second] = [silent(true), silent(false)];
    await until(() => answerer.peers === 2);

    // Meanwhile others connect.
    const channel = await dial();
    await client(EchoService, channel).echo({ message: "hi" });
    channel.close();
    await first;
    await second;
    await until(() => answerer.peers === 0 && queue.size === 0);
  }, { connectMs: 1_500 }));

Deno.test("a caller that closes in the middle of streams ends them at the machine", () =>
  withRealPeers(async ({ dial, seen, answerer }) => {
    const channel = await dial();
    const echo = client(EchoService, channel);
    const answers = echo.echoMultiple({ message: "endless" })[Symbol.asyncIterator]();
    for (let count = 0; count < 20; count++) await answers.next();
    const hanging = assertRejects(() => echo.echo({ message: "hang" }), SvcError);
    await until(() => seen.calls === 1);
    channel.close();
    await hanging;
    await within("the end of the stream", seen.canceled);
    await until(() => answerer.peers === 0);
  }));
