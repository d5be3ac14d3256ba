import { assertEquals } from "@std/assert";
import { Vp8Packetizer, wantsKeyPicture } from "./vp8_rtp.ts";

Deno.test("Vp8Packetizer: splits a picture into packets with a start bit and an end marker", () => {
  const picture = Uint8Array.from({ length: 2500 }, (_, index) => index);
  const packets = [...new Vp8Packetizer(0x01020304).packets(picture, 2 ** 32 + 9000)];
  assertEquals(packets.map(({ length }) => length), [1113, 1113, 313]);
  assertEquals(packets.map((packet) => packet[1] >> 7), [0, 0, 1]);
  assertEquals(packets.map((packet) => packet[12]), [0x10, 0, 0]);
  const views = packets.map((packet) => new DataView(packet.buffer));
  const first = views[0].getUint16(2);
  assertEquals(views.map((view) => view.getUint16(2)), [first, first + 1, first + 2]);
  assertEquals(views.map((view) => view.getUint32(4)), [9000, 9000, 9000]);
  assertEquals(packets.flatMap((packet) => [...packet.subarray(13)]), [...picture]);
});

Deno.test("wantsKeyPicture: recognizes picture loss and intra requests in RTCP feedback", () => {
  const report = [0x80, 201, 0, 1, 1, 2, 3, 4];
  const loss = [0x81, 206, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8];
  const intra = [0x84, 206, 0, 4, ...new Uint8Array(16)];
  assertEquals(
    [report, loss, intra, [...report, ...loss], [0x81, 205, 0, 0], [], [0x81]].map((bytes) =>
      wantsKeyPicture(Uint8Array.from(bytes))
    ),
    [false, true, true, true, false, false, false],
  );
});
