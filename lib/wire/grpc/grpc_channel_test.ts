/** gRPC over real sockets: our server with our client, in all four shapes, at the limits and in failure. */

import { type AddressInfo, createServer, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { AudioOutService } from "../../../proto/gen/audio_out_pb.ts";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { Health } from "../../../proto/gen/health_pb.ts";
import { client } from "../rpc/channel.ts";
import { all, each, echoTable, selfSigned, withChannel, withPort } from "../../../tests/support/echo.ts";
import { connectGrpc, parseAddress } from "./grpc_channel.ts";
import { MAX_MESSAGE_BYTES } from "../rpc/message.ts";
import { Metadata } from "../rpc/metadata.ts";
import { openPort, openUnixPort } from "../port/port.ts";
import { service } from "../rpc/service.ts";

const clock = new SystemClock();

async function failure(work: Promise<unknown>): Promise<SvcError> {
  return await assertRejects(() => work, SvcError);
}

Deno.test("gRPC: a unary call returns its answer", () =>
  withChannel({}, async (channel) => {
    const answer = await client(EchoService, channel).echo({ message: "grüß dich" });
    assertEquals(answer.message, "grüß dich");
  }));

Deno.test("gRPC: server, client and bidi streams deliver all their messages", () =>
  withChannel({}, async (channel) => {
    const echo = client(EchoService, channel);
    const letters = await all(echo.echoMultiple({ message: "hello" }));
    assertEquals(letters.map(({ message }) => message), ["h", "e", "l", "l", "o"]);

    const answers = await all(echo.echoBiDi(each({ message: "a" }, { message: "b" })));
    assertEquals(answers.map(({ message }) => message), ["a", "b"]);

    const chunk = { payload: { case: "audioChunk" as const, value: { audioData: new Uint8Array(100_000) } } };
    let bytes: string | undefined;
    const onTrailer = (trailer: Metadata) => void (bytes = trailer.get("bytes"));
    await client(AudioOutService, channel).playStream(each(...Array(50).fill(chunk)), { onTrailer });
    assertEquals(bytes, "5000000");
  }));

Deno.test("gRPC: a bidi stream alternates requests and answers", () =>
  withChannel({}, async (channel) => {
    const requests = new TransformStream<{ message: string }, { message: string }>();
    const writer = requests.writable.getWriter();
    const answers = client(EchoService, channel).echoBiDi(requests.readable)[Symbol.asyncIterator]();
    for (const message of ["one", "two", "three"]) {
      const next = answers.next();
      await writer.write({ message });
      assertEquals((await next).value?.message, message);
    }
    await writer.close();
    assertEquals((await answers.next()).done, true);
  }));

Deno.test("gRPC: an empty request stream and an empty answer stream succeed", () =>
  withChannel({}, async (channel) => {
    assertEquals(await all(client(EchoService, channel).echoMultiple({ message: "" })), []);
    await client(AudioOutService, channel).playStream(each());
  }));

Deno.test("gRPC: an error keeps its code, its text and the time to wait", () =>
  withChannel({}, async (channel) => {
    const echo = client(EchoService, channel);
    for (const [code, text] of [["not_found", "no such thing"], ["unknown", "100 % ümläut\n…"]] as const) {
      const error = await failure(echo.echo({ message: `fail:${code}:${text}:1500` }));
      assertEquals([error.code, error.message, error.retryMs], [code, text, 1500]);
    }
    const answers = echo.echoMultiple({ message: "broken" })[Symbol.asyncIterator]();
    for (const letter of "broken") assertEquals((await answers.next()).value?.message, letter);
    assertEquals((await failure(answers.next())).code, "data_loss");
  }));

Deno.test("gRPC: an unknown method is unimplemented until its service is added", async () => {
  const { table } = echoTable();
  await withChannel({ table }, async (channel) => {
    const health = client(Health, channel);
    const error = await failure(health.check({}));
    assertEquals(error.code, "unimplemented");
    assertStringIncludes(error.message, "/grpc.health.v1.Health/Check");
    table.add(service(Health, { check: () => ({ status: 1 }) }));
    assertEquals((await health.check({})).status, 1);
  });
});

Deno.test("gRPC: metadata arrives on both sides, including binary and repeated keys", () =>
  withChannel({ client: { header: Metadata.from([["x-always", "yes"]]) } }, async (channel) => {
    const bytes = ["AAEC/w==", "AAEC/w", "AAEC", ""];
    const header = Metadata.from([["x-text", "a"], ["x-text", "b"]]);
    for (const one of bytes) header.append("x-bytes-bin", one);
    const got: Metadata[] = [];
    const keep = (metadata: Metadata) => void got.push(metadata);
    const options = { header, onHeader: keep, onTrailer: keep };
    await client(EchoService, channel).echo({ message: "" }, options);
    assertEquals(got[0].all("x-text"), ["a", "b"]);
    assertEquals(got[0].all("x-bytes-bin"), bytes);
    assertEquals(got[0].get("x-always"), "yes");
    assertEquals(got[1].all("t-x-text"), ["a", "b"]);
    assertEquals(got[1].all("t-x-bytes-bin"), bytes);
    assertEquals(got[1].get("grpc-status"), undefined);
  }));

Deno.test("gRPC: a deadline ends the call on client and server", () =>
  withChannel({}, async (channel, seen) => {
    const error = await failure(client(EchoService, channel).echo({ message: "hang" }, { timeoutMs: 30 }));
    assertEquals(error.code, "deadline_exceeded");
    const reason = await seen.canceled;
    assert(reason instanceof SvcError && ["deadline_exceeded", "canceled"].includes(reason.code));
  }));

Deno.test("gRPC: a cancel of the client reaches the handler", () =>
  withChannel({}, async (channel, seen) => {
    const echo = client(EchoService, channel);
    const cancel = new AbortController();
    const call = failure(echo.echo({ message: "hang" }, { signal: cancel.signal }));
    await client(EchoService, channel).echo({ message: "the other call has arrived" });
    cancel.abort();
    assertEquals((await call).code, "canceled");
    await seen.canceled;
  }));

Deno.test("gRPC: an endless stream ends when its reader stops", () =>
  withChannel({}, async (channel, seen) => {
    let count = 0;
    for await (const { message } of client(EchoService, channel).echoMultiple({ message: "endless" })) {
      count += message.length;
      if (count > 3_000_000) break;
    }
    await seen.canceled;
  }));

Deno.test("gRPC: a message of 32 MiB passes, and a larger message is resource_exhausted", () =>
  withChannel({}, async (channel) => {
    const echo = client(EchoService, channel);
    // The field's tag and length take 5 bytes.
    const largest = MAX_MESSAGE_BYTES - 5;
    assertEquals((await echo.echo({ message: `big:${largest}` })).message.length, largest);
    const tooBig = await failure(echo.echo({ message: `big:${largest + 1}` }));
    assertEquals(tooBig.code, "resource_exhausted");
    const fits = "y".repeat(largest);
    assertEquals((await echo.echo({ message: fits })).message.length, largest);
    assertEquals((await failure(echo.echo({ message: `${fits}y` }))).code, "resource_exhausted");
    assertEquals((await echo.echo({ message: "still there" })).message, "still there");
  }));

Deno.test("gRPC: 200 concurrent calls succeed on the same connection", () =>
  withChannel({}, async (channel) => {
    const echo = client(EchoService, channel);
    const calls = Array.from({ length: 200 }, (_, i) => echo.echo({ message: `${i}`.repeat(1 + i * 20) }));
    const answers = await Promise.all(calls);
    answers.forEach(({ message }, i) => assertEquals(message, `${i}`.repeat(1 + i * 20)));
  }));

Deno.test("gRPC: TLS accepts a known CA or insecureSkipVerify and refuses an unknown certificate", async () => {
  const tls = await selfSigned();
  await withPort({ tls }, async (port) => {
    assertEquals(port.url, `https://127.0.0.1:${port.port}`);
    for (const options of [{ ca: tls.certPem }, { insecureSkipVerify: true }]) {
      const channel = connectGrpc(`localhost:${port.port}`, { clock, tls: options });
      assertEquals((await client(EchoService, channel).echo({ message: "secret" })).message, "secret");
      channel.close();
    }
    // TLS takes no address for a name, be it in the host or in the name to check.
    for (const serverName of [undefined, "fd00::5", "127.0.0.1"]) {
      const options = { insecureSkipVerify: true, serverName };
      const channel = connectGrpc(`[::ffff:127.0.0.1]:${port.port}`, { clock, tls: options });
      assertEquals((await client(EchoService, channel).echo({ message: "six" })).message, "six");
      channel.close();
    }
    const stranger = connectGrpc(`localhost:${port.port}`, { clock, tls: {} });
    const error = await failure(client(EchoService, stranger).echo({ message: "" }));
    assertEquals(error.code, "unavailable");
    assertStringIncludes(error.message, "self-signed");
    stranger.close();

    // To a clock that was never set, every authority is unknown.
    const unset = Object.assign(new SystemClock(), { nowMs: () => Date.UTC(1973, 0, 14) });
    const early = connectGrpc(`localhost:${port.port}`, { clock: unset, tls: {} });
    const { message } = await failure(client(EchoService, early).echo({ message: "" }));
    assertStringIncludes(message, "the clock of this device says 1973-01-14, which is wrong: set the time");
    early.close();
  });
});

Deno.test("gRPC: a server or proxy with HTTP/1.1 alone is named as such, and one that wants TLS, too", async () => {
  const { certPem, keyPem } = await selfSigned();
  const answering = (text: string) => (socket: Socket) => {
    socket.on("error", () => {}).once("data", () => socket.end(`HTTP/1.1 400 Bad Request\r\n\r\n${text}`));
  };
  const greeting = (text: string) => (socket: Socket) => void socket.on("error", () => {}).write(text);
  const tls = { insecureSkipVerify: true };
  const servers = [
    [createTlsServer({ cert: certPem, key: keyPem, ALPNProtocols: ["http/1.1"] }), tls, "turn HTTP/2 on"],
    [createTlsServer({ cert: certPem, key: keyPem }, answering("what?")), tls, "turn HTTP/2 on"],
    [createServer(answering("what?")), undefined, "turn HTTP/2 on"],
    [createServer(greeting("<!DOCTYPE HTML>\n<html>Error 505</html>")), undefined, "turn HTTP/2 on"],
    [
      createServer(greeting("SSH-2.0-OpenSSH_9.2\r\n")),
      undefined,
      "HTTP/2 (SSH-2.0-OpenSSH_9.2): is it the right",
    ],
    [
      createServer(greeting("220 mail.example ESMTP\r\n")),
      undefined,
      "(220 mail.example ESMTP): is it the right",
    ],
    [createServer(answering("a plain request to an HTTPS port")), undefined, "does the server want TLS?"],
  ] as const;
  for (const [server, tls, wanted] of servers) {
    const { promise, resolve } = Promise.withResolvers<void>();
    server.listen(0, "127.0.0.1", resolve);
    await promise;
    const { port } = server.address() as AddressInfo;
    const channel = connectGrpc(`127.0.0.1:${port}`, { clock, tls });
    const { code, message } = await failure(client(EchoService, channel).echo({ message: "" }));
    assertEquals(code, "unavailable");
    assertStringIncludes(message, wanted);
    channel.close();
    server.close();
  }
});

Deno.test("gRPC: a call that ends before the server has answered says so", async () => {
  const silent = createServer((socket) => void socket.on("error", () => {}).resume());
  await new Promise<void>((resolve) => void silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as AddressInfo;
  const channel = connectGrpc(`127.0.0.1:${port}`, { clock, tls: {} });
  const error = await failure(client(EchoService, channel).echo({ message: "" }, { timeoutMs: 200 }));
  assertEquals(
    [error.code, error.message.replace(/^.* did not begin within [\d.]+ ms: /, "")],
    ["deadline_exceeded", `127.0.0.1:${port} has not answered yet`],
  );
  channel.close();
  await new Promise((resolve) => void silent.close(resolve));
});

Deno.test("gRPC: a server that accepts a connection and never answers in TLS is told from one that is away", async () => {
  const heard = Promise.withResolvers<void>();
  const silent = createServer((socket) =>
    void socket.on("error", () => {}).once("data", () => heard.resolve())
  );
  await new Promise<void>((resolve) => void silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as AddressInfo;
  const still = new FakeClock();
  const channel = connectGrpc(`127.0.0.1:${port}`, { clock: still, tls: {} });
  const failing = failure(client(EchoService, channel).echo({ message: "" }));
  await heard.promise;
  await still.advance(20_000);
  assertStringIncludes((await failing).message, "it accepts connections, but does not answer in TLS");
  channel.close();
  await new Promise((resolve) => void silent.close(resolve));
});

Deno.test("gRPC: a call succeeds over a Unix socket", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/a.sock`;
  const port = await openUnixPort({ table: echoTable().table, path, clock });
  const channel = connectGrpc(`unix:${path}`, { clock });
  assertEquals((await client(EchoService, channel).echo({ message: "near" })).message, "near");
  channel.close();
  await port.close(0);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("gRPC: a lost server is unavailable, and the channel reconnects when it is back", async () => {
  const { table } = echoTable();
  const first = await openPort({ table, clock, bind: { host: "127.0.0.1", port: 0 } });
  const channel = connectGrpc(`127.0.0.1:${first.port}`, { clock });
  const echo = client(EchoService, channel);
  await echo.echo({ message: "" });
  const hanging = failure(echo.echo({ message: "hang" }));
  await echo.echo({ message: "the other call has arrived" });
  await first.close(0);
  assertEquals((await hanging).code, "unavailable");
  const error = await failure(echo.echo({ message: "" }));
  assertEquals(error.code, "unavailable");
  assertStringIncludes(error.message, `127.0.0.1:${first.port}`);
  const second = await openPort({ table, clock, bind: { host: "127.0.0.1", port: first.port } });
  assertEquals((await echo.echo({ message: "back" })).message, "back");
  channel.close();
  assertEquals((await failure(echo.echo({ message: "" }))).code, "canceled");
  await second.close(0);
});

Deno.test("parseAddress: an address without a port gets 443 with TLS and 80 without", () => {
  assertEquals(parseAddress("robot.example.com", true), { host: "robot.example.com", port: 443 });
  assertEquals(parseAddress("[::1]", false), { host: "::1", port: 80 });
  assertEquals(parseAddress("[::1]:8080", true), { host: "::1", port: 8080 });
  assertEquals(parseAddress("unix:///tmp/a.sock", false), { path: "/tmp/a.sock" });
});

Deno.test("gRPC: an invalid address is an invalid_argument that quotes it", async () => {
  const channel = connectGrpc("http://nonsense", { clock });
  const error = await failure(client(EchoService, channel).echo({ message: "" }));
  assertEquals(error.code, "invalid_argument");
  assertStringIncludes(error.message, '"http://nonsense" is no address');
});

Deno.test("gRPC: Port.close waits for running calls", async () => {
  const { table } = echoTable();
  const port = await openPort({ table, clock, bind: { host: "127.0.0.1", port: 0 } });
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  const requests = new TransformStream<{ message: string }, { message: string }>();
  const writer = requests.writable.getWriter();
  const answers = client(EchoService, channel).echoBiDi(requests.readable)[Symbol.asyncIterator]();
  const first = answers.next();
  await writer.write({ message: "before" });
  await first;
  const closed = port.close(60_000);
  const second = answers.next();
  await writer.write({ message: "after" });
  assertEquals((await second).value?.message, "after");
  await writer.close();
  assertEquals((await answers.next()).done, true);
  await closed;
  channel.close();
});
