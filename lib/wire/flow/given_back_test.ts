/**
 * Memory that is released at once: which, when, and that nobody reads it later.
 */

import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { giveBack, giveBackAll } from "./given_back.ts";
import { frameBytes } from "../../../tests/support/http2_wire.ts";
import { OutgoingBytes, PREFACE, TYPE } from "../http2/frame.ts";
import { FrameReader } from "../http2/input.ts";

Deno.test("giveBack: releases only large whole buffers, and giveBackAll releases also parts", () => {
  const [small, large] = [new Uint8Array(100), new Uint8Array(100_000)];
  giveBack(small);
  giveBack(large.subarray(1));
  assertEquals([small.length, large.length], [100, 100_000]);
  giveBack(large);
  assertEquals(large.length, 0);
  const other = new Uint8Array(100_000);
  giveBackAll(other.subarray(1));
  assertEquals(other.length, 0);
});

Deno.test("HTTP/2: FrameReader releases buffers after reading, but keeps partial frames", () => {
  const reader = new FrameReader("server");
  const read = () => {
    const lengths = [];
    while (reader.next()) lengths.push(reader.payload.length);
    reader.release();
    return lengths;
  };
  const data = frameBytes(TYPE.data, 0, 1, new Uint8Array(10_000));
  const settings = frameBytes(TYPE.settings, 0, 0, new Uint8Array());
  // The third frame comes in two parts.
  const first = new Uint8Array(
    Buffer.concat([Buffer.from(PREFACE), settings, data, data.subarray(0, 5_000)]),
  );
  const second = new Uint8Array(data.subarray(5_000));
  reader.push(first);
  assertEquals([read(), first.length], [[0, 10_000], 0]);
  reader.push(second);
  assertEquals([read(), second.length], [[10_000], 0]);
  // Of this one a frame is read in this turn, the other one in a later one.
  const both = new Uint8Array(Buffer.concat([data, data]));
  reader.push(both);
  reader.next();
  reader.release();
  assertEquals(both.length, 2 * data.length);
  const more = new Uint8Array(data);
  reader.push(more);
  assertEquals([read(), both.length, more.length], [[10_000, 10_000], 0, 0]);
});

Deno.test("HTTP/2: OutgoingBytes reuses its write buffer", () => {
  const out = new OutgoingBytes();
  const written = new Set<ArrayBufferLike>();
  for (let i = 0; i < 1000; i++) {
    out.append(new Uint8Array(1000).fill(i));
    const bytes = out.take()!;
    written.add(bytes.buffer);
    // Data that arrives meanwhile waits behind it.
    out.append(Uint8Array.of(1));
    assertEquals([bytes.length, bytes[999]], [1000, i % 256]);
    out.written();
    assertEquals(out.take()?.length, 1);
    out.written();
  }
  assertEquals(written.size, 1);
});

Deno.test("HTTP/2: OutgoingBytes allocates at most 2 KiB for a few small frames", () => {
  const out = new OutgoingBytes();
  const settings = new Uint8Array(30);
  for (let frame = 0; frame < 4; frame++) out.frame(TYPE.settings, 0, 0, settings);
  assert(out.take()!.buffer.byteLength <= 2048);
});
