import { assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { Crc32c } from "./crc32c.ts";

function sumOf(...pieces: readonly Uint8Array[]): string {
  const crc = new Crc32c();
  for (const piece of pieces) crc.update(piece);
  return Buffer.from(crc.base64(), "base64").toString("hex");
}

Deno.test("Crc32c: the sums of the standards, of bytes that come in any pieces", () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  assertEquals(sumOf(bytes("123456789")), "e3069283");
  assertEquals(sumOf(bytes("12345"), bytes(""), bytes("6789")), "e3069283");
  // RFC 3720, B.4.
  assertEquals(sumOf(new Uint8Array(32)), "8a9136aa");
  assertEquals(sumOf(new Uint8Array(32).fill(0xff)), "62a8ab43");
  assertEquals(sumOf(Uint8Array.from({ length: 32 }, (_, index) => index)), "46dd794e");
  assertEquals(sumOf(), "00000000");
});
