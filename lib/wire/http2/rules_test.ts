/** HTTP/2: messages and frames that break the rules, whichever side sends them. */

import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { settle } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { HpackEncoder } from "./hpack.ts";
import { FLAG, H2, SETTING, TYPE, uint32 } from "./frame.ts";
import { GET, Notes, OK, server, Wire } from "../../../tests/support/http2_wire.ts";

const BOTH = FLAG.endHeaders | FLAG.endStream;

/** The codes of streams and of the connection that have been ended. */
function ends(wire: Wire): { resets: number[]; goaway: number | undefined } {
  const resets = wire.take(TYPE.reset).map(({ payload }) => payload.readUInt32BE());
  return { resets, goaway: wire.take(TYPE.goaway)[0]?.payload.readUInt32BE(4) };
}

const POST: HeaderFields = [[":method", "POST"], [":scheme", "http"], [":path", "/"], [":authority", "a"]];

Deno.test("HTTP/2: a server resets malformed requests without calling a handler", async () => {
  const cases: HeaderFields[] = [
    [...POST, ["Upper", "a"]],
    [...POST, ["", "a"]],
    [...POST, ["a b", "a"]],
    [...POST, ["x", "a\r\nb"]],
    [...POST, ["x", "a\0"]],
    [...POST, ["x", "a"], [":path", "/"]],
    [...POST, [":path", "/"]],
    [...POST, [":status", "200"]],
    [...POST, [":unknown", "a"]],
    [...POST, ["connection", "close"]],
    [...POST, ["transfer-encoding", "chunked"]],
    [...POST, ["te", "gzip"]],
    [...POST, ["content-length", "-1"]],
    [...POST, ["host", "b"]],
    [...POST, ["host", "a"], ["host", "a"]],
    ...[0, 1, 2].map((at) => POST.filter((_, i) => i !== at)),
    POST.map(([name, value]) => [name, name === ":path" ? "" : value] as const),
    [[":method", "CONNECT"], [":path", "/"], [":scheme", "http"]],
    [],
  ];
  for (const fields of cases) {
    const { wire, notes } = server();
    await wire.settings();
    await wire.headers(1, fields, BOTH);
    assertEquals([notes.length, ends(wire)], [0, { resets: [H2.protocol], goaway: undefined }], `${fields}`);
    await wire.headers(3, [...POST, ["te", "trailers"], ["x", " spaces "]], BOTH);
    assertEquals(notes.length, 1);
    wire.close();
  }
});

Deno.test("HTTP/2: a client refuses malformed answers and continues", async () => {
  const data = (wire: Wire, id: number, flags = 0) => wire.send(TYPE.data, flags, id, Buffer.from("data"));
  const cases: [string, (wire: Wire, id: number) => Promise<void>][] = [
    ["no status", (wire, id) => wire.headers(id, [["a", "b"]])],
    ["a wrong status", (wire, id) => wire.headers(id, [[":status", "20"]])],
    ["a request", (wire, id) => wire.headers(id, GET)],
    ["a capital", (wire, id) => wire.headers(id, [...OK, ["A", "b"]])],
    ["data first", data],
    ["the end of an interim answer", (wire, id) => wire.headers(id, [[":status", "100"]], BOTH)],
    ["two headers", async (wire, id) => {
      await wire.headers(id, OK);
      await wire.headers(id, OK);
    }],
    ["a pseudo-header in trailers", async (wire, id) => {
      await wire.headers(id, OK);
      await wire.headers(id, [[":status", "200"]], BOTH);
    }],
    ["less data than announced", async (wire, id) => {
      await wire.headers(id, [...OK, ["content-length", "5"]]);
      await data(wire, id, FLAG.endStream);
    }],
    ["more data than announced", async (wire, id) => {
      await wire.headers(id, [...OK, ["content-length", "3"]]);
      await data(wire, id);
    }],
  ];
  for (const [what, play] of cases) {
    const wire = new Wire({ role: "client" });
    await wire.settings();
    const [broken, fine] = [new Notes(), new Notes()];
    await play(wire, wire.connection.request(GET, true, broken).id);
    assertEquals([broken.error?.code, ends(wire).resets], ["internal", [H2.protocol]], what);
    const { id } = wire.connection.request(GET, true, fine);
    await wire.headers(id, [[":status", "103"]]);
    await wire.headers(id, [...OK, ["content-length", "4"]]);
    await data(wire, id, FLAG.endStream);
    assertEquals([fine.body, fine.over, fine.error], ["data", true, undefined], what);
    wire.close();
  }
});

Deno.test("HTTP/2: a request must match its content-length and have a single header block", async () => {
  const length: HeaderFields = [...POST, ["content-length", "8"]];
  const data = (wire: Wire, flags = 0) => wire.send(TYPE.data, flags, 1, Buffer.from("data"));
  const cases: [(wire: Wire) => Promise<void>, number[]][] = [
    [async (wire) => (await data(wire), await data(wire, FLAG.endStream)), []],
    [(wire) => data(wire, FLAG.endStream), [H2.protocol]],
    [async (wire) => (await data(wire), await data(wire), await data(wire)), [H2.protocol]],
    [(wire) => wire.headers(1, POST), [H2.protocol]],
    [(wire) => wire.headers(1, POST, BOTH), [H2.protocol]],
    [async (wire) => (await data(wire), await data(wire), await wire.headers(1, [["a", "b"]], BOTH)), []],
  ];
  for (const [index, [play, resets]] of cases.entries()) {
    const { wire, notes } = server();
    await wire.settings();
    await wire.headers(1, length);
    await play(wire);
    assertEquals(ends(wire), { resets, goaway: undefined }, `${index}`);
    assertEquals(notes[0].end, resets.length === 0, `${index}`);
    wire.close();
  }
});

Deno.test("HTTP/2: an illegal frame ends the connection with the error code of the standard", async () => {
  const block = (...fields: HeaderFields) => Buffer.from(new HpackEncoder().encode(fields));
  const frames: [string, number, number, number, Uint8Array, number][] = [
    ["SETTINGS acknowledged with a payload", TYPE.settings, FLAG.ack, 0, Buffer.alloc(6), H2.frameSize],
    ["push 2", TYPE.settings, 0, 0, Buffer.from("000200000002", "hex"), H2.protocol],
    ["PRIORITY on stream 0", TYPE.priority, 0, 0, Buffer.alloc(5), H2.protocol],
    ["PRIORITY of 4 bytes", TYPE.priority, 0, 1, Buffer.alloc(4), H2.frameSize],
    ["PRIORITY on itself", TYPE.priority, 0, 7, Buffer.from("0000000700", "hex"), H2.protocol],
    ["GOAWAY on a stream", TYPE.goaway, 0, 1, Buffer.alloc(8), H2.protocol],
    ["HEADERS before the last", TYPE.headers, BOTH, 3, block(...POST), H2.protocol],
    ["HEADERS after the end", TYPE.headers, BOTH, 5, block(...POST), H2.streamClosed],
    ["a table resized after a field", TYPE.headers, BOTH, 9, Buffer.from("8220", "hex"), H2.compression],
    ["a push", TYPE.push, 0, 2, Buffer.alloc(4), H2.protocol],
  ];
  for (const [what, type, flags, stream, payload, code] of frames) {
    const { wire, streams } = server();
    await wire.settings();
    await wire.headers(5, POST, BOTH);
    streams[0].headers(OK, true);
    await wire.send(type, flags, stream, payload);
    assertEquals(ends(wire).goaway, code, what);
    assert(!wire.connection.open);
  }
});

Deno.test("HTTP/2: DATA on an ended stream is refused, unless it was already on its way", async () => {
  const { wire, streams } = server();
  await wire.settings();
  await wire.headers(1, POST, BOTH);
  await wire.send(TYPE.data, 0, 1, Buffer.from("half-closed"));
  assertEquals(ends(wire).resets, [H2.streamClosed]);
  await wire.headers(3, POST);
  streams[1].headers(OK, true);
  await settle();
  assertEquals(ends(wire).resets, [H2.noError]);
  await wire.send(TYPE.data, FLAG.endStream, 3, Buffer.from("under way"));
  assertEquals(ends(wire).resets, []);
  await wire.headers(5, POST);
  await wire.send(TYPE.reset, 0, 5, uint32(H2.cancel));
  await wire.send(TYPE.data, 0, 5, Buffer.from("after the end"));
  assertEquals(ends(wire), { resets: [H2.streamClosed], goaway: undefined });
  // Answered before the peer's reset came: what follows that is wrong as well.
  await wire.headers(7, POST);
  streams[3].headers(OK, true);
  await settle();
  assertEquals(ends(wire).resets, [H2.noError]);
  await wire.send(TYPE.reset, 0, 7, uint32(H2.cancel));
  await wire.send(TYPE.data, 0, 7, Buffer.from("after the end"));
  assertEquals(ends(wire), { resets: [H2.streamClosed], goaway: undefined });
  // Credit for a stream that has ended may come late; credit of nothing is wrong at any time.
  await wire.headers(9, POST, BOTH);
  streams[4].headers(OK, true);
  await settle();
  await wire.send(TYPE.window, 0, 9, uint32(1));
  assertEquals(ends(wire), { resets: [], goaway: undefined });
  await wire.send(TYPE.window, 0, 9, uint32(0));
  assertEquals(ends(wire), { resets: [H2.protocol], goaway: undefined });
  wire.close();
});

Deno.test("HTTP/2: the last of two equal settings counts, and a window overflow ends the connection", async () => {
  const { wire, streams } = server();
  await wire.settings();
  await wire.headers(1, POST, BOTH);
  await wire.send(TYPE.window, 0, 1, uint32(70_000));
  await wire.settings([SETTING.window, 2 ** 31 - 1], [SETTING.window, 100]);
  assertEquals(ends(wire), { resets: [], goaway: undefined });
  streams[0].headers(OK, false);
  await wire.settings([SETTING.window, 2 ** 31 - 1]);
  assertEquals(ends(wire).goaway, H2.flowControl);
});

Deno.test("HTTP/2: a server drops answer fields beyond the peer's header limit, the largest first", async () => {
  const { wire, streams, notes } = server();
  await wire.settings([SETTING.headerBytes, 200]);
  for (const id of [1, 3]) await wire.headers(id, POST, BOTH);
  streams[0].headers([...OK, ["large", "x".repeat(200)], ["small", "y"]], false);
  streams[0].end([["grpc-status", "3"], ["grpc-message", "z".repeat(5_000_000)]]);
  await wire.send(TYPE.ping, 0, 0, Buffer.alloc(8));
  assertEquals(wire.take(TYPE.headers).map((frame) => wire.decode(frame)), [
    [...OK, ["small", "y"]],
    [["grpc-status", "3"]],
  ]);
  await wire.settings([SETTING.headerBytes, 10]);
  streams[1].headers(OK, true);
  assertEquals(notes[1].error?.code, "resource_exhausted");
  await settle();
  assertEquals(ends(wire), { resets: [H2.internal], goaway: undefined });
  wire.close();
});

Deno.test("HTTP/2: a client fails a call whose fields exceed the server's header limit", async () => {
  const wire = new Wire({ role: "client" });
  await wire.settings([SETTING.headerBytes, 300]);
  const error = assertThrows(
    () => wire.connection.request([...GET, ["x", "y".repeat(300)]], true, new Notes()),
    SvcError,
  );
  assertEquals([error.code, wire.connection.table.size], ["resource_exhausted", 0]);
  assertStringIncludes(error.message, "the server takes 300");
  wire.connection.request(GET, true, new Notes());
  wire.close();
});
