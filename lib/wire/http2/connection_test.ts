/** HTTP/2, frame by frame: one end is a `Connection`, the other a test that reads and writes frames. */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";
import { settle } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { PortAllowance } from "../flow/byte_budget.ts";
import { acceptGrpc } from "../grpc/server.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { HpackEncoder } from "./hpack.ts";
import { CONNECTION_WINDOW_BYTES } from "./frame_dispatch.ts";
import { Connection, MAX_STREAMS } from "./connection.ts";
import { frameBytes, GET, Notes, OK, server, turns, Wire } from "../../../tests/support/http2_wire.ts";
import { FLAG, H2, PREFACE, TYPE, uint32 } from "./frame.ts";
import type { Stream } from "./stream.ts";

const WINDOW = 4, STREAMS = 3;

Deno.test("HTTP/2: data waits for the window of its stream and of its connection", async () => {
  const { wire, streams } = server();
  await wire.settings([WINDOW, 10]);
  await wire.headers(1, GET, FLAG.endHeaders | FLAG.endStream);
  streams[0].headers(OK, false);
  void streams[0].send(Buffer.alloc(25));
  streams[0].end();
  await settle();
  const sizes = () => wire.take(TYPE.data).map(({ payload }) => payload.length);
  assertEquals(sizes(), [10]);
  await wire.send(TYPE.window, 0, 1, uint32(5));
  assertEquals(sizes(), [5]);
  await wire.settings([WINDOW, 18]);
  assertEquals(sizes(), [8]);
  await wire.settings([WINDOW, 0]);
  await wire.send(TYPE.window, 0, 1, uint32(18));
  assertEquals(sizes(), []);
  await wire.send(TYPE.window, 0, 1, uint32(2));
  assertEquals(wire.take(TYPE.data).map(({ payload, flags }) => [payload.length, flags]), [[
    2,
    FLAG.endStream,
  ]]);
  assertEquals(wire.connection.table.size, 0);
  wire.close();
});

Deno.test("HTTP/2: streams send in turns and share the connection's window", async () => {
  const { wire, streams } = server();
  await wire.settings([WINDOW, 1_000_000]);
  for (const id of [1, 3]) await wire.headers(id, GET, FLAG.endHeaders | FLAG.endStream);
  const waits = streams.map((stream) => stream.send(Buffer.alloc(100_000)));
  await settle();
  const data = wire.take(TYPE.data);
  assertEquals(data.reduce((sum, { payload }) => sum + payload.length, 0), 65_535);
  assertEquals(data.map(({ stream }) => stream), [1, 3, 1, 3]);
  await wire.send(TYPE.window, 0, 0, uint32(1_000_000));
  assertEquals(wire.take(TYPE.data).reduce((sum, { payload }) => sum + payload.length, 0), 200_000 - 65_535);
  await Promise.all(waits);
  wire.close();
});

Deno.test("HTTP/2: once half of the connection's window is used, the peer gets back what it has used", async () => {
  const { wire } = server();
  await wire.settings();
  await wire.headers(1, GET);
  const given = () => {
    const updates = wire.take(TYPE.window).filter(({ stream }) => stream === 0);
    return updates.map(({ payload }) => payload.readUInt32BE());
  };
  assertEquals(given(), [CONNECTION_WINDOW_BYTES - 65_535]);
  const bytes = Buffer.alloc(16_384);
  const half = CONNECTION_WINDOW_BYTES / 2 / bytes.length;
  for (let count = 0; count < half; count++) await wire.send(TYPE.data, 0, 1, bytes);
  assertEquals(given(), []);
  await wire.send(TYPE.data, 0, 1, bytes);
  assertEquals(given(), [(half + 1) * bytes.length]);
  wire.close();
});

Deno.test("HTTP/2: accepts padding and priority, and credits padding to the window", async () => {
  const { wire, streams, notes } = server();
  await wire.settings();
  const block = Buffer.from(new HpackEncoder().encode(GET));
  const padded = Buffer.concat([Uint8Array.of(3), Buffer.alloc(5), block, Buffer.alloc(3)]);
  await wire.send(TYPE.headers, FLAG.endHeaders | FLAG.padded | FLAG.priority, 1, padded);
  assertEquals(notes[0].fields, [GET]);
  await wire.send(TYPE.data, FLAG.padded, 1, Buffer.from("\x02hello\0\0"));
  await wire.send(TYPE.priority, 0, 1, Buffer.alloc(5));
  await wire.send(99, 0, 1, Buffer.from("an unknown frame"));
  await wire.send(TYPE.data, FLAG.endStream, 1, Buffer.alloc(0));
  assertEquals([notes[0].body, notes[0].end], ["hello", true]);
  streams[0].headers(OK, true);
  assertEquals([notes[0].over, notes[0].error], [true, undefined]);
  wire.close();
});

Deno.test("HTTP/2: splits and joins a large header block over CONTINUATION frames", async () => {
  const { wire, streams, notes } = server();
  await wire.settings();
  const fields: HeaderFields = [...GET, ["x-large", "y".repeat(40_000)]];
  const block = Buffer.from(new HpackEncoder().encode(fields));
  await wire.send(TYPE.headers, FLAG.endStream, 1, block.subarray(0, 16_000));
  await wire.send(TYPE.continuation, 0, 1, block.subarray(16_000, 32_000));
  await wire.send(TYPE.continuation, FLAG.endHeaders, 1, block.subarray(32_000));
  assertEquals(notes[0].fields, [fields]);
  streams[0].headers([...OK, ["x-large", "z".repeat(40_000)]], true);
  await settle();
  const parts = [...wire.take(TYPE.headers), ...wire.take(TYPE.continuation)];
  assertEquals(parts.map(({ flags }) => flags), [FLAG.endStream, 0, FLAG.endHeaders]);
  const payload = Buffer.concat(parts.map((part) => part.payload));
  assertEquals(wire.decode({ ...parts[0], payload })?.[1][1].length, 40_000);
  wire.close();
});

Deno.test("HTTP/2: an early answer resets the request, and a reset stream ends", async () => {
  const { wire, streams, notes } = server();
  await wire.settings();
  await wire.headers(1, GET);
  streams[0].headers([[":status", "413"]], true);
  await settle();
  assertEquals(wire.take(TYPE.reset).map(({ payload }) => payload.readUInt32BE()), [H2.noError]);
  await wire.send(TYPE.data, 0, 1, Buffer.from("too late"));
  await wire.headers(3, GET);
  await wire.send(TYPE.reset, 0, 3, uint32(H2.cancel));
  assertEquals([notes[1].over, notes[1].error?.code], [true, "canceled"]);
  assertEquals(wire.connection.table.size, 0);
  wire.close();
});

Deno.test("HTTP/2: RST_STREAM with NO_ERROR after a complete request cancels it", async () => {
  const { wire, notes } = server();
  await wire.settings();
  await wire.headers(1, GET, FLAG.endHeaders | FLAG.endStream);
  await wire.send(TYPE.reset, 0, 1, uint32(H2.noError));
  assertEquals([notes[0].over, notes[0].error?.code], [true, "canceled"]);
  wire.close();
});

Deno.test("HTTP/2: a stream that exceeds its window is reset, and others continue", async () => {
  const { wire, notes } = server();
  await wire.settings();
  await wire.headers(1, GET);
  await wire.headers(3, GET);
  for (let i = 0; i < 65; i++) await wire.send(TYPE.data, 0, 1, Buffer.alloc(16_384));
  assertEquals(wire.take(TYPE.reset).map(({ payload }) => payload.readUInt32BE()), [H2.flowControl]);
  await wire.send(TYPE.data, FLAG.endStream, 3, Buffer.from("fine"));
  assertEquals(notes[1].body, "fine");
  wire.close();
});

Deno.test("HTTP/2: streams beyond MAX_STREAMS are refused", async () => {
  const { wire, streams } = server();
  await wire.settings();
  for (let i = 0; i <= MAX_STREAMS; i++) void wire.headers(1 + 2 * i, GET);
  await turns(() => streams.length === MAX_STREAMS);
  assertEquals(streams.length, MAX_STREAMS);
  assertEquals(wire.take(TYPE.reset).map(({ payload }) => payload.readUInt32BE()), [H2.refused]);
  wire.close();
});

Deno.test("HTTP/2: a reset call counts against the limit until its handler has ended", async () => {
  const handlers: (() => void)[] = [];
  const table = { handle: () => new Promise<void>((resolve) => handlers.push(resolve)) } as never;
  const wire = new Wire({
    role: "server",
    accept: acceptGrpc(table, { kind: "grpc" }, new PortAllowance().connection()),
  });
  await wire.settings();
  const call: HeaderFields = [
    [":method", "POST"],
    [":scheme", "http"],
    [":path", "/a.B/C"],
    ["content-type", "application/grpc"],
  ];
  let id = 1;
  const callAndReset = (times: number) => {
    for (let i = 0; i < times; i++, id += 2) {
      void wire.headers(id, call);
      void wire.send(TYPE.reset, 0, id, uint32(H2.cancel));
    }
    return settle();
  };
  await callAndReset(MAX_STREAMS + 5);
  await turns(() => handlers.length === MAX_STREAMS && wire.connection.table.size === 0);
  assertEquals(handlers.length, MAX_STREAMS);
  const refusals = wire.take(TYPE.headers).map((frame) => new Map(wire.decode(frame)).get("grpc-status"));
  assertEquals(refusals, ["8", "8", "8", "8", "8"]);
  for (const end of handlers) end();
  await settle();
  await callAndReset(1);
  assertEquals(handlers.length, MAX_STREAMS + 1);
  wire.close();
});

Deno.test("HTTP/2: drain finishes open streams, refuses new ones, then closes", async () => {
  const { wire, streams } = server();
  await wire.settings();
  await wire.headers(1, GET, FLAG.endHeaders | FLAG.endStream);
  wire.connection.drain();
  await wire.headers(3, GET, FLAG.endHeaders | FLAG.endStream);
  assertEquals(wire.take(TYPE.goaway).map(({ payload }) => payload.readUInt32BE(4)), [H2.noError]);
  assertEquals(wire.take(TYPE.reset).map(({ stream }) => stream), [3]);
  streams[0].headers(OK, true);
  await settle();
  assertEquals(wire.take(TYPE.headers).length, 1);
  assertEquals(wire.connection.open, false);
});

Deno.test("HTTP/2: after GOAWAY the client keeps accepted streams and loses later ones", async () => {
  const wire = new Wire({ role: "client" });
  await wire.settings([STREAMS, 2]);
  const [kept, lost] = [new Notes(), new Notes()];
  wire.connection.request(GET, true, kept);
  assert(wire.connection.hasRoom);
  wire.connection.request(GET, true, lost);
  assert(!wire.connection.hasRoom);
  await wire.send(TYPE.goaway, 0, 0, Buffer.concat([uint32(1), uint32(0), Buffer.from("so long")]));
  assertEquals(lost.error?.code, "unavailable");
  assertStringIncludes(lost.error!.message, "so long");
  assert(!wire.connection.open);
  await wire.headers(1, OK);
  await wire.send(TYPE.data, 0, 1, Buffer.from("body"));
  await wire.headers(1, [["grpc-status", "0"]], FLAG.endHeaders | FLAG.endStream);
  assertEquals([kept.body, kept.end, kept.error], ["body", true, undefined]);
  assertEquals(kept.fields, [OK, [["grpc-status", "0"]]]);
  assertEquals([kept.untouched, lost.untouched], [false, true]);
});

Deno.test("HTTP/2: the client opens few streams before SETTINGS, then as many as the server allows", async () => {
  let changed = false;
  const wire = new Wire({ role: "client", changed: () => changed = true });
  let opened = 0;
  const hears = async (work: () => Promise<void>) => {
    changed = false;
    await work();
    assert(changed);
  };
  const fill = () => {
    for (; wire.connection.hasRoom; opened++) wire.connection.request(GET, true, new Notes());
    return opened;
  };
  assertEquals(fill(), 100);
  await hears(() => wire.settings());
  assertEquals(fill(), MAX_STREAMS);
  await hears(() => wire.settings([STREAMS, MAX_STREAMS + 2]));
  assertEquals(fill(), MAX_STREAMS + 2);
  await settle();
  await hears(() => wire.settings([STREAMS, MAX_STREAMS]));
  const rooms: boolean[] = [];
  for (const id of [1, 3, 5]) {
    await hears(() => wire.send(TYPE.reset, 0, id, uint32(H2.cancel)));
    rooms.push(wire.connection.hasRoom);
  }
  assertEquals(rooms, [false, false, true]);
  wire.close();
});

Deno.test("HTTP/2: only a refused stream counts as untouched, not a reset stream", async () => {
  const wire = new Wire({ role: "client" });
  await wire.settings();
  const untouched: (boolean | undefined)[] = [];
  for (const code of [H2.refused, H2.cancel, H2.internal]) {
    const notes = new Notes();
    const { id } = wire.connection.request(GET, true, notes);
    await wire.send(TYPE.reset, 0, id, uint32(code));
    untouched.push(notes.untouched);
  }
  assertEquals(untouched, [true, false, false]);
  wire.close();
});

Deno.test("HTTP/2: a server announces and enforces its own maxStreams", async () => {
  const streams: Stream[] = [];
  const accept = (stream: Stream) => {
    streams.push(stream);
    return new Notes();
  };
  const wire = new Wire({ role: "server", accept, maxStreams: 2 });
  await wire.settings();
  const [{ payload }] = wire.take(TYPE.settings);
  assertEquals([payload.readUInt16BE(0), payload.readUInt32BE(2)], [STREAMS, 2]);
  for (const id of [1, 3, 5]) await wire.headers(id, GET);
  assertEquals(streams.length, 2);
  assertEquals(wire.take(TYPE.reset).map(({ payload }) => payload.readUInt32BE()), [H2.refused]);
  wire.close();
});

Deno.test("HTTP/2: answers pings, and receives answers to its own", async () => {
  const wire = new Wire({ role: "client" });
  await wire.settings();
  await wire.send(TYPE.ping, 0, 0, Buffer.from("12345678"));
  assertEquals(wire.take(TYPE.ping).map(({ flags, payload }) => [flags, payload.toString()]), [[
    1,
    "12345678",
  ]]);
  const pinged = wire.connection.ping();
  await settle();
  await wire.send(TYPE.ping, FLAG.ack, 0, wire.take(TYPE.ping)[0].payload);
  await pinged;
  const notes = new Notes();
  wire.connection.request(GET, true, notes);
  wire.close();
  assertEquals(notes.error?.message, "the test is over");
  const late = assertRejects(
    () => Promise.try(() => wire.connection.request(GET, true, new Notes())),
    SvcError,
  );
  assertEquals((await late).message, "the test is over");
});

Deno.test("HTTP/2: sends answers to simultaneous requests in a single write", async () => {
  let writes = 0;
  const socket = new Duplex({
    read() {},
    write: (_bytes, _encoding, done) => {
      writes++;
      done();
    },
  });
  const answer = async (stream: Stream) => {
    // Some handlers take more steps than others.
    for (let step = 0; step < stream.id; step++) await undefined;
    stream.headers(OK, true);
  };
  const connection = new Connection(socket, {
    role: "server",
    clock: new FakeClock(),
    accept: (stream) => {
      void answer(stream);
      return new Notes();
    },
  });
  socket.push(Buffer.concat([Buffer.from(PREFACE), frameBytes(TYPE.settings, 0, 0, new Uint8Array())]));
  await settle();
  const before = writes;
  const block = new HpackEncoder().encode(GET), flags = FLAG.endHeaders | FLAG.endStream;
  socket.push(Buffer.concat([1, 3, 5, 7, 9].map((id) => frameBytes(TYPE.headers, flags, id, block))));
  await settle();
  assertEquals([connection.table.size, writes - before], [0, 1]);
  connection.destroy(new SvcError("canceled", "the test is over"));
  await settle();
});

Deno.test("HTTP/2: reads an answer to its end although the sender closes at once", async () => {
  const socket = new Duplex({ read() {}, write: (_bytes, _encoding, done) => done(), allowHalfOpen: false });
  const closed: string[] = [];
  const connection = new Connection(socket, {
    role: "client",
    clock: new FakeClock(),
    closed: ({ message }) => closed.push(message),
  });
  const notes = new Notes();
  connection.request(GET, true, notes);
  await settle();
  const encoder = new HpackEncoder();
  // The answer and the end have come together, as to a program that was busy.
  socket.pause();
  socket.push(Buffer.concat([
    frameBytes(TYPE.settings, 0, 0, new Uint8Array()),
    frameBytes(TYPE.headers, FLAG.endHeaders, 1, encoder.encode(OK)),
    frameBytes(TYPE.data, 0, 1, Buffer.from("an answer")),
    frameBytes(TYPE.headers, FLAG.endHeaders | FLAG.endStream, 1, encoder.encode([["grpc-status", "0"]])),
  ]));
  socket.push(null);
  socket.resume();
  await turns(() => closed.length > 0);
  assertEquals([notes.error?.message, notes.body, notes.end], [undefined, "an answer", true]);
  assertEquals(closed, ["connection lost: the peer closed the connection"]);
});

Deno.test("HTTP/2: a peer that reads nothing loses the connection once 4 MiB of answers wait for it", async () => {
  const socket = new Duplex({ read() {}, write() {} });
  const [streams, notes]: [Stream[], Notes[]] = [[], []];
  const accept = (stream: Stream) => {
    streams.push(stream);
    notes.push(new Notes());
    return notes.at(-1)!;
  };
  const connection = new Connection(socket, { clock: new FakeClock(), role: "server", accept });
  const encoder = new HpackEncoder();
  socket.push(Buffer.from(PREFACE, "latin1"));
  socket.push(frameBytes(TYPE.settings, 0, 0, new Uint8Array()));
  const ask = async (id: number) => {
    const block = Buffer.from(encoder.encode(GET));
    socket.push(frameBytes(TYPE.headers, FLAG.endHeaders | FLAG.endStream, id, block));
    await settle();
  };

  // What the first write took is with the system, and the others wait.
  const fields: HeaderFields = [...OK, ["x-long", "~".repeat(60 * 1024)]];
  const answer = async (count: number) => {
    for (let asked = streams.length; asked < count && connection.open; asked++) {
      await ask(1 + 2 * asked);
      streams.at(-1)!.headers(fields, false);
    }
  };
  await answer(65);
  assertEquals([connection.open, streams.length], [true, 65]);
  await answer(90);
  assertEquals(connection.open, false);
  const codes = new Set(notes.map(({ over, error }) => over && error?.code));
  assertEquals([...codes], ["unavailable"]);
});
