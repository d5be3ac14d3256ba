/** gRPC-web as browsers speak it, over HTTP/1.1 with plain `fetch`, and the plain answers beside it. */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { connect } from "node:net";
import { SystemClock } from "../../base/clock.ts";
import { EchoRequestSchema, EchoResponseSchema } from "../../../proto/gen/echo_pb.ts";
import { selfSigned, withPort } from "../../../tests/support/echo.ts";
import { PortAllowance } from "../flow/byte_budget.ts";
import { framed, MAX_MESSAGE_BYTES } from "../rpc/message.ts";
import { forAnySite, nearSites, noSite } from "./sites.ts";
import { WebServer } from "./web_server.ts";
import type { HeaderFields } from "../rpc/metadata.ts";
import { Connection } from "../http2/connection.ts";
import type { Port } from "./port.ts";
import { create, fromBinary, toBinary } from "../rpc/proto.ts";
import { standsStill, until } from "../../../tests/support/until.ts";
import type { Route } from "./route.ts";

const ECHO = "/proto.rpc.examples.echo.v1.EchoService";

function request(message: string): Uint8Array {
  return framed(toBinary(EchoRequestSchema, create(EchoRequestSchema, { message })));
}

interface Answer {
  status: number;
  headers: Headers;
  messages: string[];
  trailers: Record<string, string>;
}

async function call(
  port: Port,
  path: string,
  body: Uint8Array | string,
  init: RequestInit = {},
): Promise<Answer> {
  const headers = { "content-type": "application/grpc-web+proto", ...init.headers };
  const answer = await fetch(port.url + path, { method: "POST", ...init, headers, body: body as BodyInit });
  const bytes = Buffer.from(await answer.arrayBuffer());
  const isText = answer.headers.get("content-type")?.includes("-text");
  const plain = isText ? decodeParts(bytes.toString("latin1")) : bytes;
  return { status: answer.status, headers: answer.headers, ...parse(plain) };
}

function decodeParts(text: string): Buffer {
  return Buffer.concat(text.split(/(?<==)(?!=)/).map((part) => Buffer.from(part, "base64")));
}

function parse(body: Buffer): { messages: string[]; trailers: Record<string, string> } {
  const messages: string[] = [];
  let trailers = {};
  for (let at = 0; at < body.length;) {
    const end = at + 5 + body.readUInt32BE(at + 1);
    const payload = body.subarray(at + 5, end);
    if (body[at] === 0x80) trailers = Object.fromEntries(lines(payload.toString()));
    else messages.push(fromBinary(EchoResponseSchema, payload).message);
    at = end;
  }
  return { messages, trailers };
}

function lines(text: string): [string, string][] {
  return text.trimEnd().split("\r\n").map((line) => line.split(": ", 2) as [string, string]);
}

Deno.test("gRPC-web: answers unary and server streaming calls in binary", () =>
  withPort({}, async (port) => {
    const unary = await call(port, `${ECHO}/Echo`, request("hello"));
    assertEquals([unary.status, unary.messages], [200, ["hello"]]);
    assertEquals(unary.headers.get("content-type"), "application/grpc-web+proto");
    assertEquals(unary.trailers["grpc-status"], "0");
    const stream = await call(port, `${ECHO}/EchoMultiple`, request("abc"));
    assertEquals(stream.messages, ["a", "b", "c"]);
    assertEquals(stream.trailers["grpc-status"], "0");
  }));

Deno.test("gRPC-web: accepts text bodies in pieces with their own padding, and refuses bad base64", () =>
  withPort({}, async (port) => {
    const headers = { "content-type": "application/grpc-web-text" };
    const frame = Buffer.from(request("grüße"));
    const pieces = [frame.subarray(0, 1), frame.subarray(1, 6), frame.subarray(6)];
    for (const body of [frame.toString("base64"), pieces.map((piece) => piece.toString("base64")).join("")]) {
      const answer = await call(port, `${ECHO}/Echo`, body, { headers });
      assertEquals(answer.messages, ["grüße"]);
      assertEquals(answer.headers.get("content-type"), "application/grpc-web-text+proto");
    }
    for (const body of ["no base64 at all!", frame.toString("base64").slice(0, -1)]) {
      const answer = await call(port, `${ECHO}/Echo`, body, { headers });
      assertEquals([answer.messages, answer.trailers["grpc-status"]], [[], "13"]);
      assertStringIncludes(answer.trailers["grpc-message"], "base64");
    }
  }));

Deno.test("gRPC-web: an error before or after messages is in the trailer frame", () =>
  withPort({}, async (port) => {
    const before = await call(port, `${ECHO}/Echo`, request("fail:not_found:no ümlaut"));
    assertEquals([before.status, before.messages], [200, []]);
    assertEquals(before.trailers, { "grpc-status": "5", "grpc-message": "no %C3%BCmlaut" });
    const after = await call(port, `${ECHO}/EchoMultiple`, request("broken"));
    assertEquals([after.messages.join(""), after.trailers["grpc-status"]], ["broken", "15"]);
    const unknown = await call(port, `${ECHO}/Nothing`, request(""));
    assertEquals(unknown.trailers["grpc-status"], "12");
  }));

Deno.test("gRPC-web: a broken body gives a status with a clear message", () =>
  withPort({}, async (port) => {
    const tooLong = new Uint8Array(5);
    new DataView(tooLong.buffer).setUint32(1, MAX_MESSAGE_BYTES + 1);
    const cases: [Uint8Array, string, string][] = [
      [new Uint8Array(), "13", "one request message"],
      [Uint8Array.of(0, 0), "13", "middle of a message"],
      [request("hello").subarray(0, 9), "13", "middle of a message"],
      [Uint8Array.of(7, 0, 0, 0, 0), "13", "begins with byte 7"],
      [Uint8Array.of(0, 0, 0, 0, 2, 0xff, 0xff), "13", "cannot decode"],
      [Uint8Array.of(1, 0, 0, 0, 1, 0), "13", "compressed"],
      [tooLong, "8", "at most 33554432"],
    ];
    for (const [body, status, text] of cases) {
      const { trailers } = await call(port, `${ECHO}/Echo`, body);
      assertEquals(trailers["grpc-status"], status, text);
      assertStringIncludes(trailers["grpc-message"], text);
    }
    const timeout = await call(port, `${ECHO}/Echo`, request(""), { headers: { "grpc-timeout": "soon" } });
    assertEquals(timeout.trailers["grpc-status"], "13");
  }));

Deno.test("gRPC-web: accepts gzip messages", () =>
  withPort({}, async (port) => {
    const gzip = new Response(request("small").slice(5)).body!.pipeThrough(new CompressionStream("gzip"));
    const body = framed(await new Response(gzip).bytes(), 1);
    const answer = await call(port, `${ECHO}/Echo`, body, { headers: { "grpc-encoding": "gzip" } });
    assertEquals(answer.messages, ["small"]);
  }));

Deno.test("gRPC-web: passes metadata both ways, deadlines and a message of 32 MiB", () =>
  withPort({}, async (port) => {
    const headers = { "x-custom": "a", "x-bytes-bin": "AAEC/w", "grpc-timeout": "5000m" };
    const answer = await call(port, `${ECHO}/Echo`, request("big:5000000"), { headers });
    assertEquals(answer.messages[0].length, 5_000_000);
    assertEquals([answer.headers.get("x-custom"), answer.headers.get("x-bytes-bin")], ["a", "AAEC/w"]);
    assertStringIncludes(answer.headers.get("access-control-expose-headers")!, "x-custom");
    assertEquals(answer.headers.get("x-accel-buffering"), "no");
    assertEquals([answer.trailers["t-x-custom"], answer.trailers["t-x-bytes-bin"]], ["a", "AAEC/w"]);
    const both = await call(port, `${ECHO}/Echo`, request("hi"), {
      headers: { "x-bytes-bin": "AAEC/w==, AQI" },
    });
    assertEquals(both.headers.get("x-bytes-bin"), "AAEC/w==, AQI");
    const late = await call(port, `${ECHO}/Echo`, request("hang"), { headers: { "grpc-timeout": "20m" } });
    assertEquals(late.trailers["grpc-status"], "4");
    const large = "y".repeat(MAX_MESSAGE_BYTES - 5);
    assertEquals((await call(port, `${ECHO}/Echo`, request(large))).messages[0].length, large.length);
  }));

Deno.test("gRPC-web: a client disconnect cancels its call", () =>
  withPort({}, async (port, seen) => {
    const cancel = new AbortController();
    const headers = { "content-type": "application/grpc-web" };
    const init = { method: "POST", headers, body: request("hang") as BodyInit, signal: cancel.signal };
    const answer = await fetch(`${port.url}${ECHO}/EchoMultiple`, init);
    await answer.body!.getReader().read();
    cancel.abort();
    await seen.canceled;
  }));

Deno.test("gRPC-web: an endless answer waits for its reader and ends with it", () =>
  withPort({}, async (port, seen) => {
    const headers = { "content-type": "application/grpc-web" };
    const init = { method: "POST", headers, body: request("endless") as BodyInit };
    const reader = (await fetch(`${port.url}${ECHO}/EchoMultiple`, init)).body!.getReader();
    for (let bytes = 0; bytes < 2_000_000;) bytes += (await reader.read()).value!.length;
    await reader.cancel();
    await seen.canceled;
  }));

Deno.test("gRPC-web: CORS allows pages of any origin", () =>
  withPort({}, async (port) => {
    const headers = {
      "origin": "https://example.com",
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization,content-type,x-grpc-web",
      "access-control-request-private-network": "true",
    };
    const answer = await fetch(`${port.url}${ECHO}/Echo`, { method: "OPTIONS", headers });
    assertEquals([answer.status, await answer.text()], [204, ""]);
    assertEquals(answer.headers.get("access-control-allow-origin"), "*");
    assertEquals(answer.headers.get("access-control-allow-headers"), "authorization,content-type,x-grpc-web");
    assertStringIncludes(answer.headers.get("access-control-allow-methods")!, "POST");
    assertEquals(answer.headers.get("access-control-allow-private-network"), "true");
    const called = await call(port, `${ECHO}/Echo`, request("hi"));
    assertEquals(called.headers.get("access-control-allow-origin"), "*");
    const exposed = called.headers.get("access-control-expose-headers")!;
    assert(exposed.includes("grpc-status") && exposed.includes("grpc-message"));
  }));

for (const [what, sites] of [["far ones", nearSites(() => [])], ["any", noSite]] as const) {
  Deno.test(`gRPC-web: a port without keys that takes no calls from the pages of sites, ${what}`, () =>
    withPort({ sites }, async (port) => {
      const headers = { "origin": "https://site.example", "access-control-request-private-network": "true" };
      for (const method of ["OPTIONS", "POST"]) {
        const type = { "content-type": "application/grpc-web+proto" };
        const body = method === "POST" ? request("hi") as BodyInit : undefined;
        const answer = await fetch(`${port.url}${ECHO}/Echo`, {
          ...{ method, body, headers: { ...headers, ...type } },
        });
        assertEquals(answer.status, 403, method);
        assertStringIncludes(await answer.text(), "no calls from https://site.example");
        assertStringIncludes(answer.headers.get("grpc-message") ?? "", "no calls from https://site.example");
        const allowed = [...answer.headers.keys()].filter((name) => name.startsWith("access-control"));
        assertEquals(allowed, []);
      }
      const program = await call(port, `${ECHO}/Echo`, request("hi")).catch(() => undefined);
      assertEquals(program?.messages, sites === noSite ? undefined : ["hi"]);
    }));
}

Deno.test("gRPC-web: works over HTTP/2 as well", () =>
  withPort({}, async (port) => {
    const socket = connect(port.port, "127.0.0.1");
    const connection = new Connection(socket, { role: "client", clock: new SystemClock() });
    const parts: Uint8Array[] = [];
    const headers = await new Promise<HeaderFields>((resolve, reject) => {
      let got: HeaderFields;
      const stream = connection.request(
        [
          [":method", "POST"],
          [":path", `${ECHO}/EchoMultiple`],
          [":scheme", "http"],
          ["content-type", "application/grpc-web+proto"],
        ],
        false,
        {
          headers: (fields) => got = fields,
          data: (bytes) => void parts.push(bytes),
          ended() {},
          closed: (error) => error ? reject(error) : resolve(got),
        },
      );
      void stream.send(request("ab"));
      stream.end();
    });
    assertEquals(new Map(headers).get("content-type"), "application/grpc-web+proto");
    const { messages, trailers } = parse(Buffer.concat(parts));
    assertEquals([messages, trailers["grpc-status"]], [["a", "b"], "0"]);
    const closed = new Promise((resolve) => socket.on("close", resolve));
    connection.drain();
    await closed;
  }));

Deno.test("HTTP: other paths and methods get a status and a single line of text", async () => {
  const routes = new Map([["/page", () => ({ status: 200, contentType: "text/html", body: "<p>" })]]);
  const restartStatus = () => ({ restart_allowed: true });
  await withPort({ http: { restartStatus, routes } }, async (port) => {
    const cases: [string, string, string | undefined, number, string][] = [
      ["GET", "/", undefined, 200, "svc-server"],
      ["HEAD", "/", undefined, 200, ""],
      ["DELETE", "/", undefined, 405, "answers GET"],
      ["GET", "/page?x=1", undefined, 200, "<p>"],
      ["GET", "/restart_status", undefined, 200, '{"restart_allowed":true}'],
      ["POST", "/restart_status", undefined, 405, "answers GET"],
      ["GET", "/nothing", undefined, 404, "nothing at /nothing"],
      ["GET", `${ECHO}/Echo`, undefined, 405, "answers POST"],
      ["POST", `${ECHO}/Echo`, "application/json", 415, "application/json"],
      ["POST", `${ECHO}/Echo`, "application/grpc", 415, "HTTP/2"],
      ["POST", "/../etc/passwd%00", "text/plain", 404, "nothing at"],
    ];
    for (const [method, path, type, status, text] of cases) {
      const headers: Record<string, string> = type ? { "content-type": type } : {};
      const answer = await fetch(port.url + path, { method, headers });
      const body = await answer.text();
      assertEquals(answer.status, status, `${method} ${path}`);
      assertStringIncludes(body, text);
      assert(body.trimEnd().split("\n").length === 1);
    }
  });
  await withPort({}, async (port) => {
    const answer = await fetch(`${port.url}/restart_status`);
    assertEquals([answer.status, (await answer.text()).length > 0], [404, true]);
  });
});

Deno.test("HTTP: an answer with a field that HTTP does not allow becomes an error, and the port stays", async () => {
  const wrong = (text: string, fields: HeaderFields = []): Route => () => ({
    status: 200,
    contentType: text,
    body: "",
    fields,
  });
  const routes = new Map([
    ["/type", wrong("text/plain\r\nset-cookie: a=b")],
    ["/field", wrong("text/plain", [["x-name", "\u2028"]])],
  ]);
  await withPort({ http: { routes } }, async (port) => {
    for (const [path, name] of [["/type", "content-type"], ["/field", "x-name"]]) {
      const answer = await fetch(port.url + path);
      assertEquals([answer.status, answer.headers.get("set-cookie")], [500, null]);
      assertStringIncludes(await answer.text(), `the answer's ${name} has a character`);
    }
  });
});

Deno.test("HTTP: scripts of other sites read no page that has not been opened to them", async () => {
  const page: Route = () => ({ status: 200, contentType: "text/plain", body: "mine" });
  const routes = new Map([["/mine", page], ["/open", forAnySite(page)]]);
  await withPort({ http: { restartStatus: () => ({}), routes } }, async (port) => {
    const allowed = async (path: string) => {
      const answer = await fetch(port.url + path, { headers: { origin: "https://site.example" } });
      await answer.body?.cancel();
      return answer.headers.get("access-control-allow-origin");
    };
    const paths = ["/mine", "/restart_status", "/open", "/", "/nothing", `${ECHO}/Echo`];
    assertEquals(await Promise.all(paths.map(allowed)), [null, null, "*", "*", "*", "*"]);
  });
});

Deno.test("HTTP: /restart_status answers only callers on the same machine", async () => {
  const web = new WebServer(undefined as never, { restartStatus: () => ({}) });
  const cases: [string | undefined, string | undefined, number][] = [
    ["127.0.0.1", "127.0.0.1", 200],
    ["::ffff:127.0.0.1", "::ffff:127.0.0.1", 200],
    ["::1", "::1", 200],
    ["10.0.0.5", "10.0.0.5", 200],
    ["10.0.0.6", "10.0.0.5", 403],
    [undefined, undefined, 403],
  ];
  for (const [remoteAddress, localAddress, want] of cases) {
    const got = await new Promise<number>((resolve) => {
      const peer = { kind: "grpc", remoteAddress, localAddress } as const;
      const allowance = new PortAllowance().connection();
      const request = { method: "GET", target: "/restart_status", fields: [], peer, allowance, taken() {} };
      web.open(request, { start: resolve, send: () => undefined, end() {}, abort() {} });
    });
    assertEquals(got, want, remoteAddress);
  }
});

/** The answers to one request after another on a connection, with a pause before each but the first. */
async function answersTo(port: Port, requests: readonly string[], pauseMs: number): Promise<string[]> {
  const socket = connect(port.port, "127.0.0.1");
  let seen = "";
  socket.on("error", () => {}).on("data", (bytes) => seen += bytes.toString("latin1"));
  const answers: string[] = [];
  for (const [index, text] of requests.entries()) {
    if (index > 0) await new SystemClock().sleep(pauseMs);
    seen = "";
    socket.write(Uint8Array.from(text, (letter) => letter.charCodeAt(0)));
    await until(() => /\r\n\r\n[^]*\n$/.test(seen) || socket.destroyed);
    answers.push(seen);
  }
  socket.destroy();
  return answers;
}

Deno.test("HTTP: an idle connection outlives the pauses of a proxy that keeps it", () =>
  withPort({}, async (port) => {
    const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    // The runtime's own limit is five seconds, and one for the way of its end.
    const answers = await answersTo(port, [get, get], 6_500);
    for (const answer of answers) assertStringIncludes(answer, "HTTP/1.1 200 OK");
    assertEquals(/^keep-alive:/im.test(answers[0]), false);
  }));

Deno.test("HTTP: a request with the whole address, as proxies may write it", () =>
  withPort({}, async (port) => {
    const get = (target: string, host = "a.example:80") => `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
    for (const target of ["http://a.example:80/", "HTTP://A.example:80", "http://a.example:80?x=1"]) {
      assertStringIncludes((await answersTo(port, [get(target)], 0))[0], "HTTP/1.1 200 OK");
    }
    const [missing] = await answersTo(port, [get("http://a.example:80/nothing?x")], 0);
    assertStringIncludes(missing, "there is nothing at /nothing");
    const [other] = await answersTo(port, [get("http://b.example/")], 0);
    assertStringIncludes(other, "HTTP/1.1 400");
  }));

Deno.test("HTTP: accepts split, sequential and pipelined requests on a connection", () =>
  withPort({}, async (port) => {
    const body = Buffer.from(request("slow")).toString("latin1");
    const text = `POST ${ECHO}/Echo HTTP/1.1\r\nHost: a\r\ncontent-type: application/grpc-web\r\n` +
      `content-length: ${body.length}\r\n\r\n${body}`;
    const answer = await new Promise<string>((resolve) => {
      const socket = connect(port.port, "127.0.0.1");
      const send = (requests: string) => {
        for (const letter of requests) socket.write(Uint8Array.of(letter.charCodeAt(0)));
      };
      let seen = "", answers = 0;
      socket.on("data", (bytes) => {
        seen += bytes.toString("latin1");
        const now = seen.split("grpc-status: 0").length - 1;
        if (answers < 1 && now === 1) send(text + text);
        answers = now;
        if (now === 3) socket.destroy();
      });
      socket.on("close", () => resolve(seen));
      send(text);
    });
    assertEquals(answer.split("HTTP/1.1 200 OK").length, 4);
  }));

/** Runs over HTTP/1.1 and over HTTP/2. */
async function overBoth(
  routes: ReadonlyMap<string, Route>,
  run: (get: (path: string, init?: RequestInit) => Promise<Response>) => Promise<void>,
): Promise<void> {
  await withPort({ http: { routes } }, (port) => run((path, init) => fetch(port.url + path, init)));
  const tls = await selfSigned();
  using client = Deno.createHttpClient({ caCerts: [tls.certPem], http1: false, http2: true });
  await withPort({ http: { routes }, tls }, async (port) => {
    await run((path, init) => fetch(`https://localhost:${port.port}${path}`, { ...init, client }));
  });
}

Deno.test("HTTP: a long answer is produced as fast as the client reads, and is complete", async () => {
  const chunk = new Uint8Array(64 * 1024).fill(7);
  const [count, total] = [400, 400 * chunk.length];
  let made = 0;
  async function* body() {
    for (made = 0; made < count; made++) yield chunk;
  }
  const answer = () => ({ status: 200, contentType: "application/octet-stream", body: body(), bytes: total });
  await overBoth(new Map([["/files/*", answer]]), async (get) => {
    const head = await get("/files/a/b", { method: "HEAD" });
    assertEquals([head.headers.get("content-length"), await head.text()], [String(total), ""]);
    const response = await get("/files/a/b");
    const reader = response.body!.getReader();
    let read = (await reader.read()).value!.length;
    // Without a reader, the kernel and the client hold far less than everything.
    await standsStill(() => made);
    assert(made < count, `${made} of ${count} chunks were made for a client that does not read`);
    for (let next = await reader.read(); !next.done; next = await reader.read()) read += next.value.length;
    assertEquals(read, total);
    assertEquals((await (await get("/filesystem")).text()).trim(), "there is nothing at /filesystem");
  });
});

Deno.test("HTTP: a failing answer breaks the connection, and a canceled answer ends its body", async () => {
  const ended = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
  let run = 0;
  async function* endless() {
    const { resolve } = ended[run++];
    try {
      for (;;) yield new Uint8Array(64 * 1024);
    } finally {
      resolve("ended");
    }
  }
  async function* broken() {
    yield new Uint8Array(10);
    throw new Error("disk");
  }
  const answer = (body: AsyncIterable<Uint8Array>) => ({ status: 200, contentType: "a/b", body, bytes: 100 });
  const routes = new Map<string, Route>([["/broken", () => answer(broken())], [
    "/endless",
    () => ({ ...answer(endless()), bytes: undefined }),
  ]]);
  await overBoth(routes, async (get) => {
    await assertRejects(async () => await (await get("/broken")).arrayBuffer());
    const at = run;
    const stop = new AbortController();
    const response = await get("/endless", { signal: stop.signal });
    await response.body!.getReader().read();
    stop.abort();
    assertEquals(await ended[at].promise, "ended");
  });
});

Deno.test("HTTP: a route reads the request body at its own pace and sees a disconnect", async () => {
  const gone = Promise.withResolvers<void>();
  const routes = new Map<string, Route>([["/take", async ({ body }) => {
    let [sum, bytes] = [0, 0];
    for await (const chunk of body) {
      bytes += chunk.length;
      for (const byte of chunk) sum += byte;
    }
    return { status: 200, contentType: "text/plain", body: `${bytes} ${sum}` };
  }], ["/wait", async ({ body }) => {
    try {
      for await (const _ of body);
    } catch {
      gone.resolve();
    }
    return { status: 200, contentType: "text/plain", body: "" };
  }]]);
  const content = new Uint8Array(3_000_000).fill(3);
  await overBoth(routes, async (get) => {
    const answer = await get("/take", { method: "PUT", body: content });
    assertEquals(await answer.text(), `${content.length} ${3 * content.length}`);
    assertEquals(await (await get("/take")).text(), "0 0");
  });
  await withPort({ http: { routes } }, async (port) => {
    const connection = await Deno.connect({ port: port.port });
    await connection.write(
      new TextEncoder().encode("PUT /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc"),
    );
    connection.close();
    await gone.promise;
  });
});
