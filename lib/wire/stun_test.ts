import { assertEquals } from "@std/assert";
import { readStunAnswer, stunRequest } from "./stun.ts";

/** The sample IPv4 response of RFC 5769, section 2.2: SOFTWARE, XOR-MAPPED-ADDRESS, MESSAGE-INTEGRITY, FINGERPRINT. */
const SAMPLE =
  "0101003c2112a442b7e7a701bc34d686fa87dfae8022000b7465737420766563746f7220002000080001a147e112a643" +
  "000800142b91f599fd9e90c38c7489f92af9ba53f06be7d780280004c07d4c96";

Deno.test("an answer says from where the server saw the request", () => {
  const answer = readStunAnswer(Uint8Array.fromHex(SAMPLE));
  assertEquals(answer, { id: "b7e7a701bc34d686fa87dfae", seenAs: "192.0.2.1:32853" });
});

Deno.test("an old server's plain address counts too, and IPv6 is no address that is read", () => {
  const header = "010100" + "0c" + "2112a442" + "00".repeat(12);
  const plain = Uint8Array.fromHex(`${header}0001000800011234c0000201`);
  assertEquals(readStunAnswer(plain)?.seenAs, "192.0.2.1:4660");
  const v6 = Uint8Array.fromHex(`${header}0020000800021234c0000201`);
  assertEquals(readStunAnswer(v6), { id: "00".repeat(12), seenAs: undefined });
});

Deno.test("what is no answer, or only a part of one, is no reason to fail", () => {
  const whole = Uint8Array.fromHex(SAMPLE);
  for (let length = 0; length < 20; length++) {
    assertEquals(readStunAnswer(whole.subarray(0, length)), undefined);
  }
  for (let length = 20; length < whole.length; length++) {
    assertEquals(readStunAnswer(whole.subarray(0, length))?.id, "b7e7a701bc34d686fa87dfae");
  }
  assertEquals(readStunAnswer(stunRequest().bytes), undefined);
});

Deno.test("every request has an id of its own", () => {
  const [one, other] = [stunRequest(), stunRequest()];
  assertEquals(one.bytes.length, 20);
  assertEquals(one.bytes.slice(8).toHex(), one.id);
  assertEquals(one.id === other.id, false);
});
