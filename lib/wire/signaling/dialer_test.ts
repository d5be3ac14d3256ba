import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { SignalingService } from "../../../proto/gen/signaling_pb.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeRtc } from "../../../tests/support/fake_rtc.ts";
import { SvcError } from "../../base/error.ts";
import { memoryChannel } from "../rpc/memory.ts";
import { service, ServiceTable } from "../rpc/service.ts";
import { encodeDescription } from "../webrtc/description.ts";
import { WEBRTC_LIMITS } from "../webrtc/limits.ts";
import { dialWebRtc } from "./dialer.ts";

Deno.test("dialWebRtc: sends server-reflexive candidates at once and host candidates after 50 ms", async () => {
  const clock = new FakeClock();
  const rtc = new FakeRtc();
  // It never connects, because it gets no offer.
  const silent = { described() {}, candidate() {}, gathered() {}, changed() {}, intruded() {} };
  await rtc.makePeer({ iceServers: [], messageBytesMax: 1 }, silent);
  const logged: string[] = [];
  const table = new ServiceTable(clock);
  table.add(service(SignalingService, {
    optionalWebRTCConfig: () => ({}),
    callUpdate: ({ update }) => {
      logged.push(update.case === "candidate" ? update.value.candidate : String(update.case));
      return {};
    },
    call: async function* (_request, ctx) {
      const sdp = encodeDescription({ type: "answer", sdp: "v=0\r\na=fake:0\r\n" });
      yield { uuid: "one", stage: { case: "init", value: { sdp } } };
      await new Promise((_, reject) => ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason)));
    },
  }));
  const over = new AbortController();
  const signaling = memoryChannel(table);
  const dialed = dialWebRtc({ signaling, host: "h", clock, rtc, signal: over.signal });
  const failed = assertRejects(() => dialed, SvcError, "enough");
  await clock.advance(0);
  const [, caller] = rtc.peers;
  caller.listener.candidate("candidate:2 1 UDP 1 198.51.100.2 5 typ srflx raddr 0.0.0.0 rport 0", "0");
  await clock.advance(49);
  assertEquals(logged.map((line) => line.split(" ")[7]), ["srflx"]);
  await clock.advance(1);
  assertEquals(logged.map((line) => line.split(" ")[7] ?? line), ["srflx", "host", "done"]);
  over.abort(new SvcError("canceled", "enough"));
  await failed;
  signaling.close();
  assertEquals(clock.pending, 0);
});

const ANSWER = encodeDescription({ type: "answer", sdp: "v=0\r\na=fake:0\r\n" });
const lineOf = (n: number) => `candidate:${n} 1 UDP 1 198.51.100.2 ${1000 + n} typ host`;
const init = { uuid: "one", stage: { case: "init", value: { sdp: ANSWER } } } as const;
const update = (n: number) => {
  const value = { candidate: { candidate: lineOf(n), sdpMid: "0" } };
  return { uuid: "one", stage: { case: "update", value } } as const;
};
const updates = (count: number) => Array.from({ length: count }, (_, n) => update(n));

/** Dials a server that sends these stages, and then nothing; returns the caller's peer, and how the dial ends. */
async function dialThrough(stages: readonly (typeof init | ReturnType<typeof update>)[]) {
  const [clock, rtc] = [new FakeClock(), new FakeRtc()];
  const silent = { described() {}, candidate() {}, gathered() {}, changed() {}, intruded() {} };
  await rtc.makePeer({ iceServers: [], messageBytesMax: 1 }, silent);
  const table = new ServiceTable(clock);
  table.add(service(SignalingService, {
    optionalWebRTCConfig: () => ({}),
    callUpdate: () => ({}),
    call: async function* (_request, ctx) {
      yield* stages;
      await new Promise((_, reject) => ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason)));
    },
  }));

  const over = new AbortController();
  const signaling = memoryChannel(table);
  const failed = dialWebRtc({ signaling, host: "h", clock, rtc, signal: over.signal }).then(
    () => undefined,
    (error) => SvcError.from(error),
  );
  await clock.advance(0);
  over.abort(new SvcError("canceled", "enough"));
  const error = await failed;
  signaling.close();
  return { candidates: rtc.peers[1]!.candidates, error };
}

Deno.test("dialWebRtc: candidates that come before the answer are tried after it, in order", async () => {
  const orders = [
    [update(0), init, update(1)],
    [update(0), update(1), init],
    [init, update(0), update(1)],
  ];
  for (const stages of orders) {
    const { candidates, error } = await dialThrough(stages);
    assertEquals(candidates, [lineOf(0), lineOf(1)]);
    assertEquals(error?.message, "enough");
  }
});

Deno.test("dialWebRtc: too many candidates before the answer, and a second answer, end the attempt", async () => {
  const flooded = await dialThrough([...updates(WEBRTC_LIMITS.candidates + 50), init]);
  assertEquals(flooded.error?.code, "resource_exhausted");
  const repeated = await dialThrough([update(0), init, init]);
  assertMatch(repeated.error!.message, /stages of a call out of order/);
});
