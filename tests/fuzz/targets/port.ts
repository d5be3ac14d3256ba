/** What arrives on a port's connection before the protocol is known: HTTP/1.1, gRPC-web, HTTP/2, and anything else. */

import { connect } from "node:net";
import { SystemClock } from "../../../lib/base/clock.ts";
import { PREFACE } from "../../../lib/wire/http2/frame.ts";
import { openPort, type Port } from "../../../lib/wire/port/port.ts";
import { framed } from "../../../lib/wire/rpc/message.ts";
import { create, toBinary } from "../../../lib/wire/rpc/proto.ts";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { echoTable } from "../../support/echo.ts";
import { joined } from "../damage.ts";
import { bytesOf, type Target } from "../target.ts";

const PATH = `/${EchoService.typeName}/${EchoService.method.echo.name}`;
let opened: Promise<Port> | undefined;

function open(): Promise<Port> {
  const { table } = echoTable();
  return openPort({ table, clock: new SystemClock(), bind: { host: "127.0.0.1", port: 0 } });
}

/** Sends the bytes and that there are no more; the port answers or not, and ends the connection. */
async function converse(bytes: Uint8Array): Promise<void> {
  const { port } = await (opened ??= open());
  const socket = connect({ port, host: "127.0.0.1" });
  const closed = Promise.withResolvers<void>();
  socket.on("error", () => {}).on("close", () => closed.resolve()).resume();
  socket.end(bytes);
  await closed.promise;
}

const request = (...lines: string[]) => bytesOf(`${lines.join("\r\n")}\r\n\r\n`);

function webCall(type: string, body: Uint8Array, ...fields: string[]): Uint8Array {
  const head = [`POST ${PATH} HTTP/1.1`, "Host: localhost", `Content-Type: ${type}`, ...fields];
  return joined(request(...head, `Content-Length: ${body.length}`, "Connection: close"), body);
}

function samples(): Uint8Array[] {
  const { input } = EchoService.method.echo;
  const message = framed(toBinary(input, create(input, { message: "hello" })));
  const chunked = bytesOf(`5\r\n${"x".repeat(5)}\r\n0\r\nA: b\r\n\r\n`);
  return [
    request("GET / HTTP/1.1", "Host: localhost", "Connection: close"),
    request("GET /a%2e/../b?c=d#e HTTP/1.0", "X: y", " folded", "Accept-Encoding: br;q=0.5, gzip"),
    request("OPTIONS * HTTP/1.1", "Host: localhost", "Origin: http://localhost", "Connection: close"),
    joined(request(`POST ${PATH} HTTP/1.1`, "Host: localhost", "Transfer-Encoding: chunked"), chunked),
    request(
      "GET /x HTTP/1.1",
      "Host: a",
      "Upgrade: websocket",
      "Connection: Upgrade",
      "Expect: 100-continue",
    ),
    webCall("application/grpc-web+proto", message, "grpc-timeout: 1S", "x-one: two"),
    webCall("application/grpc-web-text", bytesOf(btoa(String.fromCharCode(...message)))),
    joined(bytesOf(PREFACE), Uint8Array.of(0, 0, 0, 4, 0, 0, 0, 0, 0)),
    Uint8Array.of(0x16, 0x03, 0x01, 0x00, 0x05, 0x01, 0x00, 0x00, 0x01, 0x03),
  ];
}

export const PORT: Target = {
  name: "wire/port",
  covers: ["wire/port/", "wire/rpc/message_reader.ts"],
  samples,
  words: [
    "Transfer-Encoding: chunked",
    "Content-Length: 5",
    "\r\n\r\n",
    "grpc-encoding: gzip",
    "PRI * HTTP/2.0",
  ],
  read: converse,
  close: async () => await (await opened)?.close(0),
};
