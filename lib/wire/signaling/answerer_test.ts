/**
 * The answering side of a call, before it is connected.
 */

import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeRtc } from "../../../tests/support/fake_rtc.ts";
import { until } from "../../../tests/support/until.ts";
import { nextTurn } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { silentLogs } from "../../base/log/log.ts";
import { ServiceTable } from "../rpc/service.ts";
import { encodeDescription } from "../webrtc/description.ts";
import { WEBRTC_LIMITS } from "../webrtc/limits.ts";
import { Answerer } from "./answerer.ts";
import { CallQueue } from "./call_queue.ts";

const candidate = (port: number, address = "192.0.2.7") => `candidate:1 1 UDP 1 ${address} ${port} typ host`;
const never = new AbortController().signal;

/** A caller whose offer has these candidates in it, and its call at the answerer. */
async function called(offered: string[], disableTrickle = false) {
  const clock = new FakeClock();
  const rtc = new FakeRtc();
  const queue = new CallQueue({ clock });
  const answerer = new Answerer({
    table: new ServiceTable(clock),
    clock,
    logger: silentLogs(clock).logger("test"),
    rtc,
  });
  const caller = await rtc.makePeer({ iceServers: [], messageBytesMax: 1 }, {
    described() {},
    candidate() {},
    gathered() {},
    changed() {},
    intruded() {},
  });
  const lines = ["v=0", "a=fake:0", "m=application", "a=mid:0", ...offered.map((one) => `a=${one}`), ""];
  const sdp = encodeDescription({ type: "offer", sdp: lines.join("\r\n") });
  const { id } = queue.offer("a", { sdp, disableTrickle, caller: { entity: "somebody" } });
  const answered = answerer.answer(await queue.take(["a"], never));
  await until(() => rtc.peers.length === 2);
  await new Promise<void>((resolve) => nextTurn(resolve));
  const peer = rtc.peers[1];
  const close = async () => {
    queue.close();
    await answerer.close();
    await answered;
    caller.close();
  };
  return { clock, queue, id, peer, close };
}

Deno.test("Answerer: tries the offer's candidates after the caller sends a candidate of its own", async () => {
  const { queue, id, peer, close } = await called([candidate(1), candidate(2)]);
  assertEquals(peer.candidates, []);
  queue.update(id, "a", { candidate: { candidate: candidate(3) } });
  await until(() => peer.candidates.length === 3);
  assertEquals(peer.candidates.toSorted(), [candidate(1), candidate(2), candidate(3)]);
  await close();
});

Deno.test("Answerer: tries the offer's candidates after 250 ms, or at once without trickle", async () => {
  const late = await called([candidate(1)]);
  assertEquals(late.peer.candidates, []);
  await late.clock.advance(250);
  await until(() => late.peer.candidates.length === 1);
  await late.close();
  const whole = await called([candidate(1)], true);
  await whole.clock.advance(0);
  await until(() => whole.peer.candidates.length === 1);
  await whole.close();
});

Deno.test("Answerer: closes a call with too many candidates and ignores candidates with host names", async () => {
  const many = Array.from({ length: WEBRTC_LIMITS.candidates + 1 }, (_, port) => candidate(port));
  const full = await called(many);
  await full.clock.advance(250);
  await until(() => full.peer.closed);
  await full.close();
  const named = await called([candidate(1, "a.name.example"), candidate(2)]);
  await named.clock.advance(250);
  await until(() => named.peer.candidates.length > 0);
  assertEquals(named.peer.candidates, [candidate(2)]);
  await named.close();
});

Deno.test("Answerer: one caller's connecting peers give way to another caller's", async () => {
  const clock = new FakeClock();
  const rtc = new FakeRtc();
  const queue = new CallQueue({ clock, limits: { callsOfHost: 9, callsOfCaller: 9 } });
  const answerer = new Answerer({
    table: new ServiceTable(clock),
    clock,
    logger: silentLogs(clock).logger("test"),
    limits: () => ({ offers: 3 }),
    rtc,
  });
  const lines = ["v=0", "a=fake:0", "m=application", "a=mid:0", ""];
  const sdp = encodeDescription({ type: "offer", sdp: lines.join("\r\n") });
  const call = async (entity: string) => {
    const { stages } = queue.offer("a", { sdp, disableTrickle: false, caller: { entity } });
    const answered = answerer.answer(await queue.take(["a"], never));
    const end = Array.fromAsync(stages).then(() => "ended", (error) => SvcError.from(error).message);
    return { answered, end };
  };
  const busy = [await call("busy"), await call("busy"), await call("busy")];
  const refused = await (await call("busy")).end;
  assertEquals(refused.includes("try again later"), true, refused);
  const other = await call("other");
  const gone = await busy[0].end;
  assertEquals(gone.includes("gave way"), true, gone);
  queue.close();
  await answerer.close();
  await Promise.all([...busy, other].map(({ answered }) => answered));
});
