/**
 * A full port: who gets in, who is closed, and how much one connection may have waiting.
 */

import { assert, assertEquals } from "@std/assert";
import { connect, type Socket } from "node:net";
import process from "node:process";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { client } from "../rpc/channel.ts";
import { echoTable, withPort } from "../../../tests/support/echo.ts";
import { connectGrpc } from "../grpc/grpc_channel.ts";
import { HpackEncoder } from "../http2/hpack.ts";
import { frameBytes } from "../../../tests/support/http2_wire.ts";
import { FLAG, PREFACE, TYPE } from "../http2/frame.ts";
import { type HeaderFields, Metadata } from "../rpc/metadata.ts";
import type { Port } from "./port.ts";
import type { Gate } from "../rpc/service.ts";
import { standsStill, until } from "../../../tests/support/until.ts";

const clock = new SystemClock();
const EMPTY = new Uint8Array();
/** A request for a sign that earlier data was read, and the sign. */
const PING = frameBytes(TYPE.ping, 0, 0, new Uint8Array(8));
const PONG = "\0\0\x08\x06\x01";
const GET = text("GET / HTTP/1.1\r\nHost: a\r\n\r\n");

function text(line: string): Uint8Array {
  return new TextEncoder().encode(line);
}

function joined(...parts: Uint8Array[]): Uint8Array {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

const CALL: HeaderFields = [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/proto.rpc.examples.echo.v1.EchoService/Echo"],
  ["content-type", "application/grpc"],
];
const HTTP2 = joined(text(PREFACE), frameBytes(TYPE.settings, 0, 0, EMPTY));
/** What connections say that are held. */
const HELD: Readonly<Record<string, Uint8Array>> = {
  "nothing": EMPTY,
  "half a preface": text("PRI * HT"),
  "half a request": text("GET / HTTP/1.1\r\nHos"),
  "a request and half of another": joined(GET, text("GET / HTTP/1.1\r\nHos")),
  "half a body": text(
    "POST /proto.rpc.examples.echo.v1.EchoService/Echo HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc-web\r\ncontent-length: 9\r\n\r\ny",
  ),
  "idle HTTP/2": joined(HTTP2, PING),
  "a call without its message": joined(
    HTTP2,
    frameBytes(TYPE.headers, FLAG.endHeaders, 1, new HpackEncoder().encode(CALL)),
    PING,
  ),
};

function signOf(says: Uint8Array): string {
  const output = new TextDecoder("latin1").decode(says);
  if (output.includes("\0\0\x08\x06")) return PONG;
  return output.startsWith("GET") && output.includes("\r\n\r\n") ? "HTTP/1.1" : "";
}

/** Connections that send the same data, and stay open. */
class Crowd {
  ended = 0;
  readonly #sockets: Socket[] = [];
  readonly #closed: Promise<void>[] = [];

  /** @param sign the server's answer when it has read `says` */
  constructor(
    private readonly port: Port,
    private readonly says: Uint8Array,
    private readonly sign: string,
  ) {}

  /** Opens some more, one after the other. */
  async come(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const socket = connect(this.port.port, "127.0.0.1").on("error", () => {});
      this.#sockets.push(socket);
      const { promise: closed, resolve: close } = Promise.withResolvers<void>();
      const { promise: heard, resolve: hear } = Promise.withResolvers<void>();
      const { promise: output, resolve: say } = Promise.withResolvers<void>();
      this.#closed.push(closed.then(() => void this.ended++));
      let answer = "";
      socket.on("data", (bytes) => (answer += bytes.toString("latin1")).includes(this.sign) && hear());
      socket.once("close", close);
      socket.write(this.says, () => say());
      await Promise.race([this.sign === "" ? output : heard, closed]);
    }
  }

  async leave(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(this.#closed);
  }
}

async function visit(port: Port, header = new Metadata()): Promise<void> {
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  try {
    const options = { timeoutMs: 60_000, header };
    assertEquals((await client(EchoService, channel).echo({ message: "new" }, options)).message, "new");
  } finally {
    channel.close();
  }
}

for (const [what, says] of Object.entries(HELD)) {
  Deno.test(`a full port accepts a new caller while other connections send ${what}`, () =>
    withPort({ connections: 8 }, async (port) => {
      const crowd = new Crowd(port, says, signOf(says));
      await crowd.come(12);
      for (let i = 0; i < 3; i++) {
        await visit(port);
        await crowd.come(2);
      }
      assert(crowd.ended > 0);
      await crowd.leave();
    }));
}

/** Knows callers that say so. */
const GATE: Gate = {
  authenticate(ctx) {
    if (ctx.requestHeader.get("x-known") === undefined) {
      throw new SvcError("unauthenticated", "say who you are");
    }
    ctx.entity = "somebody";
  },
};

Deno.test("a quiet call of an authenticated caller survives on a full port", async () => {
  const known = Metadata.from([["x-known", "yes"]]);
  const { table } = echoTable([GATE]);
  await withPort({ table, connections: 8 }, async (port) => {
    const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
    const heard = client(EchoService, channel).echoMultiple({ message: "hang" }, { header: known })[
      Symbol.asyncIterator
    ]();
    for (const letter of "hang") assertEquals((await heard.next()).value?.message, letter);
    let over = false;
    const end = heard.next().catch(() => {}).finally(() => over = true);
    for (const says of Object.values(HELD)) {
      const crowd = new Crowd(port, says, signOf(says));
      await crowd.come(12);
      await visit(port, known);
      await crowd.leave();
    }
    assert(!over);
    channel.close();
    await end;
  });
});

Deno.test("pipelined HTTP/1.1 requests are read as they are answered, without extra socket listeners", async () => {
  const warnings: string[] = [];
  const warned = (warning: Error) => void warnings.push(warning.message);
  process.on("warning", warned);
  try {
    const hang = { status: 200, contentType: "text/plain", body: "late" };
    const waiting: (() => void)[] = [];
    const route = () => new Promise<typeof hang>((resolve) => waiting.push(() => resolve(hang)));
    await withPort({ http: { routes: new Map([["/hang", route]]) } }, async (port) => {
      const request = "GET /hang HTTP/1.1\r\nHost: a\r\n\r\n";
      const upload = `POST /hang HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n${"x".repeat(500_000)}`;
      const open = (first: string, count: number) => {
        const socket = connect(port.port, "127.0.0.1").on("error", () => {});
        let answer = "";
        socket.on("data", (bytes) => answer += bytes.toString("latin1"));
        socket.write(text(first + request.repeat(count)));
        const closed = new Promise<string>((resolve) => socket.once("close", () => resolve(answer)));
        return { socket, closed, answers: () => answer.split("late").length - 1 };
      };
      const some = open("", 60);
      await until(() => waiting.length > 1);
      await standsStill(() => waiting.length);
      assert(waiting.length < 60, `${waiting.length} requests were read before the first was answered`);
      await until(() => {
        for (const answer of waiting.splice(0)) answer();
        return some.answers() === 60;
      });
      some.socket.destroy();
      await some.closed;
      // In the middle of a body much is read at once, and then they are too many.
      const many = open(upload, 10_000);
      assertEquals(await many.closed, "");
      assertEquals(waiting.length, 100);
    });
    assertEquals(warnings, []);
  } finally {
    process.removeListener("warning", warned);
  }
});
