/**
 * WebRTC with the addon, against a machine in a process of its own. No other test file loads the addon in its own
 * process: it belongs to the first isolate that loads it.
 */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Logs } from "../../lib/base/log/log.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import type { DialedChannel } from "../../lib/wire/signaling/dialer.ts";
import { dialWebRtc } from "../../lib/wire/signaling/dialer.ts";
import { testWebRtc } from "../../lib/wire/signaling/self_check.ts";
import { CameraService } from "../../proto/gen/camera_pb.ts";
import { Health } from "../../proto/gen/health_pb.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { SignalingService } from "../../proto/gen/signaling_pb.ts";
import { type ServerProcess, withDemo } from "../support/server.ts";
import { within } from "../support/until.ts";

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
