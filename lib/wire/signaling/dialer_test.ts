import { assertEquals, assertRejects } from "@std/assert";
import { SignalingService } from "../../../proto/gen/signaling_pb.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeRtc } from "../../../tests/support/fake_rtc.ts";
import { SvcError } from "../../base/error.ts";
import { memoryChannel } from "../rpc/memory.ts";
import { service, ServiceTable } from "../rpc/service.ts";
import { encodeDescription } from "../webrtc/description.ts";
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
