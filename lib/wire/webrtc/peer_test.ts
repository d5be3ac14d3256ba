/**
 * The agreement of two peers: their channels, and who may renegotiate.
 */

import { assertEquals, assertRejects } from "@std/assert";
import { FakeRtc } from "../../../tests/support/fake_rtc.ts";
import { until } from "../../../tests/support/until.ts";
import { nextTurn } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { encodeDescription } from "./description.ts";
import { RtcPeer, type SignalListener } from "./peer.ts";

/** A caller and the peer that has answered it, connected. */
async function connected(letsLeave = false) {
  const rtc = new FakeRtc();
  const peers: RtcPeer[] = [];
  const signals = (self: number): SignalListener => ({
    described: (description) => {
      peers[1 - self].accept(encodeDescription(description), description.type);
      if (self === 0) peers[1].describe("answer");
    },
    candidate: () => {},
    gathered: () => {},
  });
  for (const self of [0, 1]) {
    peers.push(
      await RtcPeer.make({ iceServers: [], candidatesMax: 8, signals: signals(self), letsLeave, rtc }),
    );
  }
  const [caller, answerer] = peers;
  caller.describe("offer");
  await Promise.all(peers.map((peer) => peer.connected));
  const close = () => peers.forEach((peer) => peer.close(new SvcError("canceled", "enough")));
  return { caller, answerer, native: rtc.peers, close };
}

const turns = async () => {
  for (let turn = 0; turn < 10; turn++) await new Promise<void>((resolve) => nextTurn(resolve));
};

Deno.test("RtcPeer: both sides have the negotiated channels 0 and 1", async () => {
  const { native, close } = await connected();
  for (const { channels } of native) assertEquals([...channels.keys()], [0, 1]);
  close();
});

Deno.test("RtcPeer: the answerer renegotiates over the negotiation channel, and the caller answers", async () => {
  const { answerer, native, close } = await connected();
  const texts: unknown[] = [];
  for (const { channels } of native) {
    const { listener } = channels.get(1)!;
    const { message } = listener;
    listener.message = (text) => {
      texts.push(JSON.parse(atob(text as string)).type);
      message(text);
    };
  }
  await answerer.negotiation.renegotiate(AbortSignal.timeout(30_000));
  assertEquals(texts, ["offer", "answer"]);
  close();
});

Deno.test("RtcPeer: descriptions may arrive as binary messages, as the published Java library sends them", async () => {
  const { answerer, native, close } = await connected();
  for (const { channels } of native) {
    const { listener } = channels.get(1)!;
    const { message } = listener;
    listener.message = (text) => message(new TextEncoder().encode(text as string));
  }
  await answerer.negotiation.renegotiate(AbortSignal.timeout(30_000));
  const { listener } = native[0].channels.get(1)!;
  listener.message = () => native[0].channels.get(1)!.send(Uint8Array.of(0xff, 0, 0xfe));
  await assertRejects(
    () => answerer.negotiation.renegotiate(AbortSignal.timeout(30_000)),
    SvcError,
    "is not base64",
  );
  assertEquals(answerer.isConnected, true);
  close();
});

Deno.test("RtcPeer: an unsolicited offer of the caller changes nothing", async () => {
  const { caller, answerer, native, close } = await connected();
  native[0].channels.get(1)!.send(encodeDescription({ type: "offer", sdp: "v=0\r\na=fake:0\r\n" }));
  native[0].channels.get(1)!.send("nonsense");
  await turns();
  assertEquals([caller.isConnected, answerer.isConnected], [true, true]);
  close();
});

Deno.test("RtcPeer: a bad answer ends the renegotiation, and a bad message of the server the connection", async () => {
  const { caller, answerer, native, close } = await connected();
  const { listener } = native[0].channels.get(1)!;
  listener.message = () => native[0].channels.get(1)!.send("nonsense");
  await assertRejects(
    () => answerer.negotiation.renegotiate(AbortSignal.timeout(30_000)),
    SvcError,
    "is not",
  );
  assertEquals(answerer.isConnected, true);
  close();
  const other = await connected();
  other.native[1].channels.get(1)!.send("nonsense");
  await until(() => !other.caller.isConnected);
  other.close();
  assertEquals(caller.isConnected, false);
});

Deno.test("RtcPeer: a peer that lets the other side leave is over at once, and closed when both channels are", async () => {
  const { answerer, native: [, { channels }], native, close } = await connected(true);
  const events: string[] = [];
  answerer.whenGone(({ message }) => events.push(message));
  answerer.whenClosed(() => events.push("closed"));
  channels.get(0)!.listener.closed();
  const over = "the WebRTC peer is gone: its data channel was closed";
  assertEquals([events, native[1].closed], [[over], false]);
  channels.get(1)!.listener.closed();
  assertEquals([events, native[1].closed], [[over, "closed"], true]);
  close();
  assertEquals(events.length, 2);
});

Deno.test("RtcPeer: a peer that waits for the other side to leave closes when it is told to, or loses it", async () => {
  for (const ends of ["told", "lost"]) {
    const { answerer, native: [, other], close } = await connected(true);
    const events: string[] = [];
    answerer.whenGone(() => events.push("over"));
    answerer.whenClosed(() => events.push("closed"));
    other.channels.get(0)!.listener.closed();
    if (ends === "told") answerer.close(new SvcError("unavailable", "the server is stopping"));
    else other.listener.changed("disconnected");
    assertEquals([events, other.closed], [["over", "closed"], true]);
    answerer.whenClosed(() => events.push("again"));
    assertEquals(events, ["over", "closed", "again"]);
    close();
  }
});
