import { assertEquals } from "@std/assert";
import { readStunAnswer, stunAnswer, stunRequest } from "./stun.ts";

/** The sample IPv4 response of RFC 5769, section 2.2: SOFTWARE, XOR-MAPPED-ADDRESS, MESSAGE-INTEGRITY, FINGERPRINT. */
const SAMPLE =
  "0101003c2112a442b7e7a701bc34d686fa87dfae8022000b7465737420766563746f7220002000080001a147e112a643" +
  "000800142b91f599fd9e90c38c7489f92af9ba53f06be7d780280004c07d4c96";

Deno.test("readStunAnswer: returns the address from which the server saw the request", () => {
  const answer = readStunAnswer(Uint8Array.fromHex(SAMPLE));
  assertEquals(answer, { id: "b7e7a701bc34d686fa87dfae", seenAs: "192.0.2.1:32853" });
});

Deno.test("readStunAnswer: reads MAPPED-ADDRESS of old servers and skips IPv6", () => {
  const header = "010100" + "0c" + "2112a442" + "00".repeat(12);
  const plain = Uint8Array.fromHex(`${header}0001000800011234c0000201`);
  assertEquals(readStunAnswer(plain)?.seenAs, "192.0.2.1:4660");
  const v6 = Uint8Array.fromHex(`${header}0020000800021234c0000201`);
  assertEquals(readStunAnswer(v6), { id: "00".repeat(12), seenAs: undefined });
});

Deno.test("readStunAnswer: a truncated or other message does not throw", () => {
  const whole = Uint8Array.fromHex(SAMPLE);
  for (let length = 0; length < 20; length++) {
    assertEquals(readStunAnswer(whole.subarray(0, length)), undefined);
  }
  for (let length = 20; length < whole.length; length++) {
    assertEquals(readStunAnswer(whole.subarray(0, length))?.id, "b7e7a701bc34d686fa87dfae");
  }
  assertEquals(readStunAnswer(stunRequest().bytes), undefined);
});

Deno.test("stunRequest: each request has its own id", () => {
  const [one, other] = [stunRequest(), stunRequest()];
  assertEquals(one.bytes.length, 20);
  assertEquals(one.bytes.slice(8).toHex(), one.id);
  assertEquals(one.id === other.id, false);
});

Deno.test("stunAnswer: contains the sender's address", () => {
  const { id, bytes } = stunRequest();
  const answer = (address: string) => stunAnswer(bytes, address, 4660)!;
  assertEquals(readStunAnswer(answer("192.0.2.1")), { id, seenAs: "192.0.2.1:4660" });
  assertEquals(readStunAnswer(answer("::ffff:192.0.2.1")), { id, seenAs: "192.0.2.1:4660" });
  assertEquals(answer("192.0.2.1").length, 32);
  const masked = answer("2001:db8::1%eth0").subarray(28);
  const mask = bytes.subarray(4, 20);
  assertEquals(masked.map((octet, index) => octet ^ mask[index]).toHex(), "20010db8000000000000000000000001");
});

Deno.test("stunAnswer: returns undefined for bytes that are not a request", () => {
  const { bytes } = stunRequest();
  for (let length = 0; length < bytes.length; length++) {
    assertEquals(stunAnswer(bytes.subarray(0, length), "192.0.2.1", 1), undefined);
  }
  for (const at of [0, 1, 2, 3, 4, 7]) {
    assertEquals(
      stunAnswer(bytes.map((byte, index) => index === at ? byte ^ 1 : byte), "192.0.2.1", 1),
      undefined,
    );
  }
  assertEquals(stunAnswer(stunAnswer(bytes, "192.0.2.1", 1)!, "192.0.2.1", 1), undefined);
  assertEquals(stunAnswer(new Uint8Array(2000), "192.0.2.1", 1), undefined);
});
