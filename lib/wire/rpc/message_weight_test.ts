/**
 * The weight of messages before they are decoded: refused, accepted and charged ones.
 */

import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DoCommandRequestSchema } from "../../../proto/gen/common_pb.ts";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { FlatTensorDataFloatSchema, FlatTensorDataInt32Schema } from "../../../proto/gen/ml_model_pb.ts";
import { SystemClock } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { Cancellation } from "./cancellation.ts";
import { Decoder, HeavyTurns } from "./decoder.ts";
import { DECODED_BYTES_MAX, NESTING_MAX, Scales } from "./message_weight.ts";
import { Metadata } from "./metadata.ts";
import {
  create,
  type DescMessage,
  FileDescriptorProtoSchema,
  fromBinary,
  StringValueSchema,
  StructSchema,
  toBinary,
} from "./proto.ts";
import { pathOf, service, ServiceTable } from "./service.ts";

function weigh(desc: DescMessage, bytes: Uint8Array) {
  return new Scales().weigh(desc, bytes);
}

function varint(value: number): number[] {
  return value < 0x80 ? [value] : [0x80 | (value & 0x7f), ...varint(value >>> 7)];
}

function repeated(piece: readonly number[], count: number): Uint8Array {
  const bytes = new Uint8Array(piece.length * count);
  for (let at = 0; at < bytes.length; at += piece.length) bytes.set(piece, at);
  return bytes;
}

/** `content` as field `number` of a message, a string, or packed numbers. */
function field(number: number, content: Uint8Array): Uint8Array {
  const head = [...varint(number << 3 | 2), ...varint(content.length)];
  const bytes = new Uint8Array(head.length + content.length);
  bytes.set(head);
  bytes.set(content, head.length);
  return bytes;
}

/** A list of `count` empty values as the command of a request. */
function empties(count: number): Uint8Array {
  return field(2, field(1, field(2, field(6, repeated([10, 0], count)))));
}

Deno.test("weight: refuses small messages that decode to many values", () => {
  const hostile: [string, DescMessage, Uint8Array][] = [
    ["empty values", DoCommandRequestSchema, empties(1_000_000)],
    ["entries of a map", StructSchema, repeated([10, 0], 1_000_000)],
    ["packed integers", FlatTensorDataInt32Schema, field(1, new Uint8Array(16_000_000))],
    ["packed integers of a byte", FileDescriptorProtoSchema, field(10, new Uint8Array(8_000_000))],
    ["integers that are not packed", FlatTensorDataInt32Schema, repeated([13, 0, 0, 0, 0], 2_000_000)],
    ["unknown fields", StringValueSchema, repeated([0x10, 1], 1_000_000)],
    ["unknown groups", StringValueSchema, repeated([0x13, 0x14], 1_000_000)],
    ["a string again and again", StringValueSchema, repeated([10, 0], 1_000_000)],
  ];
  for (const [what, desc, bytes] of hostile) {
    const error = assertThrows(() => weigh(desc, bytes), SvcError, "too many values");
    assertEquals([what, error.code], [what, "resource_exhausted"]);
  }
});

Deno.test("weight: a repeated Struct field counts again with all earlier content", () => {
  const large = field(2, repeated([10, 3, 10, 1, 65], 10_000));
  const again = repeated([18, 0], 100);
  assert(weigh(DoCommandRequestSchema, large).objectBytes < DECODED_BYTES_MAX / 4);
  const bytes = new Uint8Array([...large, ...again]);
  assertThrows(() => weigh(DoCommandRequestSchema, bytes), SvcError, "too many values");
});

Deno.test("weight: accepts large messages of ordinary use", () => {
  const readings = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`reading ${i}`, i / 3]));
  const command = toBinary(
    DoCommandRequestSchema,
    create(DoCommandRequestSchema, { name: "a", command: readings }),
  );
  assert(weigh(DoCommandRequestSchema, command).objectBytes > 20_000 * 100);
  const pixels = create(FlatTensorDataFloatSchema, { data: Array(640 * 640 * 3).fill(0.5) });
  weigh(FlatTensorDataFloatSchema, toBinary(FlatTensorDataFloatSchema, pixels));
  const text = toBinary(StringValueSchema, create(StringValueSchema, { value: "x".repeat(32_000_000) }));
  assertEquals(weigh(StringValueSchema, text).objectBytes < 1000, true);
  assert(weigh(StringValueSchema, text).textBytes >= 32_000_000);
});

Deno.test("weight: refuses malformed bytes with the decoder's error or earlier", () => {
  const filler = field(15, new Uint8Array(200));
  const wrong: [string, number[]][] = [
    ["run past the end of their message", [0x12, 0x7f]],
    ["run past the end of their message", [0x12, 4, 0x0a, 9, 0x0a, 0, 0, 0]],
    ["wire type", [0x10, 1]],
    ["without a number", [0, 0]],
    ["that has not begun", [0x1c]],
    ["a group without an end", [0x1b]],
    ["without an end", [0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]],
    // The bytes behind a message end no number in it: of a field, of a length, of a length in a map.
    ["a tag or length without an end", [0x12, 1, 0x80, 1, 0, 0]],
    ["a tag or length without an end", [0x12, 2, 0x0a, 0x80, 0, 0, 0]],
    ["a tag or length without an end", [0x12, 4, 0x0a, 2, 0x0a, 0x80, 0, 0, 0]],
  ];
  for (const [problem, bytes] of wrong) {
    const message = new Uint8Array([...filler, ...bytes]);
    const error = assertThrows(() => weigh(DoCommandRequestSchema, message), SvcError, problem);
    assertEquals(error.code, "internal");
  }
  let deep = field(1, new Uint8Array(100));
  for (let i = 0; i < NESTING_MAX; i++) deep = field(1, field(2, field(5, deep)));
  assertThrows(() => weigh(StructSchema, deep), SvcError, "within each other");
});

Deno.test("weight: charges the decoded size before decoding, and the call fails if it does not fit", async () => {
  let charged = 0, handled = 0, refused = 0;
  const { echo } = EchoService.method;
  const table = new ServiceTable(new SystemClock());
  table.add(service(EchoService, { echo: ({ message }) => (handled++, { message }) }));
  const outcome = async (bytes: Uint8Array, roomBytes: number) => {
    const ended = Promise.withResolvers<number>();
    await table.handle({
      path: pathOf(echo),
      header: new Metadata(),
      peer: { kind: "memory" },
      cancellation: new Cancellation(),
      requests: (async function* () {
        yield await Promise.resolve(bytes);
      })(),
      decoding: (bytes) => {
        charged += bytes;
        if (bytes > roomBytes) throw new SvcError("resource_exhausted", "no room");
      },
      refused: (bytes) => void (refused += bytes.length),
    }, { header() {}, message: () => undefined, end: ({ code }) => ended.resolve(code) });
    return ended.promise;
  };
  const unknown = repeated([0x50, 1], 1000);
  assertEquals([await outcome(unknown, Infinity), handled, refused], [0, 1, 0]);
  assert(charged > 100_000, `${charged} bytes`);
  assertEquals([await outcome(unknown, 1000), handled, refused], [8, 1, unknown.length]);
  assertEquals([await outcome(repeated([0x50, 1], 1_000_000), Infinity), handled], [8, 1]);
});

Deno.test("Decoder: refuses heavy messages and decodes others like fromBinary", () => {
  const decoder = new Decoder();
  assertThrows(() => decoder.decode(DoCommandRequestSchema, empties(1_000_000)), SvcError, "too many values");
  const bytes = empties(1000);
  const decoded = decoder.decode(DoCommandRequestSchema, bytes);
  assertEquals(decoded, fromBinary(DoCommandRequestSchema, bytes));
});

Deno.test("HeavyTurns: run in order, and a canceled call takes no turn", async () => {
  const turns = new HeavyTurns(new FakeClock());
  const { signal } = new AbortController();
  const done: string[] = [];
  const gone = AbortSignal.abort(new SvcError("canceled", "gone"));
  await Promise.all([
    turns.take(() => done.push("first"), signal),
    turns.take(() => done.push("second"), signal),
    assertRejects(() => turns.take(() => done.push("third"), gone), SvcError, "gone"),
    assertRejects(
      () => turns.take(() => Promise.reject(new SvcError("internal", "broken")), signal),
      SvcError,
    ),
    turns.take(() => done.push("fourth"), signal),
  ]);
  assertEquals(done, ["first", "second", "fourth"]);
});

Deno.test("HeavyTurns: pauses as long as the last work, up to 1 s, and not after short work", async () => {
  let nowMs = 0;
  const slept: number[] = [];
  const clock = Object.assign(new FakeClock(), {
    monotonicMs: () => nowMs,
    sleep: (ms: number) => {
      slept.push(ms);
      nowMs += ms;
      return Promise.resolve();
    },
  });
  const turns = new HeavyTurns(clock);
  const { signal } = new AbortController();
  const work = (ms: number) => turns.take(() => void (nowMs += ms), signal);
  await Promise.all([work(0.5), work(5), work(5000), work(1), work(0)]);
  assertEquals(slept, [5, 1000, 1]);
});

Deno.test("HeavyTurns.isLarge: is true for large messages only", () => {
  const turns = new HeavyTurns(new FakeClock());
  assertEquals([empties(100), empties(100_000)].map((bytes) => turns.isLarge(bytes)), [false, true]);
});
