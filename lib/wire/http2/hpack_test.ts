/** HPACK: the examples of the standard, round trips, and input that is broken. */

import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import type { HeaderFields } from "../rpc/metadata.ts";
import { HpackDecoder, HpackEncoder, HpackError } from "./hpack.ts";

function bytes(hex: string): Uint8Array {
  return Buffer.from(hex.replaceAll(" ", ""), "hex");
}

/** Numbers below `limit` in an order that the seed decides. */
function random(seed: number): (limit: number) => number {
  return (limit) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor(seed / 2 ** 32 * limit);
  };
}

const FIRST: HeaderFields = [[":method", "GET"], [":scheme", "http"], [":path", "/"], [
  ":authority",
  "www.example.com",
]];
const SECOND: HeaderFields = [...FIRST, ["cache-control", "no-cache"]];
const THIRD: HeaderFields = [
  [":method", "GET"],
  [":scheme", "https"],
  [":path", "/index.html"],
  [":authority", "www.example.com"],
  ["custom-key", "custom-value"],
];

Deno.test("hpack: decodes the requests of RFC 7541 C.3 and C.4, without and with Huffman code", () => {
  const plain = [
    "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
    "8286 84be 5808 6e6f 2d63 6163 6865",
    "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
  ];
  const huffman = [
    "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
    "8286 84be 5886 a8eb 1064 9cbf",
    "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
  ];
  for (const blocks of [plain, huffman]) {
    const decoder = new HpackDecoder(10_000);
    assertEquals(blocks.map((block) => decoder.decode(bytes(block))), [FIRST, SECOND, THIRD]);
  }
});

Deno.test("hpack: the dynamic table evicts its oldest entries and can be emptied", () => {
  const decoder = new HpackDecoder(100_000);
  const literal = (name: string, value: string) => {
    const text = Buffer.from(value);
    return Buffer.concat([Uint8Array.of(0x40, name.length), Buffer.from(name), length(text.length), text]);
  };
  decoder.decode(literal("a", "x".repeat(3100)));
  decoder.decode(literal("b", "y".repeat(1000)));
  assertEquals(decoder.decode(bytes("be")), [["b", "y".repeat(1000)]]);
  assertThrows(() => decoder.decode(bytes("bf")), HpackError, "no entry 63");
  decoder.decode(literal("c", "z"));
  assertEquals(decoder.decode(bytes("bf")), [["b", "y".repeat(1000)]]);
  decoder.decode(bytes("20"));
  assertThrows(() => decoder.decode(bytes("be")), HpackError, "no entry 62");
});

function length(value: number): Uint8Array {
  const rest = value - 127;
  return rest < 0 ? Uint8Array.of(value) : Uint8Array.of(127, 0x80 | (rest & 127), rest >> 7);
}

Deno.test("hpack: a field larger than the table empties it, and is not in it", () => {
  const literal = (name: string, value: string) => {
    const text = Buffer.from(value);
    return Buffer.concat([Uint8Array.of(0x40, name.length), Buffer.from(name), length(text.length), text]);
  };
  // An entry takes 32 bytes more than its texts: in the whole table, in one of 64 bytes, in none.
  for (const [resized, most] of [["", 4096 - 33], ["3f21", 64 - 33], ["20", -33]] as const) {
    const decoder = new HpackDecoder(100_000);
    decoder.decode(literal("a", "b"));
    decoder.decode(bytes(resized));
    decoder.decode(literal("c", "d".repeat(most + 1 > 0 ? most + 1 : 0)));
    assertThrows(() => decoder.decode(bytes("be")), HpackError, "no entry 62");

    const other = new HpackDecoder(100_000);
    other.decode(literal("a", "b"));
    other.decode(bytes(resized));
    const fitting = most >= 0 ? "d".repeat(most) : "";
    other.decode(literal("c", fitting));
    const found = () => other.decode(bytes("be"));
    if (most >= 0) assertEquals(found(), [["c", fitting]]);
    else assertThrows(found, HpackError, "no entry 62");
    assertThrows(() => other.decode(bytes("bf")), HpackError, "no entry 63");
  }
});

Deno.test("hpack: the decoder returns every encoded field, whatever the table size", () => {
  const next = random(7);
  const names = [
    ":path",
    ":status",
    "content-type",
    "te",
    "x-long",
    "grpc-status",
    "viam_client",
    "authorization",
  ];
  const encoder = new HpackEncoder();
  const decoder = new HpackDecoder(1_000_000);
  for (let round = 0; round < 500; round++) {
    if (round % 100 === 99) encoder.resize(next(6000));
    const fields: HeaderFields = Array.from({ length: next(12) }, () => {
      const value = Array.from({ length: next(5) * next(60) }, () => String.fromCharCode(32 + next(95))).join(
        "",
      );
      return [names[next(names.length)], next(2) === 0 ? "200" : value];
    });
    assertEquals(decoder.decode(encoder.encode(fields)), fields);
  }
});

Deno.test("hpack: a repeated field takes a single byte", () => {
  const encoder = new HpackEncoder();
  const fields: HeaderFields = [[":status", "200"], ["content-type", "application/grpc"], [
    "grpc-status",
    "0",
  ]];
  encoder.encode(fields);
  assertEquals(encoder.encode(fields).length, 3);
});

Deno.test("hpack: an oversized block gives no fields, and the next block decodes", () => {
  const encoder = new HpackEncoder();
  const decoder = new HpackDecoder(1000);
  assertEquals(decoder.decode(encoder.encode([["te", "trailers"], ["x", "y".repeat(1000)]])), undefined);
  assertEquals(decoder.decode(encoder.encode([["te", "trailers"]])), [["te", "trailers"]]);
});

Deno.test("hpack: refuses broken blocks with an HpackError", () => {
  const cases: [string, string][] = [
    ["80", "no entry 0"],
    ["ff ff ff ff ff 0f", "integer too long"],
    ["ff", "ends in the middle"],
    ["40 05 61", "past the end"],
    ["3f e2 1f", "table size"],
    ["40 81 ff 00", "Huffman"],
    ["40 81 00 00", "Huffman"],
    ["40 84 ff ff ff ff 00", "Huffman"],
    ["82 20", "size after a field"],
    ["20 20 20 82", "more than two changes"],
  ];
  for (const [block, problem] of cases) {
    assertThrows(() => new HpackDecoder(1000).decode(bytes(block)), HpackError, problem);
  }
});

Deno.test("hpack: random bytes give fields or an HpackError", () => {
  const next = random(11);
  for (let round = 0; round < 5000; round++) {
    const block = Uint8Array.from({ length: next(40) }, () => next(256));
    try {
      new HpackDecoder(1000).decode(block);
    } catch (error) {
      assert(error instanceof HpackError, `${error}`);
    }
  }
});
