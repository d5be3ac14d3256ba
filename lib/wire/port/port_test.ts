/** The port itself: protocols told apart, bad settings, hostile and silent clients, closing. */

import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { connect as connectNet } from "node:net";
import { connect as connectTls } from "node:tls";
import { SystemClock } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { client } from "../rpc/channel.ts";
import { echoTable, selfSigned, withChannel, withPort } from "../../../tests/support/echo.ts";
import { connectGrpc } from "../grpc/grpc_channel.ts";
import { Metadata } from "../rpc/metadata.ts";
import { TrustedProxies } from "../rpc/proxies.ts";
import type { Peer } from "../rpc/service.ts";
import { openPort, openUnixPort, type Port } from "./port.ts";
import type { Route } from "./route.ts";
import { textAnswer } from "./routes.ts";
import type { TlsFiles } from "./tls.ts";
import { moving, until } from "../../../tests/support/until.ts";

const clock = new SystemClock();
const LOCAL = { host: "127.0.0.1", port: 0 };

/** Sends bytes and returns all that comes back until the server closes the connection. */
function exchange(port: Port, ...parts: (string | Uint8Array)[]): Promise<string> {
  return new Promise((resolve) => {
    const socket = connectNet(port.port, "127.0.0.1");
    let answer = "";
    socket.on("data", (bytes) => answer += bytes.toString("latin1"));
    socket.on("error", () => {});
    socket.on("close", () => resolve(answer));
    for (const part of parts) socket.write(typeof part === "string" ? Uint8Array.from(part, code) : part);
  });
}

function code(letter: string): number {
  return letter.charCodeAt(0);
}

async function stillServes(port: Port): Promise<void> {
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  assertEquals((await client(EchoService, channel).echo({ message: "alive" })).message, "alive");
  channel.close();
}

async function refused(options: { host?: string; port?: number; tls?: TlsFiles }): Promise<SvcError> {
  const { host = "127.0.0.1", port = 0, tls } = options;
  const opening = openPort({ table: echoTable().table, clock, bind: { host, port }, tls });
  return await assertRejects(() => opening.then((opened) => opened.close(0)), SvcError);
}

const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS = "\0\0\0\x04\0\0\0\0\0";

function frame(type: number, flags: number, stream: number, payload: string): string {
  const length = String.fromCharCode(payload.length >> 16, (payload.length >> 8) & 255, payload.length & 255);
  return `${length}${String.fromCharCode(type, flags)}\0\0\0${String.fromCharCode(stream)}${payload}`;
}

Deno.test("port: a program that is behind takes few new connections, keeps its others, and takes all later", async () => {
  let isBehind = false;
  const fake = new FakeClock();
  const { table } = echoTable();
  const port = await openPort({ table, clock: fake, bind: LOCAL, isBehind: () => isBehind });
  const early = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  await client(EchoService, early).echo({ message: "early" });
  isBehind = true;
  const request = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
  const taken = async () => {
    const answers: string[] = [];
    for (let count = 0; count < 50; count++) answers.push(await exchange(port, request));
    return answers.filter((answer) => answer.startsWith("HTTP/1.1 ")).length;
  };
  assertEquals([await taken(), await taken()], [20, 0]);
  assertEquals((await client(EchoService, early).echo({ message: "still" })).message, "still");
  early.close();
  await fake.advance(500);
  assertEquals(await taken(), 10);
  isBehind = false;
  assertEquals(await taken(), 50);
  await Promise.all([port.close(0), fake.advance(10)]);
});

Deno.test("port: a call knows when its connection has ended, unless that is a proxy's", async () => {
  const peers: Peer[] = [];
  const { table } = echoTable([({ peer }) => void peers.push(peer)]);
  for (const trusted of [[], ["127.0.0.1"]]) {
    const proxies = new TrustedProxies(trusted);
    const port = await openPort({ table, clock, bind: LOCAL, proxies });
    const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
    await client(EchoService, channel).echo({ message: "alive" });
    const ended = peers.at(-1)!.ended;
    assertEquals(ended === undefined, trusted.length > 0);
    channel.close();
    await ended;
    await port.close(0);
  }
});

Deno.test("port: serves gRPC and HTTP/1.1 on the same port", () =>
  withChannel({}, async (channel, _seen, port) => {
    const answer = await fetch(`${port.url}/`);
    assertEquals(answer.status, 200);
    assertMatch(await answer.text(), /^[^\n]*svc-server[^\n]*\n$/);
    assertEquals((await client(EchoService, channel).echo({ message: "both" })).message, "both");
  }));

Deno.test("port: TLS selects HTTP/2 if the client offers it, otherwise HTTP/1.1", async () => {
  const tls = await selfSigned();
  await withPort({ tls }, async (port) => {
    const negotiated = (offers: string[]) =>
      new Promise<string>((resolve) => {
        const socket = connectTls({
          host: "127.0.0.1",
          port: port.port,
          ca: tls.certPem,
          ALPNProtocols: offers,
        });
        socket.on("error", (error) => resolve(`error: ${error.message}`));
        socket.on("close", () => resolve("closed"));
        socket.on("secureConnect", () => {
          resolve(String(socket.alpnProtocol));
          socket.destroy();
        });
      });
    assertEquals(await negotiated(["h2"]), "h2");
    assertEquals(await negotiated(["http/1.1"]), "http/1.1");
    assertEquals(await negotiated(["http/1.1", "h2"]), "h2");
    const client = Deno.createHttpClient({ caCerts: [tls.certPem] });
    const answer = await fetch(`https://localhost:${port.port}/`, { client });
    assertStringIncludes(await answer.text(), "svc-server");
    client.close();
  });
});

Deno.test("port: an address or certificate that cannot work gives a clear error", async () => {
  await withPort({}, async (port) => {
    const taken = await refused({ port: port.port });
    assertEquals(taken.code, "unavailable");
    assertMatch(taken.message, new RegExp(`cannot listen on 127.0.0.1:${port.port}: it is in use; stop`));
  });
  assertStringIncludes(
    (await refused({ host: "192.0.2.1" })).message,
    "192.0.2.1:0: this machine has no such",
  );
  assertStringIncludes((await refused({ host: "no.such.host.invalid" })).message, "no.such.host.invalid:0:");
  assertEquals((await refused({ port: 70_000 })).code, "invalid_argument");
  const [one, two] = [await selfSigned(), await selfSigned()];
  const named = { certName: "/etc/c.pem", keyName: "/etc/k.pem" };
  const cases: [TlsFiles, string][] = [
    [{ ...one, ...named, certPem: "garbage" }, "cannot read /etc/c.pem: wanted a PEM certificate"],
    [{ ...one, ...named, certPem: one.certPem.slice(0, 300) }, "cannot read /etc/c.pem"],
    [{ ...one, ...named, keyPem: "" }, "cannot read /etc/k.pem: wanted a PEM private key"],
    [{ ...one, ...named, keyPem: two.keyPem }, "/etc/k.pem is not the key of /etc/c.pem"],
  ];
  for (const [tls, problem] of cases) {
    const error = await refused({ tls });
    assertEquals(error.code, "invalid_argument");
    assertStringIncludes(error.message, problem);
  }
  const opening = openUnixPort({ table: echoTable().table, clock, path: "/nowhere/at/all.sock" });
  assertStringIncludes((await assertRejects(() => opening, SvcError)).message, "/nowhere/at/all.sock");
});

Deno.test("port: malformed or hostile first bytes end only their own connection", () =>
  withPort({}, async (port) => {
    const random = Uint8Array.from({ length: 5000 }, (_, i) => Math.imul(i + 1, 0x9e3779b1) >>> 24);
    const huge = frame(1, 0, 1, "\0".repeat(16_000));
    const empty = frame(9, 0, 1, "").repeat(40_000);
    const hostile: [string, (string | Uint8Array)[]][] = [
      ["random bytes", [Uint8Array.of(0), random]],
      ["half a preface", ["PR", "X"]],
      ["a preface and garbage", [PREFACE, random]],
      ["a first frame that is not SETTINGS", [PREFACE, frame(6, 0, 0, "12345678")]],
      ["half of one", [PREFACE, frame(0, 0, 1, "12345678").slice(0, 12)]],
      ["a frame too large", [PREFACE, SETTINGS, "\xff\xff\xff\0\0\0\0\0\x01"]],
      ["broken compression", [PREFACE, SETTINGS, frame(1, 5, 1, "\xff\xff\xff\xff\xff\xff\xff")]],
      ["data on a stream nobody opened", [PREFACE, SETTINGS, frame(0, 0, 7, "hello")]],
      ["a window update by nothing", [PREFACE, SETTINGS, frame(8, 0, 0, "\0\0\0\0")]],
      ["headers on stream 2", [PREFACE, SETTINGS, frame(1, 5, 2, "\x83")]],
      ["an interrupted header block", [
        PREFACE,
        SETTINGS,
        frame(1, 0, 1, "\x83"),
        frame(6, 0, 0, "12345678"),
      ]],
      ["a header block without end", [
        PREFACE,
        SETTINGS,
        huge,
        frame(9, 0, 1, "\0".repeat(16_000)).repeat(20),
      ]],
      ["empty continuations", [PREFACE, SETTINGS, frame(1, 0, 1, "\x83"), empty]],
      ["a push", [PREFACE, SETTINGS, frame(5, 4, 1, "\0\0\0\x02")]],
      ["settings of a wrong size", [PREFACE, SETTINGS, frame(4, 0, 0, "12345")]],
    ];
    for (const [what, parts] of hostile) {
      const answer = await exchange(port, ...parts);
      const goaway = answer.includes("\x07\0\0\0\0\0");
      assert(goaway || !parts[0].toString().startsWith(PREFACE), `${what}: no GOAWAY`);
    }
    assertMatch(await exchange(port, "GET\r\nnonsense\r\n\r\n"), /^HTTP\/1.1 400 [^]*not a request of HTTP/);
    const twice = "GET / HTTP/1.1\r\nHost: a\r\nhOsT: b\r\n\r\n";
    assertMatch(await exchange(port, twice), /^HTTP\/1.1 400 [^]*several Host fields/);
    const large = `GET / HTTP/1.1\r\nHost: a\r\nx: ${"y".repeat(200_000)}\r\n\r\n`;
    assertMatch(await exchange(port, large), /^HTTP\/1.1 431 |^$/);
    const upgrade = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n";
    assertStringIncludes(await exchange(port, upgrade), "svc-server");
    await stillServes(port);
  }));

Deno.test("port: an HTTP/2 stream that is not a call gets a plain HTTP answer", () =>
  withPort({}, async (port) => {
    // POST / without a content type; then a header block of 100 KB in literals.
    const answer = await new Promise<string>((resolve) => {
      const socket = connectNet(port.port, "127.0.0.1");
      let seen = "";
      socket.on("data", (bytes) => {
        seen += bytes.toString("latin1");
        if (seen.includes("answers GET, not POST")) socket.destroy();
      });
      socket.on("close", () => resolve(seen));
      socket.write(Uint8Array.from(PREFACE + SETTINGS + frame(1, 5, 1, "\x83\x84\x86"), code));
    });
    assertStringIncludes(answer, "/ answers GET, not POST");
  }));

Deno.test("port: too many header fields fail the call but not the connection", () =>
  withChannel({}, async (channel) => {
    const header = Metadata.from([["x-large", "y".repeat(70_000)]]);
    const echo = client(EchoService, channel);
    const error = await assertRejects(() => echo.echo({ message: "" }, { header }), SvcError);
    assertEquals(error.code, "resource_exhausted");
    assertEquals((await echo.echo({ message: "next" })).message, "next");
  }));

Deno.test("port: a client that sends nothing or half a request is closed", async () => {
  const fake = new FakeClock();
  for (const parts of [[], ["PR"], [PREFACE], ["GET / HTTP/1.1\r\nHost: "]]) {
    await withPort({ clock: fake }, async (port) => {
      const answer = exchange(port, ...parts);
      await until(() => fake.pending > 0);
      await fake.advance(10_000);
      assert(!(await answer).includes("200 OK"));
    });
  }
});

Deno.test("port: an incomplete TLS handshake or garbage is closed, and plain HTTP gets a hint", async () => {
  const fake = new FakeClock();
  const tls = await selfSigned();
  await withPort({ clock: fake, tls }, async (port) => {
    const refused = await exchange(port, "GET / HTTP/1.1\r\n\r\n");
    assertMatch(refused, /^HTTP\/1.1 400 [^]*\r\n\r\nthis port speaks TLS: use https:/);
    assertEquals(await exchange(port, Uint8Array.of(0, 1, 2)), "");
    const plain = connectGrpc(`127.0.0.1:${port.port}`, { clock });
    const hint = await assertRejects(() => client(EchoService, plain).echo({ message: "" }), SvcError);
    assertStringIncludes(hint.message, "does the server want TLS?");
    plain.close();
    await until(() => fake.pending === 0);
    const half = exchange(port, "\x16\x03\x01\x02\0\x01\0\x01\xfc");
    await until(() => fake.pending > 0);
    await fake.advance(10_000);
    await half;
    const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock, tls: { ca: tls.certPem } });
    assertEquals((await client(EchoService, channel).echo({ message: "alive" })).message, "alive");
    channel.close();
  });
});

Deno.test("port: a client that floods pings without reading is closed", () =>
  withPort({}, async (port) => {
    const socket = connectNet(port.port, "127.0.0.1");
    socket.pause();
    socket.on("error", () => {});
    const closed = new Promise<void>((resolve) => socket.on("close", resolve));
    const pings = Uint8Array.from(frame(6, 0, 0, "12345678").repeat(10_000), code);
    socket.write(Uint8Array.from(PREFACE + SETTINGS, code));
    const write = (error?: Error | null) => {
      if (!error && !socket.destroyed) socket.write(pings, write);
    };
    write();
    await closed;
    await stillServes(port);
  }));

Deno.test("port: close ends idle connections at once", async () => {
  const port = await openPort({ table: echoTable().table, clock, bind: LOCAL });
  const silent = exchange(port);
  const kept = exchange(port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  await client(EchoService, channel).echo({ message: "" });
  await Promise.all([port.close(60_000), silent]);
  assertStringIncludes(await kept, "HTTP/1.1 200 OK");
  channel.close();
});

Deno.test("port: close cuts off a hanging call at its deadline", async () => {
  const { table, seen } = echoTable();
  const port = await openPort({ table, clock, bind: LOCAL });
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  const echo = client(EchoService, channel);
  const hanging = assertRejects(() => echo.echo({ message: "hang" }), SvcError);
  await echo.echo({ message: "the other call has arrived" });
  await port.close(20);
  assertEquals((await hanging).code, "unavailable");
  await seen.canceled;
  channel.close();
});

Deno.test("port: an unfinished HTTP/1.1 request or body is closed after its timeout", async () => {
  const fake = new FakeClock();
  const first = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  const post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf";
  const cases: [string, string][] = [["an idle connection", first], ["half a header", `${first}GET / HT`], [
    "half a body",
    post,
  ]];
  for (const [what, sent] of cases) {
    await withPort({ clock: fake }, async (port) => {
      const socket = connectNet(port.port, "127.0.0.1");
      const answered = new Promise((resolve) => socket.once("data", resolve));
      const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
      socket.on("error", () => {});
      socket.write(Uint8Array.from(sent, code));
      await answered;
      let open = true;
      void closed.then(() => open = false);
      // The server notes the end of its answer in a turn of its own.
      await until(() => !open, { meanwhile: moving(fake, 130_000), found: () => what });
    });
  }
});

/** The first message of a TLS handshake, of a client that speaks nothing newer than `version` (0x0303 is TLS 1.2). */
function clientHello(version: number): Uint8Array<ArrayBuffer> {
  const u16 = (value: number) => [value >> 8, value & 0xff];
  const sized = (bytes: readonly number[]) => [...u16(bytes.length), ...bytes];
  // ECDHE with ECDSA and AES: GCM for TLS 1.2, CBC with SHA-1 for both.
  const ciphers = sized([0xc02b, 0xc023, 0xc009, 0xc00a].flatMap(u16));
  const extensions = sized([
    ...[...u16(10), ...sized(sized([0x001d, 0x0017].flatMap(u16)))],
    ...[...u16(11), ...sized([1, 0])],
    ...[...u16(13), ...sized(sized([0x0403, 0x0503, 0x0203].flatMap(u16)))],
    ...[...u16(23), ...sized([])],
    ...[...u16(0xff01), ...sized([0])],
  ]);
  const random = Array.from({ length: 32 }, (_, index) => index);
  const hello = [...u16(version), ...random, 0, ...ciphers, 1, 0, ...extensions];
  const handshake = [1, 0, ...u16(hello.length), ...hello];
  return Uint8Array.from([22, ...u16(0x0301), ...sized(handshake)]);
}

Deno.test("port: a TLS hello on a port without TLS gets a readable answer, however it arrives", async () => {
  const hello = clientHello(0x0303);
  const bytes = [...hello].map((byte) => Uint8Array.of(byte));
  const cases: [string, Uint8Array<ArrayBuffer>[]][] = [
    ["in one piece", [hello]],
    ["byte by byte", bytes],
    ["with all that one record may hold", [hello, new Uint8Array(16 * 1024)]],
    ["a beginning alone", [hello.slice(0, 1)]],
  ];
  const folder = await Deno.makeTempDir({ prefix: "svc-port-" });
  const path = `${folder}/socket`;
  const unix = await openUnixPort({ table: echoTable().table, clock, path });
  try {
    await withPort({}, async (port) => {
      for (const [what, parts] of cases) {
        for (const connect of [() => connectNet(port.port, "127.0.0.1"), () => connectNet(path)]) {
          const answer = await new Promise<string>((resolve) => {
            const socket = connect();
            let seen = "";
            socket.on("data", (read) => seen += read.toString("latin1"));
            // A reset would lose the answer of a client that has not read it yet.
            socket.on("error", (error) => seen += error.message);
            socket.on("close", () => resolve(seen));
            for (const part of parts) socket.write(part);
          });
          assertMatch(answer, /^HTTP\/1\.0 400 Bad Request\r\n\r\nthis port is without TLS: [^]*\n$/, what);
        }
      }
      // Who keeps sending is cut off, answer or not.
      await exchange(port, hello, new Uint8Array(1024 * 1024));
      await stillServes(port);
    });
  } finally {
    await unix.close(0);
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("port: refuses TLS older than 1.2 with an alert", async () => {
  await withPort({ tls: await selfSigned() }, async (port) => {
    const answer = async (version: number) => {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port: port.port });
      try {
        await connection.write(clientHello(version));
        const bytes = new Uint8Array(7);
        await connection.read(bytes);
        return [...bytes];
      } finally {
        connection.close();
      }
    };
    const [HANDSHAKE, ALERT, PROTOCOL_VERSION] = [22, 21, 70];
    assertEquals((await answer(0x0303))[0], HANDSHAKE);
    for (const old of [0x0302, 0x0301]) {
      const [kind, , , , , , description] = await answer(old);
      assertEquals([kind, description], [ALERT, PROTOCOL_VERSION]);
    }
  });
});

/** Pages that count how often somebody looks for one. */
class CountedPages extends Map<string, Route> {
  looks = 0;

  override get(path: string): Route | undefined {
    this.looks++;
    return super.get(path);
  }
}

Deno.test("port: the page of a path with thousands of folders is found without a look for each", async () => {
  const page = (line: string): Route => () => textAnswer(200, line);
  const pages = new CountedPages([
    ["/files/*", page("files")],
    ["/files/of/*", page("files of somebody")],
    ["/files/of/me", page("my files")],
  ]);
  const table = echoTable().table;
  const port = await openPort({ table, clock, bind: LOCAL, http: { routes: pages } });
  const answer = async (path: string) => {
    const looksBefore = pages.looks;
    const found = await exchange(
      port,
      `GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`,
    );
    assert(pages.looks - looksBefore <= 1, `${pages.looks - looksBefore} looks`);
    return found.slice(found.indexOf("\r\n\r\n") + 4).trim();
  };
  try {
    const deep = "/a".repeat(5_000);
    assertEquals(await answer("/files/of/me"), "my files");
    assertEquals(await answer(`/files/of/me${deep}`), "files of somebody");
    assertEquals(await answer(`/files/official${deep}`), "files");
    assertEquals(await answer(`/files${"/".repeat(10_000)}`), "files");
    for (const path of ["/files", deep, "/".repeat(10_000)]) {
      assertStringIncludes(await answer(path), "there is nothing at");
    }
  } finally {
    await port.close(0);
  }
});
