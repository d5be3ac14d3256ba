/**
 * A message reader's memory: its content, its charge, and its release.
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { Buffer } from "node:buffer";
import { deflateSync, gzipSync } from "node:zlib";
import { SvcError } from "../../base/error.ts";
import { ByteBudget, PortAllowance } from "../flow/byte_budget.ts";
import { framed, MAX_MESSAGE_BYTES, PUBLIC_MESSAGE_BYTES } from "./message.ts";
import { admit, ByteQueue, MessageReader } from "./message_reader.ts";
import { giveBack } from "../flow/given_back.ts";

const COMPRESSED = 1;

function prefixOf(bytes: number): Uint8Array {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(bytes, 1);
  return prefix;
}

Deno.test("MessageReader: charges each received byte once, and not the announced length", async () => {
  for (const reads of [true, false]) {
    const budget = new ByteBudget("messages", 64 * 1024 * 1024);
    const reader = new MessageReader({ budget });
    const read = reads ? assertRejects(() => reader.next(), SvcError, "went away") : undefined;
    reader.push(prefixOf(MAX_MESSAGE_BYTES));
    assert(budget.usedBytes <= 1024, `${budget.usedBytes} bytes for a prefix`);
    const pieces = 1_000_000;
    // One view for each of these would be more than 100 MB.
    for (let i = 0; i < pieces; i++) reader.push(new Uint8Array(1));
    assert(budget.usedBytes >= pieces && budget.usedBytes <= 2 * pieces + 1024, `${budget.usedBytes} bytes`);
    reader.abort(new SvcError("canceled", "went away"));
    assertEquals(budget.usedBytes, 0);
    await read;
  }
});

Deno.test("MessageReader: a message beyond the budget fails its own call and releases its memory", async () => {
  const port = new PortAllowance({ received: 3_000, receivedByConnection: 2_000 });
  const [one, two] = [port.connection(), port.connection()];
  const large = new MessageReader({ budget: one.authenticated });
  const failing = assertRejects(() => large.next(), SvcError);
  large.push(prefixOf(100_000));
  large.push(new Uint8Array(1_000));
  large.push(new Uint8Array(1_500));
  const error = await failing;
  assertEquals(error.code, "resource_exhausted");
  assert(error.message.includes("messages on this connection hold"), error.message);
  assertEquals(port.usedBytes.received, 0);
  const other = new MessageReader({ budget: two.authenticated });
  other.push(framed(new Uint8Array(500)));
  assertEquals((await other.next()).value?.length, 500);
  other.release();
  assertEquals(port.usedBytes.received, 0);
});

Deno.test("ByteBudget: a few large messages leave room for small ones", () => {
  const budget = new ByteBudget("messages to this server", 1_000_000);
  budget.take(740_000);
  try {
    budget.take(20_000);
    assert(false, "taken");
  } catch (error) {
    assertEquals(SvcError.from(error).code, "resource_exhausted");
  }
  for (let i = 0; i < 10; i++) budget.take(10_000);
});

Deno.test("MessageReader: a message is charged until the next read, or until the call ends", async () => {
  const budget = new ByteBudget("messages", 10_000);
  const reader = new MessageReader({ budget });
  const first = reader.next();
  reader.push(framed(new Uint8Array(4_000)));
  assertEquals((await first).value?.length, 4_000);
  assertEquals(budget.usedBytes, 4_000);
  const second = reader.next();
  assertEquals(budget.usedBytes, 0);
  reader.push(framed(new Uint8Array(3_000)));
  assertEquals((await second).value?.length, 3_000);
  reader.release();
  assertEquals(budget.usedBytes, 0);
  // A handler that reads after the end of its call gets the call's end, not the end of the stream.
  reader.end();
  await assertRejects(() => reader.next(), SvcError, "the call has ended");
});

Deno.test("MessageReader: a compressed message needs an announced compression that is known", async () => {
  const codeWith = async (encoding: string | undefined) => {
    const reader = new MessageReader({ encoding });
    reader.push(framed(gzipSync("text"), COMPRESSED));
    return (await assertRejects(() => reader.next(), SvcError)).code;
  };
  assertEquals(
    [await codeWith(undefined), await codeWith("identity"), await codeWith("")],
    Array(3).fill("internal"),
  );
  assertEquals([await codeWith("br"), await codeWith("identity;q=1")], Array(2).fill("unimplemented"));

  const plain = new MessageReader({ encoding: "identity" });
  plain.push(framed(Buffer.from("text")));
  assertEquals((await plain.next()).value, new Uint8Array(Buffer.from("text")));
});

Deno.test("MessageReader: an inflated message is charged by its inflated size and stops at the limit", async () => {
  for (const [encoding, compress] of [["gzip", gzipSync], ["deflate", deflateSync]] as const) {
    const budget = new ByteBudget("messages", 4_000_000);
    const reader = new MessageReader({ encoding, budget });
    reader.push(framed(compress(Buffer.alloc(1_000_000, "a")), COMPRESSED));
    const message = (await reader.next()).value!;
    assertEquals([message.length, message[0], message.at(-1)], [1_000_000, 97, 97]);
    assertEquals(budget.usedBytes, 1_000_000);
    const tooMuch = assertRejects(() => reader.next(), SvcError);
    reader.push(framed(compress(Buffer.alloc(9_000_000)), COMPRESSED));
    assertEquals((await tooMuch).code, "resource_exhausted");
    assertEquals(budget.usedBytes, 0);
  }
  const reader = new MessageReader({ encoding: "gzip", budget: new ByteBudget("messages", 10_000) });
  reader.push(framed(Buffer.from("no gzip"), COMPRESSED));
  assertEquals((await assertRejects(() => reader.next(), SvcError)).code, "internal");
});

Deno.test("MessageReader: 40 gzip bombs hold at most 64 MiB, and some fail with resource_exhausted", async () => {
  const port = new PortAllowance();
  const bomb = framed(gzipSync(Buffer.alloc(MAX_MESSAGE_BYTES)), COMPRESSED);
  const readers = Array.from({ length: 40 }, () => {
    const { authenticated: known, inflater } = port.connection();
    return new MessageReader({ encoding: "gzip", budget: known, inflater });
  });
  let peakBytes = 0;
  const outcomes = await Promise.all(readers.map(async (reader) => {
    reader.push(bomb);
    try {
      await reader.next();
      peakBytes = Math.max(peakBytes, port.usedBytes.received);
      return "read";
    } catch (error) {
      return SvcError.from(error).code;
    }
  }));
  // All of them together would be 1.3 GB.
  assert(peakBytes <= 64 * 1024 * 1024, `${peakBytes} bytes`);
  assert(outcomes.includes("resource_exhausted"));
  readers.forEach((reader) => reader.release());
  assertEquals(port.usedBytes.received, 0);
});

Deno.test("MessageReader: an unauthenticated call may hold little, and a public call only small messages", async () => {
  const port = new PortAllowance({ unauthenticatedByConnection: 100_000 });
  const allowance = port.connection();
  const early = new MessageReader({ budget: allowance.unauthenticated });
  early.push(framed(new Uint8Array(200_000)));
  assertEquals((await assertRejects(() => early.next(), SvcError)).code, "resource_exhausted");
  const known = new MessageReader({ budget: allowance.unauthenticated });
  known.push(prefixOf(200_000));
  admit(known, "authenticated", allowance);
  assertEquals(allowance.unauthenticated.usedBytes, 0);
  known.push(new Uint8Array(200_000));
  assertEquals((await known.next()).value?.length, 200_000);
  const stranger = new MessageReader({ budget: allowance.unauthenticated });
  admit(stranger, "unauthenticated", allowance);
  stranger.push(prefixOf(PUBLIC_MESSAGE_BYTES + 1));
  const error = await assertRejects(() => stranger.next(), SvcError);
  assertEquals(error.code, "resource_exhausted");
});

Deno.test("MessageReader.abort: returns the flow-control window of unread bytes", () => {
  let taken = 0;
  const reader = new MessageReader({ taken: (bytes) => void (taken += bytes) });
  reader.push(framed(new Uint8Array(1_000)));
  assertEquals(taken, 0);
  reader.abort(new SvcError("canceled", "over"));
  assertEquals(taken, 1_005);
  reader.push(new Uint8Array(10));
  assertEquals(taken, 1_015);
});

Deno.test("MessageReader: messages stay intact after their source buffer is released", async () => {
  for (const length of [10, 5_000, 100_000]) {
    const reader = new MessageReader();
    const read = reader.next();
    const chunk = new Uint8Array(framed(new Uint8Array(length).fill(7)));
    reader.push(chunk);
    giveBack(chunk);
    const { value } = await read;
    assertEquals([value.length, value.at(-1)], [length, 7]);
  }
});

Deno.test("ByteQueue.clear: releases the memory of its remaining bytes", () => {
  const queue = new ByteQueue(new ByteBudget("messages", 1_000_000));
  queue.append(new Uint8Array(100_000), 100_000);
  const bytes = queue.take(60_000);
  queue.append(new Uint8Array(50_000));
  queue.clear();
  assertEquals([bytes.length, queue.length], [60_000, 0]);
  const whole = new ByteQueue(new ByteBudget("messages", 1_000_000));
  whole.append(new Uint8Array(100_000), 100_000);
  const block = whole.take(100_000).buffer;
  whole.clear();
  assertEquals(block.byteLength, 100_000);
});

Deno.test("ByteQueue: joins pieces of any size in order and charges their actual size", () => {
  for (const step of [1, 7, 600, 5_000, 300_000]) {
    const budget = new ByteBudget("messages", 10_000_000);
    const queue = new ByteQueue(budget);
    const sent = Uint8Array.from({ length: 700_000 }, (_, at) => at * at % 251);
    let read = 0;
    for (let at = 0; at < sent.length; at += step) {
      queue.append(sent.subarray(at, at + step), sent.length - read);
      assert(budget.usedBytes <= 2 * queue.length + 300_000, `${budget.usedBytes} for ${queue.length}`);
      if (at % 3 === 0) continue;
      const bytes = queue.take(Math.ceil(queue.length / 2));
      assertEquals(bytes.every((byte, index) => byte === sent[read + index]), true, `step ${step}, at ${at}`);
      read += bytes.length;
    }
    const rest = queue.take(queue.length);
    assertEquals([read + rest.length, rest.at(-1)], [sent.length, sent.at(-1)]);
    queue.clear();
    assertEquals(budget.usedBytes, 0);
  }
});
