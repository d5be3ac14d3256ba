/** Fairness: a socket that always has something to read leaves turns to the others. */

import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { once } from "node:events";
import { createServer as createHttp } from "node:http";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { connect as connectTls, createServer as createTls, type TLSSocket } from "node:tls";
import { nextTurn, settle } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { selfSigned } from "../../../tests/support/echo.ts";
import { Flow, holdBelowTls, readInTurns, RoundRobin, type SlicedReader } from "./round_robin.ts";
import { HpackEncoder } from "../http2/hpack.ts";
import { Connection } from "../http2/connection.ts";
import { PREFACE, TYPE } from "../http2/frame.ts";
import { frameBytes } from "../../../tests/support/http2_wire.ts";
import { standsStill } from "../../../tests/support/until.ts";

const MIB = 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;
const FLOOD_BYTES = 64 * 1024 * 1024;

/** A socket whose peer has sent `beginning` and then the same frames over and over. */
function flood(beginning: Uint8Array, again: Uint8Array): { socket: Duplex; sent: () => number } {
  let sent = 0;
  const chunk = Buffer.alloc(CHUNK_BYTES - CHUNK_BYTES % again.length, again);
  const socket = new Duplex({
    read() {
      sent += chunk.length;
      if (sent === chunk.length) this.push(beginning);
      else this.push(sent > FLOOD_BYTES ? null : Buffer.from(chunk));
    },
    write: (_bytes, _encoding, done) => done(),
  });
  return { socket, sent: () => sent };
}

/** How much is read before anybody else has a turn, and in ten turns. */
async function turns(sent: () => number): Promise<number[]> {
  const counts: number[] = [];
  for (let turn = 0; turn < 10; turn++) {
    await new Promise<void>((resolve) => void nextTurn(resolve));
    counts.push(sent());
  }
  return counts;
}

const PING = frameBytes(TYPE.ping, 1, 0, new Uint8Array(8));
const BEGINNING = Buffer.concat([Buffer.from(PREFACE), frameBytes(TYPE.settings, 0, 0, new Uint8Array())]);

Deno.test("fairness: an HTTP/2 connection that sends without pause yields to others", async () => {
  const { socket, sent } = flood(BEGINNING, PING);
  const connection = new Connection(socket, { role: "server", clock: new FakeClock() });
  for (const count of await turns(sent)) assert(count < 10 * 3 * CHUNK_BYTES, `${count} bytes`);
  assertEquals(connection.open, false, "too many pings");
  socket.destroy();
  await settle();
});

/** The highest number of calls that a connection gets served in a turn while so many connections are busy. */
async function callsInTurn(connections: number): Promise<number[]> {
  const scheduler = new RoundRobin();
  const block = new HpackEncoder().encode([[":method", "POST"], [":scheme", "http"], [":path", "/"]]);
  const headers = Array.from({ length: 500 }, (_, i) => frameBytes(TYPE.headers, 4, 1 + 2 * i, block));
  const busy = Array.from({ length: connections }, () => {
    const made = { calls: 0, most: 0, before: 0 };
    const socket = new Duplex({ read() {}, write: (_bytes, _encoding, done) => done() });
    const connection = new Connection(socket, {
      role: "server",
      clock: new FakeClock(),
      scheduler,
      accept: () => {
        made.calls++;
        return { headers() {}, data() {}, ended() {}, closed() {} };
      },
    });
    socket.push(Buffer.concat([BEGINNING, ...headers]));
    return { connection, made };
  });
  for (let turn = 0; turn < 100; turn++) {
    await new Promise<void>((resolve) => void nextTurn(resolve));
    for (const { made } of busy) {
      // The first data has a share of its own.
      if (turn > 0) made.most = Math.max(made.most, made.calls - made.before);
      made.before = made.calls;
    }
  }
  for (const { connection, made } of busy) {
    assertEquals(made.calls, 500);
    connection.destroy(new SvcError("canceled", "the test is over"));
  }
  await settle();
  assertEquals(scheduler.quantum, new RoundRobin().quantum);
  return busy.map(({ made }) => made.most);
}

Deno.test("fairness: calls per turn are limited, although they have few bytes", async () => {
  const [most] = await callsInTurn(1);
  assert(most < 100, `${most} calls in a turn`);
});

Deno.test("fairness: each connection's share shrinks when more connections wait", async () => {
  const [alone] = await callsInTurn(1);
  const each = Math.max(...await callsInTurn(8));
  assert(each <= alone / 3, `${each} calls in a turn of one of many, ${alone} of the only one`);
});

/** How many turns a connection waits for its next one after an answer of so many bytes, beside 15 others. */
async function turnsAfter(answerBytes: number): Promise<number> {
  const scheduler = new RoundRobin();
  const clock = new FakeClock();
  const flows = Array.from({ length: 16 }, () => {
    const socket = new Duplex({ read() {}, write: (_bytes, _encoding, done) => done() });
    return new Flow(socket, clock, scheduler);
  });
  const [asking, ...others] = flows;
  for (const other of others) {
    const again = () => other.yieldTurn(again);
    again();
  }
  // The first turn after a pause is smaller.
  await new Promise<void>((resolve) => asking.yieldTurn(resolve));
  asking.sent(answerBytes);
  let isMade = false;
  asking.yieldTurn(() => isMade = true);
  let turns = 0;
  while (!isMade) {
    await new Promise<void>((resolve) => void nextTurn(resolve));
    turns++;
  }
  for (const flow of flows) flow.stop();
  return turns;
}

Deno.test("fairness: large answers delay a connection's next turns, up to a limit", async () => {
  assertEquals([await turnsAfter(1000), await turnsAfter(150_000), await turnsAfter(30e6)], [1, 3, 9]);
});

/** Reads everything from a socket, slice by slice; returns the data and the most that came in one turn. */
async function readAll(
  content: Uint8Array,
  hear: (turns: SlicedReader, bytes: number) => void,
): Promise<[Buffer, number]> {
  const socket = new Duplex({ read() {}, write: (_bytes, _encoding, done) => done() });
  const turns = readInTurns(socket, new FakeClock());
  const parts: Buffer[] = [];
  let [perTurn, most] = [0, 0];
  socket.on("data", (bytes: Buffer) => {
    most = Math.max(most, perTurn += bytes.length);
    void nextTurn(() => perTurn = 0);
    parts.push(bytes);
    hear(turns, bytes.length);
    // A reader that takes its time now and then.
    if (parts.length % 10 !== 0) return;
    socket.pause();
    void nextTurn(() => socket.resume());
  });
  const ended = new Promise((resolve) => socket.once("end", resolve));
  for (let at = 0; at < content.length; at += CHUNK_BYTES) {
    socket.push(content.subarray(at, at + CHUNK_BYTES));
  }
  socket.push(null);
  await ended;
  socket.destroy();
  return [Buffer.concat(parts), most];
}

Deno.test("fairness: readInTurns delivers all bytes in order, in small slices where requests begin", async () => {
  const content = Buffer.from(Uint8Array.from({ length: 1_000_000 }, (_, at) => at % 251));
  const [body] = await readAll(content, () => {});
  assert(body.equals(content));
  const [requests, most] = await readAll(content, (turns) => turns.requested());
  assert(requests.equals(content));
  assert(most <= 4096, `${most} bytes in a turn`);
});

Deno.test("fairness: a request behind a long body ends a turn that began with a large slice", async () => {
  for (const hears of [1, 10_000]) {
    const socket = new Duplex({ read() {}, write: (_bytes, _encoding, done) => done() });
    const turns = readInTurns(socket, new FakeClock());
    let [isBody, bytesAfter, all] = [true, 0, 0];
    socket.on("data", (bytes: Buffer) => {
      all += bytes.length;
      if (isBody) return;
      bytesAfter += bytes.length;
      if (bytesAfter > bytes.length) return;
      if (hears === 1) turns.requested();
      else for (let piece = 0; piece < hears; piece++) turns.piece();
    });
    // Small chunks, so that a turn delivers many.
    for (let chunk = 0; chunk < 20_000; chunk++) socket.push(Buffer.alloc(100));
    for (let turn = 0; turn < 30; turn++) await new Promise<void>((resolve) => void nextTurn(resolve));
    isBody = false;
    const allBefore = all;
    while (all === allBefore) await new Promise<void>((resolve) => void nextTurn(resolve));
    assert(bytesAfter <= 1000, `${bytesAfter} bytes after ${hears}`);
    socket.destroy();
  }
});

/** What so many connections that never stop asking deliver in a turn, all together, at most. */
async function deliveredInTurn(
  connections: number,
  hear: (turns: SlicedReader, bytes: number) => void,
): Promise<number> {
  const scheduler = new RoundRobin();
  let [delivered, most] = [0, 0];
  const sockets = Array.from({ length: connections }, () => {
    const socket = new Duplex({ read() {}, write: (_bytes, _encoding, done) => done() });
    const turns = readInTurns(socket, new FakeClock(), scheduler);
    socket.on("data", (bytes: Buffer) => {
      delivered += bytes.length;
      hear(turns, bytes.length);
    });
    socket.push(Buffer.alloc(CHUNK_BYTES));
    return socket;
  });
  for (let turn = 0; turn < 50; turn++) {
    await new Promise<void>((resolve) => void nextTurn(resolve));
    // What comes first has a slice of its own.
    if (turn > 2) most = Math.max(most, delivered);
    delivered = 0;
  }
  for (const socket of sockets) socket.destroy();
  await settle();
  assertEquals(scheduler.quantum, new RoundRobin().quantum, "who has left waits no more");
  return most;
}

Deno.test("fairness: 8 HTTP/1.1 connections deliver at most twice the requests of a single connection", async () => {
  const requests = (turns: SlicedReader) => turns.requested();
  const alone = await deliveredInTurn(1, requests);
  const together = await deliveredInTurn(8, requests);
  assert(together <= 2 * alone, `${together} bytes of 8, ${alone} of one`);
});

Deno.test("fairness: 8 bodies in tiny chunks deliver at most twice the bytes of a single body", async () => {
  const crumbs = (turns: SlicedReader, bytes: number) => {
    for (let at = 0; at < bytes; at += 6) turns.piece();
  };
  const alone = await deliveredInTurn(1, crumbs);
  const together = await deliveredInTurn(8, crumbs);
  assert(together <= 2 * alone, `${together} bytes of 8, ${alone} of one`);
});

Deno.test("fairness: a body in tiny chunks is read in slices of at most 4 KiB", async () => {
  const content = Buffer.alloc(1_000_000);
  const [crumbs, most] = await readAll(content, (turns, bytes) => {
    // Chunks of one byte take six.
    for (let at = 0; at < bytes; at += 6) turns.piece();
  });
  assert(crumbs.equals(content));
  assert(most <= 4096, `${most} bytes in a turn`);
});

Deno.test("fairness: an HTTP/1.1 socket that sends without pause yields to others", async () => {
  const { socket, sent } = flood(Buffer.from("GET "), Buffer.from("/ HTTP/1.1\r\n\r\n"));
  readInTurns(socket, new FakeClock());
  socket.on("data", () => {});
  for (const count of await turns(sent)) assert(count < 10 * 3 * CHUNK_BYTES, `${count} bytes`);
  socket.destroy();
});

Deno.test("fairness: busy connections pause together until the event loop has polled for I/O", async () => {
  const crowd = Array.from(
    { length: 3 },
    () => flood(Buffer.from("GET "), Buffer.from("/ HTTP/1.1\r\n\r\n")),
  );
  const [clock, scheduler] = [new FakeClock(), new RoundRobin()];
  const timers: (() => void)[] = [];
  const { setTimeout } = globalThis;
  globalThis.setTimeout = ((run: () => void) => timers.push(run)) as never;
  using _ = { [Symbol.dispose]: () => void (globalThis.setTimeout = setTimeout) };
  for (const { socket } of crowd) {
    readInTurns(socket, clock, scheduler);
    socket.on("data", () => {});
  }
  const sent = () => Math.min(...crowd.map((one) => one.sent()));
  const most = () => Math.max(...crowd.map((one) => one.sent()));
  const first = await turns(sent);
  assert(first.at(-1)! > first[0], "immediates follow each other");
  assertEquals(timers.length, 0);
  await clock.advance(10);
  await turns(most);
  assertEquals(new Set(await turns(most)).size, 1, "a timer is due first");
  assertEquals(timers.length, 1, "for all of them");
  const before = most();
  timers[0]();
  const after = await turns(sent);
  assert(after.at(-1)! > before, "and then they go on");
  for (const { socket } of crowd) socket.destroy();
});

Deno.test("fairness: an HTTP/1.1 socket is read only as far as its parser needs", async () => {
  const request = Buffer.from("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  const enough = 300;
  const parsed = Promise.withResolvers<void>();
  let requests = 0;
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const accepted = once(listener, "connection");
  const client = connect((listener.address() as AddressInfo).port, "127.0.0.1");
  const [server] = await accepted as [Socket];
  const turns = readInTurns(server, new FakeClock());
  turns.giveBackUnless(() => true);
  const http = createHttp((_, response) => {
    turns.requested();
    response.end();
    if (++requests === enough) parsed.resolve();
  });
  // Deno ends the connections of a server that does not listen.
  Object.defineProperty(http, "listening", { value: true });
  http.emit("connection", server);
  // It is left while it still sends.
  client.on("error", () => {}).resume().write(Buffer.alloc(100_000 * request.length, request));
  await parsed.promise;
  const ahead = server.bytesRead - requests * request.length;
  assert(ahead <= 3 * CHUNK_BYTES, `${ahead} bytes wait for the parser`);
  listener.close();
  client.destroy();
  server.destroy();
  await Promise.all([once(client, "close"), once(server, "close")]);
});

/** Both ends of a TLS connection, and the socket below the server's end. */
async function tlsPair() {
  const { certPem, keyPem } = await selfSigned();
  const tls = createTls({ cert: certPem, key: keyPem });
  const listener = createServer((socket) => void tls.emit("connection", socket)).listen(0, "127.0.0.1");
  await once(listener, "listening");
  const accepted = once(listener, "connection"), secured = once(tls, "secureConnection");
  const { port } = listener.address() as AddressInfo;
  const client = connectTls({ host: "127.0.0.1", port, ca: certPem, servername: "localhost" });
  const [[below], [server]] = await Promise.all([accepted, secured, once(client, "secureConnect")]);
  listener.close();
  return { below: below as Socket, server: server as TLSSocket, client };
}

/** Writes 64 MiB to a reader that has paused, and waits until nothing more of it moves. */
async function writeToPaused(reader: TLSSocket, writer: TLSSocket): Promise<void> {
  reader.pause();
  for (let sent = 0; sent < FLOOD_BYTES; sent += CHUNK_BYTES) {
    writer.write(Buffer.alloc(CHUNK_BYTES, "again "));
  }
  writer.end();
  await standsStill(() => writer.writableLength);
}

async function readToEnd(reader: TLSSocket): Promise<number> {
  let bytes = 0;
  reader.on("data", (chunk: Uint8Array) => void (bytes += chunk.length)).resume();
  await once(reader, "end");
  return bytes;
}

Deno.test("fairness: unread TLS data stays in the kernel and is read completely later", async () => {
  const { below, server, client } = await tlsPair();
  holdBelowTls(server);
  await writeToPaused(server, client);
  assert(below.bytesRead < MIB, `${below.bytesRead} bytes taken`);
  assertEquals(await readToEnd(server), FLOOD_BYTES);
  for (const socket of [server, client]) socket.destroy();
  await settle();
});

Deno.test("fairness: holdBelowTls releases buffers that TLS has consumed", () => {
  const read = new ArrayBuffer(CHUNK_BYTES);
  let taken = 0;
  const idle = { readStart: () => {}, readStop: () => {} };
  const below = { ...idle, onread: (bytes: ArrayBuffer) => void (taken += bytes.byteLength) };
  holdBelowTls({ _handle: { ...idle, _parent: below } });
  below.onread(read);
  assertEquals([taken, read.byteLength], [CHUNK_BYTES, 0]);
});

Deno.test("fairness: readInTurns releases consumed buffers, unless part of them is kept", async () => {
  const socket = new Duplex({ read() {}, write: (_bytes, _encoding, done) => done() });
  const clock = new FakeClock();
  const turns = readInTurns(socket, clock);
  let kept = true;
  turns.giveBackUnless(() => kept);
  let read = 0;
  socket.on("data", (bytes: Uint8Array) => void (read += bytes.length));
  const chunks = Array.from({ length: 2 }, () => Buffer.from(new ArrayBuffer(CHUNK_BYTES)));
  const sizes = () => chunks.map(({ buffer }) => buffer.byteLength);
  for (const chunk of chunks) socket.push(chunk);
  while (read < 2 * CHUNK_BYTES) {
    await clock.advance(1);
    await settle();
  }
  assertEquals(sizes(), [CHUNK_BYTES, CHUNK_BYTES]);
  kept = false;
  socket.push(Buffer.from("x"));
  assertEquals(sizes(), [0, 0]);
  socket.destroy();
  await settle();
});

Deno.test("fairness: a TLS client leaves unread data in the kernel", async () => {
  const { server, client } = await tlsPair();
  holdBelowTls(client);
  await writeToPaused(client, server);
  // The systems of both ends take some megabytes.
  assert(server.writableLength > FLOOD_BYTES / 4, `only ${server.writableLength} bytes wait`);
  assertEquals(await readToEnd(client), FLOOD_BYTES);
  for (const socket of [server, client]) socket.destroy();
  await settle();
});
