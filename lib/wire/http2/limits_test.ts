/**
 * HTTP/2: the limits of the work, memory and time that a peer can take from a connection.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { PortAbuseLimits } from "./abuse_limits.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { HpackEncoder } from "./hpack.ts";
import { FLAG, H2, MAX_FRAME_BYTES, TYPE, uint32 } from "./frame.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { frameBytes, GET, Notes, OK, server, turns, Wire } from "../../../tests/support/http2_wire.ts";
import { FrameReader } from "./input.ts";

const MINUTE_MS = 60_000, HOUR_MS = 60 * MINUTE_MS;

function repeated(times: number, make: (i: number) => Uint8Array): Uint8Array {
  return Buffer.concat(Array.from({ length: times }, (_, i) => make(i)));
}

Deno.test("HTTP/2: joins tiny DATA frames and keeps no other memory alive", async () => {
  const pieces: Uint8Array[] = [];
  class Keeper extends Notes {
    override data(bytes: Uint8Array): void {
      pieces.push(bytes);
    }
  }
  const wire = new Wire({ role: "server", accept: () => new Keeper() });
  await wire.settings();
  await wire.headers(1, GET);
  const content = Buffer.from(Uint8Array.from({ length: 20_000 }, (_, at) => at % 251));
  const frames = repeated(content.length, (at) => frameBytes(TYPE.data, 0, 1, content.subarray(at, at + 1)));
  await wire.sendBytes(frames);
  const bytes = () => pieces.reduce((sum, { length }) => sum + length, 0);
  await turns(() => bytes() === content.length);
  assert(Buffer.concat(pieces).equals(content));
  assert(pieces.length < content.length / 100, `${pieces.length} pieces`);
  // A small piece among large frames does not keep those in memory.
  const mixed = [
    frameBytes(TYPE.ping, 1, 0, Buffer.alloc(8)),
    frameBytes(TYPE.data, 0, 1, Buffer.alloc(2000)),
  ];
  await wire.sendBytes(
    Buffer.concat([...mixed, ...Array(3).fill(frameBytes(99, 0, 0, Buffer.alloc(16_000)))]),
  );
  const kept = pieces.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
  assert(kept <= 2 * bytes(), `${kept} bytes kept for ${bytes()}`);
  wire.close();
});

Deno.test("HTTP/2: FrameReader reads a frame byte by byte with at most twice its memory", () => {
  const reader = new FrameReader("client");
  reader.push(frameBytes(TYPE.settings, FLAG.endHeaders, 0, Buffer.alloc(0)));
  assert(reader.next());
  const content = Buffer.from(Uint8Array.from({ length: MAX_FRAME_BYTES }, (_, at) => at % 251));
  const frame = frameBytes(TYPE.data, 0, 1, content);
  for (const [at, byte] of frame.entries()) {
    // Each byte comes at the beginning of a larger chunk of memory.
    reader.push(new Uint8Array(new ArrayBuffer(4096), 0, 1).fill(byte));
    assertEquals([reader.next(), reader.inFrame], at === frame.length - 1 ? [true, false] : [false, true]);
  }
  assert(Buffer.from(reader.payload).equals(content));
  assert(reader.payload.buffer.byteLength <= 2 * frame.length);
});

/** A frame, over and over, that a peer must not send that often. */
const EMPTY = Buffer.alloc(0);
const REQUEST = new HpackEncoder().encode(GET), MALFORMED = new HpackEncoder().encode(OK);
const FLOODS: [what: string, frames: (times: number) => Uint8Array, few: number, many: number][] = [
  ["pings", (n) => repeated(n, () => frameBytes(TYPE.ping, 0, 0, Buffer.alloc(8))), 1000, 5000],
  ["settings", (n) => repeated(n, () => frameBytes(TYPE.settings, 0, 0, Buffer.alloc(6))), 100, 1000],
  ["settings", (n) => frameBytes(TYPE.settings, 0, 0, Buffer.alloc(6 * n)), 500, 2700],
  ["without effect", (n) => repeated(n, () => frameBytes(TYPE.data, 0, 1, EMPTY)), 1000, 10_000],
  [
    "without effect",
    (n) => repeated(n, () => frameBytes(TYPE.data, 8, 1, Buffer.from([1, 0]))),
    1000,
    10_000,
  ],
  [
    "without effect",
    (n) => repeated(n, () => frameBytes(TYPE.priority, 0, 1, Buffer.alloc(5))),
    1000,
    10_000,
  ],
  ["without effect", (n) => repeated(n, () => frameBytes(77, 0, 1, EMPTY)), 1000, 10_000],
  ["without effect", (n) => repeated(n, () => frameBytes(TYPE.settings, FLAG.ack, 0, EMPTY)), 1000, 10_000],
  ["window updates", (n) => repeated(n, () => frameBytes(TYPE.window, 0, 1, uint32(1))), 5000, 40_000],
  [
    "reset streams",
    (n) =>
      repeated(n, (i) =>
        Buffer.concat([
          frameBytes(TYPE.headers, FLAG.endHeaders, 3 + 2 * i, REQUEST),
          frameBytes(TYPE.reset, 0, 3 + 2 * i, uint32(H2.cancel)),
        ])),
    500,
    4000,
  ],
  // Streams that the peer makes us reset.
  [
    "reset streams",
    (n) => repeated(n, (i) => frameBytes(TYPE.headers, FLAG.endHeaders, 3 + 2 * i, MALFORMED)),
    500,
    4000,
  ],
];

Deno.test("HTTP/2: a flood of cheap frames ends the connection, and a moderate number does not", async () => {
  for (const [what, frames, few, many] of FLOODS) {
    for (const times of [few, many]) {
      const { wire } = server();
      await wire.settings();
      await wire.headers(1, GET);
      await wire.sendBytes(frames(times));
      if (times === many) await turns(() => !wire.connection.open);
      else for (let i = 0; i < 20; i++) await wire.sendBytes(EMPTY);
      const ends = wire.take(TYPE.goaway).map((
        { payload },
      ) => [payload.readUInt32BE(4), payload.toString("latin1", 8)]);
      assertEquals(
        ends,
        times === many ? [[H2.calm, `too many ${what === "without effect" ? "frames " : ""}${what}`]] : [],
      );
      wire.close();
    }
  }
});

Deno.test("HTTP/2: flood budgets refill, and acknowledgements of our frames do not count", async () => {
  const { wire, streams } = server();
  await wire.settings();
  const pings = repeated(1500, () => frameBytes(TYPE.ping, 0, 0, Buffer.alloc(8)));
  for (let minute = 0; minute < 10; minute++) {
    await wire.sendBytes(pings);
    // The first turn after a while is one of the clock's.
    await wire.clock.advance(0);
    await turns(() =>
      wire.frames.filter(({ type, flags }) => type === TYPE.ping && flags === 1).length === 1500
    );
    wire.take(TYPE.ping);
    await wire.clock.advance(4000);
  }
  for (let id = 1; id < 12_000; id += 2) {
    void wire.headers(id, GET, FLAG.endHeaders | FLAG.endStream);
    await turns(() => streams.length === (id + 1) / 2);
    streams.at(-1)!.headers(OK, true);
    // It had given up the call when the answer was under way.
    await wire.sendBytes(frameBytes(TYPE.reset, 0, id, uint32(H2.cancel)));
  }
  assert(wire.connection.open);
  wire.close();
});

Deno.test("HTTP/2: header fields that unpack to far more than their size end the connection", async () => {
  const { wire, notes } = server();
  await wire.settings();
  // One entry of the table, and thousands of references to it.
  const bomb = Buffer.concat([
    Uint8Array.of(0x40, 1, 0x61, 0x7f, 0xa1, 0x1e),
    Buffer.alloc(4000, "x"),
    Buffer.alloc(10_000, 0xbe),
  ]);
  await wire.send(TYPE.headers, FLAG.endHeaders, 1, bomb);
  await turns(() => !wire.connection.open);
  assertEquals(wire.take(TYPE.goaway)[0].payload.readUInt32BE(4), H2.calm);
  assertEquals(notes.length, 0);
  const { wire: other, notes: calls } = server();
  await other.settings();
  const large: HeaderFields = [...GET, ...Array(20).fill(["user-agent", "y".repeat(3000)])];
  for (let id = 1; id < 4000 && other.connection.open; id += 2) {
    await other.headers(id, large, FLAG.endHeaders | FLAG.endStream);
    await other.send(TYPE.reset, 0, id, uint32(H2.cancel));
  }
  assertEquals(other.take(TYPE.goaway)[0].payload.toString("latin1", 8), "too many header fields");
  assert(calls.length > 200);
});

Deno.test("HTTP/2: the port's shared budget closes the connections that use most of it", async () => {
  const clock = new FakeClock();
  const budgets = new PortAbuseLimits(clock);
  const connections = Array.from({ length: 4 }, () => server({ abuse: budgets }, clock).wire);
  const reset = async (wire: Wire, ids: readonly number[]) => {
    for (const id of ids) {
      await wire.headers(id, GET);
      await wire.send(TYPE.reset, 0, id, uint32(H2.cancel));
    }
  };
  const ids = Array.from({ length: 1500 }, (_, index) => 2 * index + 1);
  for (const wire of connections) await wire.settings();
  const [first, second, third, modest] = connections;
  for (const wire of [first, second]) await reset(wire, ids);
  await reset(modest, ids.slice(0, 100));
  assertEquals(connections.map(({ connection }) => connection.open), [true, true, true, true]);
  await reset(third, ids);
  assertEquals(third.take(TYPE.goaway)[0].payload.toString("latin1", 8), "too many reset streams");
  await reset(modest, ids.slice(100, 150));
  await reset(first, [2 * ids.length + 1]);
  assertEquals(connections.map(({ connection }) => connection.open), [false, true, false, true]);
  await clock.advance(10_000);
  await reset(second, [2 * ids.length + 1]);
  assertEquals([second.connection.open, modest.connection.open], [true, true]);
  for (const wire of connections) wire.close();
});

Deno.test("HTTP/2: a peer that keeps filling the header table loses the connection", async () => {
  const { wire } = server();
  await wire.settings();
  const churn = repeated(3000, () => Uint8Array.of(0x40, 1, 0x61, 1, 0x62));
  for (let id = 1; id < 80 && wire.connection.open; id += 2) {
    await wire.send(TYPE.headers, FLAG.endHeaders | FLAG.endStream, id, churn);
  }
  await turns(() => !wire.connection.open);
  assertEquals(wire.take(TYPE.goaway)[0].payload.toString("latin1", 8), "too many header fields");
});

Deno.test("HTTP/2: a client must finish SETTINGS, header blocks and frames in time", async () => {
  const headers = frameBytes(TYPE.headers, 0, 1, REQUEST);
  const settings = frameBytes(TYPE.settings, 0, 0, EMPTY);
  const cases: [string, Uint8Array[]][] = [
    ["no SETTINGS", []],
    ["no SETTINGS", [settings.subarray(0, 5)]],
    ["a header block that does not end", [settings, headers]],
    ["a frame that does not end", [settings, headers.subarray(0, 11)]],
  ];
  for (const [problem, parts] of cases) {
    let reason = "";
    const wire = new Wire({ role: "server", closed: (error) => reason = error.message });
    for (const part of parts) await wire.sendBytes(part);
    await wire.clock.advance(5000);
    assert(wire.connection.open);
    // A byte now and then does not extend the time limit.
    for (let i = 0; i < 7; i++) {
      await wire.sendBytes(
        problem.startsWith("a header") ? frameBytes(TYPE.continuation, 0, 1, Buffer.from("\0")) : EMPTY,
      );
      await wire.clock.advance(5000);
    }
    assert(!wire.connection.open, problem);
    assertStringIncludes(reason, problem);
    await wire.clock.advance(1000);
    assertEquals(wire.clock.pending, 0);
  }
});

Deno.test("HTTP/2: an idle client stays while it answers pings, and is closed when it does not", async () => {
  let reason = "";
  const { wire } = server({ closed: (error) => reason = error.message });
  await wire.settings();
  for (let ms = 0; ms < 3 * HOUR_MS; ms += MINUTE_MS / 6) {
    await wire.clock.advance(MINUTE_MS / 6);
    for (const { flags, payload } of wire.take(TYPE.ping)) {
      assertEquals(flags, 0);
      await wire.send(TYPE.ping, FLAG.ack, 0, payload);
    }
  }
  assert(wire.connection.open, reason);
  await wire.clock.advance(3 * MINUTE_MS);
  assert(!wire.connection.open);
  assertStringIncludes(reason, "no answer to a ping");
});

Deno.test("HTTP/2: a stream whose answer is unread for 120 s ends, and a slow reader stays", async () => {
  const { wire, streams, notes } = server();
  await wire.settings();
  const answerPings = async () => {
    for (const _ of wire.take(TYPE.ping)) await wire.send(TYPE.ping, FLAG.ack, 0, Buffer.alloc(8));
  };
  for (const id of [1, 3]) {
    await wire.headers(id, GET);
    streams.at(-1)!.headers(OK, false);
    void streams.at(-1)!.send(Buffer.alloc(1_000_000));
  }
  await wire.send(TYPE.window, 0, 0, uint32(1_000_000));
  for (let ms = 0; ms < 4 * MINUTE_MS; ms += MINUTE_MS / 2) {
    await wire.clock.advance(MINUTE_MS / 2);
    await answerPings();
    await wire.send(TYPE.window, 0, 3, uint32(1));
  }
  assertEquals(notes.map(({ over }) => over), [true, false]);
  assertStringIncludes(notes[0].error!.message, "reads nothing of the answer for 120 s");
  assert(wire.connection.open);
  wire.close();
});

Deno.test("HTTP/2: a message without progress for 120 s ends its stream", async () => {
  class Owed extends Notes {
    constructor(readonly owed: boolean) {
      super();
    }
  }
  const notes: Notes[] = [];
  const accept = () => {
    notes.push(new Owed(notes.length === 0));
    return notes.at(-1)!;
  };
  const wire = new Wire({ role: "server", accept });
  await wire.settings();
  for (const id of [1, 3]) {
    await wire.headers(id, GET);
    await wire.send(TYPE.data, 0, id, Buffer.from("half"));
  }
  for (let ms = 0; ms < 3 * MINUTE_MS; ms += MINUTE_MS / 6) {
    await wire.clock.advance(MINUTE_MS / 6);
    for (const _ of wire.take(TYPE.ping)) await wire.send(TYPE.ping, FLAG.ack, 0, Buffer.alloc(8));
  }
  assertEquals(notes.map(({ over }) => over), [true, false]);
  assertStringIncludes(notes[0].error!.message, "sends nothing more of a message for 120 s");
  wire.close();
});

Deno.test("HTTP/2: expel sends GOAWAY with the reason and closes at once", async () => {
  const { wire, notes } = server();
  await wire.settings();
  await wire.headers(1, GET);
  wire.connection.evict("no room");
  assertEquals(wire.take(TYPE.goaway)[0].payload.toString("latin1", 8), "no room");
  assert(notes[0].over && !wire.connection.open);
  assertEquals(wire.clock.pending, 0);
});
