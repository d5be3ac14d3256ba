/** Peers that send too much, read too little or say who they are too late, against a port with other callers. */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { connect as connectNet } from "node:net";
import { AuthService } from "../../../proto/gen/auth_pb.ts";
import { AudioOutService } from "../../../proto/gen/audio_out_pb.ts";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { auth } from "../auth/auth.ts";
import { client } from "../rpc/channel.ts";
import { echoTable, withChannel, withPort } from "../../../tests/support/echo.ts";
import { connectGrpc } from "../grpc/grpc_channel.ts";
import { framed, MAX_MESSAGE_BYTES, PUBLIC_MESSAGE_BYTES } from "../rpc/message.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { HpackEncoder } from "../http2/hpack.ts";
import { FLAG, OutgoingBytes, PREFACE, SETTING, TYPE, uint32 } from "../http2/frame.ts";
import { create, toBinary } from "../rpc/proto.ts";
import type { Port } from "./port.ts";
import type { Interceptor } from "../rpc/service.ts";
import { until, within } from "../../../tests/support/until.ts";

const clock = new SystemClock();

/** An HTTP/2 client that reads, but never grants the server a window for data. */
class ZeroWindow {
  readonly #socket;
  readonly #encoder = new HpackEncoder();
  #stream = 1;
  closed = false;

  constructor(port: Port) {
    this.#socket = connectNet(port.port, "127.0.0.1");
    this.#socket.on("error", () => {}).on("data", () => {}).on("close", () => this.closed = true);
    const out = new OutgoingBytes();
    out.append(Buffer.from(PREFACE, "latin1"));
    out.frame(TYPE.settings, 0, 0, Buffer.concat([Uint8Array.of(0, SETTING.window), uint32(0)]));
    this.#socket.write(out.take()!);
  }

  call(path: string, message: Uint8Array): void {
    const fields: HeaderFields = [
      [":method", "POST"],
      [":scheme", "http"],
      [":path", path],
      [":authority", "localhost"],
      ["content-type", "application/grpc"],
      ["te", "trailers"],
    ];
    const out = new OutgoingBytes();
    out.frame(TYPE.headers, FLAG.endHeaders, this.#stream, this.#encoder.encode(fields));
    out.frame(TYPE.data, FLAG.endStream, this.#stream, framed(message));
    this.#stream += 2;
    this.#socket.write(out.take()!);
  }

  echo(message: string): void {
    const { echo } = EchoService.method;
    this.call(`/${EchoService.typeName}/${echo.name}`, toBinary(echo.input, create(echo.input, { message })));
  }

  close(): void {
    this.#socket.destroy();
  }
}

/** The needed parts of a guarded port: credentials, and who has read. */
function guarded() {
  const guard = auth({ handlers: { apiKeys: { id: "key" } }, audience: ["here"], clock });
  const fixture = echoTable([guard.gate]);
  fixture.table.add(guard.service);
  return fixture;
}

async function* nothing(): AsyncGenerator<never> {
  await new Promise(() => {});
  yield* [];
}

Deno.test("hostile: a caller without a token is refused on the header, before any message", async () => {
  const { table } = guarded();
  await withChannel({ table }, async (channel) => {
    const playing = client(AudioOutService, channel).playStream(nothing());
    const error = await within("the refusal", assertRejects(() => playing, SvcError));
    assertEquals(error.code, "unauthenticated");
  });
});

Deno.test("hostile: a public call accepts only a small message", async () => {
  const { table } = guarded();
  await withChannel({ table }, async (channel) => {
    const { authenticate } = client(AuthService, channel);
    const payload = "x".repeat(PUBLIC_MESSAGE_BYTES);
    const credentials = { type: "api-key", payload };
    const error = await assertRejects(() => authenticate({ entity: "id", credentials }), SvcError);
    assertEquals(error.code, "resource_exhausted");
    const { accessToken } = await authenticate({
      entity: "id",
      credentials: { type: "api-key", payload: "key" },
    });
    assert(accessToken !== "");
  });
});

Deno.test("hostile: an oversized sender does not block other connections", () =>
  withChannel(
    { byteLimits: { received: 4_000_000, receivedByConnection: 1_000_000 } },
    async (channel, _, port) => {
      const greedy = connectGrpc(`127.0.0.1:${port.port}`, { clock });
      const error = await assertRejects(
        () => client(EchoService, greedy).echo({ message: "x".repeat(2_000_000) }),
        SvcError,
      );
      assertEquals(error.code, "resource_exhausted");
      assertStringIncludes(error.message, "messages on this connection hold");
      assertEquals((await client(EchoService, channel).echo({ message: "other" })).message, "other");
      assertEquals((await client(EchoService, greedy).echo({ message: "small" })).message, "small");
      greedy.close();
    },
  ));

Deno.test("hostile: unread answers are charged to their connection after the call has ended", async () => {
  let underWay = 0, ended = 0;
  const count: Interceptor = () => {
    underWay++;
    return () => {
      underWay--;
      ended++;
    };
  };
  const { table } = echoTable([count]);
  await withChannel({ table, byteLimits: { unreadByConnection: 1_000_000 } }, async (channel, _, port) => {
    const reader = new ZeroWindow(port);
    // More than its connection may leave unread: the last ones are refused, and nothing of them is kept.
    for (let i = 0; i < 20; i++) reader.echo("big:100000");
    await until(() => ended === 20);
    assertEquals(underWay, 0);
    assertEquals((await client(EchoService, channel).echo({ message: "other" })).message, "other");
    assert(!reader.closed);
    reader.close();
  });
});

Deno.test("hostile: a connection with too much unread is refused, and served again after it reads", () =>
  withChannel({ byteLimits: { unreadByConnection: 1_000_000 } }, async (channel) => {
    const echo = client(EchoService, channel);
    const error = await assertRejects(() => echo.echo({ message: "big:2000000" }), SvcError);
    assertEquals(error.code, "resource_exhausted");
    assertStringIncludes(error.message, "answers on this connection that were not read");
    assertEquals((await echo.echo({ message: "big:900000" })).message.length, 900_000);
    assertEquals((await echo.echo({ message: "big:900000" })).message.length, 900_000);
  }));

Deno.test("hostile: a status message is short and has no control characters", () =>
  withChannel({}, async (channel, _, port) => {
    const long = `fail:not_found:\x1b[31m${"é".repeat(5_000_000)}`;
    const error = await assertRejects(() => client(EchoService, channel).echo({ message: long }), SvcError);
    assertEquals(error.code, "not_found");
    assert(error.message.startsWith("\\u001b[31mééé"), error.message.slice(0, 20));
    assert(error.message.endsWith("é…"));
    assert(Buffer.byteLength(error.message) <= 4096);
    const { echo } = EchoService.method;
    const body = framed(toBinary(echo.input, create(echo.input, { message: long })));
    const answer = await fetch(`${port.url}/${EchoService.typeName}/${echo.name}`, {
      method: "POST",
      headers: { "content-type": "application/grpc-web" },
      body: Uint8Array.from(body),
    });
    const trailer = await answer.text();
    assertStringIncludes(trailer, "grpc-status: 5");
    assert(trailer.length < 16_000, `${trailer.length} bytes`);
  }));

Deno.test("hostile: metadata of an answer that repeats the request is bounded", () =>
  withChannel({}, async (channel) => {
    let bytes = 0;
    const echo = client(EchoService, channel);
    const { Metadata } = await import("../rpc/metadata.ts");
    const header = Metadata.from(Array.from({ length: 50 }, (_, i) => [`x-${i}`, "y".repeat(1_000)]));
    const add = (metadata: Iterable<readonly [string, string]>) => {
      for (const [name, value] of metadata) bytes += name.length + value.length;
    };
    await echo.echo({ message: "" }, { header, onHeader: add, onTrailer: add });
    assert(bytes > 0 && bytes <= 2 * 16 * 1024 + 100, `${bytes} bytes`);
  }));

function post(port: Port, type: string, body: Uint8Array): Promise<Response> {
  const { echo } = EchoService.method;
  return fetch(`${port.url}/${EchoService.typeName}/${echo.name}`, {
    method: "POST",
    headers: { "content-type": type },
    body: Uint8Array.from(body),
  });
}

Deno.test("hostile: an 8 MB gRPC-web text message succeeds", () =>
  withPort({}, async (port) => {
    const { echo } = EchoService.method;
    const message = toBinary(echo.input, create(echo.input, { message: "z".repeat(8_000_000) }));
    const text = Buffer.from(Buffer.from(framed(message)).toString("base64"));
    const answer = await within("the answer", post(port, "application/grpc-web-text", text));
    const body = Buffer.from(await within("its body", answer.text()), "base64");
    assertEquals(body.readUInt32BE(1), message.length);
  }));

Deno.test("hostile: gRPC-web answers a message over the limit, in binary and text", () =>
  withPort({}, async (port) => {
    const body = Buffer.alloc(MAX_MESSAGE_BYTES + 4_000_000);
    body.writeUInt32BE(MAX_MESSAGE_BYTES + 1_000, 1);
    const binary = await within("an answer", post(port, "application/grpc-web", body));
    assertStringIncludes(await within("its body", binary.text()), "grpc-status: 8");
    const encoded = Buffer.from(body.toString("base64"));
    const text = await within("an answer", post(port, "application/grpc-web-text", encoded));
    const plain = Buffer.from(await within("its body", text.text()), "base64").toString();
    assertStringIncludes(plain, "grpc-status: 8");
  }));

Deno.test("hostile: the first request of a connection arrives in order, in whatever slices", () =>
  withPort({}, async (port) => {
    const { echo } = EchoService.method;
    const numbers = Array.from({ length: 50_000 }, (_, i) => i).join();
    const body = framed(toBinary(echo.input, create(echo.input, { message: numbers })));
    const answer = await within("the answer", post(port, "application/grpc-web", body));
    const echoed = Buffer.from(await answer.arrayBuffer()).subarray(0, body.length);
    assert(echoed.equals(body), "the bytes came in another order");
  }));
