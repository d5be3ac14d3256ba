import { assert, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { compressLzf, decompressLzf } from "./lzf.ts";
import { randomFrom } from "../random.ts";

const SEED = 11;

Deno.test("LZF: round-trips any data with bounded growth", () => {
  const random = randomFrom(SEED);
  for (const size of [0, 1, 2, 3, 31, 32, 33, 264, 265, 1000, 70_000]) {
    for (const letters of [1, 2, 5, 256]) {
      const input = Uint8Array.from({ length: size }, () => Math.floor(random() * letters));
      const packed = compressLzf(input);
      assert(
        packed.length <= size + Math.ceil(size / 32),
        `seed ${SEED}, ${size} of ${letters}: ${packed.length}`,
      );
      assertEquals(decompressLzf(packed, size), input);
    }
  }
  const zeros = compressLzf(new Uint8Array(264_000));
  assert(zeros.length < 3100, `zeros pack to ${zeros.length}`);
});

Deno.test("LZF: decompresses known streams", () => {
  const text = (value: string) => new TextEncoder().encode(value);
  assertEquals(decompressLzf(Uint8Array.of(2, ...text("abc")), 3), text("abc"));
  assertEquals(decompressLzf(Uint8Array.of(0, 97, 0x20, 0), 4), text("aaaa"));
  assertEquals(decompressLzf(Uint8Array.of(1, 97, 98, 0xe0, 1, 1), 12), text("abababababab"));
});

Deno.test("LZF: refuses broken data", () => {
  const refused = (bytes: number[], size: number, message: string) =>
    assertThrows(() => decompressLzf(Uint8Array.from(bytes), size), SvcError, message);
  refused([5, 1, 2], 6, "literals overrun");
  refused([2, 1, 2, 3], 2, "literals overrun");
  refused([0x20, 0], 3, "out of bounds");
  refused([0, 97, 0x20], 4, "out of bounds");
  refused([0, 97, 0xe0], 4, "out of bounds");
  refused([0, 97, 0xe0, 255, 0], 5, "out of bounds");
  refused([0, 97], 4, "it makes 1 bytes, wanted 4");
  refused([0, 97], 1e9, "2 bytes cannot become 1000000000");
  const random = randomFrom(SEED);
  for (let i = 0; i < 3000; i++) {
    const noise = Uint8Array.from({ length: 40 }, () => Math.floor(random() * 256));
    try {
      assertEquals(decompressLzf(noise, 200).length, 200);
    } catch (error) {
      assert(error instanceof SvcError, `seed ${SEED} step ${i}: ${error}`);
    }
  }
});
